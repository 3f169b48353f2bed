//! The way of a task's events into the queues of other tasks.
//!
//! A pipeline that one task feeds is run by that task, to completion, a batch at a time; only a
//! pipeline that several tasks feed has a task of its own. What such a pipeline consists of are the
//! [`Routes`].
//!
//! A batch is best decoded, operated on and encoded by one core, for its values are larger than
//! its bytes, and moving them to another core costs more than making them. So a source that feeds
//! one sink and nothing else encodes for it ([`Encoding`]), and a source may hand a batch over as it
//! was pulled, with the routes, which the sink's task then takes it through and gives back
//! ([`Router::hand_over`]). Operators see batches in the order of pulls either way, for there is
//! only one of the routes, and it goes with the batch whose turn it is.

use std::{sync::Arc, task::Context, task::Poll, time::Instant};

use tremor_pdk::{
    Batch,
    abi::batch::{Pool, Rejected},
};

use super::{
    delivery::{InFlight, Token},
    loan::Home,
    queue::{Form, Queued, Sender, Spent},
    routes::Routes,
    stats::Stats,
};
use crate::codec::BatchEncoder;

/// The way of events out of one component.
pub(crate) struct Router {
    /// The component whose events these are.
    pub(crate) name: Arc<str>,
    pub(crate) pool: Pool,
    pub(crate) stats: Arc<Stats>,
    routes: Home<Routes>,
    queues: Vec<Sender>,
    /// Where there is one queue, and it is a sink's that takes encoded batches.
    encoding: Option<Encoding>,
}

/// Encodes for a sink.
pub(crate) struct Encoding {
    pub(crate) codec: Box<dyn BatchEncoder>,
    /// What stands behind every message.
    pub(crate) suffix: Vec<u8>,
    /// Where encoded batches come from: the others keep nodes.
    pub(crate) pool: Pool,
}

impl Router {
    /// `pool` and `stats` are those of the routes.
    pub(crate) fn new(
        routes: Routes,
        queues: Vec<Sender>,
        encoding: Option<Encoding>,
        pool: Pool,
        stats: Arc<Stats>,
    ) -> Self {
        let name = routes.name.clone();
        Self { name, pool, stats, routes: Home::new(routes), queues, encoding }
    }

    /// Routes what has become of a pull: see [`Routes::take_in`].
    pub(crate) async fn take_in(&mut self, batch: Batch, rejected: Vec<Rejected>, token: Token) {
        self.routes.back().await.take_in(batch, rejected, token);
        self.send().await;
    }

    /// Routes a batch out of port `out`.
    pub(crate) async fn emit(&mut self, item: InFlight) {
        self.routes.back().await.emit(item);
        self.send().await;
    }

    /// Routes events that the component could not handle: see [`Routes::reject`].
    pub(crate) async fn reject(&mut self, batch: &Batch, rejected: Vec<Rejected>, token: Token) {
        self.routes.back().await.reject(batch, rejected, token);
        self.send().await;
    }

    /// Hands a batch of raw messages to the task of the one sink behind the one queue, to be
    /// decoded and routed there. It is given back where that cannot be.
    pub(crate) async fn hand_over(&mut self, item: InFlight) -> Option<InFlight> {
        let [queue] = &mut self.queues[..] else { return Some(item) };
        let Some(routes) = self.routes.lend() else { return Some(item) };
        let refused = queue.send(Queued { item, form: Form::Raw(routes) }).await?;
        Some(refused.item)
    }

    /// How many batches wait behind the one queue; none where there are several, and while the
    /// routes are away.
    pub(crate) fn queued(&mut self) -> Option<usize> {
        self.routes.get()?;
        let [queue] = &self.queues[..] else { return None };
        Some(queue.len())
    }

    /// Whether the routes went with a batch that was handed over.
    pub(crate) fn is_away(&mut self) -> bool {
        self.routes.get().is_none()
    }

    /// Ready when the routes are here.
    pub(crate) fn poll_back(&mut self, context: &Context<'_>) -> Poll<()> {
        self.routes.poll_back(context)
    }

    /// What sending, and waiting for the routes, has taken since this was last asked.
    pub(crate) fn take_spent(&mut self) -> Spent {
        let turn = self.routes.take_waited();
        self.queues.iter_mut().map(Sender::take_spent).fold(
            Spent { turn, ..Spent::default() },
            |sum, spent| Spent {
                waiting: sum.waiting + spent.waiting,
                handing: sum.handing + spent.handing,
                found_idle: sum.found_idle | spent.found_idle,
                ..sum
            },
        )
    }

    /// When an operator wants to be told the time; unknown while the routes are away.
    pub(crate) fn due(&mut self) -> Option<Instant> {
        self.routes.get()?.due()
    }

    /// Whether it is time to tell an operator so.
    pub(crate) fn is_due(&mut self) -> bool {
        self.due().is_some_and(|due| due <= Instant::now())
    }

    /// Tells the time to the operators that wait for it, and routes what they emit.
    pub(crate) async fn tell_time(&mut self) {
        self.routes.back().await.tell_time();
        self.send().await;
    }

    /// The end: operators emit what they hold back, then queues that nobody else feeds end.
    pub(crate) async fn close(&mut self) {
        self.routes.back().await.drain();
        self.send().await;
        self.queues.clear();
    }

    async fn send(&mut self) {
        while let Some((queue, mut item)) = self.routes.get().and_then(Routes::next_outgoing) {
            let Some(queue) = self.queues.get_mut(queue) else { continue };
            let form = match &mut self.encoding {
                Some(encoding) => encoding.encode(&mut item.batch),
                None => Form::Values,
            };
            // A task that has failed takes nothing more: the events fail with it.
            if let Some(refused) = queue.send(Queued { item, form }).await {
                self.stats.failed(refused.events());
            }
        }
    }
}

impl Encoding {
    fn encode(&mut self, batch: &mut Batch) -> Form {
        let (encoded, rejected) = self.codec.encode_batch(batch, &self.pool, &self.suffix);
        Form::Encoded { encoded, rejected }
    }
}
