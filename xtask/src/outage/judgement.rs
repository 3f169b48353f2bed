//! Whether the promises hold.

use std::fmt::{self, Write as _};
use std::time::Duration;

use super::peer::Manner;

/// How much memory the process may take besides what its queue holds, in bytes.
const MEMORY: u64 = 64 << 20;
/// What a queue holds unless a flow says otherwise, in bytes.
const QUEUE: u64 = 4 << 20;
/// Besides, on a machine that does other work, or with a build that is not optimised: threads keep memory that
/// they have freed. Of eight equal runs one took 98 MiB and the others 71 to 89; a run whose queue had no bound
/// took 1,051 MiB (`bench/runs/2026-11-23-outage-short`).
const BUSY_MEMORY: u64 = 92 << 20;
/// What a delivery takes besides the waits, on a machine that has time,
const MARGIN: Duration = Duration::from_millis(250);
/// and on one that does other work.
const BUSY_MARGIN: Duration = Duration::from_secs(3);

/// A time in which the peer did not behave.
#[derive(Clone, Copy, Debug)]
pub(super) struct Outage {
    pub(super) manner: Manner,
    pub(super) lasted: Duration,
    /// From its end to the first delivery.
    pub(super) recovery: Duration,
}

/// What was found.
#[derive(Debug)]
pub(super) struct Found {
    pub(super) outages: Vec<Outage>,
    /// Records that the source has brought, and those of them that the peer does not have.
    pub(super) sent: u64,
    pub(super) lost: u64,
    pub(super) again: u64,
    pub(super) disordered: u64,
    pub(super) torn: u64,
    /// Memory before the first event, and the most that there was, in bytes.
    pub(super) before: u64,
    pub(super) peak: u64,
}

/// What the flow waits for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Waits {
    /// The longest between two attempts.
    pub(super) backoff: Duration,
    /// For an answer, before a connection is given up.
    pub(super) timeout: Duration,
}

pub(super) struct Judgement {
    promises: Vec<(&'static str, String, bool)>,
}

/// How long a recovery may take.
fn limit(manner: Manner, waits: Waits, is_busy: bool) -> Duration {
    // A connection that is silent is found out when an answer is late.
    let silence = if manner == Manner::Silent { waits.timeout } else { Duration::ZERO };
    silence + waits.backoff + if is_busy { BUSY_MARGIN } else { MARGIN }
}

impl Judgement {
    pub(super) fn of(found: &Found, waits: Waits, is_ordered: bool, is_busy: bool) -> Self {
        let Found { sent, lost, again, disordered, torn, before, peak, .. } = found;
        let order = if is_ordered { "0 allowed" } else { "any order is allowed" };
        #[allow(clippy::cast_precision_loss)] // not 2^53 bytes
        let mebibytes = |bytes: u64| bytes as f64 / f64::from(1 << 20);
        let growth = peak.saturating_sub(*before);
        let allowed = QUEUE + MEMORY + if is_busy { BUSY_MEMORY } else { 0 };
        let mut promises = vec![
            ("lost", format!("{lost} of {sent} events, 0 allowed"), *lost == 0 && *sent > 0),
            ("torn", format!("{torn} events, 0 allowed"), *torn == 0),
            ("again", format!("{again} events came again"), true),
            (
                "order",
                format!("{disordered} events after a later one of their stream, {order}"),
                *disordered == 0 || !is_ordered,
            ),
            (
                "memory",
                format!(
                    "{:.1} MiB before the first event, {:.1} MiB at most: {:.1} MiB more, {:.0} MiB allowed",
                    mebibytes(*before),
                    mebibytes(*peak),
                    mebibytes(growth),
                    mebibytes(allowed)
                ),
                growth <= allowed,
            ),
        ];
        for manner in [Manner::Stopped, Manner::Refuses, Manner::Slow, Manner::Silent] {
            let of = found.outages.iter().filter(|it| it.manner == manner);
            let times: Vec<Duration> = of.map(|it| it.recovery).collect();
            let limit = limit(manner, waits, is_busy);
            let latest = times.iter().max().copied().unwrap_or(Duration::MAX);
            promises.push((
                manner.name(),
                format!(
                    "{} times; {} ms from its end to a delivery at the latest, {} ms allowed",
                    times.len(),
                    latest.as_millis(),
                    limit.as_millis()
                ),
                latest <= limit,
            ));
        }
        Self { promises }
    }

    pub(super) fn broken(&self) -> usize {
        self.promises.iter().filter(|(.., holds)| !holds).count()
    }
}

impl fmt::Display for Judgement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.promises.iter().try_for_each(|(what, found, holds)| {
            let verdict = if *holds { "" } else { "; BROKEN" };
            writeln!(f, "  {what:9} {found}{verdict}")
        })
    }
}

/// The outages, as CSV.
pub(super) fn table(outages: &[Outage]) -> String {
    let mut text = "peer,lasted_ms,recovery_ms\n".to_owned();
    for Outage { manner, lasted, recovery } in outages {
        let (lasted, recovery) = (lasted.as_millis(), recovery.as_millis());
        // Writing to a string does not fail.
        let _ = writeln!(text, "{},{lasted},{recovery}", manner.name());
    }
    text
}

#[cfg(test)]
mod tests {
    use super::{Duration, Found, Judgement, Manner, Outage, Waits};

    const WAITS: Waits =
        Waits { backoff: Duration::from_millis(500), timeout: Duration::from_secs(3) };

    fn broken(is_ordered: bool, change: fn(&mut Found)) -> usize {
        let outage = |(manner, ms)| Outage {
            manner,
            lasted: Duration::from_secs(5),
            recovery: Duration::from_millis(ms),
        };
        let outages = [
            (Manner::Stopped, 700),
            (Manner::Refuses, 700),
            (Manner::Slow, 700),
            (Manner::Silent, 3_700),
        ];
        let (lost, again, disordered, torn) = (0, 7, 0, 0);
        let outages = outages.map(outage).into();
        let (before, peak) = (20 << 20, 88 << 20);
        let mut found = Found { outages, sent: 9, lost, again, disordered, torn, before, peak };
        change(&mut found);
        Judgement::of(&found, WAITS, is_ordered, false).broken()
    }

    #[test]
    fn each_promise_is_broken_by_what_it_is_for() {
        for (name, change, expected) in [
            ("nothing", (|_| {}) as fn(&mut Found), 0),
            ("a lost event", |found| found.lost = 1, 1),
            ("no event at all", |found| found.sent = 0, 1),
            ("a torn event", |found| found.torn = 1, 1),
            ("disorder", |found| found.disordered = 1, 1),
            ("memory", |found| found.peak += 1, 1),
            ("a late recovery", |found| found.outages[1].recovery += Duration::from_secs(1), 1),
            ("a late end of silence", |found| found.outages[3].recovery *= 2, 1),
            ("a peer that was never slow", |found| _ = found.outages.remove(2), 1),
        ] {
            assert_eq!(broken(true, change), expected, "{name}");
        }
        assert_eq!(broken(false, |found| found.disordered = 1), 0, "any order");
    }
}
