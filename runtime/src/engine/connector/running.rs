//! Runs the source and the sink of a connector during one connection.

use std::sync::Arc;

use tremor_abi::connector::Hook;
use tremor_pdk::{Error, Halves};

use super::{
    ConnectorTask, Hooks,
    fault::{Fault, may_connect_later},
    sides::{Running, Step, Steps},
};
use crate::{
    dynamic::{DynConnector, DynHalves, DynSink, DynSource},
    engine::{
        control::{Control, Phase, interrupt::Interrupt, last_call::in_time},
        handle::{
            connection::{Connection, End},
            gate::Side,
            status::State,
        },
        queue::mailbox::Host,
        sink::SinkSide,
        source::{SourceSide, outstanding::OutstandingAcks},
    },
    executor, log,
};

/// The end of one connection.
pub(super) enum Outcome {
    /// The source and the sink have finished, or the flow no longer needs them.
    Over,
    /// The connection was lost.
    Lost(Error),
    /// The source or the sink failed, but may work with another connection.
    Failed(Error),
}

impl ConnectorTask {
    /// Runs source and sink until the connection ends. `hooks` records the hooks that were called for the instance.
    ///
    /// # Errors
    /// Returns the reason why the instance ends.
    pub(super) async fn run_connection(
        &mut self,
        connector: &mut dyn DynConnector,
        connection: &Arc<Connection>,
        halves: DynHalves,
        hooks: &mut Hooks,
    ) -> Result<Outcome, Fault> {
        match self.run_sides(connector, connection, halves, hooks).await {
            // An error of `on_start` after which the same instance may connect again counts as a lost connection.
            Err(Fault::Restart(error)) if may_connect_later(&error) => Ok(Outcome::Lost(error)),
            result => result,
        }
    }

    async fn run_sides(
        &mut self,
        connector: &mut dyn DynConnector,
        connection: &Arc<Connection>,
        Halves { source, sink }: DynHalves,
        hooks: &mut Hooks,
    ) -> Result<Outcome, Fault> {
        if !hooks.started {
            let started = self.while_needed(connection, connector.hook(Hook::START)).await?;
            let Some(started) = started else { return Ok(Outcome::Over) };
            started?;
            hooks.started = true;
        }
        self.enter(if hooks.paused { State::Paused } else { State::Running });
        self.handover.tried(None);
        if sink.is_some() && !std::mem::replace(&mut self.life.sink_seen, true) {
            self.control.sink_ready(&self.name);
        }
        let mut running = Running {
            source: self.start_source(source, connection),
            sink: self.start_sink(sink, connection),
        };
        let ends = self.until_ended(connector, connection, &mut running, hooks).await?;
        Ok(self.outcome(ends))
    }

    /// Waits until the source and the sink have ended. Meanwhile calls the hooks of the connector for pauses. Also
    /// waits for the acknowledgements of a source that has ended, unless the sink has to connect again: events that are
    /// not acknowledged may be in the queue of this sink.
    async fn until_ended(
        &mut self,
        connector: &mut dyn DynConnector,
        connection: &Connection,
        running: &mut Running,
        hooks: &mut Hooks,
    ) -> Result<Vec<End>, Fault> {
        let (mut ends, mut fault) = (Vec::with_capacity(2), None);
        let (control, handle) = (self.control.clone(), self.handle.clone());
        let mut steps = Steps::new(&control, &handle.gate);
        while let Some(step) = steps.next(running, &mut self.life.acknowledging, hooks.paused).await
        {
            match step {
                Step::SourceEnded(_, Ok(outstanding)) => {
                    self.handle.drains();
                    if running.sink.is_none() && self.sink.is_none() {
                        self.handover.end();
                    }
                    self.life.acknowledging = Some(log::spawn(outstanding.run()));
                }
                Step::SourceEnded(side, Err(end)) => {
                    self.source = Some(*side);
                    ends.push(end);
                }
                Step::Acknowledged(Ok(())) | Step::SinkEnded(_, End::Finished) => {}
                Step::Acknowledged(Err(error)) => {
                    connection.break_off();
                    fault = Some(Fault::Final(error));
                }
                Step::SinkEnded(side, end) => {
                    self.sink = Some(*side);
                    ends.push(end);
                }
                Step::Paused => {
                    hooks.paused = true;
                    self.enter(State::Paused);
                    ends.extend(call_hook(Hook::PAUSE, connector, connection, &control).await);
                }
                Step::Resumed => {
                    hooks.paused = false;
                    ends.extend(call_hook(Hook::RESUME, connector, connection, &control).await);
                    self.enter(State::Running);
                    handle.gate.open();
                }
            }
            if self.sink.is_some() && running.source.is_none() {
                break;
            }
        }
        fault.map_or(Ok(ends), Err)
    }

    fn start_source(
        &mut self,
        source: Option<Box<dyn DynSource>>,
        connection: &Arc<Connection>,
    ) -> Option<executor::Task<(SourceSide, Result<OutstandingAcks, End>)>> {
        let (mut side, source) = (self.source.take()?, source?);
        let (connection, control) = (connection.clone(), self.control.clone());
        let name = self.name.clone();
        // The source is idle until its task begins to pull.
        self.handle.gate.set_idle(Side::Source, true);
        let turns = self.control.calls().watch(&self.name, Some("source"));
        Some(log::spawn(turns.turns(async move {
            // Waits for the first connection of the sinks and for capacity in the queues, unless the flow drains or the
            // connection breaks first.
            let mut ends = Interrupt::new(&control, Phase::Draining, Some(&connection));
            let ready = ends.or(async {
                control.sinks_ready(&name).await;
                side.worker.router.wait_for_capacity().await;
            });
            // If the wait was interrupted, the next call ends the source for the same reason.
            _ = ready.await;
            let end = side.pull_until_end(source, &connection).await;
            if end.is_err() {
                connection.break_off();
            }
            (side, end)
        })))
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
        let turns = self.control.calls().watch(&self.name, Some("sink"));
        Some(log::spawn(Host::new(mailbox, turns.turns(running))))
    }

    /// Returns the outcome of a connection. A failure of one side takes precedence over a loss, and a loss over a
    /// normal end.
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

/// Calls a hook of the connector while its source or sink runs. If the hook fails, breaks the connection and returns
/// how the connection ended.
async fn call_hook(
    hook: Hook,
    connector: &mut dyn DynConnector,
    connection: &Connection,
    control: &Control,
) -> Option<End> {
    let call = connector.hook(hook);
    let error = in_time(hook.as_str(), call, control, Phase::Stopped).await.err()?;
    connection.break_off();
    Some(End::Failed(error))
}
