//! Sources and sinks of loaded plugins behind plain Rust types. Events pass through this code, so successful calls
//! allocate nothing here.

use std::{
    ops::Range,
    task::{Context, Poll},
    time::Duration,
};

use async_ffi::{ContextExt, FfiPoll};
use tremor_abi::{
    batch::HostBatch,
    connector::{
        self as abi, CallResult, DeliverReply, Deliveries, EventRange, ExceptionRange, PullKind,
        PullReply, RawAcksBox, RawSinkBox, RawSourceBox,
    },
};
use tremor_pdk::{Acks, Batch, Demand, Error, Exception, Grant, InFlight, Pull, Result};

use super::claims::settled;
use super::contain::{call, panicked};
use crate::dynamic::{BoxFuture, DynSink, DynSource};

/// Source of a loaded connector.
pub(super) struct LoadedSource {
    raw: RawSourceBox,
    /// Validation error of the batch that a cancelled pull left. The next pull returns it.
    forged: Option<Error>,
}

impl LoadedSource {
    pub(super) fn new(raw: RawSourceBox) -> Self {
        Self { raw, forged: None }
    }
}

impl DynSource for LoadedSource {
    fn poll_pull(&mut self, context: &mut Context<'_>, batch: &mut Batch) -> Poll<Result<Pull>> {
        if let Some(error) = self.forged.take() {
            return Poll::Ready(Err(error));
        }
        let poll = context.with_ffi_context(|context| self.raw.poll_pull(context, batch));
        let Some(result) = ready("pull", poll) else { return Poll::Pending };
        // Events that the source read before it returned an error are validated as well.
        Poll::Ready(check(batch).and(result.and_then(pull)))
    }

    fn give_up(&mut self, batch: &mut Batch) {
        self.raw.give_up(batch);
        self.forged = check(batch).err().or(self.forged.take());
    }

    fn acks(&mut self) -> Result<Option<Box<dyn Acks>>> {
        let acks = self.raw.acks().into_result()?.into_option();
        Ok(acks.map(|raw| Box::new(LoadedAcks(raw)) as Box<dyn Acks>))
    }

    fn close(&mut self) -> BoxFuture<'_, Result<()>> {
        Box::pin(call("close", self.raw.close()))
    }

    fn on_circuit_breaker(&mut self, open: bool) -> Result<()> {
        self.raw.on_circuit_breaker(open).into_result()
    }
}

/// Receiver of the acknowledgements of a loaded source.
struct LoadedAcks(RawAcksBox);

impl Acks for LoadedAcks {
    fn replays_failed(&self) -> bool {
        self.0.brings_again()
    }

    fn most_in_flight(&self) -> InFlight {
        let abi::InFlight { events, bytes, key } = self.0.most_in_flight();
        let narrow = |most: u64| usize::try_from(most).unwrap_or(usize::MAX);
        InFlight { events: narrow(events), bytes: narrow(bytes), key: key.as_str() }
    }

    fn ack(&mut self, pull: u64) -> Result<()> {
        self.0.ack(pull).into_result()
    }

    fn fail(&mut self, pull: u64, events: &[Range<usize>]) -> Result<()> {
        let narrow = |position: usize| u32::try_from(position).unwrap_or(u32::MAX);
        let range =
            |it: &Range<usize>| EventRange { start: narrow(it.start), len: narrow(it.len()) };
        let events: Vec<_> = events.iter().map(range).collect();
        self.0.fail(pull, events.as_slice().into()).into_result()
    }

    fn undecodable(&mut self, pull: u64, messages: &[Exception]) -> Result<()> {
        let narrow = |position: usize| u32::try_from(position).unwrap_or(u32::MAX);
        let range = |Exception { events, error }: &Exception| ExceptionRange {
            start: narrow(events.start),
            len: narrow(events.len()),
            error: error.clone(),
        };
        let messages: Vec<_> = messages.iter().map(range).collect();
        self.0.undecodable(pull, messages.as_slice().into()).into_result()
    }
}

/// Converts an FFI poll. Returns `None` if it is pending.
fn ready<T>(what: &str, poll: FfiPoll<CallResult<T>>) -> Option<Result<T>> {
    match poll {
        FfiPoll::Pending => None,
        FfiPoll::Ready(result) => Some(result.into_result()),
        FfiPoll::Panicked => Some(Err(panicked(what))),
    }
}

/// Validates a batch before it is read. If an event refers to data that does not exist, the batch is emptied.
fn check(batch: &mut Batch) -> Result<()> {
    settled(batch, &Batch::validate).inspect_err(|_| {
        batch.retain(|_| false);
    })
}

fn pull(reply: PullReply) -> Result<Pull> {
    match reply.kind {
        PullKind::EVENTS => Ok(Pull::Events),
        PullKind::IDLE => Ok(Pull::Idle(Duration::from_nanos(reply.wait_ns))),
        PullKind::FINISHED => Ok(Pull::Finished),
        PullKind(unknown) => Err(Error::internal(format!(
            "invalid kind {unknown} of a reply of the plugin to a pull"
        ))),
    }
}

/// Sink of a loaded connector.
pub(super) struct LoadedSink {
    raw: RawSinkBox,
    /// Number of events of the delivery in flight in each slot. It is stored here, because the plugin owns the events
    /// while the delivery is pending.
    pending: Vec<Option<usize>>,
}

impl LoadedSink {
    pub(super) fn new(raw: RawSinkBox) -> Self {
        Self { raw, pending: vec![None] }
    }
}

impl DynSink for LoadedSink {
    fn demand(&mut self) -> Demand {
        self.raw.demand().into()
    }

    fn on_grant(&mut self, grant: Grant) {
        self.pending.resize(grant.in_flight, None);
        self.raw.on_grant(&Deliveries::from(grant));
    }

    fn poll_deliver(
        &mut self,
        context: &mut Context<'_>,
        slot: usize,
        batch: &mut Batch,
    ) -> Poll<Result<Vec<Exception>>> {
        let Some(pending) = self.pending.get_mut(slot) else {
            return Poll::Ready(Err(Error::internal(format_args!("there is no slot {slot}"))));
        };
        let events = *pending.get_or_insert_with(|| batch.len());
        let number = u32::try_from(slot).unwrap_or(u32::MAX);
        let poll =
            context.with_ffi_context(|context| self.raw.poll_deliver(context, number, batch));
        let Some(result) = ready("deliver", poll) else { return Poll::Pending };
        *pending = None;
        Poll::Ready(result.and_then(|reply| exceptions(reply, events)))
    }

    fn give_up(&mut self, slot: usize) {
        if let (Some(pending), Ok(number)) = (self.pending.get_mut(slot), u32::try_from(slot)) {
            *pending = None;
            self.raw.give_up(number);
        }
    }

    fn on_tick(&mut self) -> BoxFuture<'_, Result<()>> {
        Box::pin(call("on_tick", self.raw.on_tick()))
    }

    fn flush(&mut self) -> BoxFuture<'_, Result<()>> {
        Box::pin(call("flush", self.raw.flush()))
    }

    fn close(&mut self) -> BoxFuture<'_, Result<()>> {
        Box::pin(call("close", self.raw.close()))
    }
}

/// Returns the exceptions of a reply to a delivery of `events` events.
///
/// # Errors
/// Kind internal, if the ranges are not in order, overlap, or are not within the batch.
pub(super) fn exceptions(reply: DeliverReply, events: usize) -> Result<Vec<Exception>> {
    let mut exceptions = Vec::with_capacity(reply.exceptions.len());
    let mut covered = 0;
    for ExceptionRange { start, len, error } in reply.exceptions {
        let range = start as usize..(start as usize).saturating_add(len as usize);
        if range.start < covered || range.end > events {
            return Err(Error::internal(format_args!(
                "the reply of the sink to a delivery of {events} events has the range {range:?} after ranges up to \
                 {covered}"
            )));
        }
        covered = range.end;
        exceptions.push(Exception { events: range, error });
    }
    Ok(exceptions)
}

#[cfg(test)]
mod tests {
    use tremor_abi::connector::{DeliverReply, ExceptionRange, PullKind, PullReply};
    use tremor_pdk::{Error, ErrorKind, Pull};

    use super::{exceptions, pull};

    fn reply(ranges: &[(u32, u32)]) -> DeliverReply {
        let error = || Error::timeout("too slow");
        let range = |&(start, len)| ExceptionRange { start, len, error: error() };
        DeliverReply { exceptions: ranges.iter().map(range).collect() }
    }

    #[test]
    fn ordered_ranges_within_batch_are_accepted() {
        let exceptions = exceptions(reply(&[(0, 1), (3, 1)]), 4).unwrap();
        let ranges: Vec<_> = exceptions.iter().map(|it| it.events.clone()).collect();
        assert_eq!(ranges, [0..1, 3..4]);
    }

    #[test]
    fn unordered_or_out_of_bounds_ranges_are_errors() {
        for ranges in [
            &[(0, 5)][..],
            &[(4, 1)],
            &[(u32::MAX, u32::MAX)],
            &[(1, 2), (2, 1)],
            &[(2, 1), (0, 1)],
        ] {
            let error = exceptions(reply(ranges), 4).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::INTERNAL, "{ranges:?}");
        }
    }

    #[test]
    fn unknown_reply_to_pull_is_an_error() {
        let known = pull(PullReply { kind: PullKind::FINISHED, wait_ns: 0 });
        assert_eq!(known.unwrap(), Pull::Finished);
        let unknown = pull(PullReply { kind: PullKind(7), wait_ns: 0 });
        assert_eq!(unknown.unwrap_err().kind(), ErrorKind::INTERNAL);
    }
}
