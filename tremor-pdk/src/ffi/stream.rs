//! The adapters of the data path: sources and sinks. No call here allocates.

use std::{mem::ManuallyDrop, task::Poll};

use abi_stable::{
    sabi_trait::TD_Opaque,
    std_types::{RBox, RResult},
};
use async_ffi::{FfiContext, FfiPoll};
use tremor_abi::connector::{
    self as abi, CallFuture, CallResult, DeliverReply, ExceptionRange, PullKind, PullReply,
    RawSink, RawSink_TO, RawSinkBox, RawSource, RawSource_TO, RawSourceBox,
};

use super::{
    call::into_call,
    guard::{guard, guarded_drop},
};
use crate::{
    Batch, Error, Exception, Exceptions, Pull, Result, Signal,
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

    fn is_transactional(&self) -> bool {
        let transactional = || self.0.get().is_some_and(|source| source.is_transactional());
        guard("is_transactional", transactional).unwrap_or(false)
    }

    fn ack(&mut self, pull: u64) -> CallResult<()> {
        self.call("ack", |source| source.ack(pull))
    }

    fn fail(&mut self, pull: u64) -> CallResult<()> {
        self.call("fail", |source| source.fail(pull))
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

struct FfiSink(Fused<Box<dyn DynSink>>);

pub(super) fn sink(sink: Box<dyn DynSink>) -> RawSinkBox {
    RawSink_TO::from_ptr(RBox::new(FfiSink(Fused::new(sink))), TD_Opaque)
}

impl RawSink for FfiSink {
    fn poll_deliver(
        &mut self,
        context: &mut FfiContext<'_>,
        batch: &mut Batch,
    ) -> FfiPoll<CallResult<DeliverReply>> {
        let poll = |sink: &mut Box<dyn DynSink>| {
            context.with_context(|context| sink.poll_deliver(context, batch))
        };
        match self.0.call("deliver", poll) {
            Ok(Poll::Pending) => FfiPoll::Pending,
            Ok(Poll::Ready(result)) => FfiPoll::Ready(result.map(deliver_reply).into()),
            Err(error) => FfiPoll::Ready(RResult::RErr(error)),
        }
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
