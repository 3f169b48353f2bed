//! The end of sources, and the time from which sinks that stop no source no longer delay the end of the flow.

use std::task::{Context, Poll};

use super::{Control, Phase, State};
use crate::engine::sync::watch::Waiter;

/// The progress of a flow towards its end.
#[derive(Debug, Default)]
pub(super) struct Ends {
    /// Number of sources that may still read.
    reading: usize,
    /// `true` once sinks that stop no source have to give up what they have.
    gives_up: bool,
}

impl State {
    /// Returns whether a sink that stops no source has not ended.
    fn is_giving_up(&self) -> bool {
        let mut sinks = self.sinks.iter().filter(|sink| !sink.blocks);
        sinks.any(|sink| !sink.connector.status().state.is_over())
    }
}

impl Control {
    /// Adds a source, which may read until [`Control::source_ended`] is called.
    pub(crate) fn add_source(&self) {
        self.state.update(|state| state.ends.reading += 1);
    }

    /// Records that a source reads nothing more.
    pub(crate) fn source_ended(&self) {
        self.state.update(|state| state.ends.reading = state.ends.reading.saturating_sub(1));
    }

    /// Waits until no source reads any more, or the flow drains.
    pub(crate) async fn sources_ended(&self) {
        let is_over = |state: &State| state.ends.reading == 0 || state.phase > Phase::Running;
        self.state.wait(|state| is_over(state).then_some(())).await;
    }

    /// Lets the sinks that stop no source give up what they have, because the time is over that a drain may take.
    /// Returns whether there are such sinks.
    pub(crate) fn give_up(&self) -> bool {
        self.state.update(|state| {
            state.ends.gives_up = true;
            state.is_giving_up()
        })
    }

    /// Returns whether [`Control::give_up`] was called.
    pub(crate) fn has_given_up(&self) -> bool {
        self.state.read(|state| state.ends.gives_up)
    }

    /// Returns a future that waits until [`Control::give_up`] is called.
    pub(crate) fn gives_up(&self) -> GivesUp<'_> {
        GivesUp(self.state.waiter())
    }
}

/// The registration of a task that waits for the time at which sinks [give up](Control::give_up) what they have.
#[derive(Debug)]
pub(crate) struct GivesUp<'c>(Waiter<'c, State>);

impl GivesUp<'_> {
    /// Completes once sinks have to give up what they have. May be polled again after that.
    pub(crate) fn poll(&mut self, context: &Context<'_>) -> Poll<()> {
        self.0.poll(context, |state| state.ends.gives_up.then_some(()))
    }
}
