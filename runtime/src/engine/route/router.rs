//! The router of a component, which sends its events through pipelines and into the queues of other tasks.
//!
//! If one task feeds a pipeline, that task runs the pipeline: each batch passes all operators before the next one. Only
//! a pipeline that several tasks feed, and that keeps state between batches, has a task of its own. The pipelines that
//! a task runs are part of its [`Routes`].
//!
//! A batch is best decoded, processed and encoded by one core. Its values are larger than its bytes, and moving them to
//! another core costs more than creating them. A task that feeds exactly one sink therefore also encodes for that sink
//! ([`Encoding`]). Several tasks may process the batches of one source ([`Router::another`]). Each batch has a
//! [`Ticket`]. Tasks route batches, and then send them to queues, in the order of the tickets, so operators and sinks
//! receive batches in the order of the pulls.

use std::{
    collections::VecDeque,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    task::{Context, Poll},
    time::Instant,
};

use tremor_abi::batch::{Pool, Rejected};
use tremor_pdk::Batch;

use crate::clock::Clock;
use crate::codec::{BatchEncoder, Terminator};
use crate::engine::{
    handle::{
        connection::Connection,
        status::{Bound, Relieves},
    },
    logging::losses::OverflowReason,
    queue::{Payload, Queued, sender::Spent},
    route::{
        haste::{Haste, Hurried},
        in_order::{InOrder, Section},
        leading::{Instances, Leading},
        outlets::Outlets,
        routes::Routes,
    },
    sync::watch::Single,
    tracking::{
        stats::Stats,
        token::{InFlight, Token},
    },
};

/// Index of the queue for which a task encodes. It was the only queue when the flow was planned, and a reload adds others
/// behind it.
pub(crate) const ENCODED: usize = 0;

/// The object through which one task sends events to the outputs of a component.
pub(crate) struct Router {
    /// Name of the component.
    pub(crate) name: Arc<str>,
    pub(crate) pool: Pool,
    pub(crate) stats: Arc<Stats>,
    pub(crate) egress: Arc<Egress>,
    /// The encoder for the queue [`ENCODED`], if it is that of a sink that accepts encoded batches, and was the only one when
    /// the flow was planned.
    encoding: Option<Encoding>,
    /// The waits of sources that end if queues give batches up: see [`Outlets::relieve`].
    pub(crate) relieves: Relieves,
    /// `true` if several tasks may process the batches of the component, on a machine with enough cores.
    pub(crate) may_have_helpers: bool,
    /// Connection of the component if it is a source.
    pub(crate) connection: Option<Arc<Connection>>,
    /// The task's own instances of leading stateless operators. `None` if only one task processes batches.
    leading: Option<Instances>,
    /// Batches to send, with the index of their queue. Empty between calls.
    outgoing: VecDeque<(usize, InFlight)>,
    /// Batches to send, encoded if `encoding` is set, with the index of their queue. Empty between calls.
    ready: VecDeque<(usize, Queued)>,
    spent: Spent,
}

/// The encoder of the sink that a task feeds.
pub(crate) struct Encoding {
    pub(crate) codec: Box<dyn BatchEncoder>,
    /// Bytes that are appended to every message.
    pub(crate) terminator: Terminator,
    /// Pool of the encoded batches. It is separate from the router's pool, whose batches keep memory for values.
    pub(crate) pool: Pool,
}

/// The outputs of a component, which its tasks share.
///
/// The egress has two in-order sections, which tasks enter in the order of their tickets. In the first section, tasks
/// route batches through pipelines. In the second section, tasks send the batches to queues.
pub(crate) struct Egress {
    /// Number of the next ticket.
    tickets: AtomicU64,
    pub(super) routes: InOrder<Routes>,
    pub(super) queues: InOrder<Outlets>,
    haste: Arc<Haste>,
    clock: Clock,
    /// Time at which the next timer of an operator is due.
    due: Single<Option<Instant>>,
}

/// The position of a batch in the order of a component's batches.
///
/// Dropping the ticket releases its position in the sections that it has not entered, so that later tickets need not
/// wait for it.
pub(crate) struct Ticket {
    pub(super) number: u64,
    egress: Arc<Egress>,
    pub(super) was_routed: bool,
    pub(super) was_queued: bool,
    /// `true` if another part of the batch follows and uses the same ticket.
    continues: bool,
}

impl Router {
    pub(crate) fn new(
        routes: Routes,
        queues: Outlets,
        encoding: Option<Encoding>,
        pool: Pool,
        stats: Arc<Stats>,
    ) -> Self {
        let name = routes.name.clone();
        let processors = routes.processors().clone();
        let clock = routes.clock().clone();
        let relieves = queues.relieves();
        let egress = Arc::new(Egress {
            haste: queues.haste().clone(),
            clock,
            tickets: AtomicU64::new(0),
            routes: InOrder::new(routes, processors.clone()),
            queues: InOrder::new(queues, processors),
            due: Single::default(),
        });
        Self { relieves, ..Self::over(egress, name, encoding, pool, stats) }
    }

    /// Creates the router of another task for the same outputs.
    pub(crate) fn another(&self, encoding: Encoding, pool: Pool) -> Self {
        let (egress, name) = (self.egress.clone(), self.name.clone());
        let router = Self::over(egress, name, Some(encoding), pool, self.stats.clone());
        Self { may_have_helpers: true, ..router }
    }

    /// Returns whether the task encodes batches for the sink that it feeds.
    pub(crate) fn encodes(&self) -> bool {
        self.encoding.is_some()
    }

    fn over(
        egress: Arc<Egress>,
        name: Arc<str>,
        encoding: Option<Encoding>,
        pool: Pool,
        stats: Arc<Stats>,
    ) -> Self {
        let (outgoing, ready, spent) = (VecDeque::new(), VecDeque::new(), Spent::default());
        Self {
            name,
            pool,
            stats,
            egress,
            encoding,
            relieves: Relieves::default(),
            may_have_helpers: false,
            connection: None,
            leading: None,
            outgoing,
            ready,
            spent,
        }
    }

    /// Returns whether this task may run leading stateless operators.
    pub(crate) fn leads(&self) -> bool {
        self.leading.is_some()
    }

    /// Lets this task run leading stateless operators in parallel with the other tasks of the component.
    pub(crate) fn lead(&mut self, leading: Arc<Leading>, is_helper: bool) {
        self.leading = Instances::new(leading, is_helper, self.pool.clone());
    }

    /// Routes a decoded batch: see [`Routes::take_in`]. Leading stateless operators run before the first in-order
    /// section if several tasks process batches.
    pub(crate) async fn take_in(
        &mut self,
        ticket: &mut Ticket,
        item: InFlight,
        rejected: Vec<Rejected>,
    ) {
        let Some(leading) = self.leading.as_mut().and_then(Instances::ready) else {
            return self.route(ticket, |routes| routes.take_in(item, rejected)).await;
        };
        let mut done = leading.take_in(item, rejected);
        self.route(ticket, |routes| routes.take_over(&mut done)).await;
        if let Some(leading) = &mut self.leading {
            leading.reuse(done);
        }
    }

    /// Routes a batch to port `out`.
    pub(crate) async fn emit(&mut self, item: InFlight) {
        self.route(&mut self.egress.ticket(), |routes| routes.take_in(item, Vec::new())).await;
    }

    /// Routes events that the component could not handle to port `err`: see [`Routes::reject`].
    pub(crate) async fn reject(&mut self, batch: &Batch, rejected: Vec<Rejected>, token: Token) {
        self.route(&mut self.egress.ticket(), |routes| routes.reject(batch, rejected, token)).await;
    }

    /// Returns whether a link begins at the port `err` of the component.
    pub(crate) async fn has_err_link(&mut self) -> bool {
        let mut ticket = self.egress.ticket();
        !ticket.routes().await.ports.err.is_empty()
    }

    /// Passes events that a sink gave up on to its port `err`: see [`Routes::pass_on`].
    pub(crate) async fn pass_on(&mut self, item: InFlight, why: OverflowReason) {
        self.route(&mut self.egress.ticket(), |routes| routes.pass_on(item, why)).await;
    }

    /// Calls the operators whose timers are due, and routes the events that they emit.
    pub(crate) async fn run_timers(&mut self) {
        self.route(&mut self.egress.ticket(), Routes::run_timers).await;
    }

    /// Waits until each queue in turn has capacity or is closed.
    pub(crate) async fn wait_for_capacity(&mut self) {
        let mut ticket = self.egress.ticket();
        ticket.queues().await.wait_for_capacity().await;
    }

    /// Gives up batches that wait in queues: see [`Outlets::relieve`].
    pub(crate) async fn relieve(&mut self, bound: Bound) {
        let mut ticket = self.egress.ticket();
        ticket.queues().await.relieve(bound, self.connection.as_deref()).await;
    }

    /// Drains the operators, routes the events that they emit, and drops the senders of all queues. Queues without
    /// other senders end.
    pub(crate) async fn close(&mut self) {
        self.route(&mut self.egress.ticket(), Routes::drain).await;
        self.egress.ticket().queues().await.clear();
    }

    /// Returns the clock from which the tasks of the component take the time.
    pub(crate) fn clock(&self) -> &Clock {
        &self.egress.clock
    }

    /// Returns the time spent on sending and on waiting for in-order sections since the last call, and resets it.
    pub(crate) fn take_spent(&mut self) -> Spent {
        std::mem::take(&mut self.spent)
    }

    /// Calls `work` with the routes, in the order of tickets. Then encodes the resulting batches in parallel with other
    /// tasks, and sends them to queues in the order of tickets.
    ///
    /// A ticket that [continues](Ticket::set_continues) keeps its position for the next part of its batch.
    pub(crate) async fn route(&mut self, ticket: &mut Ticket, work: impl FnOnce(&mut Routes)) {
        let start = self.clock().now();
        let mut routes = ticket.routes().await;
        let entered = self.clock().now();
        self.spent.in_order += entered - start;
        work(&mut routes);
        routes.take_outgoing(&mut self.outgoing);
        self.egress.set_due(routes.due());
        drop(routes);
        self.spent.inside += self.clock().elapsed(entered);
        while let Some((queue, mut item)) = self.outgoing.pop_front() {
            let payload = match &mut self.encoding {
                Some(encoding) if queue == ENCODED => encoding.encode(&mut item.batch),
                _ => Payload::Values,
            };
            self.ready.push_back((queue, Queued { item, payload }));
        }
        if self.ready.is_empty() {
            return;
        }
        let start = self.clock().now();
        let mut queues = ticket.queues().await;
        let entered = self.clock().now();
        self.spent.in_order += entered - start;
        let spent = queues.send(&mut self.ready, self.connection.as_deref()).await;
        drop(queues);
        self.spent += spent;
        self.spent.inside += self.clock().elapsed(entered).saturating_sub(spent.waiting);
    }
}

impl Egress {
    /// Returns the ticket of the next batch.
    pub(crate) fn ticket(self: &Arc<Self>) -> Ticket {
        let number = self.tickets.fetch_add(1, Ordering::Relaxed);
        let (was_routed, was_queued, continues) = (false, false, false);
        Ticket { number, egress: self.clone(), was_routed, was_queued, continues }
    }

    /// Ends waits for the capacity of queues, until the returned value is dropped.
    pub(crate) fn hurry(self: &Arc<Self>) -> Hurried {
        self.haste.begin()
    }

    /// Returns the time at which the next timer of an operator is due.
    pub(crate) fn due(&self) -> Option<Instant> {
        self.due.read(|due| *due)
    }

    /// Returns whether the timer of an operator is due now.
    pub(crate) fn is_due(&self) -> bool {
        self.due().is_some_and(|due| due <= self.clock.now())
    }

    /// Completes when [`Egress::due`] differs from `seen`. Only one task may wait for it.
    pub(crate) fn poll_due(&self, context: &Context<'_>, seen: Option<Instant>) -> Poll<()> {
        self.due.poll(context, |due| (*due != seen).then_some(()))
    }

    /// Sets the time of the next timer. Only the task that is in the first section may call this.
    pub(super) fn set_due(&self, at: Option<Instant>) {
        if self.due() != at {
            self.due.update(|due| *due = at);
        }
    }
}

impl Ticket {
    /// Sets whether the ticket is used again after the next call of [`Router::route`].
    pub(crate) fn set_continues(&mut self, continues: bool) {
        self.continues = continues;
    }

    async fn routes(&mut self) -> Section<'_, Routes> {
        let mut section = self.egress.routes.enter(self.number).await;
        section.set_continues(self.continues);
        self.was_routed = !self.continues;
        section
    }

    async fn queues(&mut self) -> Section<'_, Outlets> {
        let mut section = self.egress.queues.enter(self.number).await;
        section.set_continues(self.continues);
        self.was_queued = !self.continues;
        section
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        if !self.was_routed {
            self.egress.routes.pass(self.number);
        }
        if !self.was_queued {
            self.egress.queues.pass(self.number);
        }
    }
}

impl Encoding {
    fn encode(&mut self, batch: &mut Batch) -> Payload {
        let (encoded, rejected) = self.codec.encode_batch(batch, &self.pool, &self.terminator);
        Payload::Encoded { encoded, rejected }
    }
}
