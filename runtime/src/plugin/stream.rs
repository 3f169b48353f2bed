//! Sources and sinks of loaded plugins, in plain Rust: the data path. Nothing here allocates while
//! all goes well.

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

use super::contain::{call, panicked};
use crate::dynamic::{BoxFuture, DynSink, DynSource};

/// A source of a loaded connector.
pub(super) struct LoadedSource {
    raw: RawSourceBox,
    /// What was wrong with a batch that came back from a pull that was given up.
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
        // What came before an error counts as well.
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

/// What hears of the acknowledgements of a loaded source.
struct LoadedAcks(RawAcksBox);

impl Acks for LoadedAcks {
    fn brings_again(&self) -> bool {
        self.0.brings_again()
    }

    fn most_in_flight(&self) -> InFlight {
        let abi::InFlight { events, bytes, key } = self.0.most_in_flight();
        InFlight { events, bytes, key: key.as_str() }
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

/// A plain poll; `None` is pending.
fn ready<T>(what: &str, poll: FfiPoll<CallResult<T>>) -> Option<Result<T>> {
    match poll {
        FfiPoll::Pending => None,
        FfiPoll::Ready(result) => Some(result.into_result()),
        FfiPoll::Panicked => Some(Err(panicked(what))),
    }
}

/// Empties a batch that points to what is not there, before it is read.
fn check(batch: &mut Batch) -> Result<()> {
    batch.validate().inspect_err(|_| {
        batch.retain(|_| false);
    })
}

fn pull(reply: PullReply) -> Result<Pull> {
    match reply.kind {
        PullKind::EVENTS => Ok(Pull::Events),
        PullKind::IDLE => Ok(Pull::Idle(Duration::from_nanos(reply.wait_ns))),
        PullKind::FINISHED => Ok(Pull::Finished),
        PullKind(unknown) => Err(Error::internal(format!(
            "the plugin answered a pull with an unknown kind of reply, {unknown}"
        ))),
    }
}

/// A sink of a loaded connector.
pub(super) struct LoadedSink {
    raw: RawSinkBox,
    /// How many events the delivery under way in each slot has: while it is pending they live with the
    /// plugin.
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
/// Kind internal, if the ranges are not in order, overlap, or do not lie within the batch.
fn exceptions(reply: DeliverReply, events: usize) -> Result<Vec<Exception>> {
    let mut exceptions = Vec::with_capacity(reply.exceptions.len());
    let mut free = 0;
    for ExceptionRange { start, len, error } in reply.exceptions {
        let range = start as usize..(start as usize).saturating_add(len as usize);
        if range.start < free || range.end > events {
            return Err(Error::internal(format_args!(
                "the sink answered a delivery of {events} events with the range {range:?}, and ranges up to {free} \
                 before"
            )));
        }
        free = range.end;
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
    fn ranges_in_order_and_in_bounds_are_believed() {
        let exceptions = exceptions(reply(&[(0, 1), (3, 1)]), 4).unwrap();
        let ranges: Vec<_> = exceptions.iter().map(|it| it.events.clone()).collect();
        assert_eq!(ranges, [0..1, 3..4]);
    }

    #[test]
    fn ranges_that_cannot_be_are_errors() {
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
    fn an_unknown_answer_to_a_pull_is_an_error() {
        let known = pull(PullReply { kind: PullKind::FINISHED, wait_ns: 0 });
        assert_eq!(known.unwrap(), Pull::Finished);
        let unknown = pull(PullReply { kind: PullKind(7), wait_ns: 0 });
        assert_eq!(unknown.unwrap_err().kind(), ErrorKind::INTERNAL);
    }
}
