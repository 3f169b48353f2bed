//! The source side of a connector: pull, preprocess, decode, route; one batch at a time.

mod futile;
pub(crate) mod intake;
pub(crate) mod pace;
mod remainder;
mod retry;
pub(crate) mod settling;
pub(crate) mod shared_intake;
pub(crate) mod worker;

use std::{
    future::poll_fn,
    pin::pin,
    sync::Arc,
    task::{Context, Poll},
    time::{Duration, Instant},
};

use tremor_pdk::{Batch, Error, ErrorPolicy, Pull};

use crate::engine::{
    account::token::{Ended, Ledger},
    life::{
        backoff::{Attempts, Policy},
        breaker::{self, Breaker},
        connection::{Connection, End},
        control::{Control, Phase},
        gate::{self, Gate, Side},
        notices::Notices,
        series::Retried,
        standing::Standing,
        turn::Turn,
        wait::{Alarm, Cause, Interrupt},
    },
    route::router::{Egress, Ticket},
    source::{
        futile::Futile,
        intake::{Inlet, Intake, Pulled},
        settling::Settling,
        shared_intake::SharedIntake,
        worker::Worker,
    },
};
use crate::{dynamic::DynSource, executor, log, processor::Next, processor::StreamEnd};

/// When a pull follows one that time may mend.
const RETRY: Policy =
    Policy { attempts: None, first: Duration::from_millis(100), max: Duration::from_secs(30) };

/// What of a source outlives a connection.
pub(crate) struct SourceSide {
    pub(crate) inlet: Inlet,
    pub(crate) worker: Worker,
    /// Of tasks that may take batches through besides the source's own.
    pub(crate) helpers: Vec<Worker>,
    pub(crate) control: Arc<Control>,
    pub(crate) notices: Arc<Notices>,
    /// Open while a sink that it feeds is down.
    pub(crate) breaker: Arc<Breaker>,
    pub(crate) standing: Arc<Standing>,
}

/// What a source waits for.
enum Step {
    Pulled(Result<Pull, Error>),
    /// Another round of preprocessing is due.
    WentOn,
    /// The source cannot take an acknowledgement.
    Failed(Error),
    Draining,
    Broken,
    /// The source is held, or is not any more.
    Held(Held),
    /// The wait is over.
    Waited,
    /// An operator is to be told the time.
    Due,
    /// When that is has changed.
    Changed,
}

impl From<Cause> for Step {
    fn from(cause: Cause) -> Self {
        match cause {
            Cause::Phase => Self::Draining,
            Cause::Broken => Self::Broken,
        }
    }
}

/// Why a source is not pulled.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Held {
    /// A sink that it feeds is down.
    by_breaker: bool,
    /// Its connector is paused.
    by_gate: bool,
}

/// A source within one connection.
struct Session<'s> {
    worker: &'s mut Worker,
    helpers: Vec<executor::Task<Worker>>,
    /// Of those that have ended; a later connection needs them again.
    idle_helpers: Vec<Worker>,
    shared: Shared<'s>,
    /// Whether events came without end when the source was last polled.
    is_steady: bool,
    /// Pulls that are to be tried again, in a row.
    attempts: Attempts,
    /// Start of the running series of such pulls.
    failing_since: Option<Instant>,
    /// `true` if the source is known to be not pulled because of the limits of what it has in flight.
    is_bound: bool,
    /// Pulls without an event, in a row.
    futile: Futile,
    /// `true` if the last pull read something.
    brings: bool,
    /// Limits how long the task keeps its thread.
    turn: Turn,
    /// When the source was last polled.
    pulled_at: Instant,
    /// Time at which the last pull began. A pull that waits is polled again later.
    began_at: Instant,
}

/// What it goes by.
struct Shared<'s> {
    intake: Arc<SharedIntake>,
    egress: Arc<Egress>,
    control: &'s Control,
    standing: &'s Standing,
    notices: &'s Notices,
    others: Others<'s>,
}

/// What a source waits for besides events.
struct Others<'s> {
    ledger: Option<Arc<Ledger>>,
    interrupt: Interrupt<'s>,
    alarm: Alarm,
    /// As far as the source knows.
    held: Held,
    breaker: (&'s Breaker, breaker::Changes<'s>),
    gate: (&'s Gate, gate::Changes<'s>),
}

impl SourceSide {
    /// Has the source of one connection bring what it has. Where that is all there is, or all that is
    /// wanted, the source still has to hear what becomes of it.
    ///
    /// # Errors
    /// How the connection ended for this side before that.
    pub(crate) async fn bring(
        &mut self,
        source: Box<dyn DynSource>,
        connection: &Arc<Connection>,
    ) -> Result<Settling, End> {
        let processors = self.control.processors();
        let _working = processors.working();
        let intake = Intake::new(std::mem::take(&mut self.inlet), source, processors.clone());
        let (ledger, egress) = (intake.ledger.clone(), self.worker.router.egress.clone());
        let intake = intake.with_memory(self.control.memory().clone());
        let intake = Arc::new(SharedIntake::new(intake, processors.clone()));
        self.worker.router.connection = Some(connection.clone());
        let gate = &self.standing.gate;
        let held = Held { by_gate: gate.is_closed(), by_breaker: false };
        gate.set_rests(Side::Source, held.by_gate);
        let help = |mut worker: Worker| {
            worker.router.connection = Some(connection.clone());
            let turns = self.control.calls().watch(&worker.router.name, Some("helper"));
            log::spawn(turns.turns(intake.clone().help(worker)))
        };
        let helpers = self.helpers.drain(..).map(help).collect();
        let shared = Shared {
            intake: intake.clone(),
            egress,
            control: &self.control,
            standing: &self.standing,
            notices: &self.notices,
            others: Others {
                ledger: ledger.clone(),
                interrupt: Interrupt::new(&self.control, Phase::Draining, Some(connection)),
                alarm: Alarm::default(),
                held,
                breaker: (&self.breaker, self.breaker.changes()),
                gate: (gate, gate.changes()),
            },
        };
        let mut session = Session {
            worker: &mut self.worker,
            helpers,
            idle_helpers: Vec::new(),
            shared,
            is_steady: false,
            attempts: Attempts::new(RETRY),
            failing_since: None,
            is_bound: false,
            futile: Futile::default(),
            brings: false,
            turn: Turn::default(),
            pulled_at: Instant::now(),
            began_at: Instant::now(),
        };
        session.turn.begin(session.pulled_at);
        let end = session.run().await.unwrap_or_else(End::of);
        let end = if matches!(end, End::Finished) { end } else { session.breaks_off(end).await };
        if session.is_bound {
            self.standing.set_bound(None);
        }
        self.helpers = session.idle_helpers;
        let has_brought = {
            let mut intake = intake.lock().await;
            self.inlet = std::mem::take(&mut intake.inlet);
            intake.pulls() > 0
        };
        if has_brought {
            connection.event_passed();
        }
        match end {
            End::Finished => Ok(Settling { intake, ledger, control: self.control.clone() }),
            end => Err(end),
        }
    }
}

impl Session<'_> {
    async fn run(&mut self) -> Result<End, Error> {
        loop {
            if self.shared.egress.is_due() {
                // A source that always has something would leave no other time for it.
                self.tell_time().await?;
            }
            let (step, pulled) = self.next(self.worker.batch(), None).await;
            if let Next::Piece((pulled, ticket)) = pulled
                && self.take_through(pulled, ticket).await?
            {
                // The task that was woken runs sooner here than on a processor that is to be woken as well.
                executor::yield_now().await;
            }
            if self.brings && self.futile.end(&self.worker.router.name) {
                self.shared.standing.recover(Retried::Pull);
            }
            match step {
                Step::Pulled(Ok(Pull::Events)) if self.brings => {
                    self.recover();
                    self.let_others_work().await;
                }
                Step::Pulled(Ok(Pull::Events)) => {
                    self.recover();
                    let took = self.began_at.elapsed();
                    let wait =
                        self.futile.add(&self.worker.router.name, "`Pull::Events`, no event", took);
                    if let Some(end) = self.slow_down(wait).await? {
                        return Ok(end);
                    }
                }
                // Each round is as much work as a poll may do.
                Step::WentOn => executor::yield_now().await,
                Step::Pulled(Ok(Pull::Idle(mut wait))) => {
                    self.recover_after_idle(wait);
                    if wait.is_zero() && !self.brings {
                        let took = self.began_at.elapsed();
                        let slowed =
                            self.futile.add(&self.worker.router.name, "`Pull::Idle` of zero", took);
                        wait = slowed.unwrap_or_default();
                    }
                    if let Some(end) = self.idle(wait).await? {
                        return Ok(end);
                    }
                }
                Step::Pulled(Ok(Pull::Finished)) => {
                    self.recover();
                    return self.finish(StreamEnd::Complete).await;
                }
                Step::Draining => return self.finish(StreamEnd::Aborted).await,
                Step::Pulled(Err(error)) if error.policy() == ErrorPolicy::DEAD_LETTER => {
                    let wait = self.futile.fail(&self.worker.router.name, &error);
                    match wait {
                        // A few bad messages in a row are skipped without a retry.
                        None => self.shared.standing.note(&error),
                        Some(wait) => self.shared.standing.retry(Retried::Pull, &error, wait),
                    }
                    if let Some(end) = self.slow_down(wait).await? {
                        return Ok(end);
                    }
                }
                Step::Pulled(Err(error)) if error.policy() == ErrorPolicy::RETRY => {
                    if let Some(end) = self.retry(&error).await? {
                        return Ok(end);
                    }
                }
                Step::Pulled(Err(error)) | Step::Failed(error) => return Err(error),
                Step::Broken => return Ok(End::Interrupted),
                Step::Held(held) => self.hold(held).await?,
                Step::Due => self.tell_time().await?,
                Step::Waited | Step::Changed => {}
            }
        }
    }

    /// The source is not pulled from now on, or it is again.
    async fn hold(&mut self, held: Held) -> Result<(), Error> {
        let others = &mut self.shared.others;
        let before = std::mem::replace(&mut others.held, held);
        let mut intake = self.shared.intake.lock().await;
        intake.pauses();
        others.gate.0.set_rests(Side::Source, held.by_gate);
        if before.by_breaker == held.by_breaker {
            return Ok(());
        }
        intake.on_circuit_breaker(held.by_breaker)
    }

    /// After a pull: another may follow at once.
    async fn let_others_work(&mut self) {
        if self.is_steady {
            self.shared.intake.offer();
        }
        // Where there are more tasks than processors, one of them may wait for this.
        if self.turn.is_over(self.pulled_at) || !self.shared.control.processors().are_roomy() {
            self.turn.begin(self.pulled_at);
            executor::yield_now().await;
        }
    }

    /// Polls the source, then whatever else may interest it; with a deadline, waits for that
    /// instead of pulling. Of pulls that end meanwhile the source hears at once.
    async fn next(
        &mut self,
        mut batch: Batch,
        until: Option<Instant>,
    ) -> (Step, Next<(Pulled, Ticket)>) {
        let Self { shared, is_steady, is_bound, pulled_at, began_at, turn, brings, .. } = self;
        *brings = false;
        let Shared { intake, egress, others, standing, .. } = shared;
        let due = egress.due();
        let mut waited = false;
        poll_fn(|context| {
            let Poll::Ready(mut intake) = intake.poll_lock(context) else {
                return Poll::Pending;
            };
            if !waited && intake.has_round() && others.may_go_on() {
                *pulled_at = intake.begin_round();
                return Poll::Ready((Step::WentOn, intake.next(egress)));
            }
            let mut was_polled = until.is_some();
            let step = loop {
                if let Some(cause) = others.interrupt.now() {
                    break cause.into();
                }
                let held = others.holds();
                if held != others.held {
                    break Step::Held(held);
                }
                let may_pull = held == Held::default() && intake.may_pull_now(context);
                let reaches_bound = !may_pull && !intake.may_pull();
                if reaches_bound != *is_bound {
                    *is_bound = reaches_bound;
                    standing.set_bound(reaches_bound.then(|| intake.most_in_flight()));
                }
                if !was_polled && (waited || may_pull) {
                    *pulled_at = Instant::now();
                    if !waited {
                        *began_at = *pulled_at;
                    }
                    let pulls = intake.pulls();
                    if let Poll::Ready(result) = intake.poll_pull(context, &mut batch, waited) {
                        *brings = intake.pulls() > pulls;
                        if waited {
                            turn.begin(*pulled_at);
                        }
                        *is_steady = intake.is_steady();
                        return Poll::Ready((Step::Pulled(result), intake.next(egress)));
                    }
                    (waited, was_polled) = (true, true);
                }
                // Nothing is preprocessed during a pause.
                let timed = intake.due().filter(|_| !held.by_gate);
                let times: [(_, fn() -> Step); 3] =
                    [(until, || Step::Waited), (due, || Step::Due), (timed, || Step::WentOn)];
                if let Poll::Ready(step) = others.alarm.poll(context, times) {
                    break step();
                }
                if egress.poll_due(context, due).is_ready() {
                    break Step::Changed;
                }
                if let Poll::Ready(cause) = others.interrupt.poll(context) {
                    break cause.into();
                }
                if others.poll_held(context).is_ready() {
                    continue;
                }
                let Poll::Ready(ended) = others.poll_ended(context) else { return Poll::Pending };
                if let Err(error) = intake.acknowledge(ended) {
                    break Step::Failed(error);
                }
            };
            // It is no pull: one that is pending is given up.
            intake.give_up(&mut batch);
            Poll::Ready((step, intake.next(egress)))
        })
        .await
    }

    /// Takes what was pulled into queues. Whether that woke a task that was parked.
    async fn take_through(&mut self, pulled: Pulled, ticket: Ticket) -> Result<bool, Error> {
        let Self { shared, worker, pulled_at, .. } = self;
        shared.sending(worker.take_through(pulled, ticket, *pulled_at)).await
    }

    async fn tell_time(&mut self) -> Result<(), Error> {
        self.shared.sending(self.worker.router.tell_time()).await
    }
}

impl Shared<'_> {
    /// Between two rounds of work while the source is not pulled: reports to its connector whether it is
    /// paused.
    async fn report_rest(&mut self) {
        poll_fn(|context| {
            let Poll::Ready(mut intake) = self.intake.poll_lock(context) else {
                return Poll::Pending;
            };
            if self.others.rests_at_gate(context) {
                intake.pauses();
            }
            Poll::Ready(())
        })
        .await;
    }

    /// Sends something to queues. While that waits for room, the source hears of what has ended, and its
    /// connector of a pause.
    async fn sending<T>(&mut self, work: impl Future<Output = T>) -> Result<T, Error> {
        let mut work = pin!(work);
        // What the source cannot be told does not keep what it has brought from its way.
        let mut told = Ok(());
        loop {
            let ended = poll_fn(|context| match work.as_mut().poll(context) {
                Poll::Ready(done) => Poll::Ready(Err(done)),
                Poll::Pending => {
                    // With the intake, so that no helper pulls meanwhile.
                    if let Poll::Ready(mut intake) = self.intake.poll_lock(context)
                        && self.others.rests_at_gate(context)
                    {
                        intake.pauses();
                    }
                    self.others.poll_ended(context).map(Ok)
                }
            });
            match ended.await {
                Ok(ended) => told = told.and(self.intake.lock().await.acknowledge(ended)),
                Err(done) => return told.map(|()| done),
            }
        }
    }
}

impl Others<'_> {
    /// Whether the source is to be held now.
    fn holds(&self) -> Held {
        Held { by_breaker: self.breaker.0.is_open(), by_gate: self.gate.0.is_closed() }
    }

    /// Returns whether what was pulled is preprocessed further: not while the connector is paused, or
    /// once the source is to end.
    fn may_go_on(&self) -> bool {
        self.interrupt.now().is_none() && !self.gate.0.is_closed()
    }

    /// While the source is not called: what its connector has to know where it is paused. Whether it is.
    fn rests_at_gate(&mut self, context: &Context<'_>) -> bool {
        while self.gate.1.poll(context, self.held.by_gate).is_ready() {
            self.held.by_gate = !self.held.by_gate;
            self.gate.0.set_rests(Side::Source, self.held.by_gate);
        }
        self.held.by_gate
    }

    /// Ready when that has changed.
    fn poll_held(&mut self, context: &Context<'_>) -> Poll<()> {
        let Held { by_breaker, by_gate } = self.held;
        if self.breaker.1.poll(context, by_breaker).is_ready() {
            return Poll::Ready(());
        }
        self.gate.1.poll(context, by_gate)
    }

    fn poll_ended(&self, context: &Context<'_>) -> Poll<Vec<Ended>> {
        match &self.ledger {
            Some(ledger) => ledger.poll_ended(context),
            None => Poll::Pending,
        }
    }
}
