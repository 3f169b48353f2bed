//! The removal of connectors from a running flow, after their links were removed.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use crate::{
    engine::{
        Kind, State, control::Control, retry::breaker::Outage, succession::Member,
        tracking::stats::FlowCounters,
    },
    flow::owner_of,
};

/// Time that a sink which is down has to deliver what it has.
const DOWN: Duration = Duration::from_secs(1);
/// Time for which a queue on disk has to be empty before it ends. A batch that has left the queue before it is not counted
/// for a moment.
const EMPTY: Duration = Duration::from_secs(1);
/// Time that a connector has to end after it had to give up what it has.
const GRACE: Duration = Duration::from_secs(6);

/// Connectors that leave a running flow. They have no links any more, and deliver what they have.
pub(crate) struct Removal {
    control: Arc<Control>,
    counters: Arc<FlowCounters>,
    leaving: Vec<Leaving>,
    /// Numbers of events that the sinks had lost before, by the name of the sink.
    lost_before: BTreeMap<String, u64>,
}

/// A connector that leaves.
pub(super) struct Leaving {
    pub(super) member: Member,
    outage: Option<Arc<Outage>>,
    /// Time at which the connector was found to be down, since the removal began; `None` while it is up.
    down_since: Option<Duration>,
    /// Time at which the queue on disk was found to be empty, since the removal began; `None` while it is not.
    empty_since: Option<Duration>,
    /// Time at which the connector had to give up what it has, since the removal began.
    given_up_at: Option<Duration>,
}

/// Remainder of a removed sink.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Remainder {
    /// Name of the sink.
    pub(crate) sink: String,
    /// Number of events that are lost.
    pub(crate) lost: u64,
    /// Number of events that stay in the queue on disk of the sink, if it has one.
    pub(crate) stored: Option<u64>,
    /// `true` unless the sink did not end in time.
    pub(crate) has_ended: bool,
}

impl Leaving {
    pub(super) fn new(member: Member, outage: Option<Arc<Outage>>) -> Self {
        Self { member, outage, down_since: None, empty_since: None, given_up_at: None }
    }

    fn name(&self) -> &str {
        self.member.handle.name()
    }

    fn has_ended(&self) -> bool {
        self.member.handle.status().state.is_over()
    }

    /// Returns whether the connector accepts no events now.
    fn is_down(&self) -> bool {
        let state = self.member.handle.status().state;
        matches!(state, State::Connecting | State::Restarting)
            || self.outage.as_ref().is_some_and(|it| it.is_down())
    }

    /// Returns whether the connector had enough time: `deadline`, or [`DOWN`] while it is down.
    fn is_late(&self, elapsed: Duration, deadline: Duration) -> bool {
        elapsed >= deadline
            || self.down_since.is_some_and(|since| elapsed.saturating_sub(since) >= DOWN)
    }

    /// Returns whether the connector has ended, or is not awaited any longer.
    fn is_over(&self, elapsed: Duration) -> bool {
        self.has_ended() || self.given_up_at.is_some_and(|at| elapsed.saturating_sub(at) >= GRACE)
    }

    /// Lets the connector end, and give up what it has.
    fn give_up(&mut self, elapsed: Duration) {
        if self.given_up_at.is_none() {
            self.given_up_at = Some(elapsed);
            self.member.hurry();
            self.member.handover.remove();
            self.member.handle.restart();
        }
    }
}

impl Removal {
    pub(super) fn new(
        control: Arc<Control>,
        counters: Arc<FlowCounters>,
        leaving: Vec<Leaving>,
    ) -> Self {
        let names = leaving.iter().map(|it| owner_of(it.name()).to_owned());
        let lost = |name: String| {
            let lost = counters.of(&name, Kind::Sink).counts().undelivered;
            (name, lost)
        };
        let lost_before = names.map(lost).collect();
        Self { control, counters, leaving, lost_before }
    }

    /// Lets connectors give up what they have if they had enough time: `deadline`, or [`DOWN`] while they are down. `elapsed`
    /// is the time since the removal began. Returns whether all have ended, or are not awaited any longer.
    pub(crate) fn advance(&mut self, elapsed: Duration, deadline: Duration) -> bool {
        for it in &mut self.leaving {
            it.down_since = it.is_down().then(|| it.down_since.unwrap_or(elapsed));
        }
        for at in 0..self.leaving.len() {
            let it = &self.leaving[at];
            let named = |name: &str| self.leaving.iter().find(|it| it.name() == name);
            let sink = named(owner_of(it.name())).filter(|sink| sink.name() != it.name());
            let is_late = sink.unwrap_or(it).is_late(elapsed, deadline);
            // A queue on disk ends once it is empty, because its source would wait for more events.
            let is_empty = sink.is_some_and(|sink| {
                let handle = &it.member.handle;
                handle.queued() + handle.in_flight() == 0
                    && self.counters.stored(sink.name()).stored().now == 0
            });
            let it = &mut self.leaving[at];
            it.empty_since = is_empty.then(|| it.empty_since.unwrap_or(elapsed));
            let is_done =
                it.empty_since.is_some_and(|since| elapsed.saturating_sub(since) >= EMPTY);
            if (is_late || is_done) && !it.has_ended() {
                it.give_up(elapsed);
            }
        }
        self.leaving.iter().all(|it| it.is_over(elapsed))
    }

    /// Removes the connectors from the status of the flow. Returns what they have left.
    pub(crate) fn finish(self) -> Vec<Remainder> {
        let Self { control, counters, leaving, lost_before } = self;
        let sinks = leaving.iter().filter(|it| owner_of(it.name()) == it.name());
        let remainder = |sink: &Leaving| {
            let name = sink.name();
            let is_stored =
                leaving.iter().any(|it| it.name() != name && owner_of(it.name()) == name);
            let lost = counters.of(name, Kind::Sink).counts().undelivered;
            let before = lost_before.get(name).copied().unwrap_or_default();
            Remainder {
                sink: name.to_owned(),
                lost: lost.saturating_sub(before),
                stored: is_stored.then(|| counters.stored(name).stored().now),
                has_ended: leaving.iter().all(|it| owner_of(it.name()) != name || it.has_ended()),
            }
        };
        let remainders = sinks.map(remainder).collect();
        for it in &leaving {
            control.remove(it.name());
            forget(&counters, it.name());
        }
        remainders
    }
}

/// Removes the counters of a sink, or of its queue on disk, from the status of the flow.
pub(super) fn forget(counters: &FlowCounters, connector: &str) {
    counters.remove(connector, Kind::Sink);
    if owner_of(connector) != connector {
        counters.remove(connector, Kind::Source);
    }
}
