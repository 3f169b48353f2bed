//! The sink side of a connector: encodes, frames and delivers batches, and handles the answers of the sink.

mod answer;
mod aside;
pub(crate) mod backlog;
mod encode;
mod ending;
mod items;
pub(crate) mod lane;
pub(crate) mod parts;
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
    task::Poll,
    time::{Duration, Instant},
};

use tremor_pdk::{Demand, Error, Exception};

use crate::clock::Alarm;
use crate::engine::{
    control::{Control, Phase, interrupt::Interrupt},
    handle::{
        ConnectorHandle,
        connection::{Connection, End},
        gate::{self, Side},
        series::Retried,
    },
    queue::{Queued, Receiver},
    retry::breaker::Outage,
    route::{relief::Relief, router::Router},
    sink::{
        backlog::Backlog,
        pending::{Part, Pending, State},
        postprocessors::Postprocessors,
        retry::Retries,
        signals::next_tick,
        terms::Terms,
    },
    sync::{
        flush_request::{self, FlushRequest},
        turn::Turn,
    },
    tracking::tap::IN,
};
use crate::{codec::BatchEncoder, dynamic::DynSink, flow::WhenFull};

/// Time between two calls of a sink's `on_tick`.
pub(crate) const TICK: Duration = Duration::from_secs(1);

/// State of a sink that is kept across connections.
#[allow(clippy::struct_excessive_bools)] // independent properties
pub(crate) struct SinkSide {
    pub(crate) queue: Receiver,
    /// Routes dead letters to `err`.
    pub(crate) router: Router,
    pub(crate) relief: Relief,
    /// `None` for structured connectors.
    pub(crate) codec: Option<Box<dyn BatchEncoder>>,
    pub(crate) postprocessors: Postprocessors,
    pub(crate) control: Arc<Control>,
    /// Batches that the sink has taken out of its queue and not delivered.
    pub(crate) backlog: Backlog,
    pub(crate) terms: Terms,
    /// `true` once the log reports that the sink gets fewer deliveries in flight than the sink or the flow asked for.
    pub(crate) is_grant_logged: bool,
    /// Time between two calls of `on_tick`: [`TICK`].
    pub(crate) tick: Duration,
    pub(crate) retries: Retries,
    /// `true` while the sink may still buffer events that it has acknowledged: from the first attempt to close it until
    /// an attempt succeeds.
    pub(crate) undrained: bool,
    pub(crate) handle: Arc<ConnectorHandle>,
    /// State of the sink that opens the circuit breakers of the sources that feed it, while the sink is down.
    pub(crate) outage: Arc<Outage>,
    /// The treatment of events for which the queue in memory has no capacity.
    pub(crate) when_full: WhenFull,
    /// The treatment of events that the sink refuses because it is full, if the sink is a queue on disk.
    pub(crate) when_disk_is_full: Option<WhenFull>,
    /// `true` if the events of the sink stay in its queue on disk until the sink has delivered them.
    pub(crate) is_stored: bool,
    /// Set while the queue on disk waits until the sink has delivered what it has.
    pub(crate) flush_request: Arc<FlushRequest>,
    /// Time since which the sink should have answered a delivery and the peer has accepted none. Always `None` if the
    /// sink may stop its sources.
    pub(crate) silent_since: Option<Instant>,
    /// `true` if a reload has replaced parts of the sink since it last ran.
    pub(crate) is_other: bool,
}

/// Reason why [`Session::next`] returns.
enum Step {
    /// The sink answered the delivery in this slot.
    Answered(usize, Result<Vec<Exception>, Error>),
    /// A batch was received from the queue. `None` means that the queue has ended and all deliveries were answered.
    Received(Option<Queued>),
    /// A timer is due.
    Due(Due),
    /// The queue has ended, so that incomplete deliveries no longer wait for more batches.
    Complete,
    /// No delivery can start before a delivery in flight is answered, so the sink has to be flushed.
    Flush,
    /// The connector was paused or resumed.
    Gate,
    /// The queue on disk has begun or ended to wait for what the sink has.
    FlushRequest,
    /// The flow was stopped, the connection was lost, or the sink has to give up what it has.
    Interrupted,
}

/// A timer of a sink.
#[derive(Clone, Copy)]
enum Due {
    /// A delivery, flush or close may be retried, or the linger time of a delivery has ended.
    Retry,
    /// The timer of an operator after the port `err` is due.
    Operator,
    /// `on_tick` of the sink has to be called.
    Tick,
    /// The sink has not answered for so long that it counts as down.
    Silent,
    /// Sources may wait for what the queues after the port `err` can give up.
    Relief,
}

/// Conditions for the next steps of a sink.
struct WaitConditions {
    is_paused: bool,
    /// `true` if the next batch may be taken from the queue.
    may_receive: bool,
    /// `true` if the sink may be flushed, so that it answers the deliveries in flight.
    may_flush: bool,
    times: [(Option<Instant>, Due); 5],
}

impl WaitConditions {
    /// Returns the timer that has been due for the longest time at `now`.
    fn due(&self, now: Instant) -> Option<Due> {
        let due =
            self.times.iter().filter_map(|(at, due)| Some((at.filter(|at| *at <= now)?, *due)));
        due.min_by_key(|(at, _)| *at).map(|(_, due)| due)
    }
}

/// A sink within one connection.
#[allow(clippy::struct_excessive_bools)] // independent properties
struct Session<'s> {
    side: &'s mut SinkSide,
    sink: Box<dyn DynSink>,
    connection: &'s Connection,
    interrupt: Interrupt<'s>,
    /// Time slice after which the task yields. Needed if the sink always answers immediately.
    turn: Turn,
    /// Demand of the sink for deliveries.
    demand: Demand,
    /// `true` if the sink was flushed after the last delivery began.
    is_flushed: bool,
    alarm: Alarm,
    /// Time of the next tick.
    tick: Instant,
    /// `true` once the queue has ended and the router was closed.
    has_ended: bool,
    gate: gate::Changes<'s>,
    /// Changes of the flush request. `None` if the sink has no queue on disk.
    flush_requests: Option<flush_request::Changes<'s>>,
    /// `true` if deliveries do not wait for more batches because of the flush request.
    is_flush_requested: bool,
    /// `true` if the gate has been notified of the pause: the connector is paused, and no delivery is in flight.
    is_pause_reported: bool,
    /// `true` if the sink counts as down only because the connector is paused.
    is_down_by_pause: bool,
}

impl SinkSide {
    /// Lets the tasks that feed the sink give up its waiting deliveries, if the sink stops no source and is down. Call
    /// [`Backlog::take_back`] before the sink continues.
    fn set_aside(&mut self) {
        if !self.when_full.blocks() && self.outage.is_down() {
            self.backlog.set_aside(&self.handle);
        }
    }

    /// Runs the sink of one connection until the connection ends.
    pub(crate) async fn run(&mut self, mut sink: Box<dyn DynSink>, connection: &Connection) -> End {
        let (control, handle) = (self.control.clone(), self.handle.clone());
        let flush_request = self.flush_request.clone();
        self.backlog.take_back();
        self.retries.try_now();
        self.silent_since = None;
        self.outage.end();
        self.handle.gate.set_idle(Side::Sink, false);
        let demand = sink.demand();
        let (grant, batching) = self.terms.grant(demand);
        self.log_grant(demand, grant);
        sink.on_grant(grant);
        self.backlog.begin(grant.in_flight, grant.ordered, batching);
        if std::mem::take(&mut self.is_other) {
            self.encode_waiting().await;
        }
        let interrupt = Interrupt::new(&control, Phase::Stopped, Some(connection));
        let mut session = Session {
            sink,
            connection,
            interrupt: if self.may_give_up() {
                interrupt.or_given_up(handle.name())
            } else {
                interrupt
            },
            turn: Turn::default(),
            demand,
            is_flushed: false,
            alarm: control.clock().alarm(),
            tick: next_tick(self.tick, control.clock(), self.tick),
            has_ended: false,
            gate: handle.gate.changes(),
            flush_requests: self.is_stored.then(|| flush_request.changes()),
            is_flush_requested: false,
            is_pause_reported: false,
            is_down_by_pause: false,
            side: self,
        };
        let end = session.serve().await;
        // Deliveries without an answer are repeated on the next connection.
        let Session { side, mut sink, .. } = session;
        side.backlog.give_up(&mut *sink);
        if !side.when_full.blocks() {
            side.backlog.set_aside(&side.handle);
        }
        side.queue.set_idle();
        end
    }
}

impl Session<'_> {
    async fn serve(&mut self) -> End {
        loop {
            let is_paused = self.side.handle.gate.is_closed();
            if self.is_pause_reported != (is_paused && self.side.backlog.slots.is_empty()) {
                self.is_pause_reported = !self.is_pause_reported;
                self.side.handle.gate.set_idle(Side::Sink, self.is_pause_reported);
                continue;
            }
            self.count_memory();
            // A sink that answers every delivery immediately never waits in `next`, so the interrupt is checked here
            // too.
            let may_begin = !is_paused && self.interrupt.now().is_none();
            while may_begin && let Some(mut pending) = self.side.backlog.take_next() {
                if matches!(pending.state, State::Returned { .. }) {
                    self.side.encode_again(&mut pending).await;
                }
                self.begin(pending);
            }
            if is_paused && !self.side.when_full.blocks() {
                // No source waits for the sink, but its queue may have to give batches up.
                self.is_down_by_pause |= !self.side.outage.is_down();
                self.side.outage.begin();
            } else if std::mem::take(&mut self.is_down_by_pause) || self.side.backlog.is_empty() {
                self.side.outage.end();
            }
            self.side.handle.set_in_flight(self.side.backlog.events());
            let result = match self.next(is_paused, may_begin).await {
                Step::Answered(slot, result) => self.answered(slot, result).await,
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
                    self.side.router.run_timers().await;
                    Ok(())
                }
                Step::Due(Due::Tick) => self.tick().await,
                Step::Due(Due::Relief) => {
                    let SinkSide { relief, router, control, .. } = &mut *self.side;
                    relief.check(router, control).await;
                    Ok(())
                }
                Step::Due(Due::Silent) => {
                    self.side.outage.begin();
                    Ok(())
                }
                Step::Flush => self.flush().await,
                Step::Gate | Step::FlushRequest | Step::Complete => Ok(()),
                Step::Interrupted => Err(End::Interrupted),
            };
            if let Err(end) = result {
                return end;
            }
        }
    }

    /// Reports the memory of all deliveries. If the flow may not borrow more memory, incomplete deliveries do not wait
    /// for more batches, because the sources that would read these batches wait for memory. If another component has
    /// caused the shortage, this sink notices the shortage with its next event or tick.
    fn count_memory(&mut self) {
        let side = &mut *self.side;
        side.handle.set_in_flight_bytes(side.backlog.weight());
        self.is_flush_requested = side.flush_request.is_set();
        if side.backlog.is_batching() {
            side.backlog.set_is_short(self.is_flush_requested || !side.control.memory().is_open());
        }
    }

    /// Returns the conditions for the next steps of the sink. `may_begin` is `true` if deliveries may start.
    fn conditions(&self, is_paused: bool, may_begin: bool) -> WaitConditions {
        let Demand { gathers, most_in_flight, .. } = self.demand;
        let (backlog, retries) = (&self.side.backlog, &self.side.retries);
        // A sink that supports several deliveries in flight may be called while some are in flight.
        let is_parallel = most_in_flight > 1;
        // A failed flush is retried during a pause too: the pause only begins once all deliveries are answered.
        let flushes_again = gathers && !backlog.slots.is_empty();
        let retry = retries.next().filter(|_| may_begin || flushes_again);
        // A sink that supports one delivery in flight may not be called while that delivery is in flight.
        let may_tick = !is_paused && (backlog.slots.is_empty() || is_parallel);
        WaitConditions {
            is_paused,
            // If a flush or close has to be retried, it comes before new batches.
            may_receive: may_begin && backlog.has_capacity() && retries.next().is_none(),
            // A sink that gathers does not answer before it is flushed, even if it supports only one delivery in
            // flight.
            may_flush: (is_parallel || gathers) && !self.is_flushed && retries.next().is_none(),
            times: [
                (retry.or_else(|| backlog.next_due().filter(|_| may_begin)), Due::Retry),
                (self.side.router.egress.due(), Due::Operator),
                (may_tick.then_some(self.tick), Due::Tick),
                (self.silent_at(), Due::Silent),
                (self.side.relief.due(), Due::Relief),
            ],
        }
    }

    /// Waits for the next [`Step`].
    async fn next(&mut self, is_paused: bool, may_begin: bool) -> Step {
        let now = self.side.control.clock().now();
        self.turn.share(now).await;
        self.update_silence(now);
        let conditions = self.conditions(is_paused, may_begin);
        // A sink that always has work never waits here, so due timers are checked before anything is polled.
        if let Some(due) = conditions.due(now)
            && self.interrupt.now().is_none()
        {
            return Step::Due(due);
        }
        let gathers = self.demand.gathers;
        let is_flush_requested = self.is_flush_requested;
        let Self { side, sink, interrupt, turn, alarm, gate, flush_requests, .. } = self;
        poll_fn(|context| {
            side.backlog.take_back();
            if !side.backlog.slots.is_empty()
                && let Poll::Ready((slot, result)) = side.backlog.slots.poll(context, &mut **sink)
            {
                return Poll::Ready(Step::Answered(slot, result));
            }
            if conditions.may_receive
                && let Poll::Ready(received) = side.queue.poll_receive(context)
            {
                // Deliveries in flight may fail and have to be repeated, so the sink has not ended when its queue has
                // ended.
                if received.is_some() || side.backlog.is_empty() {
                    return Poll::Ready(Step::Received(received));
                }
                if side.backlog.complete() {
                    return Poll::Ready(Step::Complete);
                }
            }
            // Every delivery in flight was polled above, so the sink has received them.
            if conditions.may_flush
                && !side.backlog.slots.is_empty()
                && (side.is_flush_due(gathers, conditions.is_paused) || is_flush_requested)
            {
                return Poll::Ready(Step::Flush);
            }
            if interrupt.poll(context).is_ready() {
                return Poll::Ready(Step::Interrupted);
            }
            if gate.poll(context, conditions.is_paused).is_ready() {
                return Poll::Ready(Step::Gate);
            }
            if let Some(requests) = flush_requests
                && requests.poll(context, is_flush_requested).is_ready()
            {
                return Poll::Ready(Step::FlushRequest);
            }
            let due = alarm.poll_earliest(context, conditions.times).map(Step::Due);
            if due.is_pending() {
                turn.end();
                if side.backlog.is_empty() && side.retries.give_up() {
                    side.handle.recover(Retried::Deliver);
                }
                side.set_aside();
            }
            due
        })
        .await
    }

    /// Encodes a batch from the queue. A sink with one slot gets the batch immediately, unless batches are joined. In
    /// all other cases the batch is added to the backlog.
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
        if !self.side.backlog.is_direct() {
            self.side.backlog.push(Part::new(item, Some(outgoing)));
            if self.side.backlog.should_compact() {
                self.side.backlog.compact();
            }
            return Ok(());
        }
        let begun = self.side.router.stats.deliveries.begin();
        self.side.backlog.begin_direct(item, outgoing, begun);
        self.is_flushed = false;
        // Most sinks answer immediately, so the delivery is polled here.
        let Self { side, sink, .. } = self;
        let slots = &mut side.backlog.slots;
        let polled = poll_fn(|context| Poll::Ready(slots.poll(context, &mut **sink))).await;
        match polled {
            Poll::Ready((slot, result)) => self.answered(slot, result).await,
            Poll::Pending => {
                slots.pending_mut().for_each(Pending::weigh);
                Ok(())
            }
        }
    }

    /// Puts an encoded delivery into a slot. The sink gets the delivery when the slots are polled next.
    fn begin(&mut self, mut pending: Pending) {
        if pending.events() == 0 {
            return pending.settle();
        }
        pending.begin(self.side.router.stats.deliveries.begin());
        self.is_flushed = false;
        self.side.backlog.slots.put(pending);
    }
}
