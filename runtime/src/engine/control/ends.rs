//! The end of sources, and the times from which sinks that stop no source no longer delay the end of the flow.

use std::{
    task::{Context, Poll},
    time::{Duration, Instant},
};

use super::{Control, Phase, State};
use crate::engine::sync::watch::Waiter;

/// Longest time between two checks whether a sink has to give up what it has.
const PERIOD: Duration = Duration::from_secs(1);

/// The progress of a flow towards its end.
#[derive(Debug, Default)]
pub(super) struct Ends {
    /// Number of sources that may still read.
    reading: usize,
    /// `true` once all sinks that stop no source have to give up what they have.
    gives_up: bool,
}

impl State {
    /// Returns whether the sink of `connector` has to give up what it has.
    fn gives_up(&self, connector: &str) -> bool {
        let mut sinks = self.sinks.iter().filter(|sink| !sink.blocks);
        sinks.any(|it| it.connector.name() == connector && (it.gives_up || self.ends.gives_up))
    }

    /// Returns whether a sink that has to give up what it has still runs.
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

    /// Lets each sink that stops no source give up what it has once `limit` has passed since the end of all tasks that
    /// feed it. Does nothing while a source reads. Never completes.
    pub(crate) async fn limit_ends<T>(&self, limit: Duration) -> T {
        self.state.wait(|state| (state.ends.reading == 0).then_some(())).await;
        let period = limit.clamp(Duration::from_millis(10), PERIOD);
        loop {
            self.state.update(|state| {
                let now = self.clock.now();
                for sink in state.sinks.iter_mut().filter(|sink| !sink.blocks) {
                    if !(sink.has_senders)() {
                        let since: Instant = *sink.ended_at.get_or_insert(now);
                        sink.gives_up |= now.saturating_duration_since(since) >= limit;
                    }
                }
            });
            self.clock.sleep(period).await;
        }
    }

    /// Lets all sinks that stop no source give up what they have, because the time is over that a drain may take. Waits
    /// until they have ended, for at most `limit` or until the flow is stopped.
    pub(crate) async fn give_up(&self, limit: Duration) {
        self.state.update(|state| state.ends.gives_up = true);
        let start = self.clock.now();
        let is_over = || self.has_reached(Phase::Stopped) || self.clock.elapsed(start) >= limit;
        while self.state.read(State::is_giving_up) && !is_over() {
            self.clock.sleep(limit / 40).await;
        }
    }

    /// Returns whether the sink of `connector` has to give up what it has.
    pub(crate) fn has_given_up(&self, connector: &str) -> bool {
        self.state.read(|state| state.gives_up(connector))
    }

    /// Returns a future that waits until the sink of a connector has to give up what it has.
    pub(crate) fn gives_up(&self) -> GivesUp<'_> {
        GivesUp(self.state.waiter())
    }
}

/// The registration of a task that waits for the time at which a sink has to give up what it has.
#[derive(Debug)]
pub(crate) struct GivesUp<'c>(Waiter<'c, State>);

impl GivesUp<'_> {
    /// Completes once the sink of `connector` has to give up what it has. May be polled again after that.
    pub(crate) fn poll(&mut self, context: &Context<'_>, connector: &str) -> Poll<()> {
        self.0.poll(context, |state| state.gives_up(connector).then_some(()))
    }
}
