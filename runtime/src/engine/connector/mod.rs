//! The task of one connector, which creates, connects, runs, reconnects, restarts and stops it.

pub(crate) mod ending;
pub(crate) mod fault;
pub(crate) mod handover;
mod running;
pub(crate) mod sides;

use std::{sync::Arc, time::Duration};

use tremor_abi::connector::Hook;
use tremor_pdk::{Error, ErrorKind, Sides};

use crate::engine::{
    connector::{
        ending::{Ending, retire},
        fault::{Fault, may_connect_later},
        handover::Handover,
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

/// Longest wait between two attempts to connect, if the flow file sets none.
pub(crate) const MAX_BACKOFF: Duration = Duration::from_secs(10);

/// The task of a connector. It owns the source and the sink while these do not run.
pub(crate) struct ConnectorTask {
    pub(crate) name: Arc<str>,
    pub(crate) make: MakeConnector,
    pub(crate) source: Option<SourceSide>,
    pub(crate) sink: Option<SinkSide>,
    /// Consecutive attempts to connect that have failed. A connection that was lost soon, before any event passed,
    /// counts as a failed attempt too.
    pub(crate) reconnect: Attempts,
    pub(crate) restarts: Restarts,
    /// Longest time for which a call may block its thread before the instance is replaced.
    pub(crate) call_limit: Duration,
    pub(crate) control: Arc<Control>,
    pub(crate) notices: Arc<Notices>,
    pub(crate) handle: Arc<ConnectorHandle>,
    /// State that tells the sources before the sink whether the sink is down. Unused if the connector has no sink.
    pub(crate) outage: Arc<Outage>,
    /// Exchanges the parts of this task that the specification of the connector determines.
    pub(crate) handover: Arc<Handover>,
    /// `true` if other tasks decode what the source reads, or encode for the sink, so that a reload cannot exchange codecs
    /// and postprocessors.
    pub(crate) is_coded_elsewhere: bool,
    pub(crate) life: Life,
}

/// State of a connector that is kept across its instances and connections.
#[derive(Default)]
pub(crate) struct Life {
    /// `true` once an instance was created.
    is_made: bool,
    /// `true` once the sink was connected for the first time.
    sink_seen: bool,
    /// `true` after a connection was lost, an attempt to connect failed or an instance ended, until the next
    /// connection.
    is_down: bool,
    /// The task of a source that reads nothing more and still waits for acknowledgements.
    acknowledging: Option<executor::Task<Result<(), Error>>>,
    /// The task that ends a source that was not connected when the flow began to drain.
    retiring: Option<executor::Task<()>>,
}

/// The hooks of an instance that were called.
#[derive(Debug, Default)]
struct Hooks {
    /// `true` once `on_start` was called.
    started: bool,
    /// `true` after `on_pause`, until `on_resume`.
    paused: bool,
}

impl ConnectorTask {
    /// Runs the connector until it has ended. An error of the connector fails the flow.
    pub(crate) async fn run(mut self) {
        let notices = self.notices.clone();
        match notices.during(self.supervise()).await {
            Err(error) if self.handover.is_leaving() => {
                tracing::warn!(component = %self.name, %error, "the connector has failed while a reload removes it");
            }
            Err(error) => self.fail(error),
            Ok(()) => {}
        }
        self.handover.end();
        self.end_sides().await;
        // The sink has failed its events by now. The source of this connector may have waited for their
        // acknowledgements.
        if let Err(error) = self.until_acknowledged().await {
            self.fail(error);
        }
        self.enter(State::Stopped);
    }

    /// Ends the source and the sink. Operators emit what they buffer, and events that the sink has not delivered fail.
    async fn end_sides(&mut self) {
        self.outage.end();
        let is_leaving = self.handover.is_leaving();
        if let Some(mut sink) = self.sink.take() {
            if !self.control.has_reached(Phase::Stopped) {
                sink.pass_on_undelivered(is_leaving).await;
                sink.router.close().await;
            }
            sink.abandon(is_leaving);
        }
        self.control.sink_ended(&self.name);
        if let Some(source) = self.source.take() {
            retire(source, self.control.clone()).await;
        }
        if let Some(task) = self.life.retiring.take() {
            task.await;
        }
    }

    /// Waits until a source that has ended has received all acknowledgements.
    async fn until_acknowledged(&mut self) -> Result<(), Error> {
        match self.life.acknowledging.take() {
            Some(acknowledging) => acknowledging.await,
            None => Ok(()),
        }
    }

    /// Returns the conditions under which the flow no longer needs the connector.
    fn ending(&mut self) -> Ending<'_> {
        Ending {
            control: &self.control,
            stopped: self.control.reached(Phase::Stopped),
            drains: self.control.reached(Phase::Draining),
            gives_up: self.control.gives_up(),
            name: &self.name,
            source: &mut self.source,
            sink: &mut self.sink,
            retiring: &mut self.life.retiring,
        }
    }

    fn fail(&self, error: Error) {
        if self.notices.admits_last() {
            tracing::error!(
                component = %self.name,
                state = "failed",
                %error,
                "the connector has failed"
            );
        }
        self.handle.fail(&error);
        self.control.fail(&self.name, error);
    }

    /// Enters `state`: see [`ConnectorHandle::enter`].
    fn enter(&self, state: State) {
        let state = self.handle.enter(state);
        tracing::debug!(component = %self.name, %state, "state of the connector");
    }

    /// Creates and runs instances, one after the other, until the flow no longer needs the connector.
    ///
    /// # Errors
    /// Returns the error of an instance if a restart would not help, if no restart is left, or if the flow was
    /// stopped before the restart.
    async fn supervise(&mut self) -> Result<(), Error> {
        let mut connection = self.handle.first_instance();
        loop {
            let fault = match self.run_instance(&connection).await {
                Ok(()) => return Ok(()),
                Err(fault) => fault,
            };
            connection = self.handle.next_instance();
            let Some(is_exchanged) = self.hand_over(&fault).await else { return Ok(()) };
            let (error, wait) = match fault {
                _ if is_exchanged => (None, Duration::ZERO),
                Fault::Final(error) => return Err(error),
                Fault::Restart(error) => {
                    let wait = self.restart_after(&error)?;
                    (Some(error), wait)
                }
                Fault::Requested => (None, Duration::ZERO),
            };
            let slept = self.control.clock().sleep(wait);
            let waited = async {
                // A requested restart ends the wait.
                let requested = async { _ = connection.until_replaced().await };
                executor::first(slept, requested).await;
            };
            if self.ending().or(waited).await.is_none() {
                let error = error.filter(|_| self.control.has_reached(Phase::Stopped));
                return error.map_or(Ok(()), Err);
            }
            if connection.replaced().is_some() {
                connection = self.handle.next_instance();
                if self.hand_over(&Fault::Requested).await.is_none() {
                    return Ok(());
                }
            }
        }
    }

    /// Creates an instance and runs it until the flow no longer needs the connector.
    ///
    /// # Errors
    /// Returns the reason why the instance ended before that.
    async fn run_instance(&mut self, connection: &Arc<Connection>) -> Result<(), Fault> {
        let limit = overrun::replace_slow(connection, self.call_limit);
        let mut connector = match (self.make)(connection, limit) {
            Ok(connector) => connector,
            // If the first instance cannot be created, the cause is taken to be permanent, unless the system lacks
            // resources.
            Err(error) if !self.life.is_made && !error.kind().is_shortage() => {
                return Err(Fault::Final(error));
            }
            Err(error) => return Err(error.into()),
        };
        self.life.is_made = true;
        match self.run_connections(&mut *connector, connection).await {
            Ok(()) => {
                // The sides end before the instance is closed, so that other tasks do not wait for the close.
                self.end_sides().await;
                // If the source still waits for acknowledgements now, the flow was stopped, so the wait ends at once.
                self.until_acknowledged().await.map_err(Fault::Final)?;
                let close = connector.hook(Hook::CLOSE);
                match in_time("close", close, &self.control, Phase::Halted).await {
                    Err(error) if self.control.has_given_up(&self.name) => {
                        tracing::warn!(component = %self.name, %error, "cannot close the connector");
                        Ok(())
                    }
                    closed => closed.map_err(Fault::Final),
                }
            }
            Err(Fault::Requested) => Err(self.close_replaced(&mut *connector).await),
            Err(fault) => Err(fault),
        }
    }

    /// Closes an instance that has not failed and is replaced because of a request or a reload.
    async fn close_replaced(&mut self, connector: &mut dyn DynConnector) -> Fault {
        self.enter(State::Restarting);
        if self.mark_down("restarts") {
            let cause = if self.handover.is_requested() { "reload" } else { "request" };
            tracing::info!(component = %self.name, "the connector restarts because of a {cause}");
        }
        // While the source waits for acknowledgements, the instance is still in use and must not be closed.
        if self.life.acknowledging.is_none()
            && let Err(error) =
                in_time("close", connector.hook(Hook::CLOSE), &self.control, Phase::Stopped).await
        {
            tracing::warn!(component = %self.name, %error, "cannot close the previous instance");
        }
        Fault::Requested
    }

    /// Connects an instance, and connects it again after a connection was lost, until the flow no longer needs the
    /// connector.
    ///
    /// # Errors
    /// Returns the reason why the instance ended before that.
    async fn run_connections(
        &mut self,
        connector: &mut dyn DynConnector,
        connection: &Arc<Connection>,
    ) -> Result<(), Fault> {
        let mut hooks = Hooks::default();
        loop {
            self.enter(State::Connecting);
            connection.restore();
            let halves = self.connect(connector, connection).await?;
            let Some(halves) = halves else { return Ok(()) };
            let since = self.control.clock().now();
            let outcome = self.run_connection(connector, connection, halves, &mut hooks).await?;
            if let (Outcome::Lost(_), Some(reason)) = (&outcome, connection.replaced()) {
                return Err(reason.into());
            }
            let has_lasted = self.control.clock().elapsed(since) > self.reconnect.policy().max;
            let was_useful = has_lasted || connection.has_passed_events();
            let Some(wait) = self.reconnect_after(outcome, was_useful)? else { return Ok(()) };
            let slept = self.control.clock().sleep(wait);
            if self.while_needed(connection, slept).await?.is_none() {
                return Ok(());
            }
        }
    }

    /// Returns the result of `call`, which is a call of the connector or a wait while neither source nor sink runs.
    /// Returns `None` if the flow no longer needs the connector before `call` has completed.
    ///
    /// # Errors
    /// Returns a fault if the instance is to be replaced before `call` has completed.
    async fn while_needed<T>(
        &mut self,
        connection: &Connection,
        call: impl Future<Output = T>,
    ) -> Result<Option<T>, Fault> {
        let call = async { Ok(call.await) };
        let replaced = async { Err(connection.until_replaced().await.into()) };
        self.ending().or(executor::first(call, replaced)).await.transpose()
    }

    /// Returns the wait before the same instance connects again, or `None` if the flow no longer needs the connector.
    /// `was_useful` is `true` if an event was read or delivered through the last connection, or if that connection
    /// lasted for long.
    ///
    /// # Errors
    /// Returns a fault if the instance cannot connect again.
    fn reconnect_after(
        &mut self,
        outcome: Outcome,
        was_useful: bool,
    ) -> Result<Option<Duration>, Fault> {
        if was_useful {
            self.reconnect.restart();
        }
        let error = match outcome {
            Outcome::Over => return Ok(None),
            Outcome::Lost(error) => error,
            // Source and sink have ended, so there is nothing to connect for.
            Outcome::Failed(error) if self.source.is_none() && self.sink.is_none() => {
                return Err(Fault::Final(error));
            }
            // An instance that has panicked cannot be used any more. An instance that returned an error may connect
            // again.
            Outcome::Failed(error) if error.is_final() || error.kind() == ErrorKind::PANICKED => {
                return Err(error.into());
            }
            Outcome::Failed(error) => {
                return self.restart_after(&error).map(Some).map_err(Fault::Final);
            }
        };
        // An attempt that the flow does not need must not fail the connector, so it is not counted.
        if !was_useful && !self.control.has_reached(self.ends_with()) {
            self.attempt_failed(&error)?;
        }
        let wait = self.reconnect.wait_after(&error);
        self.handle.retry(Retried::Connect, &error, wait);
        self.enter(State::Connecting);
        if self.mark_down("lost") {
            tracing::warn!(component = %self.name, %error, ?wait, "connection lost");
        }
        Ok(Some(wait))
    }

    /// Uses up one restart after `error`, and returns the wait before the restart.
    ///
    /// # Errors
    /// Returns the error if no restart is left.
    fn restart_after(&mut self, error: &Error) -> Result<Duration, Error> {
        let wait = self.restarts.after(error, self.control.clock().now())?;
        self.handle.note(error);
        self.enter(State::Restarting);
        if self.mark_down("restarts") {
            tracing::warn!(component = %self.name, %error, ?wait, "connector restarts");
        }
        Ok(wait)
    }

    /// Connects the instance, and retries failed attempts with backoff. Returns `None` if the flow no longer needs the
    /// connector before the instance is connected.
    ///
    /// # Errors
    /// Returns a fault if the error does not permit a retry, if no attempt is left, or if the instance is to be
    /// replaced.
    async fn connect(
        &mut self,
        connector: &mut dyn DynConnector,
        connection: &Connection,
    ) -> Result<Option<DynHalves>, Fault> {
        let mut attempt = 1;
        let halves = loop {
            let wanted = Sides::new(self.source.is_some(), self.sink.is_some());
            let error = match self.while_needed(connection, connector.connect(wanted)).await? {
                None => return Ok(None),
                Some(Ok(halves)) => break complete(halves, wanted).map_err(Fault::Final)?,
                Some(Err(error)) if !may_connect_later(&error) => return Err(error.into()),
                Some(Err(error)) => error,
            };
            self.attempt_failed(&error)?;
            let wait = self.reconnect.wait_after(&error);
            self.handle.retry(Retried::Connect, &error, wait);
            if !self.life.is_down && self.mark_down("not connected") {
                tracing::warn!(component = %self.name, %error, ?wait, "not connected");
            } else {
                tracing::debug!(component = %self.name, %error, attempt, ?wait, "not connected");
            }
            let slept = self.control.clock().sleep(wait);
            if self.while_needed(connection, slept).await?.is_none() {
                return Ok(None);
            }
            attempt += 1;
        };
        if std::mem::take(&mut self.life.is_down) && self.notices.admits("connected") {
            tracing::info!(component = %self.name, attempt, "connected");
        }
        Ok(Some(halves))
    }

    /// Counts an attempt to connect that failed with `error`.
    ///
    /// # Errors
    /// Returns a fault if no attempt is left.
    fn attempt_failed(&mut self, error: &Error) -> Result<(), Fault> {
        if self.reconnect.fail_with(error) {
            self.handover.tried(Some(error));
            return Ok(());
        }
        let made = format_args!("not connected after {}", self.reconnect);
        Err(Fault::Final(error.clone().context(made)))
    }

    /// Records that the connector has no connection, which begins an outage of its sink. Returns whether a log line
    /// about `state` is permitted.
    fn mark_down(&mut self, state: &'static str) -> bool {
        self.life.is_down = true;
        if self.sink.is_some() {
            self.outage.begin();
        }
        self.notices.admits(state)
    }

    /// Returns the phase from which on the connector does not connect again. While the flow drains, a connector with a
    /// sink is still needed, because events for it may arrive, unless the sink has to give up what it has.
    fn ends_with(&self) -> Phase {
        match &self.sink {
            Some(sink) if sink.may_give_up() && self.control.has_given_up(&self.name) => {
                Phase::Running
            }
            Some(_) => Phase::Stopped,
            None => Phase::Draining,
        }
    }
}

/// Returns `halves` if they include all halves that are `wanted`.
///
/// # Errors
/// Returns an error that names the missing half.
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
