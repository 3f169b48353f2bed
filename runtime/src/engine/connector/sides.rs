//! The tasks of a connector's source and sink within one connection, and the events that the connector waits for
//! meanwhile.

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
    source::{SourceSide, outstanding::OutstandingAcks},
};
use crate::executor;

/// The tasks of the source and the sink. `None` if the task does not run or has ended.
pub(crate) struct Running {
    pub(crate) source: Option<executor::Task<(SourceSide, Result<OutstandingAcks, End>)>>,
    pub(crate) sink: Option<executor::Task<(SinkSide, End)>>,
}

/// An event that a connector handles while its source or its sink runs.
pub(crate) enum Step {
    /// The source has ended for this connection. `Ok` means that it reads nothing more, not even in a later connection.
    SourceEnded(Box<SourceSide>, Result<OutstandingAcks, End>),
    /// A source that reads nothing more has received all acknowledgements, or has failed meanwhile.
    Acknowledged(Result<(), Error>),
    SinkEnded(Box<SinkSide>, End),
    /// The connector has to be notified of a pause. No event flows.
    Paused,
    /// The connector has to be notified of the end of a pause.
    Resumed,
}

/// Waits for the next [`Step`] of a connector.
pub(crate) struct Steps<'t> {
    gate: &'t Gate,
    changes: gate::Changes<'t>,
    drains: Reached<'t>,
}

impl<'t> Steps<'t> {
    pub(crate) fn new(control: &'t Control, gate: &'t Gate) -> Self {
        Self { gate, changes: gate.changes(), drains: control.reached(Phase::Draining) }
    }

    /// Returns the next step, or `None` once none of the tasks runs. Removes a task that has ended from `running` or
    /// `acknowledging`. `is_paused` is `true` if the last notification of the connector was a pause.
    pub(crate) async fn next(
        &mut self,
        running: &mut Running,
        acknowledging: &mut Option<executor::Task<Result<(), Error>>>,
        is_paused: bool,
    ) -> Option<Step> {
        poll_fn(|context| {
            let Running { source, sink } = &mut *running;
            if source.is_none() && acknowledging.is_none() && sink.is_none() {
                return Poll::Ready(None);
            }
            // A drain ends a pause, because otherwise the drain would wait until a user resumes the connector.
            if self.gate.is_closed() && self.drains.poll(context).is_ready() {
                self.gate.resume();
            }
            let sides: &[Side] = match (source.is_some(), sink.is_some()) {
                (true, true) => &[Side::Source, Side::Sink],
                (true, false) => &[Side::Source],
                (false, true) => &[Side::Sink],
                (false, false) => &[],
            };
            let notification = self.changes.poll_notification(context, sides, is_paused);
            if let Poll::Ready(pauses) = notification {
                return Poll::Ready(Some(if pauses { Step::Paused } else { Step::Resumed }));
            }
            if let Poll::Ready((side, end)) = poll_end(source, context) {
                return Poll::Ready(Some(Step::SourceEnded(Box::new(side), end)));
            }
            if let Poll::Ready(result) = poll_end(acknowledging, context) {
                return Poll::Ready(Some(Step::Acknowledged(result)));
            }
            if let Poll::Ready((side, end)) = poll_end(sink, context) {
                return Poll::Ready(Some(Step::SinkEnded(Box::new(side), end)));
            }
            Poll::Pending
        })
        .await
    }
}

/// Completes with the result of `task` and removes the task. Pending if there is no task.
fn poll_end<T>(task: &mut Option<executor::Task<T>>, context: &mut Context<'_>) -> Poll<T> {
    let Some(running) = task else { return Poll::Pending };
    let ended = Pin::new(running).poll(context);
    if ended.is_ready() {
        *task = None;
    }
    ended
}
