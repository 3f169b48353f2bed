//! Whether the promises hold.

use std::time::Duration;

use anyhow::Result;
use serde::Serialize;

use super::peer::Manner;
use super::{Arguments, BACKOFF, TURNS, Timing};
use crate::scenario::{Judgement, csv, mebibytes};

/// Memory that the process may take besides its queue, in bytes.
const MEMORY: u64 = 64 << 20;
/// Default capacity of a queue, in bytes.
const QUEUE: u64 = 4 << 20;
/// Besides, on a machine that does other work, or with a build that is not optimised: threads keep memory that
/// they have freed. Of eight equal runs one took 98 MiB and the others 71 to 89; a run whose queue had no bound
/// took 1,051 MiB (`bench/runs/2026-11-23-outage-short`).
const BUSY_MEMORY: u64 = 92 << 20;
/// Time of a delivery besides the waits, on a machine that has time,
const MARGIN: Duration = Duration::from_millis(250);
/// and on one that does other work.
const BUSY_MARGIN: Duration = Duration::from_secs(3);

/// A time in which the peer did not behave.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct Outage {
    pub(super) peer: Manner,
    pub(super) lasted_ms: u128,
    /// Time from the end of the outage to the first delivery.
    pub(super) recovery_ms: u128,
}

/// Figures of a run.
#[derive(Debug)]
pub(crate) struct Found {
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

/// Judges an outage.
pub(super) fn of(arguments: &Arguments, found: &Found) -> Result<Judgement> {
    let (is_ordered, is_busy) = (arguments.ordered, arguments.busy);
    let Timing { rounds, outage, between, slow, timeout } = Timing::of(arguments.seconds);
    let mut judgement = Judgement::default();
    let order = if is_ordered { "in order" } else { "in any order" };
    judgement.line(format_args!(
        "{order}; {rounds} rounds: {outage:?} of each outage, {between:?} after each; a slow answer takes {slow:?}, one \
         is waited for {timeout:?}"
    ));
    let Found { outages, sent, lost, again, disordered, torn, before, peak } = found;
    judgement.add("lost", format!("{lost} of {sent} events, 0 allowed"), *lost == 0 && *sent > 0);
    judgement.add("torn", format!("{torn} events, 0 allowed"), *torn == 0);
    judgement.add("again", format!("{again} events came again"), true);
    let order = if is_ordered { "0 allowed" } else { "any order is allowed" };
    let text = format!("{disordered} events after a later one of their stream, {order}");
    judgement.add("order", text, *disordered == 0 || !is_ordered);
    let growth = peak.saturating_sub(*before);
    let allowed = QUEUE + MEMORY + if is_busy { BUSY_MEMORY } else { 0 };
    let [from, most, more, bound] = [*before, *peak, growth, allowed].map(mebibytes);
    let text = format!(
        "{from:.1} MiB before the first event, {most:.1} MiB at most: {more:.1} MiB more, {bound:.0} MiB allowed"
    );
    judgement.add("memory", text, growth <= allowed);
    for manner in TURNS {
        let of = outages.iter().filter(|it| it.peer == manner);
        let times: Vec<_> = of.map(|it| it.recovery_ms).collect();
        // A connection that is silent is found out when an answer is late.
        let silence = if manner == Manner::Silent { timeout } else { Duration::ZERO };
        let margin = if is_busy { BUSY_MARGIN } else { MARGIN };
        let limit = (silence + BACKOFF + margin).as_millis();
        let latest = times.iter().max().copied().unwrap_or(u128::MAX);
        let text = format!(
            "{} times; {latest} ms from its end to a delivery at the latest, {limit} ms allowed",
            times.len()
        );
        judgement.add(manner.name(), text, latest <= limit);
    }
    judgement.files.push(("outages.csv", csv(outages)?));
    Ok(judgement)
}

#[cfg(test)]
mod tests {
    use super::{Arguments, Found, Manner, Outage, of};

    fn broken(is_ordered: bool, change: fn(&mut Found)) -> usize {
        let outage = |(peer, recovery_ms)| Outage { peer, lasted_ms: 5_000, recovery_ms };
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
        // A minute has a timeout of 3 s.
        let arguments = Arguments { seconds: 60.0, ordered: is_ordered, busy: false };
        of(&arguments, &found).expect("a table").broken
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
            ("a late recovery", |found| found.outages[1].recovery_ms += 1_000, 1),
            ("a late end of silence", |found| found.outages[3].recovery_ms *= 2, 1),
            ("a peer that was never slow", |found| _ = found.outages.remove(2), 1),
        ] {
            assert_eq!(broken(true, change), expected, "{name}");
        }
        assert_eq!(broken(false, |found| found.disordered = 1), 0, "any order");
    }
}
