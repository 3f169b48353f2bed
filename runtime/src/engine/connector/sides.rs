//! The two sides of a connector within one connection, and which of them ends first.

use std::{
    future::poll_fn,
    pin::Pin,
    task::{Context, Poll},
};

use tremor_pdk::Error;

use crate::engine::{
    control::{Control, Phase, Reached},
    handle::{
        connection::End,
        gate::{self, Gate, Side},
    },
    sink::SinkSide,
    source::{SourceSide, settling::Settling},
};
use crate::executor;

/// The tasks of both sides, as long as they run.
pub(crate) struct Running {
    pub(crate) source: Option<executor::Task<(SourceSide, Result<Settling, End>)>>,
    pub(crate) sink: Option<executor::Task<(SinkSide, End)>>,
}

/// What a connector does while its sides run.
pub(crate) enum Step {
    /// The source brings nothing more.
    SourceEnded(Box<SourceSide>, Result<Settling, End>),
    /// It knows what became of everything that it brought.
    Settled(Result<(), Error>),
    SinkEnded(Box<SinkSide>, End),
    /// No event flows, since the connector is paused.
    Paused,
    /// Events are to flow again.
    Resumed,
}

/// What pauses and resumes a connector.
pub(crate) struct Pauses<'t> {
    gate: &'t Gate,
    changes: gate::Changes<'t>,
    drains: Reached<'t>,
}

impl<'t> Pauses<'t> {
    pub(crate) fn new(control: &'t Control, gate: &'t Gate) -> Self {
        Self { gate, changes: gate.changes(), drains: control.reached(Phase::Draining) }
    }

    /// What comes next; `None` once neither side runs. What has ended is not there any more then.
    pub(crate) async fn next_step(
        &mut self,
        running: &mut Running,
        settling: &mut Option<executor::Task<Result<(), Error>>>,
        is_paused: bool,
    ) -> Option<Step> {
        poll_fn(|context| {
            let Running { source, sink } = &mut *running;
            if source.is_none() && settling.is_none() && sink.is_none() {
                return Poll::Ready(None);
            }
            // A flow that drains does not wait to be resumed.
            if self.gate.is_closed() && self.drains.poll(context).is_ready() {
                self.gate.resume();
            }
            let sides: &[Side] = match (source.is_some(), sink.is_some()) {
                (true, true) => &[Side::Source, Side::Sink],
                (true, false) => &[Side::Source],
                (false, true) => &[Side::Sink],
                (false, false) => &[],
            };
            if let Poll::Ready(pauses) = self.changes.poll_told(context, sides, is_paused) {
                return Poll::Ready(Some(if pauses { Step::Paused } else { Step::Resumed }));
            }
            if let Poll::Ready((side, end)) = poll_end(source, context) {
                return Poll::Ready(Some(Step::SourceEnded(Box::new(side), end)));
            }
            if let Poll::Ready(result) = poll_end(settling, context) {
                return Poll::Ready(Some(Step::Settled(result)));
            }
            if let Poll::Ready((side, end)) = poll_end(sink, context) {
                return Poll::Ready(Some(Step::SinkEnded(Box::new(side), end)));
            }
            Poll::Pending
        })
        .await
    }
}

/// The end of a task, which is not there any more then.
fn poll_end<T>(task: &mut Option<executor::Task<T>>, context: &mut Context<'_>) -> Poll<T> {
    let Some(running) = task else { return Poll::Pending };
    let ended = Pin::new(running).poll(context);
    if ended.is_ready() {
        *task = None;
    }
    ended
}
