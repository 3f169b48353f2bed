//! The source side of a connector: pull, preprocess, decode, route; one batch at a time.

use std::{
    future::poll_fn,
    sync::Arc,
    task::{Context, Poll},
    time::{Duration, Instant},
};

use tremor_pdk::{Batch, Error, ErrorKind, Pull, dynamic::DynSource};

use super::{
    connection::{Connection, End},
    control::{Control, Phase},
    delivery::{Ended, Ledger},
    intake::{Inlet, Intake, Pulled},
    lane::Lane,
    router::{Ticket, Way},
    spin::{self, Working},
    worker::Worker,
};
use crate::executor;

/// How long a source that always has something goes on before other tasks get their turn. Each time
/// costs a wake-up of a thread, if there is one that sleeps.
const TURN: Duration = Duration::from_millis(1);

/// A source that wants to be idle for longer is pulled again by then: clocks end somewhere.
const LONGEST_IDLE: Duration = Duration::from_secs(365 * 24 * 60 * 60);

/// What of a source outlives a connection.
pub(crate) struct SourceSide {
    pub(crate) inlet: Inlet,
    pub(crate) worker: Worker,
    /// Of tasks that may take batches through besides the source's own.
    pub(crate) helpers: Vec<Worker>,
    pub(crate) control: Arc<Control>,
}

/// What a source waits for.
enum Step {
    Pulled(Result<Pull, Error>),
    Ended(Vec<Ended>),
    Draining,
    Broken,
    /// The wait is over.
    Waited,
    /// An operator is to be told the time.
    Due,
    /// When that is has changed.
    Changed,
}

/// A source within one connection.
struct Session<'s> {
    worker: &'s mut Worker,
    helpers: Vec<executor::Task<Worker>>,
    /// Of those that have ended; a later connection needs them again.
    idle_helpers: Vec<Worker>,
    around: Around<'s>,
    /// When other tasks last had their turn.
    yielded_at: Instant,
    /// When the source was last polled.
    pulled_at: Instant,
}

/// What it goes by.
struct Around<'s> {
    lane: Arc<Lane>,
    way: Arc<Way>,
    control: &'s Control,
    connection: &'s Connection,
    ledger: Option<Arc<Ledger>>,
}

impl SourceSide {
    /// Runs the source of one connection to its end.
    pub(crate) async fn run(
        &mut self,
        source: Box<dyn DynSource>,
        connection: &Arc<Connection>,
    ) -> End {
        let _working = Working::enter();
        let intake = Intake::new(std::mem::take(&mut self.inlet), source);
        let (ledger, way) = (intake.ledger.clone(), self.worker.router.way.clone());
        let lane = Arc::new(Lane::new(intake));
        self.worker.router.connection = Some(connection.clone());
        let help = |mut worker: Worker| {
            worker.router.connection = Some(connection.clone());
            let name = format!("{}:source:helper", worker.router.name);
            executor::spawn(name, lane.clone().help(worker))
        };
        let helpers = self.helpers.drain(..).map(help).collect();
        let mut session = Session {
            worker: &mut self.worker,
            helpers,
            idle_helpers: Vec::new(),
            around: Around { lane: lane.clone(), way, control: &self.control, connection, ledger },
            yielded_at: Instant::now(),
            pulled_at: Instant::now(),
        };
        let result = session.run().await;
        session.helpers_end().await;
        self.helpers = session.idle_helpers;
        self.inlet = std::mem::take(&mut lane.intake().inlet);
        result.unwrap_or_else(End::of)
    }
}

impl Session<'_> {
    async fn run(&mut self) -> Result<End, Error> {
        loop {
            if self.around.way.is_due() {
                // A source that always has something would leave no other time for it.
                self.worker.router.tell_time().await;
            }
            let (step, pulled) = self.next(self.worker.batch(), None).await;
            if let Some((pulled, ticket)) = pulled
                && self.worker.take_through(pulled, ticket, self.pulled_at).await
            {
                // Who was woken is sooner here than on a processor that is to be woken as well.
                executor::yield_now().await;
            }
            match step {
                Step::Pulled(Ok(Pull::Events)) => self.let_others_work().await,
                Step::Pulled(Ok(Pull::Idle(wait))) => {
                    if let Some(end) = self.idle(wait).await? {
                        return Ok(end);
                    }
                }
                Step::Pulled(Ok(Pull::Finished)) => {
                    self.flush().await;
                    self.around.lane.intake().settle_carried();
                    return self.finish().await;
                }
                Step::Draining => return self.finish().await,
                Step::Pulled(Err(error)) if error.kind() == ErrorKind::BAD_DATA => {
                    let router = &self.worker.router;
                    tracing::warn!(component = %router.name, %error, "bad data");
                    router.stats.failed(1);
                }
                Step::Pulled(Err(error)) => return Err(error),
                Step::Ended(ended) => self.around.lane.intake().acknowledge(ended)?,
                Step::Broken => return Ok(End::Interrupted),
                Step::Due => self.worker.router.tell_time().await,
                Step::Waited | Step::Changed => {}
            }
        }
    }

    /// After a pull: another may follow at once.
    async fn let_others_work(&mut self) {
        if self.around.lane.intake().is_steady() {
            self.around.lane.offer();
        }
        // Where there are more tasks than processors, one of them may wait for this.
        if self.pulled_at.saturating_duration_since(self.yielded_at) >= TURN || !spin::is_roomy() {
            self.yielded_at = self.pulled_at;
            executor::yield_now().await;
        }
    }

    /// Polls the source, then whatever else may interest it; with a deadline, waits for that
    /// instead of pulling.
    async fn next(
        &mut self,
        mut batch: Batch,
        until: Option<Instant>,
    ) -> (Step, Option<(Pulled, Ticket)>) {
        let Self { around, pulled_at, yielded_at, .. } = self;
        let due = around.way.due();
        let first = [until, due].into_iter().flatten().min();
        let timer = executor::sleep_until(first.unwrap_or_else(Instant::now));
        let mut timer = std::pin::pin!(timer);
        let mut waited = false;
        poll_fn(|context| {
            if around.control.has_reached(Phase::Draining) {
                return Poll::Ready(around.gives_up(Step::Draining, &mut batch));
            }
            if around.connection.is_broken() {
                return Poll::Ready(around.gives_up(Step::Broken, &mut batch));
            }
            if until.is_none() {
                *pulled_at = Instant::now();
                let mut intake = around.lane.intake();
                if let Poll::Ready(result) = intake.poll_pull(context, &mut batch, waited) {
                    if waited {
                        *yielded_at = *pulled_at;
                    }
                    return Poll::Ready((
                        Step::Pulled(result),
                        intake.take(&mut batch, &around.way),
                    ));
                }
                waited = true;
            }
            let other = if first.is_some() && timer.as_mut().poll(context).is_ready() {
                Poll::Ready(if first == until { Step::Waited } else { Step::Due })
            } else if around.way.poll_due(context, due).is_ready() {
                Poll::Ready(Step::Changed)
            } else {
                around.poll(context)
            };
            other.map(|step| around.gives_up(step, &mut batch))
        })
        .await
    }

    /// Waits until the next pull is due. The end, where the source is to end meanwhile.
    async fn idle(&mut self, wait: Duration) -> Result<Option<End>, Error> {
        let until = Instant::now() + wait.min(LONGEST_IDLE);
        if spin::until(until) {
            return Ok(None);
        }
        loop {
            match self.next(Batch::new(), Some(until)).await.0 {
                Step::Ended(ended) => self.around.lane.intake().acknowledge(ended)?,
                Step::Broken => return Ok(Some(End::Interrupted)),
                Step::Draining => return self.finish().await.map(Some),
                Step::Due => self.worker.router.tell_time().await,
                Step::Changed => {}
                Step::Waited | Step::Pulled(_) => return Ok(None),
            }
        }
    }

    /// All streams have ended: what preprocessors held back goes out.
    async fn flush(&mut self) {
        for position in 0.. {
            let Around { lane, way, .. } = &self.around;
            if position >= lane.intake().inlet.preprocessors.len() {
                break;
            }
            let pulled = lane.intake().flush(position, way);
            if let Some((pulled, ticket)) = pulled {
                _ = self.worker.take_through(pulled, ticket, Instant::now()).await;
            }
        }
    }

    /// Nothing more is pulled; the source hears of everything that is still under way.
    async fn finish(&mut self) -> Result<End, Error> {
        self.helpers_end().await;
        self.worker.router.close().await;
        self.around.lane.intake().drop_carried();
        while self.around.lane.intake().outstanding > 0 {
            let ended = poll_fn(|context| {
                if self.around.control.poll_phase(context, Phase::Stopped).is_ready() {
                    return Poll::Ready(None);
                }
                match &self.around.ledger {
                    Some(ledger) => ledger.poll_ended(context).map(Some),
                    None => Poll::Ready(None),
                }
            });
            match ended.await {
                Some(ended) => self.around.lane.intake().acknowledge(ended)?,
                None => break,
            }
        }
        Ok(End::Finished)
    }

    /// Waits until nobody helps any more.
    async fn helpers_end(&mut self) {
        self.around.lane.end();
        for helper in self.helpers.drain(..) {
            self.idle_helpers.push(helper.await);
        }
    }
}

impl Around<'_> {
    /// A step that is no pull: one that is pending is given up.
    fn gives_up(&self, step: Step, batch: &mut Batch) -> (Step, Option<(Pulled, Ticket)>) {
        let mut intake = self.lane.intake();
        intake.give_up(batch);
        (step, intake.take(batch, &self.way))
    }

    fn poll(&self, context: &Context<'_>) -> Poll<Step> {
        if self.control.poll_phase(context, Phase::Draining).is_ready() {
            return Poll::Ready(Step::Draining);
        }
        if self.connection.poll_broken(context).is_ready() {
            return Poll::Ready(Step::Broken);
        }
        match &self.ledger {
            Some(ledger) => ledger.poll_ended(context).map(Step::Ended),
            None => Poll::Pending,
        }
    }
}
