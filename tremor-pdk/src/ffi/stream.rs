//! The adapters of the data path: sources and sinks. No call here allocates.

use std::{mem::ManuallyDrop, task::Poll};

use abi_stable::{
    sabi_trait::TD_Opaque,
    std_types::{RBox, ROption, RResult, RSlice},
};
use async_ffi::{FfiContext, FfiPoll};
use tremor_abi::connector::{
    self as abi, CallFuture, CallResult, DeliverReply, EventRange, ExceptionRange, PullKind,
    PullReply, RawAcks, RawAcks_TO, RawAcksBox, RawSink, RawSink_TO, RawSinkBox, RawSource,
    RawSource_TO, RawSourceBox,
};

use super::{
    call::into_call,
    guard::{guard, guarded_drop},
};
use crate::{
    Acks, Batch, Error, Exception, Exceptions, Pull, Result, Signal,
    dynamic::{DynSink, DynSource},
};

/// A component that is gone for good once it has panicked: its state cannot be trusted.
pub(super) struct Fused<T> {
    component: ManuallyDrop<Option<T>>,
}

impl<T> Fused<T> {
    pub(super) fn new(component: T) -> Self {
        Self { component: ManuallyDrop::new(Some(component)) }
    }

    pub(super) fn call<R>(&mut self, what: &str, call: impl FnOnce(&mut T) -> R) -> Result<R> {
        let Some(component) = self.component.as_mut() else {
            return Err(gone(what));
        };
        let result = guard(what, || call(component));
        if result.is_err() {
            // A second panic, in the drop, adds nothing to the first.
            let _ = guarded_drop(self.component.take());
        }
        result
    }

    pub(super) fn get(&self) -> Option<&T> {
        self.component.as_ref()
    }

    pub(super) fn get_mut(&mut self) -> Option<&mut T> {
        self.component.as_mut()
    }
}

impl<T> Drop for Fused<T> {
    fn drop(&mut self) {
        // There is no caller left to tell of a panic in here.
        let _ = guarded_drop(self.component.take());
    }
}

/// What a component that has panicked answers to everything. Out of line, as what is rare is.
#[cold]
#[inline(never)]
fn gone(what: &str) -> Error {
    Error::panicked(format_args!("{what} after an earlier panic"))
}

struct FfiSource(Fused<Box<dyn DynSource>>);

pub(super) fn source(source: Box<dyn DynSource>) -> RawSourceBox {
    RawSource_TO::from_ptr(RBox::new(FfiSource(Fused::new(source))), TD_Opaque)
}

impl FfiSource {
    fn call(
        &mut self,
        what: &str,
        call: impl FnOnce(&mut Box<dyn DynSource>) -> Result<()>,
    ) -> CallResult<()> {
        self.0.call(what, call).and_then(|result| result).into()
    }
}

impl RawSource for FfiSource {
    fn poll_pull(
        &mut self,
        context: &mut FfiContext<'_>,
        batch: &mut Batch,
    ) -> FfiPoll<CallResult<PullReply>> {
        let poll = |source: &mut Box<dyn DynSource>| {
            context.with_context(|context| source.poll_pull(context, batch))
        };
        match self.0.call("pull", poll) {
            Ok(Poll::Pending) => FfiPoll::Pending,
            Ok(Poll::Ready(result)) => FfiPoll::Ready(result.map(pull_reply).into()),
            Err(error) => FfiPoll::Ready(RResult::RErr(error)),
        }
    }

    fn give_up(&mut self, batch: &mut Batch) {
        // A future that panics while it is dropped takes its batch along; the next call tells.
        let _ = self.0.call("give_up", |source| source.give_up(batch));
    }

    fn acks(&mut self) -> CallResult<ROption<RawAcksBox>> {
        let acks = self.0.call("acks", |source| source.acks()).and_then(|acks| acks);
        acks.map(|acks| acks.map(acks_box).into()).into()
    }

    fn close(&mut self) -> CallFuture<'_, ()> {
        let source = self.0.get_mut();
        into_call("close", async move {
            match source {
                Some(source) => source.close().await,
                None => Err(gone("close")),
            }
        })
    }

    fn on_circuit_breaker(&mut self, open: bool) -> CallResult<()> {
        self.call("on_circuit_breaker", |source| source.on_circuit_breaker(open))
    }
}

fn pull_reply(pull: Pull) -> PullReply {
    match pull {
        Pull::Events => PullReply { kind: PullKind::EVENTS, wait_ns: 0 },
        Pull::Finished => PullReply { kind: PullKind::FINISHED, wait_ns: 0 },
        Pull::Idle(wait) => PullReply {
            kind: PullKind::IDLE,
            wait_ns: u64::try_from(wait.as_nanos()).unwrap_or(u64::MAX),
        },
    }
}

struct FfiAcks(Fused<Box<dyn Acks>>);

fn acks_box(acks: Box<dyn Acks>) -> RawAcksBox {
    RawAcks_TO::from_ptr(RBox::new(FfiAcks(Fused::new(acks))), TD_Opaque)
}

impl RawAcks for FfiAcks {
    fn most_in_flight(&self) -> u64 {
        let most = || self.0.get().map_or(usize::MAX, |acks| acks.most_in_flight());
        guard("most_in_flight", most).map_or(u64::MAX, |most| most as u64)
    }

    fn ack(&mut self, pull: u64) -> CallResult<()> {
        self.0.call("ack", |acks| acks.ack(pull)).and_then(|result| result).into()
    }

    fn fail(&mut self, pull: u64, events: RSlice<'_, EventRange>) -> CallResult<()> {
        let range = |range: &EventRange| {
            let start = range.start as usize;
            start..start.saturating_add(range.len as usize)
        };
        let fail = |acks: &mut Box<dyn Acks>| {
            let events: Vec<_> = events.iter().map(range).collect();
            acks.fail(pull, &events)
        };
        self.0.call("fail", fail).and_then(|result| result).into()
    }

    fn undecodable(&mut self, pull: u64, messages: RSlice<'_, ExceptionRange>) -> CallResult<()> {
        let exception = |it: &ExceptionRange| {
            let start = it.start as usize;
            let events = start..start.saturating_add(it.len as usize);
            Exception { events, error: it.error.clone() }
        };
        let hear = |acks: &mut Box<dyn Acks>| {
            let messages: Vec<_> = messages.iter().map(exception).collect();
            acks.undecodable(pull, &messages)
        };
        self.0.call("undecodable", hear).and_then(|result| result).into()
    }

    fn brings_again(&self) -> bool {
        let again = || self.0.get().is_none_or(|acks| acks.brings_again());
        guard("brings_again", again).unwrap_or(true)
    }
}

struct FfiSink(Fused<Box<dyn DynSink>>);

pub(super) fn sink(sink: Box<dyn DynSink>) -> RawSinkBox {
    RawSink_TO::from_ptr(RBox::new(FfiSink(Fused::new(sink))), TD_Opaque)
}

impl RawSink for FfiSink {
    fn in_flight(&mut self, wanted: u32) -> u32 {
        let slots = |sink: &mut Box<dyn DynSink>| sink.in_flight(wanted as usize);
        // Where it panics, the first delivery says so.
        self.0.call("most_in_flight", slots).map_or(1, |slots| slots.try_into().unwrap_or(wanted))
    }

    fn poll_deliver(
        &mut self,
        context: &mut FfiContext<'_>,
        slot: u32,
        batch: &mut Batch,
    ) -> FfiPoll<CallResult<DeliverReply>> {
        let poll = |sink: &mut Box<dyn DynSink>| {
            context.with_context(|context| sink.poll_deliver(context, slot as usize, batch))
        };
        match self.0.call("deliver", poll) {
            Ok(Poll::Pending) => FfiPoll::Pending,
            Ok(Poll::Ready(result)) => FfiPoll::Ready(result.map(deliver_reply).into()),
            Err(error) => FfiPoll::Ready(RResult::RErr(error)),
        }
    }

    fn give_up(&mut self, slot: u32) {
        // A future that panics while it is dropped takes the sink along; the next call tells.
        let _ = self.0.call("give_up", |sink| sink.give_up(slot as usize));
    }

    fn on_signal(&mut self, signal: abi::Signal) -> CallFuture<'_, ()> {
        let signal = match signal {
            abi::Signal::TICK => Signal::Tick,
            abi::Signal::DRAIN => Signal::Drain,
            // A signal of a later minor: nothing that this plugin could know of.
            _ => return into_call("on_signal", async { Ok(()) }),
        };
        let sink = self.0.get_mut();
        into_call("on_signal", async move {
            match sink {
                Some(sink) => sink.on_signal(signal).await,
                None => Err(gone("on_signal")),
            }
        })
    }
}

/// Positions above 4 billion cannot be: a batch holds less than 4 GiB.
fn deliver_reply(exceptions: Exceptions) -> DeliverReply {
    let narrow = |position: usize| u32::try_from(position).unwrap_or(u32::MAX);
    let range = |Exception { events, error }: Exception| ExceptionRange {
        start: narrow(events.start),
        len: narrow(events.len()),
        error,
    };
    DeliverReply { exceptions: exceptions.into_exceptions().into_iter().map(range).collect() }
}
