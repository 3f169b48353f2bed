//! Connections that say nothing.

use std::{
    collections::HashMap,
    task::{Context, Poll},
    time::Duration,
};

use super::{super::alarm::Alarm, peer::Peer};
use crate::Host;

/// By how much the clock may differ from the timer, in ns. Where it differs by more it was set, or the
/// source was not pulled for a while.
const SLACK_NS: u64 = 1_000_000_000;

/// When connections have said nothing for too long. One timer is for all of them: it is set while there is
/// one, for the earliest end that there may be, and a connection that is read does not touch it.
pub(super) struct Idle {
    timeout_ns: Option<u64>,
    alarm: Alarm,
    /// What the clock shows when the alarm rings.
    due_ns: u64,
}

impl Idle {
    pub(super) fn new(timeout: Option<Duration>) -> Self {
        let timeout_ns = timeout.map(|it| u64::try_from(it.as_nanos()).unwrap_or(u64::MAX));
        Self { timeout_ns, alarm: Alarm::default(), due_ns: 0 }
    }

    /// The time, where it matters.
    pub(super) fn now_ns(&self, host: &Host) -> u64 {
        if self.timeout_ns.is_some() { host.now_ns() } else { 0 }
    }

    /// There is a connection.
    pub(super) fn begin(&mut self, host: &Host, now_ns: u64) {
        if let Some(timeout_ns) = self.timeout_ns
            && !self.alarm.is_set()
        {
            self.set(host, now_ns, timeout_ns);
        }
    }

    fn set(&mut self, host: &Host, now_ns: u64, after_ns: u64) {
        self.due_ns = now_ns.saturating_add(after_ns);
        self.alarm.set(host, Duration::from_nanos(after_ns));
    }

    /// The connections that have said nothing for too long.
    pub(super) fn over(
        &mut self,
        host: &Host,
        now_ns: u64,
        open: &mut HashMap<u64, Peer>,
    ) -> Vec<u64> {
        let mut over = Vec::new();
        let Some(timeout_ns) = self.timeout_ns else { return over };
        if !self.alarm.has_rung() {
            return over;
        }
        let is_off = now_ns.abs_diff(self.due_ns) > SLACK_NS;
        let mut earliest = None;
        for (stream, peer) in open {
            if is_off || peer.is_queued {
                peer.active_ns = now_ns;
            }
            let end = peer.active_ns.saturating_add(timeout_ns);
            if end <= now_ns {
                over.push(*stream);
            } else {
                earliest = Some(earliest.map_or(end, |earliest: u64| earliest.min(end)));
            }
        }
        if let Some(end) = earliest {
            // Seldom enough that many connections with an end of their own each cost little.
            self.set(host, now_ns, (end - now_ns).max(timeout_ns / 16));
        }
        over
    }

    /// Ready once connections may have said nothing for too long.
    pub(super) fn poll(&self, context: &Context<'_>) -> Poll<()> {
        self.alarm.poll(context)
    }
}
