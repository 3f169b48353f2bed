//! One connector: made, connected, run, reconnected, restarted, stopped.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use tremor_pdk::{
    Error, ErrorKind,
    dynamic::{BoxFuture, DynConnector, DynSink, DynSource},
};

use super::{
    backoff::{Backoff, RestartBudget},
    connection::{Connection, End},
    control::{Control, Phase},
    ending::{Ending, retire},
    sink::SinkSide,
    source::SourceSide,
    standing::Standing,
};
use crate::executor;

/// How long a connector may take for what the end of its flow waits for.
const LAST_CALL: Duration = Duration::from_secs(5);

/// Makes an instance whose host breaks the connection that it is given when the instance says so.
pub(crate) type Factory =
    Box<dyn Fn(&Arc<Connection>) -> Result<Box<dyn DynConnector>, Error> + Send + Sync>;

/// When to try again after a connection was lost or could not be made.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Retry {
    /// Attempts after the first that may fail in a row; `None`: any number.
    pub(crate) attempts: Option<u64>,
    /// The first wait.
    pub(crate) first: Duration,
    /// The longest wait.
    pub(crate) max: Duration,
}

/// A connector of a running flow.
pub(crate) struct ConnectorTask {
    pub(crate) name: Arc<str>,
    pub(crate) make: Factory,
    pub(crate) source: Option<SourceSide>,
    pub(crate) sink: Option<SinkSide>,
    pub(crate) retry: Retry,
    pub(crate) control: Arc<Control>,
    /// Whether its sink has been connected once.
    pub(crate) sink_seen: bool,
    pub(crate) standing: Arc<Standing>,
    /// The end of its source, where that could not end by itself.
    pub(crate) retires: Option<executor::Task<()>>,
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

/// What ended an instance of the connector.
struct Fault {
    error: Error,
    /// Whether another instance would be of no use.
    is_final: bool,
}

impl From<Error> for Fault {
    fn from(error: Error) -> Self {
        Self { is_final: is_final(error.kind()), error }
    }
}

impl Fault {
    fn final_(error: Error) -> Self {
        Self { error, is_final: true }
    }
}

impl ConnectorTask {
    /// Runs the connector to its end. What it fails with fails the flow.
    pub(crate) async fn run(mut self) {
        match self.supervise().await {
            Ok(()) => self.enter("stopped"),
            Err(error) => {
                tracing::error!(component = %self.name, state = "failed", %error, "connector");
                self.control.fail(&self.name, error);
            }
        }
        self.leave().await;
    }

    /// Its sides are not needed any more: what they hold back goes out, and what the sink has not
    /// delivered fails.
    async fn leave(&mut self) {
        if let Some(mut sink) = self.sink.take() {
            executor::first(self.control.reached(Phase::Stopped), sink.router.close()).await;
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
            source: &mut self.source,
            sink: &mut self.sink,
            retires: &mut self.retires,
        }
    }

    fn enter(&self, state: &'static str) {
        self.standing.enter(state);
        tracing::debug!(component = %self.name, state, "connector");
    }

    /// Makes instances, one after the other, as long as that may help.
    async fn supervise(&mut self) -> Result<(), Error> {
        let mut budget = RestartBudget::new();
        let mut backoff = Backoff::new(self.retry.first, self.retry.max);
        loop {
            let fault = match self.live(&mut budget).await {
                Ok(()) => return Ok(()),
                Err(fault) => fault,
            };
            if fault.is_final {
                return Err(fault.error);
            }
            let error = within(&mut budget, fault.error)?;
            let wait = backoff.next();
            self.standing.note(&error);
            self.enter("restarting");
            tracing::warn!(component = %self.name, %error, ?wait, "connector restarts");
            if self.ending().or(executor::sleep(wait)).await.is_none() {
                let is_cut_off = self.control.has_reached(Phase::Stopped);
                return if is_cut_off { Err(error) } else { Ok(()) };
            }
        }
    }

    /// The life of one instance.
    async fn live(&mut self, budget: &mut RestartBudget) -> Result<(), Fault> {
        self.enter("initialised");
        let connection = Arc::new(Connection::default());
        // What a constructor fails with will not go away by itself.
        let mut connector = (self.make)(&connection).map_err(Fault::final_)?;
        let mut started = false;
        loop {
            self.enter("connecting");
            connection.restore();
            if !self.connect(&mut *connector).await? {
                break;
            }
            let Some(established) = self.ending().or(connector.on_connection_established()).await
            else {
                break;
            };
            established?;
            match self.run_connection(&mut *connector, &connection, &mut started).await? {
                Outcome::Over => break,
                Outcome::Lost(error) => {
                    self.standing.note(&error);
                    tracing::warn!(component = %self.name, %error, "connection lost");
                }
                // What has panicked is gone; what has failed in order may keep its state.
                Outcome::Failed(error) if is_final(error.kind()) => return Err(error.into()),
                Outcome::Failed(error) if error.kind() == ErrorKind::PANICKED => {
                    return Err(error.into());
                }
                Outcome::Failed(error) => {
                    let error = within(budget, error).map_err(Fault::final_)?;
                    self.standing.note(&error);
                    tracing::warn!(component = %self.name, %error, "connector reconnects");
                }
            }
            let Some(told) = self.ending().or(connector.on_connection_lost()).await else { break };
            told?;
        }
        // Others do not wait for how it stops.
        self.leave().await;
        let stopped = in_time("on_stop", connector.on_stop(), &self.control, Phase::Halted);
        stopped.await.map_err(Fault::final_)
    }

    /// Connects, with backoff. `false`: the flow ends before that.
    async fn connect(&mut self, connector: &mut dyn DynConnector) -> Result<bool, Fault> {
        let mut backoff = Backoff::new(self.retry.first, self.retry.max);
        let mut attempt = 1;
        loop {
            let error = match self.ending().or(connector.connect(attempt)).await {
                None => return Ok(false),
                Some(Ok(true)) => return Ok(true),
                Some(Ok(false)) => Error::connection_refused("not connected yet"),
                Some(Err(error)) if !is_about_the_peer(error.kind()) => return Err(error.into()),
                Some(Err(error)) => error,
            };
            if self.retry.attempts.is_some_and(|attempts| attempt > attempts) {
                let made = format_args!("not connected after {attempt} attempts, the last with");
                return Err(Fault::final_(error.context(made)));
            }
            let wait = backoff.next();
            self.standing.note(&error);
            tracing::warn!(component = %self.name, %error, attempt, ?wait, "not connected");
            if self.ending().or(executor::sleep(wait)).await.is_none() {
                return Ok(false);
            }
            attempt += 1;
        }
    }

    /// A connector with a sink goes on while the flow drains: something may still arrive.
    fn ends_with(&self) -> Phase {
        if self.sink.is_some() { Phase::Stopped } else { Phase::Draining }
    }

    /// Runs source and sink as long as the connection lasts.
    async fn run_connection(
        &mut self,
        connector: &mut dyn DynConnector,
        connection: &Arc<Connection>,
        started: &mut bool,
    ) -> Result<Outcome, Fault> {
        let sides = sides(connector, self.source.is_some(), self.sink.is_some(), started);
        let Some(sides) = self.ending().or(sides).await else { return Ok(Outcome::Over) };
        let (source, sink) = sides?;
        self.enter("running");
        if sink.is_some() && !std::mem::replace(&mut self.sink_seen, true) {
            self.control.sink_ready();
        }
        let source = self.start_source(source, connection);
        let sink = self.start_sink(sink, connection);
        let mut ends = Vec::with_capacity(2);
        if let Some(task) = source {
            let (side, end) = task.await;
            ends.push(end);
            if matches!(ends[..], [End::Finished]) {
                self.enter("draining");
                let drain = connector.on_drain();
                let drained = in_time("on_drain", drain, &self.control, Phase::Stopped);
                if let Err(error) = drained.await {
                    connection.break_off();
                    ends.push(End::Failed(error));
                }
            } else {
                self.source = Some(side);
            }
        }
        if let Some(task) = sink {
            let (side, end) = task.await;
            if !matches!(end, End::Finished) {
                self.sink = Some(side);
            }
            ends.push(end);
        }
        Ok(self.outcome(ends))
    }

    fn start_source(
        &mut self,
        source: Option<Box<dyn DynSource>>,
        connection: &Arc<Connection>,
    ) -> Option<executor::Task<(SourceSide, End)>> {
        let (mut side, source) = (self.source.take()?, source?);
        let (connection, control) = (connection.clone(), self.control.clone());
        let name = format!("{}:source", self.name);
        Some(executor::spawn(name, async move {
            control.sinks_ready().await;
            let end = side.run(source, &connection).await;
            if !matches!(end, End::Finished) {
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
        let seat = side.queue.seat();
        let running = async move {
            let end = side.run(sink, &connection).await;
            if !matches!(end, End::Finished) {
                connection.break_off();
            }
            (side, end)
        };
        Some(executor::spawn(format!("{}:sink", self.name), seat.run(running)))
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

/// Makes the sides that the flow has a use for.
async fn sides(
    connector: &mut dyn DynConnector,
    is_source: bool,
    is_sink: bool,
    started: &mut bool,
) -> Result<(Option<Box<dyn DynSource>>, Option<Box<dyn DynSink>>), Error> {
    let (mut source, mut sink) = (None, None);
    if is_source {
        source = Some(connector.create_source().await?.ok_or_else(|| cannot_be("source"))?);
    }
    if is_sink {
        sink = Some(connector.create_sink().await?.ok_or_else(|| cannot_be("sink"))?);
    }
    if !std::mem::replace(started, true) {
        connector.on_start().await?;
    }
    Ok((source, sink))
}

/// Takes a restart from the budget, or says that there is none left.
fn within(budget: &mut RestartBudget, error: Error) -> Result<Error, Error> {
    if budget.take(Instant::now()) {
        return Ok(error);
    }
    let (restarts, window) = (RestartBudget::RESTARTS, RestartBudget::WINDOW.as_secs());
    Err(error.context(format_args!("still failing after {restarts} restarts within {window} s")))
}

fn cannot_be(side: &str) -> Error {
    Error::unsupported(format_args!(
        "this connector has no {side}, but the flow links it as one; link it the other way around, \
         or use another type"
    ))
}

/// Errors that no other attempt can mend.
fn is_final(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::CONFIGURATION | ErrorKind::AUTHENTICATION | ErrorKind::UNSUPPORTED)
}

/// Errors that say that the peer is not there, now.
fn is_about_the_peer(kind: ErrorKind) -> bool {
    matches!(
        kind,
        ErrorKind::CONNECTION_REFUSED
            | ErrorKind::CONNECTION_LOST
            | ErrorKind::TIMEOUT
            | ErrorKind::FULL
    )
}

/// Gives a connector a bounded time to do what the end of a flow waits for. A flow that is in
/// `phase` waits for it no more.
async fn in_time(
    what: &str,
    call: BoxFuture<'_, Result<(), Error>>,
    control: &Control,
    phase: Phase,
) -> Result<(), Error> {
    let limit = async {
        executor::sleep(LAST_CALL).await;
        let seconds = LAST_CALL.as_secs();
        Err(Error::timeout(format_args!("`{what}` was not done after {seconds} s")))
    };
    let over = async {
        control.reached(phase).await;
        Ok(())
    };
    executor::first(executor::first(call, limit), over).await
}
