//! The times from which sinks that stop no source no longer delay the end of the flow.

use std::{
    future::pending,
    task::{Context, Poll},
    time::{Duration, Instant},
};

use super::{Control, Phase, State};
use crate::{
    engine::{
        handle::status::{Bound, Relieves},
        sync::watch::Waiter,
    },
    flow::WhenFull,
};

/// Longest time between two checks whether a sink has to give up what it has.
const PERIOD: Duration = Duration::from_secs(1);

/// The progress of a flow towards its end.
#[derive(Debug, Default)]
pub(super) struct Ends {
    /// Time at which the flow was found to drain.
    drains_since: Option<Instant>,
    /// `true` once all sinks that stop no source have to give up what they have.
    gives_up: bool,
}

impl State {
    /// Returns whether the sink of `connector` has to give up what it has. A sink whose events stay on disk does so in a
    /// drain while it is down.
    fn gives_up(&self, connector: &str) -> bool {
        let drains = self.phase >= Phase::Draining;
        let gives_up = |it: &super::Sink| {
            if it.when_full.blocks() {
                it.is_stored && drains && it.is_down()
            } else {
                it.gives_up || self.ends.gives_up
            }
        };
        self.sinks.iter().any(|it| it.connector.name() == connector && gives_up(it))
    }

    /// Lets each sink that stops no source give up what it has if it had enough time at `now`: `limit` after all tasks
    /// have ended that feed it, or in a drain that began earlier. A sink that passes events on to `err` has half of the
    /// time of a drain, so that they are delivered there in the other half.
    fn limit_ends(&mut self, limit: Duration, now: Instant) {
        let drains = self.phase >= Phase::Draining;
        let limit = self.deadline.filter(|_| drains).unwrap_or(limit);
        let drains_since = drains.then(|| *self.ends.drains_since.get_or_insert(now));
        for sink in
            self.sinks.iter_mut().filter(|sink| !sink.when_full.blocks() && !(sink.has_senders)())
        {
            let ended_at = *sink.ended_at.get_or_insert(now);
            let since = drains_since.map_or(ended_at, |drains| drains.min(ended_at));
            let limit =
                if drains && sink.when_full == WhenFull::DeadLetter { limit / 2 } else { limit };
            sink.gives_up |= now.saturating_duration_since(since) >= limit;
        }
    }

    /// Returns whether [`State::limit_ends`] may change anything. A change wakes all tasks that wait for the flow.
    fn is_end_near(&self) -> bool {
        let begins_drain = self.phase >= Phase::Draining && self.ends.drains_since.is_none();
        let mut sinks = self.sinks.iter().filter(|sink| !sink.when_full.blocks() && !sink.gives_up);
        begins_drain || sinks.any(|sink| !(sink.has_senders)())
    }

    /// Returns whether a sink that has to give up what it has still runs, or else no connector does. A connector whose
    /// sink has ended may still close, as any other connector.
    fn is_giving_up(&self) -> bool {
        let is_over =
            |sink: &super::Sink| sink.has_ended || sink.connector.status().state.is_over();
        let mut given_up = self.sinks.iter().filter(|sink| !sink.when_full.blocks());
        given_up.any(|sink| !is_over(sink))
            || self.connectors.iter().all(|it| it.status().state.is_over())
    }

    /// Returns whether no connector that runs has events for its sink, so that all only have to close.
    fn is_closing(&self) -> bool {
        let mut running = self.connectors.iter().filter(|it| !it.status().state.is_over());
        running.all(|it| it.in_flight() + it.queued() == 0)
    }
}

impl Control {
    /// Lets each sink that stops no source give up what it has, `limit` after all tasks have ended that feed it, or
    /// after the beginning of a drain. Never completes.
    pub(crate) async fn limit_ends<T>(&self, limit: Duration) -> T {
        if self.state.read(|state| state.sinks.iter().all(|sink| sink.when_full.blocks())) {
            return pending().await;
        }
        let period = (limit / 20).clamp(Duration::from_millis(10), PERIOD);
        loop {
            self.clock.sleep(period).await;
            if self.state.read(State::is_end_near) {
                self.state.update(|state| state.limit_ends(limit, self.clock.now()));
            }
        }
    }

    /// Lets all sinks that stop no source give up what they have, because the time is over that a drain may take. Waits
    /// until they have ended, for at most `limit` or until the flow is stopped. If the other connectors have no events
    /// then, also gives them a quarter of `limit` to close: sinks after the port `err` of a sink that gives up begin to
    /// close only now.
    pub(crate) async fn give_up(&self, limit: Duration) {
        if self.state.read(|state| state.sinks.iter().all(|sink| sink.when_full.blocks())) {
            return;
        }
        self.state.update(|state| state.ends.gives_up = true);
        let start = self.clock.now();
        let mut closing_since = None;
        while !self.has_reached(Phase::Stopped) && self.clock.elapsed(start) < limit {
            let now = self.clock.now();
            let (gives_up, closes) =
                self.state.read(|state| (state.is_giving_up(), state.is_closing()));
            let since = *closing_since.get_or_insert(now);
            if gives_up {
                closing_since = None;
            } else if !closes || now.saturating_duration_since(since) >= limit / 4 {
                break;
            }
            self.clock.sleep(limit / 40).await;
        }
    }

    /// Records that the sink of `connector`, if it has one, has ended, and has no event any more.
    pub(crate) fn sink_ended(&self, connector: &str) {
        self.state.update(|state| {
            let sinks = state.sinks.iter_mut().filter(|it| it.connector.name() == connector);
            sinks.for_each(|sink| sink.has_ended = true);
        });
    }

    /// Returns whether the sink of `connector` has to give up what it has.
    pub(crate) fn has_given_up(&self, connector: &str) -> bool {
        self.state.read(|state| state.gives_up(connector))
    }

    /// Returns a future that waits until the sink of a connector has to give up what it has.
    pub(crate) fn gives_up(&self) -> GivesUp<'_> {
        GivesUp(self.state.waiter())
    }

    /// Returns the reason if a source waits, and the wait may end because queues give batches up: any source that waits
    /// for memory, or a source of the connectors `sources` that waits for acknowledgements.
    pub(crate) fn bound(&self, sources: &[String], relieves: Relieves) -> Option<Bound> {
        self.state.read(|state| {
            let is_behind = |name: &str| sources.iter().any(|source| source == name);
            let bounds = state.connectors.iter().filter_map(|it| Some((it.name(), it.bound()?.1)));
            let mut ending = bounds.filter(|(name, bound)| {
                relieves.ends(*bound) && (*bound == Bound::Memory || is_behind(name))
            });
            ending.next().map(|(_, bound)| bound)
        })
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
