//! One connection of a connector, from the moment that it is made: source and sink run until it ends.

use std::sync::Arc;

use tremor_abi::connector::Hook;
use tremor_pdk::{Error, Halves};

use super::{
    ConnectorTask, Told,
    fault::{Fault, may_connect_later},
    sides::{Pauses, Running, Step},
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
        source::{SourceSide, settling::Settling},
    },
    executor, log,
};

/// How one connection ended.
pub(super) enum Outcome {
    /// Everything is done, or the flow does not want it any more.
    Over,
    /// The connection is gone.
    Lost(Error),
    /// Source or sink failed; another connection may go better.
    Failed(Error),
}

impl ConnectorTask {
    /// What becomes of a connection from the moment that it is made.
    pub(super) async fn connected(
        &mut self,
        connector: &mut dyn DynConnector,
        connection: &Arc<Connection>,
        halves: DynHalves,
        told: &mut Told,
    ) -> Result<Outcome, Fault> {
        match self.run_connection(connector, connection, halves, told).await {
            // Lost before an event could come or go, and lost all the same.
            Err(Fault::Restart(error)) if may_connect_later(&error) => Ok(Outcome::Lost(error)),
            result => result,
        }
    }

    /// Runs source and sink as long as the connection lasts.
    async fn run_connection(
        &mut self,
        connector: &mut dyn DynConnector,
        connection: &Arc<Connection>,
        Halves { source, sink }: DynHalves,
        told: &mut Told,
    ) -> Result<Outcome, Fault> {
        if !told.started {
            let started = self.wanted(connection, connector.hook(Hook::START)).await?;
            let Some(started) = started else { return Ok(Outcome::Over) };
            started?;
            told.started = true;
        }
        self.enter(if told.paused { State::Paused } else { State::Running });
        if sink.is_some() && !std::mem::replace(&mut self.life.sink_seen, true) {
            self.control.sink_ready(&self.name);
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
        let (control, handle) = (self.control.clone(), self.handle.clone());
        let mut pauses = Pauses::new(&control, &handle.gate);
        while let Some(step) = pauses.next_step(running, &mut self.life.settling, told.paused).await
        {
            match step {
                Step::SourceEnded(_, Ok(settling)) => {
                    self.handle.drains();
                    self.life.settling = Some(log::spawn(settling.run()));
                }
                Step::SourceEnded(side, Err(end)) => {
                    self.source = Some(*side);
                    ends.push(end);
                }
                Step::Settled(Ok(())) | Step::SinkEnded(_, End::Finished) => {}
                Step::Settled(Err(error)) => {
                    connection.break_off();
                    fault = Some(Fault::Final(error));
                }
                Step::SinkEnded(side, end) => {
                    self.sink = Some(*side);
                    ends.push(end);
                }
                Step::Paused => {
                    told.paused = true;
                    self.enter(State::Paused);
                    ends.extend(answered(Hook::PAUSE, connector, connection, &control).await);
                }
                Step::Resumed => {
                    told.paused = false;
                    ends.extend(answered(Hook::RESUME, connector, connection, &control).await);
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
    ) -> Option<executor::Task<(SourceSide, Result<Settling, End>)>> {
        let (mut side, source) = (self.source.take()?, source?);
        let (connection, control) = (connection.clone(), self.control.clone());
        let name = self.name.clone();
        // It is not called before its time has come.
        self.handle.gate.set_rests(Side::Source, true);
        let turns = self.control.calls().watch(&self.name, Some("source"));
        Some(log::spawn(turns.turns(async move {
            // Whatever the source would wait for, it hears first of what ends it.
            let mut ends = Interrupt::new(&control, Phase::Draining, Some(&connection));
            let ready = ends.or(async {
                control.sinks_ready(&name).await;
                side.worker.router.room().await;
            });
            // If it does not come to that, the source hears why.
            _ = ready.await;
            let end = side.bring(source, &connection).await;
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
