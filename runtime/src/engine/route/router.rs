//! The router of a component: its events go through pipelines and into the queues of other tasks.
//!
//! A pipeline that one task feeds is run by that task, to completion, a batch at a time; only a
//! pipeline that several tasks feed, and that keeps something between batches, has a task of its
//! own. What such a pipeline consists of are the [`Routes`].
//!
//! A batch is best decoded, operated on and encoded by one core, for its values are larger than
//! its bytes, and moving them to another core costs more than making them. So a task that feeds one sink and
//! nothing else encodes for it ([`Encoding`]), and several tasks may take the batches of one source
//! through ([`Router::another`]). Each batch has a [`Ticket`]: routes, and then queues, are used in
//! the order of these, and so operators and sinks see batches in the order of pulls.

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

use crate::codec::{BatchEncoder, Terminator};
use crate::engine::{
    account::{
        stats::Stats,
        token::{InFlight, Token},
    },
    handle::connection::Connection,
    queue::{Payload, Queued, Sender, sender::Spent},
    route::{
        in_order::{InOrder, Section},
        routes::Routes,
    },
    sync::watch::Single,
};

/// One task's access to the egress of a component.
pub(crate) struct Router {
    /// The component whose events these are.
    pub(crate) name: Arc<str>,
    pub(crate) pool: Pool,
    pub(crate) stats: Arc<Stats>,
    pub(crate) egress: Arc<Egress>,
    /// Where there is one queue, and it is a sink's that takes encoded batches.
    encoding: Option<Encoding>,
    /// A source's, which ends with it.
    pub(crate) connection: Option<Arc<Connection>>,
    /// What goes into queues next, and then as it goes into them. Empty between calls.
    outgoing: VecDeque<(usize, InFlight)>,
    ready: VecDeque<(usize, Queued)>,
    spent: Spent,
}

/// Encodes for a sink.
pub(crate) struct Encoding {
    pub(crate) codec: Box<dyn BatchEncoder>,
    /// What follows every message.
    pub(crate) terminator: Terminator,
    /// Where encoded batches come from: the others keep nodes.
    pub(crate) pool: Pool,
}

/// What the tasks of one component share: two in-order sections, in the order of tickets. In the first
/// one batches are routed, in the second one they are put into queues.
pub(crate) struct Egress {
    tickets: AtomicU64,
    routes: InOrder<Routes>,
    queues: InOrder<Vec<Outlet>>,
    /// When an operator wants to be told the time.
    due: Single<Option<Instant>>,
}

/// A queue that events go into.
pub(crate) struct Outlet {
    pub(crate) queue: Sender,
    /// Of the component that takes them out of it.
    pub(crate) stats: Arc<Stats>,
}

/// The place of a batch in the order of a component's batches. When it is dropped, its number passes
/// the sections that it has not entered.
pub(crate) struct Ticket {
    number: u64,
    egress: Arc<Egress>,
    was_routed: bool,
    was_queued: bool,
    /// Whether there is another batch with this place.
    goes_on: bool,
}

impl Router {
    pub(crate) fn new(
        routes: Routes,
        queues: Vec<Outlet>,
        encoding: Option<Encoding>,
        pool: Pool,
        stats: Arc<Stats>,
    ) -> Self {
        let name = routes.name.clone();
        let processors = routes.processors().clone();
        let egress = Arc::new(Egress {
            tickets: AtomicU64::new(0),
            routes: InOrder::new(routes, processors.clone()),
            queues: InOrder::new(queues, processors),
            due: Single::default(),
        });
        Self::over(egress, name, encoding, pool, stats)
    }

    /// The access of another task to the same egress.
    pub(crate) fn another(&self, encoding: Encoding, pool: Pool) -> Self {
        let (egress, name) = (self.egress.clone(), self.name.clone());
        Self::over(egress, name, Some(encoding), pool, self.stats.clone())
    }

    fn over(
        egress: Arc<Egress>,
        name: Arc<str>,
        encoding: Option<Encoding>,
        pool: Pool,
        stats: Arc<Stats>,
    ) -> Self {
        let (outgoing, ready, spent) = (VecDeque::new(), VecDeque::new(), Spent::default());
        Self { name, pool, stats, egress, encoding, connection: None, outgoing, ready, spent }
    }

    /// Routes a batch out of port `out`.
    pub(crate) async fn emit(&mut self, item: InFlight) {
        self.route(&mut self.egress.ticket(), |routes| routes.take_in(item, Vec::new())).await;
    }

    /// Routes events that the component could not handle: see [`Routes::reject`].
    pub(crate) async fn reject(&mut self, batch: &Batch, rejected: Vec<Rejected>, token: Token) {
        self.route(&mut self.egress.ticket(), |routes| routes.reject(batch, rejected, token)).await;
    }

    /// Tells the time to the operators that wait for it, and routes what they emit.
    pub(crate) async fn tell_time(&mut self) {
        self.route(&mut self.egress.ticket(), Routes::tell_time).await;
    }

    /// Waits until every queue takes a batch.
    pub(crate) async fn room(&mut self) {
        let mut ticket = self.egress.ticket();
        for outlet in ticket.queues().await.iter_mut() {
            outlet.queue.room().await;
        }
    }

    /// The end: operators emit what they hold back, then queues without another sender end.
    pub(crate) async fn close(&mut self) {
        self.route(&mut self.egress.ticket(), Routes::drain).await;
        self.egress.ticket().queues().await.clear();
    }

    /// What sending, and waiting for in-order sections, has taken since this was last asked.
    pub(crate) fn take_spent(&mut self) -> Spent {
        std::mem::take(&mut self.spent)
    }

    /// Does the `work` of a ticket: routes batches in order, encodes what comes of it in parallel with
    /// other tasks, and puts that into queues in order. A ticket that goes on keeps its place for the
    /// next part of its batch.
    pub(crate) async fn route(&mut self, ticket: &mut Ticket, work: impl FnOnce(&mut Routes)) {
        let start = Instant::now();
        let mut routes = ticket.routes().await;
        self.spent.in_order += start.elapsed();
        work(&mut routes);
        routes.take_outgoing(&mut self.outgoing);
        self.egress.set_due(routes.due());
        drop(routes);
        while let Some((queue, mut item)) = self.outgoing.pop_front() {
            let payload = match &mut self.encoding {
                Some(encoding) => encoding.encode(&mut item.batch),
                None => Payload::Values,
            };
            self.ready.push_back((queue, Queued { item, payload }));
        }
        if self.ready.is_empty() {
            return;
        }
        let start = Instant::now();
        let mut queues = ticket.queues().await;
        self.spent.in_order += start.elapsed();
        while let Some((queue, queued)) = self.ready.pop_front() {
            let Some(Outlet { queue, stats }) = queues.get_mut(queue) else { continue };
            // A task that has failed takes nothing more: the events fail with it.
            if let Some(refused) = queue.send(queued, self.connection.as_deref()).await {
                let lost = !refused.item.token.is_tracked();
                stats.lost(refused.events());
                stats.undelivered(if lost { refused.events() } else { 0 });
            }
            self.spent += queue.take_spent();
        }
    }
}

impl Egress {
    /// The next place in the order of batches.
    pub(crate) fn ticket(self: &Arc<Self>) -> Ticket {
        let number = self.tickets.fetch_add(1, Ordering::Relaxed);
        let (was_routed, was_queued, goes_on) = (false, false, false);
        Ticket { number, egress: self.clone(), was_routed, was_queued, goes_on }
    }

    /// When an operator wants to be told the time.
    pub(crate) fn due(&self) -> Option<Instant> {
        self.due.read(|due| *due)
    }

    /// Whether it is time to tell an operator so.
    pub(crate) fn is_due(&self) -> bool {
        self.due().is_some_and(|due| due <= Instant::now())
    }

    /// Ready when that is another time than `seen`. One task may wait for it.
    pub(crate) fn poll_due(&self, context: &Context<'_>, seen: Option<Instant>) -> Poll<()> {
        self.due.poll(context, |due| (*due != seen).then_some(()))
    }

    /// Set by one task at a time: the one that has the routes.
    fn set_due(&self, at: Option<Instant>) {
        if self.due() != at {
            self.due.update(|due| *due = at);
        }
    }
}

impl Ticket {
    /// Whether what is routed next with this place is not the last.
    pub(crate) fn set_goes_on(&mut self, goes_on: bool) {
        self.goes_on = goes_on;
    }

    async fn routes(&mut self) -> Section<'_, Routes> {
        let mut section = self.egress.routes.enter(self.number).await;
        section.set_goes_on(self.goes_on);
        self.was_routed = !self.goes_on;
        section
    }

    async fn queues(&mut self) -> Section<'_, Vec<Outlet>> {
        let mut section = self.egress.queues.enter(self.number).await;
        section.set_goes_on(self.goes_on);
        self.was_queued = !self.goes_on;
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
