//! Detection of idle connections and slow handshakes.

use std::{
    collections::HashMap,
    task::{Context, Poll},
    time::Duration,
};

use super::{super::timer::Timer, peer::Peer};
use crate::Host;

/// Tolerated difference in ns between the deadline of the timer and the time at which the timer expired. A larger
/// difference means that the process was suspended.
const SLACK_NS: u64 = 1_000_000_000;

/// Maximum time of a handshake in ns, including the header of the PROXY protocol.
const HANDSHAKE_NS: u64 = 10_000_000_000;

/// A detector of connections that have exceeded the idle timeout or the time limit for handshakes.
///
/// The connections share one timer, which is set for the earliest time at which a connection may be overdue. Reading
/// from a connection does not set the timer again.
pub(super) struct Idle {
    timeout_ns: Option<u64>,
    has_handshakes: bool,
    timer: Timer,
    /// Monotonic time for which the timer is set, in ns.
    due_ns: u64,
}

impl Idle {
    pub(super) fn new(timeout: Option<Duration>) -> Self {
        let timeout_ns = timeout.map(|time| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX));
        Self { timeout_ns, has_handshakes: false, timer: Timer::default(), due_ns: 0 }
    }

    /// Enables the time limit for handshakes and headers of the PROXY protocol.
    pub(super) fn expect_handshakes(&mut self) {
        self.has_handshakes = true;
    }

    /// Returns the shorter of the two time limits in ns, or `None` if there is no limit.
    fn shortest_ns(&self) -> Option<u64> {
        let handshake_ns = self.has_handshakes.then_some(HANDSHAKE_NS);
        self.timeout_ns.into_iter().chain(handshake_ns).min()
    }

    /// Returns the monotonic time in ns, or 0 if there is no time limit.
    pub(super) fn now_ns(&self, host: &Host) -> u64 {
        if self.shortest_ns().is_some() { host.monotonic_ns() } else { 0 }
    }

    /// Sets the timer for a new connection, unless the timer is already set for an earlier time.
    pub(super) fn begin(&mut self, host: &Host, now_ns: u64) {
        if let Some(after_ns) = self.shortest_ns()
            && (!self.timer.is_set() || now_ns.saturating_add(after_ns) < self.due_ns)
        {
            self.set(host, now_ns, after_ns);
        }
    }

    fn set(&mut self, host: &Host, now_ns: u64, after_ns: u64) {
        self.due_ns = now_ns.saturating_add(after_ns);
        self.timer.set(host, Duration::from_nanos(after_ns));
    }

    /// Returns the time in ns at which a connection becomes overdue, unless its handshake ends or, after that, data
    /// arrives before that time.
    fn end_ns(&self, peer: &Peer) -> Option<u64> {
        let after_ns = if peer.is_handshaking() { Some(HANDSHAKE_NS) } else { self.timeout_ns };
        after_ns.map(|after_ns| peer.active_ns.saturating_add(after_ns))
    }

    /// Returns the connections that are overdue, if the timer has expired.
    pub(super) fn take_overdue(
        &mut self,
        host: &Host,
        now_ns: u64,
        open: &mut HashMap<u64, Peer>,
    ) -> Vec<u64> {
        let mut overdue = Vec::new();
        let Some((shortest_ns, expired_ns)) = self.shortest_ns().zip(self.timer.expired_ns())
        else {
            return overdue;
        };
        // If the process was suspended, the time for which the peers were silent is unknown.
        let was_suspended = expired_ns.abs_diff(self.due_ns) > SLACK_NS;
        // If the source was not pulled for a while, data may have arrived that was not read yet.
        let is_late = now_ns.abs_diff(expired_ns) > SLACK_NS;
        let mut earliest = None;
        for (stream, peer) in open {
            let has_data = peer.is_queued && (is_late || !peer.is_handshaking());
            if was_suspended || has_data {
                peer.active_ns = now_ns;
            }
            let Some(end) = self.end_ns(peer) else { continue };
            // Connections that became overdue after the timer expired are found when the timer expires the next time.
            if end <= expired_ns {
                overdue.push(*stream);
            } else {
                earliest = Some(earliest.map_or(end, |earliest: u64| earliest.min(end)));
            }
        }
        if let Some(end) = earliest {
            // The minimum interval limits the cost if many connections become overdue at different times.
            self.set(host, now_ns, end.saturating_sub(now_ns).max(shortest_ns / 16));
        }
        overdue
    }

    /// Completes when connections may be overdue.
    pub(super) fn poll(&self, context: &Context<'_>) -> Poll<()> {
        self.timer.poll(context)
    }
}
