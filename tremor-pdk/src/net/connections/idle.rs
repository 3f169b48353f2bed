//! Connections that say nothing.

use std::{
    collections::HashMap,
    task::{Context, Poll},
    time::Duration,
};

use super::{super::alarm::Alarm, peer::Peer};
use crate::Host;

/// By how much the clock may differ from the timer, in ns. Where it differs by more, it was set.
const SLACK_NS: u64 = 1_000_000_000;

/// How long a handshake may take, in ns.
const HANDSHAKE_NS: u64 = 10_000_000_000;

/// When connections have said nothing for too long, or have not finished their handshake. One timer is for all
/// of them: it is set while there is one, for the earliest end that there may be, and a connection that is read
/// does not touch it.
pub(super) struct Idle {
    timeout_ns: Option<u64>,
    has_handshakes: bool,
    alarm: Alarm,
    /// What the clock shows when the alarm rings.
    due_ns: u64,
}

impl Idle {
    pub(super) fn new(timeout: Option<Duration>) -> Self {
        let timeout_ns = timeout.map(|it| u64::try_from(it.as_nanos()).unwrap_or(u64::MAX));
        Self { timeout_ns, has_handshakes: false, alarm: Alarm::default(), due_ns: 0 }
    }

    /// Connections begin with a handshake.
    #[cfg(feature = "tls")]
    pub(super) fn expect_handshakes(&mut self) {
        self.has_handshakes = true;
    }

    /// How long the first of its times is, where there is one.
    fn shortest_ns(&self) -> Option<u64> {
        let handshake_ns = self.has_handshakes.then_some(HANDSHAKE_NS);
        self.timeout_ns.into_iter().chain(handshake_ns).min()
    }

    /// The time, where it matters.
    pub(super) fn now_ns(&self, host: &Host) -> u64 {
        if self.shortest_ns().is_some() { host.monotonic_ns() } else { 0 }
    }

    /// There is a connection.
    pub(super) fn begin(&mut self, host: &Host, now_ns: u64) {
        if let Some(after_ns) = self.shortest_ns()
            && (!self.alarm.is_set() || now_ns.saturating_add(after_ns) < self.due_ns)
        {
            self.set(host, now_ns, after_ns);
        }
    }

    fn set(&mut self, host: &Host, now_ns: u64, after_ns: u64) {
        self.due_ns = now_ns.saturating_add(after_ns);
        self.alarm.set(host, Duration::from_nanos(after_ns));
    }

    /// When a connection is over if nothing comes.
    fn end_ns(&self, peer: &Peer) -> Option<u64> {
        let after_ns = if peer.is_handshaking() { Some(HANDSHAKE_NS) } else { self.timeout_ns };
        after_ns.map(|after_ns| peer.active_ns.saturating_add(after_ns))
    }

    /// The connections that have said nothing for too long.
    pub(super) fn over(
        &mut self,
        host: &Host,
        now_ns: u64,
        open: &mut HashMap<u64, Peer>,
    ) -> Vec<u64> {
        let mut over = Vec::new();
        let Some((shortest_ns, rang_ns)) = self.shortest_ns().zip(self.alarm.rang_ns()) else {
            return over;
        };
        // A process that was stopped meanwhile does not know how long anybody was silent.
        let is_off = rang_ns.abs_diff(self.due_ns) > SLACK_NS;
        // The source was not pulled for a while: what has come since is not read.
        let is_late = now_ns.abs_diff(rang_ns) > SLACK_NS;
        let mut earliest = None;
        for (stream, peer) in open {
            let has_come = peer.is_queued && (is_late || !peer.is_handshaking());
            if is_off || has_come {
                peer.active_ns = now_ns;
            }
            let Some(end) = self.end_ns(peer) else { continue };
            // Until it rang it was silent. Of those that would be over since, the next alarm tells.
            if end <= rang_ns {
                over.push(*stream);
            } else {
                earliest = Some(earliest.map_or(end, |earliest: u64| earliest.min(end)));
            }
        }
        if let Some(end) = earliest {
            // Seldom enough that many connections with an end of their own each cost little.
            self.set(host, now_ns, end.saturating_sub(now_ns).max(shortest_ns / 16));
        }
        over
    }

    /// Ready once connections may have said nothing for too long.
    pub(super) fn poll(&self, context: &Context<'_>) -> Poll<()> {
        self.alarm.poll(context)
    }
}
