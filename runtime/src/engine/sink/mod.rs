//! The sink side of a connector: encode, frame, deliver, and see to what was not delivered.

mod answer;
pub(crate) mod backlog;
mod items;
pub(crate) mod lane;
pub(crate) mod pending;
pub(crate) mod postprocessors;
pub(crate) mod retry;
mod signals;
mod slots;
mod streams;
pub(crate) mod terms;

use std::{
    future::poll_fn,
    sync::Arc,
    task::{Context, Poll},
    time::{Duration, Instant},
};

use tremor_pdk::{Batch, Demand, Error, ErrorPolicy, Exception};

use crate::engine::{
    account::{tap::IN, token::InFlight},
    control::{Control, Phase, interrupt::Interrupt},
    handle::{
        ConnectorHandle,
        connection::{Connection, End},
        gate::{self, Side},
        series::Retried,
    },
    queue::{Payload, Queued, Receiver},
    retry::breaker::Outage,
    route::router::Router,
    sink::{
        backlog::Backlog,
        pending::{Part, Pending},
        postprocessors::Postprocessors,
        retry::Retries,
        signals::next_tick,
        terms::Terms,
    },
    sync::{alarm::Alarm, turn::Turn},
};
use crate::{codec::BatchEncoder, dynamic::DynSink};

/// How often a sink is told the time.
pub(crate) const TICK: Duration = Duration::from_secs(1);

/// What of a sink outlives a connection.
pub(crate) struct SinkSide {
    pub(crate) queue: Receiver,
    /// The way of dead letters.
    pub(crate) router: Router,
    /// None for structured connectors.
    pub(crate) codec: Option<Box<dyn BatchEncoder>>,
    pub(crate) postprocessors: Postprocessors,
    pub(crate) control: Arc<Control>,
    /// What has left the queue and is not delivered yet: what waits, and what is in flight.
    pub(crate) backlog: Backlog,
    pub(crate) terms: Terms,
    /// `true` if the log says that the sink got other deliveries than it or the flow asked for.
    pub(crate) is_grant_logged: bool,
    /// How often the sink is told the time: [`TICK`].
    pub(crate) tick: Duration,
    /// When that is tried again.
    pub(crate) retries: Retries,
    /// `true` from the first attempt to close the sink until one succeeds.
    pub(crate) undrained: bool,
    pub(crate) handle: Arc<ConnectorHandle>,
    /// What the sources that feed it know of it.
    pub(crate) outage: Arc<Outage>,
}

/// What a sink waits for.
enum Step {
    Answered(Pending, Result<Vec<Exception>, Error>),
    Received(Option<Queued>),
    Due(Due),
    /// Nothing comes any more for which what it has could wait.
    Complete,
    /// No delivery follows before one of those in flight is answered.
    Flush,
    /// Its connector is paused, or is not any more.
    Gate,
    Interrupted,
}

/// What it is time for.
#[derive(Clone, Copy)]
enum Due {
    /// What is pending is tried again.
    Retry,
    /// An operator after `err` is told the time.
    Operator,
    /// The sink is told the time.
    Tick,
}

/// Conditions under which a sink continues.
struct WaitConditions {
    is_paused: bool,
    /// `true` if a batch may be taken from the queue.
    may_receive: bool,
    /// `true` if the sink may be asked to answer the deliveries in flight.
    may_flush: bool,
    times: [(Option<Instant>, Due); 3],
}

impl WaitConditions {
    /// Returns what it has been time for the longest at `now`.
    fn due(&self, now: Instant) -> Option<Due> {
        let due =
            self.times.iter().filter_map(|(at, due)| Some((at.filter(|at| *at <= now)?, *due)));
        due.min_by_key(|(at, _)| *at).map(|(_, due)| due)
    }
}

/// A sink within one connection.
struct Session<'s> {
    side: &'s mut SinkSide,
    sink: Box<dyn DynSink>,
    connection: &'s Connection,
    interrupt: Interrupt<'s>,
    /// Limits how long a sink that answers at once keeps its thread.
    turn: Turn,
    /// The deliveries that the sink asked for.
    demand: Demand,
    /// `true` if the sink was flushed after the last delivery began.
    is_flushed: bool,
    alarm: Alarm,
    tick: Instant,
    /// Whether nothing comes any more.
    has_ended: bool,
    gate: gate::Changes<'s>,
    /// Whether the connector knows that the sink rests, since it is paused.
    rests: bool,
}

impl SinkSide {
    /// The sink is gone for good: what it has not delivered fails back to its sources.
    pub(crate) fn abandon(self) {
        if self.undrained {
            // The sink has acknowledged events that it still buffers.
            self.control.leave_undrained();
        }
        let (stats, left) = (&self.router.stats, self.backlog.left());
        stats.failed(left.events);
        stats.undelivered(left.lost);
        let left = self.queue.close();
        stats.lost(left.events);
        stats.undelivered(left.lost);
    }

    /// Ready once there is nothing to do for a sink any more, whether or not it is connected.
    pub(crate) fn poll_done(&self, context: &Context<'_>) -> Poll<()> {
        if self.backlog.is_empty() && !self.undrained {
            self.queue.poll_ended(context)
        } else {
            Poll::Pending
        }
    }

    /// Runs the sink of one connection to its end.
    pub(crate) async fn run(&mut self, mut sink: Box<dyn DynSink>, connection: &Connection) -> End {
        let (control, handle) = (self.control.clone(), self.handle.clone());
        self.retries.try_now();
        self.outage.end();
        self.handle.gate.set_rests(Side::Sink, false);
        let demand = sink.demand();
        let (grant, batching) = self.terms.grant(demand);
        self.log_grant(demand, grant);
        sink.on_grant(grant);
        self.backlog.begin(grant.in_flight, grant.ordered, batching);
        let mut session = Session {
            sink,
            connection,
            interrupt: Interrupt::new(&control, Phase::Stopped, Some(connection)),
            turn: Turn::default(),
            demand,
            is_flushed: false,
            alarm: Alarm::default(),
            tick: next_tick(self.tick, Instant::now() + self.tick),
            has_ended: false,
            gate: handle.gate.changes(),
            rests: false,
            side: self,
        };
        let end = session.serve().await;
        // What has no answer yet is delivered again, on another connection.
        let Session { side, mut sink, .. } = session;
        side.backlog.give_up(&mut *sink);
        side.queue.rest();
        end
    }
}

impl Session<'_> {
    async fn serve(&mut self) -> End {
        loop {
            let is_paused = self.side.handle.gate.is_closed();
            if self.rests != (is_paused && self.side.backlog.slots.is_empty()) {
                self.rests = !self.rests;
                self.side.handle.gate.set_rests(Side::Sink, self.rests);
                continue;
            }
            self.count();
            // A sink that answers every delivery at once would never get to wait for an interrupt.
            let may_begin = !is_paused && self.interrupt.now().is_none();
            while may_begin && let Some(pending) = self.side.backlog.take_next() {
                self.begin(pending).await;
            }
            if self.side.backlog.is_empty() {
                self.side.outage.end();
            }
            self.side.handle.set_in_flight(self.side.backlog.events());
            let result = match self.next(is_paused, may_begin).await {
                Step::Answered(pending, result) => self.answered(pending, result).await,
                Step::Received(Some(queued)) => self.receive(queued).await,
                Step::Received(None) => {
                    if !std::mem::replace(&mut self.has_ended, true) {
                        self.side.router.close().await;
                    }
                    match self.close().await {
                        Ok(true) => return End::Finished,
                        Ok(false) => Ok(()),
                        Err(end) => Err(end),
                    }
                }
                Step::Due(Due::Retry) => {
                    self.side.retries.try_now();
                    Ok(())
                }
                Step::Due(Due::Operator) => {
                    self.side.router.tell_time().await;
                    Ok(())
                }
                Step::Due(Due::Tick) => self.tick().await,
                Step::Flush => self.flush().await,
                Step::Gate | Step::Complete => Ok(()),
                Step::Interrupted => Err(End::Interrupted),
            };
            if let Err(end) = result {
                return end;
            }
        }
    }

    /// Counts the memory of all deliveries. While the flow may borrow no more, none of them waits for others: the sources
    /// that would bring others wait for this memory. A shortage that another component causes is noticed with the next
    /// event or tick.
    fn count(&mut self) {
        let side = &mut *self.side;
        side.handle.set_in_flight_bytes(side.backlog.weight());
        if side.backlog.is_batching() {
            side.backlog.set_is_short(!side.control.memory().is_open());
        }
    }

    fn conditions(&self, is_paused: bool, may_begin: bool) -> WaitConditions {
        let Demand { gathers, most_in_flight, .. } = self.demand;
        let (backlog, retries) = (&self.side.backlog, &self.side.retries);
        // A sink that supports several deliveries may be called while some are in flight.
        let is_parallel = most_in_flight > 1;
        // A flush that failed is tried again during a pause too: the pause begins once deliveries are answered.
        let flushes_again = gathers && !backlog.slots.is_empty();
        let retry = retries.next().filter(|_| may_begin || flushes_again);
        // One that takes one delivery at a time is told when that is over.
        let may_be_told = !is_paused && (backlog.slots.is_empty() || is_parallel);
        WaitConditions {
            is_paused,
            // What is to be delivered again comes before whatever else there is.
            may_receive: may_begin && backlog.has_room() && retries.next().is_none(),
            // A sink that gathers answers nothing before it is flushed, even if it supports one delivery only.
            may_flush: (is_parallel || gathers) && !self.is_flushed && retries.next().is_none(),
            times: [
                (retry.or_else(|| backlog.next_due().filter(|_| may_begin)), Due::Retry),
                (self.side.router.egress.due(), Due::Operator),
                (may_be_told.then_some(self.tick), Due::Tick),
            ],
        }
    }

    async fn next(&mut self, is_paused: bool, may_begin: bool) -> Step {
        let now = Instant::now();
        self.turn.share(now).await;
        let conditions = self.conditions(is_paused, may_begin);
        // A sink that always has something to do is told the time as well.
        if let Some(due) = conditions.due(now)
            && self.interrupt.now().is_none()
        {
            return Step::Due(due);
        }
        let gathers = self.demand.gathers;
        let Self { side, sink, interrupt, turn, alarm, gate, .. } = self;
        poll_fn(|context| {
            if !side.backlog.slots.is_empty()
                && let Poll::Ready((pending, result)) =
                    side.backlog.slots.poll(context, &mut **sink)
            {
                return Poll::Ready(Step::Answered(pending, result));
            }
            if conditions.may_receive
                && let Poll::Ready(received) = side.queue.poll_receive(context)
            {
                // What is under way may come back.
                if received.is_some() || side.backlog.is_empty() {
                    return Poll::Ready(Step::Received(received));
                }
                if side.backlog.complete() {
                    return Poll::Ready(Step::Complete);
                }
            }
            // All deliveries in flight have begun: they were polled above.
            if conditions.may_flush
                && !side.backlog.slots.is_empty()
                && side.is_flush_due(gathers, conditions.is_paused)
            {
                return Poll::Ready(Step::Flush);
            }
            if interrupt.poll(context).is_ready() {
                return Poll::Ready(Step::Interrupted);
            }
            if gate.poll(context, conditions.is_paused).is_ready() {
                return Poll::Ready(Step::Gate);
            }
            let due = alarm.poll(context, conditions.times).map(Step::Due);
            if due.is_pending() {
                turn.end();
                if side.backlog.is_empty() && side.retries.give_up() {
                    side.handle.recover(Retried::Deliver);
                }
            }
            due
        })
        .await
    }

    /// Takes a batch from the queue. A sink with one slot gets it at once, unless batches are combined; otherwise the
    /// batch waits for its turn.
    async fn receive(&mut self, queued: Queued) -> Result<(), End> {
        self.side.router.stats.taken(queued.events());
        self.side.router.stats.tap.pass(IN, &queued.item.batch);
        let Queued { mut item, payload } = queued;
        if self.side.backlog.is_direct() {
            self.side.handle.set_in_flight(item.batch.len());
        }
        let outgoing = self.side.encode(&mut item, payload).await;
        if item.batch.is_empty() {
            item.token.settle();
            return Ok(());
        }
        let backlog = &mut self.side.backlog;
        let part = Part::new(item, Some(outgoing));
        if !backlog.is_direct() {
            backlog.push(part);
            if backlog.keeps_much() {
                backlog.let_go();
            }
            return Ok(());
        }
        let pending = backlog.direct(part);
        self.begin(pending).await;
        // Mostly the sink answers at once.
        let Self { side, sink, .. } = self;
        let slots = &mut side.backlog.slots;
        let polled = poll_fn(|context| Poll::Ready(slots.poll(context, &mut **sink))).await;
        match polled {
            Poll::Ready((pending, result)) => self.answered(pending, result).await,
            Poll::Pending => {
                slots.pending_mut().for_each(Pending::weigh);
                Ok(())
            }
        }
    }

    /// Begins a delivery: the sink gets it when the slots are polled next.
    async fn begin(&mut self, mut pending: Pending) {
        if pending.is_unencoded() {
            self.side.encode_again(&mut pending).await;
        }
        if pending.events() == 0 {
            return pending.settle();
        }
        pending.begin(self.side.router.stats.deliveries.begin());
        self.is_flushed = false;
        self.side.backlog.slots.put(pending);
    }

    /// The sink has answered to a delivery. What remains of it, for now or when the connection ends, is
    /// kept.
    async fn answered(
        &mut self,
        mut pending: Pending,
        result: Result<Vec<Exception>, Error>,
    ) -> Result<(), End> {
        self.side.router.stats.deliveries.end(pending.end());
        match result {
            Ok(exceptions) => {
                let all = pending.events();
                let undelivered = exceptions.iter().map(|it| it.events.len());
                let has_taken = undelivered.sum::<usize>() < all;
                if has_taken {
                    self.connection.event_passed();
                }
                let Some((mut rest, error)) = self.side.account(pending, exceptions).await else {
                    self.side.progress(has_taken);
                    return Ok(());
                };
                let has_passed = rest.events() < all;
                if has_passed {
                    self.side.progress(has_taken);
                }
                if error.policy() == ErrorPolicy::RECONNECT {
                    self.side.backlog.put_back(rest);
                    return Err(End::of(error));
                }
                if has_passed {
                    // It takes the rest in its own time, for as long as it takes any.
                    rest.attempts = None;
                    self.side.backlog.put_back(rest);
                } else {
                    self.again(rest, error).await;
                }
            }
            Err(error) if error.policy() == ErrorPolicy::DEAD_LETTER => {
                self.side.progress(false);
                self.side.reject_all(pending, &error).await;
            }
            Err(error) if error.policy() == ErrorPolicy::RETRY => self.again(pending, error).await,
            Err(error) => {
                self.side.backlog.put_back(pending);
                return Err(End::of(error));
            }
        }
        Ok(())
    }

    /// The peer has taken nothing of this. It is delivered again later, or goes to `err`.
    async fn again(&mut self, mut pending: Pending, error: Error) {
        match self.side.retries.again(&mut pending, &error) {
            Ok(()) => {
                self.side.handle.retry(Retried::Deliver, &error, Duration::ZERO);
                if self.side.backlog.slots.is_empty() {
                    self.side.outage.begin();
                }
                self.side.backlog.put_back(pending);
            }
            Err(error) => {
                self.side.handle.note(&error);
                self.side.reject_all(pending, &error).await;
            }
        }
    }
}

impl SinkSide {
    /// What the sink gets of a batch: encoded messages, or the values as they are.
    async fn encode(&mut self, item: &mut InFlight, payload: Payload) -> Batch {
        let (mut encoded, mut rejected) = match (payload, &mut self.codec) {
            (Payload::Encoded { encoded, rejected }, _) => (encoded, rejected),
            (Payload::Values, Some(codec)) => {
                let terminator = self.postprocessors.terminator();
                codec.encode_batch(&mut item.batch, &self.router.pool, terminator)
            }
            (Payload::Values, None) => return item.batch.clone(),
        };
        rejected.extend(self.postprocessors.process(&mut encoded, &mut item.batch));
        if !rejected.is_empty() {
            self.router.reject(&item.batch, rejected, item.token.clone()).await;
        }
        self.router.stats.bytes(encoded.bytes().len());
        encoded
    }

    /// Encodes a delivery that the sink had already, because it may have changed what it got.
    async fn encode_again(&mut self, pending: &mut Pending) {
        let mut outgoing = None;
        for item in pending.items_mut() {
            let encoded = self.encode(item, Payload::Values).await;
            match &mut outgoing {
                None => outgoing = Some(encoded),
                Some(before) => before.append(encoded),
            }
        }
        pending.recount();
        pending.set_encoded(outgoing.unwrap_or_default());
    }
}
