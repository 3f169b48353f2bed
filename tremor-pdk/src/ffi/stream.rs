//! Adapters of the data path: sources and sinks. Their calls do not allocate.

use std::task::Poll;

use abi_stable::{
    sabi_trait::TD_Opaque,
    std_types::{ROption, RResult, RSlice},
};
use async_ffi::{FfiContext, FfiPoll};
use tremor_abi::connector::{
    self as abi, CallFuture, CallResult, DeliverReply, Deliveries, EventRange, ExceptionRange,
    PullKind, PullReply, RawAcks, RawAcksBox, RawSink, RawSinkBox, RawSource, RawSourceBox,
};

use super::fused::Fused;
use crate::{
    Acks, Batch, Exception, Grant, InFlight, Pull,
    dynamic::{DynSink, DynSource},
};

type FfiSource = Fused<Box<dyn DynSource>>;

pub(super) fn source(source: Box<dyn DynSource>) -> RawSourceBox {
    RawSourceBox::from_value(Fused::new(source), TD_Opaque)
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
        match self.call("pull", poll) {
            Ok(Poll::Pending) => FfiPoll::Pending,
            Ok(Poll::Ready(result)) => FfiPoll::Ready(result.map(pull_reply).into()),
            Err(error) => FfiPoll::Ready(RResult::RErr(error)),
        }
    }

    fn give_up(&mut self, batch: &mut Batch) {
        // If the dropped future panics, its batch is lost, and the next call returns the error.
        self.call_infallible("give_up", |source| source.give_up(batch));
    }

    fn acks(&mut self) -> CallResult<ROption<RawAcksBox>> {
        self.try_call("acks", |source| Ok(source.acks()?.map(acks_box).into()))
    }

    fn close(&mut self) -> CallFuture<'_, ()> {
        self.start("close", |source| source.close())
    }

    fn on_circuit_breaker(&mut self, open: bool) -> CallResult<()> {
        self.try_call("on_circuit_breaker", |source| source.on_circuit_breaker(open))
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

type FfiAcks = Fused<Box<dyn Acks>>;

fn acks_box(acks: Box<dyn Acks>) -> RawAcksBox {
    RawAcksBox::from_value(Fused::new(acks), TD_Opaque)
}

impl RawAcks for FfiAcks {
    fn most_in_flight(&self) -> abi::InFlight {
        let unlimited = [InFlight::UNLIMITED, InFlight::UNLIMITED];
        let InFlight { events, bytes, key } =
            self.ask("most_in_flight", unlimited, |acks| acks.most_in_flight());
        abi::InFlight { events: events as u64, bytes: bytes as u64, key: key.into() }
    }

    fn ack(&mut self, pull: u64) -> CallResult<()> {
        self.try_call("ack", |acks| acks.ack(pull))
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
        self.try_call("fail", fail)
    }

    fn undecodable(&mut self, pull: u64, messages: RSlice<'_, ExceptionRange>) -> CallResult<()> {
        let exception = |range: &ExceptionRange| {
            let start = range.start as usize;
            let events = start..start.saturating_add(range.len as usize);
            Exception { events, error: range.error.clone() }
        };
        let report = |acks: &mut Box<dyn Acks>| {
            let messages: Vec<_> = messages.iter().map(exception).collect();
            acks.undecodable(pull, &messages)
        };
        self.try_call("undecodable", report)
    }

    fn brings_again(&self) -> bool {
        self.ask("replays_failed", [true, true], |acks| acks.replays_failed())
    }
}

type FfiSink = Fused<Box<dyn DynSink>>;

pub(super) fn sink(sink: Box<dyn DynSink>) -> RawSinkBox {
    RawSinkBox::from_value(Fused::new(sink), TD_Opaque)
}

impl RawSink for FfiSink {
    fn demand(&mut self) -> Deliveries {
        // If the component panics, the first delivery returns the error.
        self.call_infallible("demand", |sink| sink.demand()).into()
    }

    fn on_grant(&mut self, granted: &Deliveries) {
        let grant = Grant::from(*granted);
        // If the component panics, the first delivery returns the error.
        self.call_infallible("on_grant", |sink| sink.on_grant(grant));
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
        match self.call("deliver", poll) {
            Ok(Poll::Pending) => FfiPoll::Pending,
            Ok(Poll::Ready(result)) => FfiPoll::Ready(result.map(deliver_reply).into()),
            Err(error) => FfiPoll::Ready(RResult::RErr(error)),
        }
    }

    fn give_up(&mut self, slot: u32) {
        // If the dropped future panics, the sink is lost, and the next call returns the error.
        self.call_infallible("give_up", |sink| sink.give_up(slot as usize));
    }

    fn on_tick(&mut self) -> CallFuture<'_, ()> {
        self.start("on_tick", |sink| sink.on_tick())
    }

    fn flush(&mut self) -> CallFuture<'_, ()> {
        self.start("flush", |sink| sink.flush())
    }

    fn close(&mut self) -> CallFuture<'_, ()> {
        self.start("close", |sink| sink.close())
    }
}

/// Converts exceptions. Positions fit a `u32`, because a batch contains less than 4 GiB.
fn deliver_reply(exceptions: Vec<Exception>) -> DeliverReply {
    let narrow = |position: usize| u32::try_from(position).unwrap_or(u32::MAX);
    let range = |Exception { events, error }: Exception| ExceptionRange {
        start: narrow(events.start),
        len: narrow(events.len()),
        error,
    };
    DeliverReply { exceptions: exceptions.into_iter().map(range).collect() }
}
