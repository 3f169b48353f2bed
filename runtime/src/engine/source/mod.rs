//! The source side of a connector: pull, preprocess, decode, route; one batch at a time.

mod conditions;
mod futile;
pub(crate) mod intake;
pub(crate) mod pace;
pub(crate) mod preprocessors;
mod remainder;
mod retry;
pub(crate) mod settling;
pub(crate) mod shared_intake;
pub(crate) mod worker;

use std::{
    future::poll_fn,
    pin::pin,
    sync::Arc,
    task::Poll,
    time::{Duration, Instant},
};

use tremor_pdk::{Batch, Error, ErrorPolicy, Pull};

use crate::engine::{
    control::{
        Control, Phase,
        interrupt::{Cause, Interrupt},
    },
    handle::{
        ConnectorHandle,
        connection::{Connection, End},
        gate::Side,
        series::Retried,
    },
    logging::notices::Notices,
    retry::{
        backoff::{Attempts, Policy},
        breaker::Breaker,
    },
    route::router::{Egress, Ticket},
    source::{
        conditions::{Held, WaitConditions},
        futile::Futile,
        intake::{Inlet, Intake},
        preprocessors::{Next, Preprocessed, StreamEnd},
        settling::Settling,
        shared_intake::SharedIntake,
        worker::Worker,
    },
    sync::{alarm::Alarm, turn::Turn},
};
use crate::{dynamic::DynSource, executor, log};

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
    pub(crate) handle: Arc<ConnectorHandle>,
}

/// What a source waits for.
enum Step {
    /// A pull has ended, with a round of preprocessing of what it read.
    Pulled(Result<Pull, Error>, Round),
    /// Another round of preprocessing was due, or a pull was given up that had read something: the reason is found again.
    WentOn(Round),
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

/// Output of a round of preprocessing, with its ticket.
type Round = Next<(Preprocessed, Ticket)>;

impl From<Cause> for Step {
    fn from(cause: Cause) -> Self {
        match cause {
            Cause::Phase => Self::Draining,
            Cause::Broken => Self::Broken,
        }
    }
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

/// State that the session shares with helper tasks and the connector.
struct Shared<'s> {
    intake: Arc<SharedIntake>,
    egress: Arc<Egress>,
    control: &'s Control,
    handle: &'s ConnectorHandle,
    notices: &'s Notices,
    conditions: WaitConditions<'s>,
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
        let gate = &self.handle.gate;
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
            handle: &self.handle,
            notices: &self.notices,
            conditions: WaitConditions {
                ledger: ledger.clone(),
                interrupt: Interrupt::new(&self.control, Phase::Draining, Some(connection)),
                alarm: Alarm::default(),
                held,
                breaker: &self.breaker,
                breaker_changes: self.breaker.changes(),
                gate,
                gate_changes: gate.changes(),
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
            self.handle.set_bound(None);
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
            match self.next(self.worker.batch(), None).await {
                Step::Pulled(result, round) => {
                    if self.take_through(round).await? {
                        // The task that was woken runs sooner here than on a processor that is to be woken as well.
                        executor::yield_now().await;
                    }
                    if let Some(end) = self.pulled(result).await? {
                        return Ok(end);
                    }
                }
                Step::WentOn(round) => {
                    self.take_through(round).await?;
                    // Each round is as much work as a poll may do.
                    executor::yield_now().await;
                }
                Step::Draining => return self.finish(StreamEnd::Aborted).await,
                Step::Failed(error) => return Err(error),
                Step::Broken => return Ok(End::Interrupted),
                Step::Held(held) => self.hold(held).await?,
                Step::Due => self.tell_time().await?,
                Step::Waited | Step::Changed => {}
            }
        }
    }

    /// Continues after a pull as its result asks for. Returns the end of the connection if that has come.
    async fn pulled(&mut self, result: Result<Pull, Error>) -> Result<Option<End>, Error> {
        let name = &self.worker.router.name;
        if self.brings && self.futile.end(name) {
            self.shared.handle.recover(Retried::Pull);
        }
        match result {
            Ok(Pull::Events) if self.brings => {
                self.recover();
                self.let_others_work().await;
                Ok(None)
            }
            Ok(Pull::Events) => {
                let took = self.began_at.elapsed();
                let wait = self.futile.add(name, "`Pull::Events`, no event", took);
                self.recover();
                self.slow_down(wait).await
            }
            Ok(Pull::Idle(wait)) if wait.is_zero() && !self.brings => {
                let took = self.began_at.elapsed();
                let slowed = self.futile.add(name, "`Pull::Idle` of zero", took);
                self.recover_after_idle(wait);
                self.idle(slowed.unwrap_or_default()).await
            }
            Ok(Pull::Idle(wait)) => {
                self.recover_after_idle(wait);
                self.idle(wait).await
            }
            Ok(Pull::Finished) => {
                self.recover();
                self.finish(StreamEnd::Complete).await.map(Some)
            }
            Err(error) if error.policy() == ErrorPolicy::DEAD_LETTER => {
                let wait = self.futile.fail(name, &error);
                match wait {
                    // A few bad messages in a row are skipped without a retry.
                    None => self.shared.handle.note(&error),
                    Some(wait) => self.shared.handle.retry(Retried::Pull, &error, wait),
                }
                self.slow_down(wait).await
            }
            Err(error) if error.policy() == ErrorPolicy::RETRY => self.retry(&error).await,
            Err(error) => Err(error),
        }
    }

    /// The source is not pulled from now on, or it is again.
    async fn hold(&mut self, held: Held) -> Result<(), Error> {
        let conditions = &mut self.shared.conditions;
        let before = std::mem::replace(&mut conditions.held, held);
        let mut intake = self.shared.intake.lock().await;
        intake.pauses();
        conditions.gate.set_rests(Side::Source, held.by_gate);
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
    async fn next(&mut self, mut batch: Batch, until: Option<Instant>) -> Step {
        let Self { shared, is_steady, is_bound, pulled_at, began_at, turn, brings, .. } = self;
        *brings = false;
        let Shared { intake, egress, conditions, handle, .. } = shared;
        let due = egress.due();
        let mut waited = false;
        poll_fn(|context| {
            let Poll::Ready(mut intake) = intake.poll_lock(context) else {
                return Poll::Pending;
            };
            if !waited && intake.has_round() && conditions.may_go_on() {
                *pulled_at = intake.begin_round();
                return Poll::Ready(Step::WentOn(intake.next(egress)));
            }
            let mut was_polled = until.is_some();
            let step = loop {
                if let Some(cause) = conditions.interrupt.now() {
                    break cause.into();
                }
                let held = conditions.holds();
                if held != conditions.held {
                    break Step::Held(held);
                }
                let may_pull = held == Held::default() && intake.may_pull_now(context);
                let reaches_bound = !may_pull && !intake.may_pull();
                if reaches_bound != *is_bound {
                    *is_bound = reaches_bound;
                    handle.set_bound(reaches_bound.then(|| intake.most_in_flight()));
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
                        return Poll::Ready(Step::Pulled(result, intake.next(egress)));
                    }
                    (waited, was_polled) = (true, true);
                }
                // Nothing is preprocessed during a pause.
                let timed = intake.due().filter(|_| !held.by_gate);
                let times: [(_, fn() -> Step); 3] = [
                    (until, || Step::Waited),
                    (due, || Step::Due),
                    (timed, || Step::WentOn(Next::Nothing)),
                ];
                if let Poll::Ready(step) = conditions.alarm.poll(context, times) {
                    break step();
                }
                if egress.poll_due(context, due).is_ready() {
                    break Step::Changed;
                }
                if let Poll::Ready(cause) = conditions.interrupt.poll(context) {
                    break cause.into();
                }
                if conditions.poll_held(context).is_ready() {
                    continue;
                }
                let Poll::Ready(ended) = conditions.poll_ended(context) else {
                    return Poll::Pending;
                };
                if let Err(error) = intake.acknowledge(ended) {
                    break Step::Failed(error);
                }
            };
            // It is no pull: one that is pending is given up.
            let pulls = intake.pulls();
            intake.give_up(&mut batch);
            let has_read = intake.pulls() > pulls && !matches!(step, Step::Failed(_));
            Poll::Ready(if has_read { Step::WentOn(intake.next(egress)) } else { step })
        })
        .await
    }

    /// Takes the output of a round into queues. Whether that woke a task that was parked.
    async fn take_through(&mut self, round: Round) -> Result<bool, Error> {
        let Next::Piece((pulled, ticket)) = round else { return Ok(false) };
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
            if self.conditions.rests_at_gate(context) {
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
                        && self.conditions.rests_at_gate(context)
                    {
                        intake.pauses();
                    }
                    self.conditions.poll_ended(context).map(Ok)
                }
            });
            match ended.await {
                Ok(ended) => told = told.and(self.intake.lock().await.acknowledge(ended)),
                Err(done) => return told.map(|()| done),
            }
        }
    }
}
