//! One connector: made, connected, run, reconnected, restarted, stopped.

pub(crate) mod ending;
pub(crate) mod fault;
pub(crate) mod sides;

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use tremor_pdk::{
    Error, ErrorKind,
    dynamic::{BoxFuture, DynConnector, DynSink, DynSource},
};

use crate::engine::{
    connector::{
        ending::{Ending, retire},
        fault::{Fault, may_connect_later, within},
        sides::{Pauses, Running, Step, sides},
    },
    life::{
        backoff::{Attempts, RestartBudget},
        breaker::Outage,
        connection::{Connection, End},
        control::{Control, Phase},
        gate::Side,
        last_call::in_time,
        notices::Notices,
        standing::{Standing, State},
        wait::Interrupt,
    },
    parts::MakeConnector,
    queue::mailbox::Host,
    sink::SinkSide,
    source::{SourceSide, settling::Settling},
};
use crate::executor;

/// The longest wait before another attempt to connect, unless the flow says otherwise.
pub(crate) const MAX_BACKOFF: Duration = Duration::from_secs(10);

/// A connector of a running flow.
pub(crate) struct ConnectorTask {
    pub(crate) name: Arc<str>,
    pub(crate) make: MakeConnector,
    pub(crate) source: Option<SourceSide>,
    pub(crate) sink: Option<SinkSide>,
    /// Attempts to connect that have failed, lost connections that were of no use among them.
    pub(crate) reconnect: Attempts,
    pub(crate) control: Arc<Control>,
    pub(crate) notices: Arc<Notices>,
    /// Whether its sink has been connected once.
    pub(crate) sink_seen: bool,
    /// Whether the log says that it is not connected.
    pub(crate) is_down: bool,
    /// Its source, once that brings nothing more, for as long as it has acknowledgements to hear.
    pub(crate) settling: Option<executor::Task<Result<(), Error>>>,
    pub(crate) standing: Arc<Standing>,
    /// Of its sink; of no account where it has none.
    pub(crate) outage: Arc<Outage>,
    /// The end of its source, where that could not end by itself.
    pub(crate) retires: Option<executor::Task<()>>,
}

/// What an instance has been told.
#[derive(Debug, Default)]
struct Told {
    /// `on_start`.
    started: bool,
    /// `on_pause`, and no `on_resume` after it.
    paused: bool,
}

/// How one connection ended.
enum Outcome {
    /// Everything is done, or the flow does not want it any more.
    Over,
    /// The connection is gone.
    Lost(Error),
    /// Source or sink failed; another connection may go better.
    Failed(Error),
}

impl ConnectorTask {
    /// Runs the connector to its end. What it fails with fails the flow.
    pub(crate) async fn run(mut self) {
        let notices = self.notices.clone();
        match notices.during(self.supervise()).await {
            Ok(()) => self.enter(State::Stopped),
            Err(error) => self.fail(error),
        }
        self.leave().await;
        // What the sink had fails back to its sources: this one's may be among them.
        if let Err(error) = self.settled().await {
            self.fail(error);
        }
    }

    /// Its sides are not needed any more: what they hold back goes out, and what the sink has not
    /// delivered fails.
    async fn leave(&mut self) {
        self.outage.end();
        if let Some(mut sink) = self.sink.take() {
            if !self.control.has_reached(Phase::Stopped) {
                sink.router.close().await;
            }
            sink.abandon();
        }
        if let Some(source) = self.source.take() {
            retire(source, self.control.clone()).await;
        }
        if let Some(task) = self.retires.take() {
            task.await;
        }
    }

    /// Until when the connector is needed.
    fn ending(&mut self) -> Ending<'_> {
        Ending {
            name: &self.name,
            control: &self.control,
            stopped: self.control.reached(Phase::Stopped),
            drains: self.control.reached(Phase::Draining),
            source: &mut self.source,
            sink: &mut self.sink,
            retires: &mut self.retires,
        }
    }

    fn fail(&self, error: Error) {
        self.standing.note(&error);
        self.standing.enter(State::Failed);
        if self.notices.admits_last() {
            tracing::error!(component = %self.name, state = "failed", %error, "connector");
        }
        self.control.fail(&self.name, error);
    }

    fn enter(&self, state: State) {
        self.standing.enter(state);
        tracing::debug!(component = %self.name, %state, "connector");
    }

    /// Makes instances, one after the other, as long as that may help.
    async fn supervise(&mut self) -> Result<(), Error> {
        let mut budget = RestartBudget::new();
        loop {
            let fault = match self.live(&mut budget).await {
                Ok(()) => return Ok(()),
                Err(fault) => fault,
            };
            if fault.is_final {
                return Err(fault.error);
            }
            let error = within(&mut budget, fault.error)?;
            let wait = self.reconnect.wait().max(error.delay());
            self.standing.note(&error);
            self.enter(State::Restarting);
            if self.goes_down("restarts") {
                tracing::warn!(component = %self.name, %error, ?wait, "connector restarts");
            }
            if self.ending().or(executor::sleep(wait)).await.is_none() {
                let is_cut_off = self.control.has_reached(Phase::Stopped);
                return if is_cut_off { Err(error) } else { Ok(()) };
            }
        }
    }

    /// The life of one instance.
    async fn live(&mut self, budget: &mut RestartBudget) -> Result<(), Fault> {
        let connection = Arc::new(Connection::default());
        // What a constructor fails with will not go away by itself.
        let mut connector = (self.make)(&connection).map_err(Fault::final_)?;
        let mut told = Told::default();
        loop {
            self.enter(State::Connecting);
            connection.restore();
            if !self.connect(&mut *connector).await? {
                break;
            }
            let since = Instant::now();
            let outcome = self.connected(&mut *connector, &connection, &mut told).await?;
            let has_lasted = since.elapsed() > self.reconnect.policy().max;
            let was_good = has_lasted || connection.has_passed_events();
            let Some(wait) = self.goes_on(outcome, was_good, budget)? else { break };
            let Some(told) = self.ending().or(connector.on_connection_lost()).await else { break };
            told?;
            if self.ending().or(executor::sleep(wait)).await.is_none() {
                break;
            }
        }
        // Others do not wait for how it stops.
        self.leave().await;
        // A source that still waits does so in a flow that was stopped, and ends at once.
        self.settled().await.map_err(Fault::final_)?;
        let stopped = in_time("on_stop", connector.on_stop(), &self.control, Phase::Halted);
        stopped.await.map_err(Fault::final_)
    }

    /// How long to wait before the next connection of the same instance; `None` where there is to be
    /// none.
    ///
    /// # Errors
    /// There may be none.
    fn goes_on(
        &mut self,
        outcome: Outcome,
        was_good: bool,
        budget: &mut RestartBudget,
    ) -> Result<Option<Duration>, Fault> {
        if was_good {
            self.reconnect.restart();
        }
        let (state, error) = match outcome {
            Outcome::Over => return Ok(None),
            Outcome::Lost(error) => {
                // Where no other attempt is wanted, it does not matter how many there may be.
                if !was_good && !self.control.has_reached(self.ends_with()) {
                    self.attempt_failed(&error)?;
                }
                ("lost", error)
            }
            // What has panicked is gone; what has failed in order may keep its state.
            Outcome::Failed(error) if error.is_final() => return Err(error.into()),
            Outcome::Failed(error) if error.kind() == ErrorKind::PANICKED => {
                return Err(error.into());
            }
            // There is nothing left to connect for.
            Outcome::Failed(error) if self.source.is_none() && self.sink.is_none() => {
                return Err(Fault::final_(error));
            }
            Outcome::Failed(error) => ("failed", within(budget, error).map_err(Fault::final_)?),
        };
        let wait = self.reconnect.wait().max(error.delay());
        self.standing.note(&error);
        self.enter(State::Connecting);
        if self.goes_down(state) {
            tracing::warn!(component = %self.name, %error, ?wait, "connection {state}");
        }
        Ok(Some(wait))
    }

    /// Connects, with backoff. `false`: the flow ends before that.
    async fn connect(&mut self, connector: &mut dyn DynConnector) -> Result<bool, Fault> {
        let mut attempt = 1;
        loop {
            let error = match self.ending().or(connector.connect(attempt)).await {
                None => return Ok(false),
                Some(Ok(true)) => break,
                Some(Ok(false)) => Error::connection_refused("not connected yet"),
                Some(Err(error)) if !may_connect_later(&error) => return Err(error.into()),
                Some(Err(error)) => error,
            };
            self.attempt_failed(&error)?;
            let wait = self.reconnect.wait().max(error.delay());
            self.standing.note(&error);
            if !self.is_down && self.goes_down("not connected") {
                tracing::warn!(component = %self.name, %error, ?wait, "not connected");
            } else {
                tracing::debug!(component = %self.name, %error, attempt, ?wait, "not connected");
            }
            if self.ending().or(executor::sleep(wait)).await.is_none() {
                return Ok(false);
            }
            attempt += 1;
        }
        if std::mem::take(&mut self.is_down) && self.notices.admits("connected") {
            tracing::info!(component = %self.name, attempt, "connected");
        }
        Ok(true)
    }

    /// Counts an attempt that has failed.
    ///
    /// # Errors
    /// It was the last that there may be.
    fn attempt_failed(&mut self, error: &Error) -> Result<(), Fault> {
        if self.reconnect.fail() {
            return Ok(());
        }
        let made = format_args!("not connected after {}", self.reconnect);
        Err(Fault::final_(error.clone().context(made)))
    }

    /// The connector is without a connection from here on. Whether there may be a line about that.
    fn goes_down(&mut self, state: &'static str) -> bool {
        self.is_down = true;
        if self.sink.is_some() {
            self.outage.begin();
        }
        self.notices.admits(state)
    }

    /// A connector with a sink goes on while the flow drains: something may still arrive.
    fn ends_with(&self) -> Phase {
        if self.sink.is_some() { Phase::Stopped } else { Phase::Draining }
    }

    /// What becomes of a connection from the moment that it is made.
    async fn connected(
        &mut self,
        connector: &mut dyn DynConnector,
        connection: &Arc<Connection>,
        told: &mut Told,
    ) -> Result<Outcome, Fault> {
        match self.run_connection(connector, connection, told).await {
            // Lost before an event could come or go, and lost all the same.
            Err(Fault { error, is_final: false }) if may_connect_later(&error) => {
                Ok(Outcome::Lost(error))
            }
            result => result,
        }
    }

    /// Runs source and sink as long as the connection lasts.
    async fn run_connection(
        &mut self,
        connector: &mut dyn DynConnector,
        connection: &Arc<Connection>,
        told: &mut Told,
    ) -> Result<Outcome, Fault> {
        let started = &mut told.started;
        let sides = sides(connector, self.source.is_some(), self.sink.is_some(), started);
        let Some(sides) = self.ending().or(sides).await else { return Ok(Outcome::Over) };
        let (source, sink) = sides?;
        self.enter(if told.paused { State::Paused } else { State::Running });
        if sink.is_some() && !std::mem::replace(&mut self.sink_seen, true) {
            self.control.sink_ready();
        }
        let mut running = Running {
            source: self.start_source(source, connection),
            sink: self.start_sink(sink, connection),
        };
        let ends = self.sides_end(connector, connection, &mut running, told).await?;
        Ok(self.outcome(ends))
    }

    /// Waits until the source brings nothing more and knows what became of what it brought, and the sink
    /// has ended. A sink that is to be connected again waits for no acknowledgement: what that waits for
    /// may be on its way to this sink.
    async fn sides_end(
        &mut self,
        connector: &mut dyn DynConnector,
        connection: &Connection,
        running: &mut Running,
        told: &mut Told,
    ) -> Result<Vec<End>, Fault> {
        let (mut ends, mut fault) = (Vec::with_capacity(2), None);
        let (control, standing) = (self.control.clone(), self.standing.clone());
        let mut pauses = Pauses::new(&control, &standing.gate);
        while let Some(step) = pauses.next_step(running, &mut self.settling, told.paused).await {
            match step {
                Step::SourceEnded(_, Ok(settling)) => {
                    self.standing.drains();
                    let name = format!("{}:source:settling", self.name);
                    self.settling = Some(executor::spawn(name, settling.run()));
                }
                Step::SourceEnded(side, Err(end)) => {
                    self.source = Some(*side);
                    ends.push(end);
                }
                Step::Settled(Ok(())) => {
                    let drain = connector.on_drain();
                    ends.extend(answered("on_drain", drain, connection, &control).await);
                }
                Step::Settled(Err(error)) => {
                    connection.break_off();
                    fault = Some(Fault::final_(error));
                }
                Step::SinkEnded(_, End::Finished) => {}
                Step::SinkEnded(side, end) => {
                    self.sink = Some(*side);
                    ends.push(end);
                }
                Step::Paused => {
                    told.paused = true;
                    self.enter(State::Paused);
                    let pause = connector.on_pause();
                    ends.extend(answered("on_pause", pause, connection, &control).await);
                }
                Step::Resumed => {
                    told.paused = false;
                    let resume = connector.on_resume();
                    ends.extend(answered("on_resume", resume, connection, &control).await);
                    self.enter(State::Running);
                    standing.gate.open();
                }
            }
            if self.sink.is_some() && running.source.is_none() {
                break;
            }
        }
        fault.map_or(Ok(ends), Err)
    }

    /// Waits until the source knows what became of everything it brought, if it has ended.
    async fn settled(&mut self) -> Result<(), Error> {
        match self.settling.take() {
            Some(settling) => settling.await,
            None => Ok(()),
        }
    }

    fn start_source(
        &mut self,
        source: Option<Box<dyn DynSource>>,
        connection: &Arc<Connection>,
    ) -> Option<executor::Task<(SourceSide, Result<Settling, End>)>> {
        let (mut side, source) = (self.source.take()?, source?);
        let (connection, control) = (connection.clone(), self.control.clone());
        let name = format!("{}:source", self.name);
        // It is not called before its time has come.
        self.standing.gate.set_rests(Side::Source, true);
        Some(executor::spawn(name, async move {
            // Whatever the source would wait for, it hears first of what ends it.
            let mut ends = Interrupt::new(&control, Phase::Draining, Some(&connection));
            let ready = ends.or(async {
                control.sinks_ready().await;
                side.worker.router.room().await;
            });
            // If it does not come to that, the source hears why.
            _ = ready.await;
            let end = side.bring(source, &connection).await;
            if end.is_err() {
                connection.break_off();
            }
            (side, end)
        }))
    }

    fn start_sink(
        &mut self,
        sink: Option<Box<dyn DynSink>>,
        connection: &Arc<Connection>,
    ) -> Option<executor::Task<(SinkSide, End)>> {
        let (mut side, sink) = (self.sink.take()?, sink?);
        let connection = connection.clone();
        let mailbox = side.queue.mailbox();
        let running = async move {
            let end = side.run(sink, &connection).await;
            if !matches!(end, End::Finished) {
                connection.break_off();
            }
            (side, end)
        };
        Some(executor::spawn(format!("{}:sink", self.name), Host::new(mailbox, running)))
    }

    /// What the ends of both sides mean for the connector: the worst counts.
    fn outcome(&self, ends: Vec<End>) -> Outcome {
        let mut outcome = Outcome::Over;
        for end in ends {
            outcome = match (end, outcome) {
                (End::Failed(error), _) => Outcome::Failed(error),
                (End::Lost(error), Outcome::Over) => Outcome::Lost(error),
                (End::Interrupted, Outcome::Over)
                    if !self.control.has_reached(self.ends_with()) =>
                {
                    Outcome::Lost(Error::connection_lost("the connection broke"))
                }
                (_, outcome) => outcome,
            };
        }
        outcome
    }
}

/// Waits for the answer to a call of the connector while its sides run. What it fails with ends the
/// connection.
async fn answered(
    what: &str,
    call: BoxFuture<'_, Result<(), Error>>,
    connection: &Connection,
    control: &Control,
) -> Option<End> {
    let error = in_time(what, call, control, Phase::Stopped).await.err()?;
    connection.break_off();
    Some(End::Failed(error))
}
