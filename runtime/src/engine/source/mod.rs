//! The source side of a connector: pulls, preprocesses, decodes and routes, one batch at a time.

pub(crate) mod batch_sizer;
mod conditions;
mod futile;
pub(crate) mod intake;
pub(crate) mod outstanding;
pub(crate) mod parts;
pub(crate) mod preprocessors;
mod remainder;
mod retry;
mod sending;
pub(crate) mod shared_intake;
pub(crate) mod worker;

use std::{
    future::poll_fn,
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
        status::Bound,
    },
    logging::notices::Notices,
    retry::{
        backoff::{Attempts, Policy},
        breaker::Breaker,
    },
    route::router::{Egress, Ticket},
    source::{
        conditions::{Suspension, WaitConditions},
        futile::Futile,
        intake::{Intake, IntakeState},
        outstanding::OutstandingAcks,
        preprocessors::{Next, Preprocessed, StreamEnd},
        shared_intake::SharedIntake,
        worker::Worker,
    },
    sync::turn::Turn,
    tuning::RELIEF,
};
use crate::{dynamic::DynSource, executor, log};

/// Waits before failed pulls are retried. A pull is retried only if its error permits it.
const RETRY: Policy =
    Policy { attempts: None, first: Duration::from_millis(100), max: Duration::from_secs(30) };

/// State of a source that is kept across connections.
pub(crate) struct SourceSide {
    pub(crate) intake: IntakeState,
    pub(crate) worker: Worker,
    /// Workers of the helper tasks, which process batches in parallel with the source's own task.
    pub(crate) helpers: Vec<Worker>,
    /// `false` if the source is pulled even if the flow may not borrow memory, because its events are accepted already.
    pub(crate) waits_for_memory: bool,
    pub(crate) control: Arc<Control>,
    pub(crate) notices: Arc<Notices>,
    /// Circuit breaker, which is open while a sink that the source feeds is down.
    pub(crate) breaker: Arc<Breaker>,
    pub(crate) handle: Arc<ConnectorHandle>,
}

/// Reason why [`Session::next`] returns.
enum Step {
    /// A pull has ended. The second value is the first round of preprocessing after the pull.
    Pulled(Result<Pull, Error>, Round),
    /// A round of preprocessing was done, but no pull has ended: the round was due, or a pending pull that had already
    /// read something was canceled. The condition that canceled the pull still applies, so the next step reports it.
    Round(Round),
    /// The source returned an error for an acknowledgement.
    Failed(Error),
    /// The flow is draining, so the source ends.
    Draining,
    /// The connection was lost.
    Broken,
    /// The reasons why the source is not pulled have changed. The value contains the new ones.
    Suspended(Suspension),
    /// The deadline of the wait has passed.
    Elapsed,
    /// The timer of an operator has become due.
    Due,
    /// The time of the next operator timer has changed.
    DueChanged,
    /// The source waits for memory or acknowledgements, and queues may have batches that they can give up.
    Relief,
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
    /// Workers of helper tasks that have ended. Later connections reuse them.
    idle_helpers: Vec<Worker>,
    shared: Shared<'s>,
    /// `true` if the source was in its [steady state](Intake::is_steady) when it was last polled.
    is_steady: bool,
    /// Consecutive failed pulls that are retried.
    attempts: Attempts,
    /// Start of the current series of failed pulls.
    failing_since: Option<Instant>,
    /// Reason why the source is not pulled, as the handle of the connector shows it.
    bound: Option<Bound>,
    /// Time from which queues may give up batches again because the source waits. `None` if they may at once.
    relief_at: Option<Instant>,
    /// Consecutive pulls without an event.
    futile: Futile,
    /// `true` if the last pull read something.
    has_read: bool,
    /// Time slice after which the task yields its thread.
    turn: Turn,
    /// Time at which the source was last polled, or at which the last due round of preprocessing began.
    pulled_at: Instant,
    /// Time at which the last pull was polled for the first time.
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
    /// Pulls from the source until it finishes, drains or loses its connection.
    ///
    /// On success the caller still has to run the returned [`OutstandingAcks`], which reports to the source how its
    /// remaining pulls ended.
    ///
    /// # Errors
    /// Returns how the connection ended if that happened before the source finished or drained.
    pub(crate) async fn pull_until_end(
        &mut self,
        source: Box<dyn DynSource>,
        connection: &Arc<Connection>,
    ) -> Result<OutstandingAcks, End> {
        let (processors, clock) = (self.control.processors(), self.control.clock());
        let _working = processors.working();
        let intake = Intake::new(
            std::mem::take(&mut self.intake),
            source,
            processors.clone(),
            clock.clone(),
        );
        let (ledger, egress) = (intake.ledger.clone(), self.worker.router.egress.clone());
        if let Some(ledger) = &ledger {
            // The value is the same for each connection.
            _ = self.worker.router.stats.replays_failed.set(!ledger.is_final);
        }
        let intake = if self.waits_for_memory {
            intake.with_memory(self.control.memory().clone())
        } else {
            intake
        };
        let intake = Arc::new(SharedIntake::new(intake, processors.clone(), clock.clone()));
        self.worker.router.connection = Some(connection.clone());
        let gate = &self.handle.gate;
        let suspension = Suspension { by_gate: gate.is_closed(), by_breaker: false };
        gate.set_idle(Side::Source, suspension.by_gate);
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
                alarm: clock.alarm(),
                suspension,
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
            bound: None,
            relief_at: None,
            futile: Futile::default(),
            has_read: false,
            turn: Turn::default(),
            pulled_at: clock.now(),
            began_at: clock.now(),
        };
        session.turn.begin(session.pulled_at);
        let end = session.run().await.unwrap_or_else(End::of);
        let end = if matches!(end, End::Finished) { end } else { session.break_off(end).await };
        if session.bound.is_some() {
            self.handle.set_bound(None);
        }
        self.helpers = session.idle_helpers;
        let has_pulled = {
            let mut intake = intake.lock().await;
            self.intake = std::mem::take(&mut intake.state);
            intake.pulls() > 0
        };
        if has_pulled {
            connection.event_passed();
        }
        match end {
            End::Finished => {
                ledger.iter().for_each(|ledger| ledger.finish());
                Ok(OutstandingAcks { intake, ledger, control: self.control.clone() })
            }
            end => Err(end),
        }
    }
}

impl Session<'_> {
    async fn run(&mut self) -> Result<End, Error> {
        loop {
            if self.shared.egress.is_due() {
                // A source that always has data never waits in `next`, so operator timers are checked here too.
                self.run_timers().await?;
            }
            match self.next(self.worker.batch(), None).await {
                Step::Pulled(result, round) => {
                    if self.process_round(round).await? {
                        // After the yield, this thread runs the woken task. Another thread would have to be woken
                        // first.
                        executor::yield_now().await;
                    }
                    if let Some(end) = self.pulled(result).await? {
                        return Ok(end);
                    }
                }
                Step::Round(round) => {
                    self.process_round(round).await?;
                    // A poll of the task should do the work of one round at most.
                    executor::yield_now().await;
                }
                Step::Draining => return self.finish(StreamEnd::Aborted).await,
                Step::Failed(error) => return Err(error),
                Step::Broken => return Ok(End::Interrupted),
                Step::Suspended(suspension) => self.suspend(suspension).await?,
                Step::Due => self.run_timers().await?,
                Step::Relief => self.relieve().await?,
                Step::Elapsed | Step::DueChanged => {}
            }
        }
    }

    /// Handles the result of a pull. Returns the end of the connection if the source has finished.
    async fn pulled(&mut self, result: Result<Pull, Error>) -> Result<Option<End>, Error> {
        let name = &self.worker.router.name;
        if self.has_read && self.futile.end(name) {
            self.shared.handle.recover(Retried::Pull);
        }
        match result {
            Ok(Pull::Events) if self.has_read => {
                self.recover();
                self.let_others_work().await;
                Ok(None)
            }
            Ok(Pull::Events) => {
                let took = self.shared.control.clock().elapsed(self.began_at);
                let wait = self.futile.add(name, "`Pull::Events` without an event", took);
                self.recover();
                self.slow_down(wait).await
            }
            Ok(Pull::Idle(wait)) if wait.is_zero() && !self.has_read => {
                let took = self.shared.control.clock().elapsed(self.began_at);
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
                let wait = self.futile.fail(name, &error, self.shared.control.clock().now());
                match wait {
                    // A few invalid messages in a row are skipped without a wait.
                    None => self.shared.handle.note(&error),
                    Some(wait) => self.shared.handle.retry(Retried::Pull, &error, wait),
                }
                self.slow_down(wait).await
            }
            Err(error) if error.policy() == ErrorPolicy::RETRY => self.retry(&error).await,
            Err(error) => Err(error),
        }
    }

    /// Applies a change of the reasons why the source is not pulled: notifies the gate of a pause, and the source of a
    /// change of the circuit breaker.
    async fn suspend(&mut self, suspension: Suspension) -> Result<(), Error> {
        let conditions = &mut self.shared.conditions;
        let before = std::mem::replace(&mut conditions.suspension, suspension);
        let mut intake = self.shared.intake.lock().await;
        intake.leave_steady();
        conditions.gate.set_idle(Side::Source, suspension.by_gate);
        if before.by_breaker == suspension.by_breaker {
            return Ok(());
        }
        intake.on_circuit_breaker(suspension.by_breaker)
    }

    /// Offers work to a helper. Yields if the task's time slice is over or there are more working tasks than
    /// processors. Call this if the next pull may follow immediately.
    async fn let_others_work(&mut self) {
        if self.is_steady {
            self.shared.intake.offer();
        }
        // If there are more working tasks than processors, another task may be waiting for this thread.
        if self.turn.is_over(self.pulled_at) || !self.shared.control.processors().suffice() {
            self.turn.begin(self.pulled_at);
            executor::yield_now().await;
        }
    }

    /// Waits for the next [`Step`]: polls the source first, and then the other conditions. If there is a deadline
    /// `until`, waits for the deadline instead of pulling. Notifies the source immediately of pulls that end meanwhile.
    async fn next(&mut self, mut batch: Batch, until: Option<Instant>) -> Step {
        let relieves = self.worker.router.relieves;
        let Self {
            shared, is_steady, bound, relief_at, pulled_at, began_at, turn, has_read, ..
        } = self;
        *has_read = false;
        let Shared { intake, egress, control, conditions, handle, .. } = shared;
        let due = egress.due();
        let mut waited = false;
        poll_fn(|context| {
            let Poll::Ready(mut intake) = intake.poll_lock(context) else {
                return Poll::Pending;
            };
            if !waited && intake.has_round() && conditions.may_continue() {
                *pulled_at = intake.begin_round();
                return Poll::Ready(Step::Round(intake.next(egress)));
            }
            let mut was_polled = until.is_some();
            let step = loop {
                if let Some(cause) = conditions.interrupt.now() {
                    break cause.into();
                }
                let suspension = conditions.current_suspension();
                if suspension != conditions.suspension {
                    break Step::Suspended(suspension);
                }
                let is_suspended = suspension != Suspension::default();
                let may_pull = !is_suspended && intake.may_pull_now(context);
                // Only a source that would begin a pull now waits for memory.
                let is_next = !is_suspended && !waited && until.is_none();
                let bound_by = (!may_pull).then(|| intake.bound()).flatten();
                let bound_by = bound_by.filter(|it| is_next || *it != Bound::Memory);
                if bound_by != *bound {
                    *bound = bound_by;
                    handle.set_bound(bound_by);
                }
                let relief = bound_by.filter(|bound| is_next && relieves.ends(*bound));
                let relief = relief.map(|_| relief_at.unwrap_or_else(|| control.clock().now()));
                if !was_polled && (waited || may_pull) {
                    *relief_at = None;
                    *pulled_at = control.clock().now();
                    if !waited {
                        *began_at = *pulled_at;
                    }
                    let pulls = intake.pulls();
                    if let Poll::Ready(result) = intake.poll_pull(context, &mut batch, waited) {
                        *has_read = intake.pulls() > pulls;
                        if waited {
                            turn.begin(*pulled_at);
                        }
                        *is_steady = intake.is_steady();
                        return Poll::Ready(Step::Pulled(result, intake.next(egress)));
                    }
                    (waited, was_polled) = (true, true);
                }
                // While the connector is paused, nothing is preprocessed, so timers of preprocessors do not wake the
                // task.
                let timed = intake.due().filter(|_| !suspension.by_gate);
                let times: [(_, fn() -> Step); 4] = [
                    (relief, || Step::Relief),
                    (until, || Step::Elapsed),
                    (due, || Step::Due),
                    (timed, || Step::Round(Next::Nothing)),
                ];
                if let Poll::Ready(step) = conditions.alarm.poll_earliest(context, times) {
                    break step();
                }
                if egress.poll_due(context, due).is_ready() {
                    break Step::DueChanged;
                }
                if let Poll::Ready(cause) = conditions.interrupt.poll(context) {
                    break cause.into();
                }
                if conditions.poll_suspension(context).is_ready() {
                    continue;
                }
                let Poll::Ready(ended) = conditions.poll_ended(context) else {
                    return Poll::Pending;
                };
                if let Err(error) = intake.acknowledge(ended) {
                    break Step::Failed(error);
                }
            };
            // The step is not the end of a pull, so a pending pull is canceled.
            let pulls = intake.pulls();
            intake.give_up(&mut batch);
            let has_read = intake.pulls() > pulls && !matches!(step, Step::Failed(_));
            Poll::Ready(if has_read { Step::Round(intake.next(egress)) } else { step })
        })
        .await
    }

    /// Decodes the output of a round and sends it to queues. Returns whether that has woken a parked task.
    async fn process_round(&mut self, round: Round) -> Result<bool, Error> {
        let Next::Piece((pulled, ticket)) = round else { return Ok(false) };
        let Self { shared, worker, pulled_at, .. } = self;
        shared.sending(worker.decode_and_route(pulled, ticket, *pulled_at)).await
    }

    /// Lets queues before sinks that take nothing give up their oldest batches, so that memory and acknowledgements for
    /// which the source waits become free.
    async fn relieve(&mut self) -> Result<(), Error> {
        if let Some(bound) = self.bound {
            self.shared.sending(self.worker.router.relieve(bound)).await?;
        }
        self.relief_at = Some(self.shared.control.clock().now() + RELIEF);
        Ok(())
    }

    /// Calls the operators whose timer is due.
    async fn run_timers(&mut self) -> Result<(), Error> {
        self.shared.sending(self.worker.router.run_timers()).await
    }
}
