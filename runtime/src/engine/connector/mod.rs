//! One connector: made, connected, run, reconnected, restarted, stopped.

pub(crate) mod ending;
pub(crate) mod fault;
mod running;
pub(crate) mod sides;

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use tremor_abi::connector::Hook;
use tremor_pdk::{Error, ErrorKind, Sides};

use crate::engine::{
    connector::{
        ending::{Ending, retire},
        fault::{Fault, may_connect_later},
        running::Outcome,
    },
    control::{Control, Phase, last_call::in_time, overrun},
    handle::{ConnectorHandle, connection::Connection, series::Retried, status::State},
    logging::notices::Notices,
    parts::MakeConnector,
    retry::{
        backoff::{Attempts, Restarts},
        breaker::Outage,
    },
    sink::SinkSide,
    source::SourceSide,
};
use crate::{
    dynamic::{DynConnector, DynHalves},
    executor,
};

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
    pub(crate) restarts: Restarts,
    /// How long a call may hold its thread.
    pub(crate) call_limit: Duration,
    pub(crate) control: Arc<Control>,
    pub(crate) notices: Arc<Notices>,
    pub(crate) handle: Arc<ConnectorHandle>,
    /// Of its sink; of no account where it has none.
    pub(crate) outage: Arc<Outage>,
    pub(crate) life: Life,
}

/// How far a connector has come.
#[derive(Default)]
pub(crate) struct Life {
    /// Whether an instance was made once.
    is_made: bool,
    /// Whether its sink has been connected once.
    sink_seen: bool,
    /// Whether the log says that it is not connected.
    is_down: bool,
    /// Its source, once that brings nothing more, for as long as it has acknowledgements to hear.
    settling: Option<executor::Task<Result<(), Error>>>,
    /// The end of its source, where that could not end by itself.
    retires: Option<executor::Task<()>>,
}

/// What an instance has been told.
#[derive(Debug, Default)]
struct Told {
    /// `on_start`.
    started: bool,
    /// `on_pause`, and no `on_resume` after it.
    paused: bool,
}

impl ConnectorTask {
    /// Runs the connector to its end. What it fails with fails the flow.
    pub(crate) async fn run(mut self) {
        let notices = self.notices.clone();
        if let Err(error) = notices.during(self.supervise()).await {
            self.fail(error);
        }
        self.leave().await;
        // What the sink had fails back to its sources: this one's may be among them.
        if let Err(error) = self.settled().await {
            self.fail(error);
        }
        self.enter(State::Stopped);
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
        if let Some(task) = self.life.retires.take() {
            task.await;
        }
    }

    /// Waits until the source knows what became of everything it brought, if it has ended.
    async fn settled(&mut self) -> Result<(), Error> {
        match self.life.settling.take() {
            Some(settling) => settling.await,
            None => Ok(()),
        }
    }

    /// Until when the connector is needed.
    fn ending(&mut self) -> Ending<'_> {
        Ending {
            control: &self.control,
            stopped: self.control.reached(Phase::Stopped),
            drains: self.control.reached(Phase::Draining),
            source: &mut self.source,
            sink: &mut self.sink,
            retires: &mut self.life.retires,
        }
    }

    fn fail(&self, error: Error) {
        if self.notices.admits_last() {
            tracing::error!(component = %self.name, state = "failed", %error, "connector");
        }
        self.handle.fail(&error);
        self.control.fail(&self.name, error);
    }

    /// It is in this state from now on, or in what that comes to for it.
    fn enter(&self, state: State) {
        let state = self.handle.enter(state);
        tracing::debug!(component = %self.name, %state, "connector");
    }

    /// Makes instances, one after the other, as long as that may help.
    async fn supervise(&mut self) -> Result<(), Error> {
        let mut connection = self.handle.next_instance();
        loop {
            let fault = match self.live(&connection).await {
                Ok(()) => return Ok(()),
                Err(fault) => fault,
            };
            connection = self.handle.next_instance();
            let (error, wait) = match fault {
                Fault::Final(error) => return Err(error),
                Fault::Restart(error) => {
                    let wait = self.fails(&error)?;
                    (Some(error), wait)
                }
                Fault::Asked => (None, Duration::ZERO),
            };
            let waited = async {
                let asked = async { _ = connection.until_replaced().await };
                executor::first(executor::sleep(wait), asked).await;
            };
            if self.ending().or(waited).await.is_none() {
                let error = error.filter(|_| self.control.has_reached(Phase::Stopped));
                return error.map_or(Ok(()), Err);
            }
            if connection.replaced().is_some() {
                connection = self.handle.next_instance();
            }
        }
    }

    /// The life of one instance.
    async fn live(&mut self, connection: &Arc<Connection>) -> Result<(), Fault> {
        let limit = overrun::replace_slow(connection, self.call_limit);
        let mut connector = match (self.make)(connection, limit) {
            Ok(connector) => connector,
            // It has never been of use: that will not go away by itself.
            Err(error) if !self.life.is_made && !error.kind().is_shortage() => {
                return Err(Fault::Final(error));
            }
            Err(error) => return Err(error.into()),
        };
        self.life.is_made = true;
        match self.connections(&mut *connector, connection).await {
            Ok(()) => {
                // Others do not wait for how it stops.
                self.leave().await;
                // A source that still waits does so in a flow that was stopped, and ends at once.
                self.settled().await.map_err(Fault::Final)?;
                let close = connector.hook(Hook::CLOSE);
                in_time("close", close, &self.control, Phase::Halted).await.map_err(Fault::Final)
            }
            Err(Fault::Asked) => Err(self.replaced(&mut *connector).await),
            Err(fault) => Err(fault),
        }
    }

    /// Another instance takes the place of one that nothing is wrong with.
    async fn replaced(&mut self, connector: &mut dyn DynConnector) -> Fault {
        self.enter(State::Restarting);
        if self.goes_down("restarts") {
            tracing::info!(component = %self.name, "connector restarts, as somebody has asked");
        }
        // A source that still hears of acknowledgements is not gone.
        if self.life.settling.is_none()
            && let Err(error) =
                in_time("close", connector.hook(Hook::CLOSE), &self.control, Phase::Stopped).await
        {
            tracing::warn!(component = %self.name, %error, "the last instance did not stop in order");
        }
        Fault::Asked
    }

    /// Connects an instance, again and again, until it is needed no more.
    async fn connections(
        &mut self,
        connector: &mut dyn DynConnector,
        connection: &Arc<Connection>,
    ) -> Result<(), Fault> {
        let mut told = Told::default();
        loop {
            self.enter(State::Connecting);
            connection.restore();
            let halves = self.connect(connector, connection).await?;
            let Some(halves) = halves else { return Ok(()) };
            let since = Instant::now();
            let outcome = self.connected(connector, connection, halves, &mut told).await?;
            if let (Outcome::Lost(_), Some(why)) = (&outcome, connection.replaced()) {
                return Err(why.into());
            }
            let has_lasted = since.elapsed() > self.reconnect.policy().max;
            let was_good = has_lasted || connection.has_passed_events();
            let Some(wait) = self.goes_on(outcome, was_good)? else { return Ok(()) };
            if self.wanted(connection, executor::sleep(wait)).await?.is_none() {
                return Ok(());
            }
        }
    }

    /// The result of a call, or of a wait, while neither side of the connector runs; none where the
    /// connector is not needed any more before that.
    ///
    /// # Errors
    /// The instance is replaced before that.
    async fn wanted<T>(
        &mut self,
        connection: &Connection,
        call: impl Future<Output = T>,
    ) -> Result<Option<T>, Fault> {
        let call = async { Ok(call.await) };
        let replaced = async { Err(connection.until_replaced().await.into()) };
        self.ending().or(executor::first(call, replaced)).await.transpose()
    }

    /// How long to wait before the next connection of the same instance; `None` where there is to be
    /// none.
    ///
    /// # Errors
    /// There may be none.
    fn goes_on(&mut self, outcome: Outcome, was_good: bool) -> Result<Option<Duration>, Fault> {
        if was_good {
            self.reconnect.restart();
        }
        let error = match outcome {
            Outcome::Over => return Ok(None),
            Outcome::Lost(error) => error,
            // There is nothing left to connect for.
            Outcome::Failed(error) if self.source.is_none() && self.sink.is_none() => {
                return Err(Fault::Final(error));
            }
            // What has panicked is gone; what has failed in order may keep its state.
            Outcome::Failed(error) if error.is_final() || error.kind() == ErrorKind::PANICKED => {
                return Err(error.into());
            }
            Outcome::Failed(error) => {
                return self.fails(&error).map(Some).map_err(Fault::Final);
            }
        };
        // Where no other attempt is wanted, it does not matter how many there may be.
        if !was_good && !self.control.has_reached(self.ends_with()) {
            self.attempt_failed(&error)?;
        }
        let wait = self.reconnect.wait_after(&error);
        self.handle.retry(Retried::Connect, &error, wait);
        self.enter(State::Connecting);
        if self.goes_down("lost") {
            tracing::warn!(component = %self.name, %error, ?wait, "connection lost");
        }
        Ok(Some(wait))
    }

    /// The connector has failed, and is restarted: how long to wait before that.
    ///
    /// # Errors
    /// It was restarted often enough.
    fn fails(&mut self, error: &Error) -> Result<Duration, Error> {
        let wait = self.restarts.after(error)?;
        self.handle.note(error);
        self.enter(State::Restarting);
        if self.goes_down("restarts") {
            tracing::warn!(component = %self.name, %error, ?wait, "connector restarts");
        }
        Ok(wait)
    }

    /// Connects, with backoff. Returns `None` if the flow ends before that.
    async fn connect(
        &mut self,
        connector: &mut dyn DynConnector,
        connection: &Connection,
    ) -> Result<Option<DynHalves>, Fault> {
        let mut attempt = 1;
        let halves = loop {
            let wanted = Sides::new(self.source.is_some(), self.sink.is_some());
            let error = match self.wanted(connection, connector.connect(wanted)).await? {
                None => return Ok(None),
                Some(Ok(halves)) => break complete(halves, wanted).map_err(Fault::Final)?,
                Some(Err(error)) if !may_connect_later(&error) => return Err(error.into()),
                Some(Err(error)) => error,
            };
            self.attempt_failed(&error)?;
            let wait = self.reconnect.wait_after(&error);
            self.handle.retry(Retried::Connect, &error, wait);
            if !self.life.is_down && self.goes_down("not connected") {
                tracing::warn!(component = %self.name, %error, ?wait, "not connected");
            } else {
                tracing::debug!(component = %self.name, %error, attempt, ?wait, "not connected");
            }
            if self.wanted(connection, executor::sleep(wait)).await?.is_none() {
                return Ok(None);
            }
            attempt += 1;
        };
        if std::mem::take(&mut self.life.is_down) && self.notices.admits("connected") {
            tracing::info!(component = %self.name, attempt, "connected");
        }
        Ok(Some(halves))
    }

    /// Counts an attempt that has failed.
    ///
    /// # Errors
    /// It was the last that there may be.
    fn attempt_failed(&mut self, error: &Error) -> Result<(), Fault> {
        if self.reconnect.fail_with(error) {
            return Ok(());
        }
        let made = format_args!("not connected after {}", self.reconnect);
        Err(Fault::Final(error.clone().context(made)))
    }

    /// The connector is without a connection from here on. Whether there may be a line about that.
    fn goes_down(&mut self, state: &'static str) -> bool {
        self.life.is_down = true;
        if self.sink.is_some() {
            self.outage.begin();
        }
        self.notices.admits(state)
    }

    /// A connector with a sink goes on while the flow drains: something may still arrive.
    fn ends_with(&self) -> Phase {
        if self.sink.is_some() { Phase::Stopped } else { Phase::Draining }
    }
}

/// Returns the halves of a connection if they are those that the flow uses.
///
/// # Errors
/// A half that is `wanted` is missing.
fn complete(halves: DynHalves, wanted: Sides) -> Result<DynHalves, Error> {
    let missing = match (&halves.source, &halves.sink) {
        (None, _) if wanted.has_source() => "source",
        (_, None) if wanted.has_sink() => "sink",
        _ => return Ok(halves),
    };
    Err(Error::unsupported(format_args!(
        "`connect` returned no {missing}, although `sides` names it: this is a fault of the plugin, which has to return \
         every wanted half"
    )))
}
