//! Watched connectors, sources and sinks.

use std::{
    ops::Range,
    sync::Arc,
    task::{Context, Poll},
};

use tremor_abi::connector::Hook;
use tremor_pdk::{self as pdk, Batch, Demand, Exception, Grant, Halves, Pull, Result, Sides};

use super::{Call, Dropped, Watched};
use crate::dynamic::{BoxFuture, CodecRequirement, DynConnector, DynHalves, DynSink, DynSource};

impl Watched {
    /// Returns a connector whose calls are recorded, including those of its sides.
    ///
    /// `another` creates further records: one for each side, and one for each delivery that a sink may have in flight,
    /// because the answer to a delivery must not hide that another delivery is unanswered.
    pub(crate) fn connector(
        &self,
        connector: Box<dyn DynConnector>,
        another: impl Fn() -> Self + Send + Sync + 'static,
    ) -> Box<dyn DynConnector> {
        let inner = Dropped::new(connector, self);
        let (source, another) = (another(), Arc::new(another));
        Box::new(Connector { inner, record: self.clone(), source, another })
    }
}

type MakeWatched = Arc<dyn Fn() -> Watched + Send + Sync>;

struct Connector {
    inner: Dropped<Box<dyn DynConnector>>,
    record: Watched,
    source: Watched,
    another: MakeWatched,
}

impl DynConnector for Connector {
    fn codec_requirement(&self) -> CodecRequirement {
        self.inner.inner.codec_requirement()
    }

    fn sides(&self) -> Sides {
        self.inner.inner.sides()
    }

    fn connect(&mut self, wanted: Sides) -> BoxFuture<'_, Result<DynHalves>> {
        let connected = self.record.wait(Call::Connect, || self.inner.inner.connect(wanted));
        let (record, another) = (self.source.clone(), self.another.clone());
        Box::pin(async move {
            let source = |source| {
                let inner = Dropped::new(source, &record);
                Box::new(Source { inner, record: record.clone() }) as Box<dyn DynSource>
            };
            let sink = |sink| {
                let record = another();
                let inner = Dropped::new(sink, &record);
                let (slots, gathers) = (Vec::new(), false);
                Box::new(Sink { inner, record, slots, gathers, another: another.clone() })
                    as Box<dyn DynSink>
            };
            let halves = connected.await?;
            Ok(Halves { source: halves.source.map(source), sink: halves.sink.map(sink) })
        })
    }

    fn hook(&mut self, hook: Hook) -> BoxFuture<'_, Result<()>> {
        let call = match hook {
            Hook::START => Call::Start,
            Hook::PAUSE => Call::Pause,
            Hook::RESUME => Call::Resume,
            _ => Call::Close,
        };
        Box::pin(self.record.wait(call, || self.inner.inner.hook(hook)))
    }
}

struct Source {
    inner: Dropped<Box<dyn DynSource>>,
    record: Watched,
}

impl DynSource for Source {
    fn poll_pull(&mut self, context: &mut Context<'_>, batch: &mut Batch) -> Poll<Result<Pull>> {
        let inside = self.record.0.poll(Call::Pull);
        let polled = self.inner.inner.poll_pull(context, batch);
        inside.leave(polled.is_ready());
        polled
    }

    fn give_up(&mut self, batch: &mut Batch) {
        self.record.call(Call::Pull, || self.inner.inner.give_up(batch));
    }

    fn acks(&mut self) -> Result<Option<Box<dyn pdk::Acks>>> {
        let acks = self.record.call(Call::Acks, || self.inner.inner.acks())?;
        let record = &self.record;
        let watched = |acks| Acks { inner: Dropped::new(acks, record), record: record.clone() };
        Ok(acks.map(|acks| Box::new(watched(acks)) as Box<dyn pdk::Acks>))
    }

    fn close(&mut self) -> BoxFuture<'_, Result<()>> {
        Box::pin(self.record.wait(Call::Close, || self.inner.inner.close()))
    }

    fn on_circuit_breaker(&mut self, open: bool) -> Result<()> {
        self.record.call(Call::CircuitBreaker, || self.inner.inner.on_circuit_breaker(open))
    }
}

/// Watched receiver of acknowledgements. The task of the source calls it between polls of a pull, not during a poll.
struct Acks {
    inner: Dropped<Box<dyn pdk::Acks>>,
    record: Watched,
}

impl pdk::Acks for Acks {
    fn replays_failed(&self) -> bool {
        self.record.call(Call::Acks, || self.inner.inner.replays_failed())
    }

    fn most_in_flight(&self) -> pdk::InFlight {
        self.record.call(Call::Acks, || self.inner.inner.most_in_flight())
    }

    fn ack(&mut self, pull: u64) -> Result<()> {
        self.record.call(Call::Acknowledge, || self.inner.inner.ack(pull))
    }

    fn fail(&mut self, pull: u64, events: &[Range<usize>]) -> Result<()> {
        self.record.call(Call::Fail, || self.inner.inner.fail(pull, events))
    }

    fn fail_unknown(&mut self, pull: u64, events: Range<usize>) -> Result<()> {
        self.record.call(Call::Fail, || self.inner.inner.fail_unknown(pull, events))
    }

    fn undecodable(&mut self, pull: u64, messages: &[pdk::Exception]) -> Result<()> {
        self.record.call(Call::Fail, || self.inner.inner.undecodable(pull, messages))
    }
}

struct Sink {
    inner: Dropped<Box<dyn DynSink>>,
    record: Watched,
    /// Records of the deliveries by slot. Empty if the sink has one delivery at a time and does not gather.
    slots: Vec<Watched>,
    gathers: bool,
    another: MakeWatched,
}

impl DynSink for Sink {
    fn demand(&mut self) -> Demand {
        let demand = self.record.call(Call::Demand, || self.inner.inner.demand());
        self.gathers = demand.gathers;
        demand
    }

    fn on_grant(&mut self, grant: Grant) {
        self.slots.clear();
        if grant.in_flight > 1 || self.gathers {
            self.slots.resize_with(grant.in_flight, || (self.another)());
        }
        self.record.call(Call::Grant, || self.inner.inner.on_grant(grant));
    }

    fn poll_deliver(
        &mut self,
        context: &mut Context<'_>,
        slot: usize,
        batch: &mut Batch,
    ) -> Poll<Result<Vec<Exception>>> {
        let record = self.slots.get(slot).unwrap_or(&self.record);
        let inside = record.0.poll_deliver(batch.len());
        let polled = self.inner.inner.poll_deliver(context, slot, batch);
        inside.leave(polled.is_ready());
        polled
    }

    fn give_up(&mut self, slot: usize) {
        let record = self.slots.get(slot).unwrap_or(&self.record);
        record.call(Call::Deliver, || self.inner.inner.give_up(slot));
    }

    fn on_tick(&mut self) -> BoxFuture<'_, Result<()>> {
        Box::pin(self.record.wait(Call::Tick, || self.inner.inner.on_tick()))
    }

    fn flush(&mut self) -> BoxFuture<'_, Result<()>> {
        let Self { inner, record, slots, gathers, .. } = self;
        let flush = record.wait(Call::Flush, || inner.inner.flush());
        Box::pin(async move {
            let result = flush.await;
            if *gathers && result.is_ok() {
                // A sink with this fault answers none of its deliveries on a flush, so a finding for one delivery is
                // enough.
                _ = slots.iter().any(|slot| slot.0.flushed());
            }
            result
        })
    }

    fn close(&mut self) -> BoxFuture<'_, Result<()>> {
        Box::pin(self.record.wait(Call::CloseSink, || self.inner.inner.close()))
    }
}
