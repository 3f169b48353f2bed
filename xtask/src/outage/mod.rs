//! `cargo xtask outage`: runs a flow at full load to a sink whose peer takes 20 ms for each
//! delivery. In turn, the peer is stopped, refuses deliveries, is slow, and is silent. Checks that
//! the peer receives every event.

pub(crate) mod peer;
pub(crate) mod received;

use std::time::{Duration, Instant};
use std::{fmt::Display, thread};

use anyhow::{Result, ensure};
use serde::Serialize;

use self::peer::{Behaviour, Pace, Peer};
use self::received::{Form, Received};
use crate::process::Process;
use crate::scenario::{self, Judgement, Options, Scenario, Stage, counts, csv, mebibytes};

/// Time from a delivery to an answer that is not slow.
const DELIVERY: Duration = Duration::from_millis(20);
/// Size of an event, in bytes.
const RECORD: usize = 1_000;
/// Number of streams.
const STREAMS: usize = 8;
/// Behaviours of the peer that count as outages, in the order in which they occur.
const TURNS: [Behaviour; 4] =
    [Behaviour::Stopped, Behaviour::Refuses, Behaviour::Slow, Behaviour::Silent];
/// Maximum duration of a round, in which each outage occurs once, in seconds. Longer runs have several rounds.
const ROUND: f64 = 30.0;
/// Maximum pause of the flow between two attempts to connect or to deliver.
const BACKOFF: Duration = Duration::from_millis(500);
/// Maximum wait for a step that normally ends immediately, so that a hanging process becomes an error.
const PATIENCE: Duration = Duration::from_secs(30);

/// Maximum growth of the process besides the contents of its queue, in bytes.
const MEMORY: u64 = 64 << 20;
/// Default capacity of a queue, in bytes.
const QUEUE: u64 = 4 << 20;
/// Additional growth that is permitted with `--busy`, in bytes, for a busy machine or a build that is not optimised.
///
/// Threads keep memory that they have freed. Of eight equal runs, one grew by 98 MiB, and the others by 71 to 89 MiB. A
/// run with an unlimited queue grew by 1,051 MiB (`bench/runs/2026-11-23-outage-short`).
const BUSY_MEMORY: u64 = 92 << 20;
/// Maximum time from the end of an outage to the next delivery on an idle machine, without
/// [`BACKOFF`] and, after a silence, without the timeout of the sink.
const MARGIN: Duration = Duration::from_millis(250);
/// The same limit as [`MARGIN`], on a busy machine.
const BUSY_MARGIN: Duration = Duration::from_secs(3);

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Duration of all rounds of outages together, in seconds
    #[arg(long, default_value_t = 60.0, value_name = "S")]
    seconds: f64,
    /// Deliver the events of each stream in order
    #[arg(long)]
    ordered: bool,
    /// Relax the limits for a machine that is busy with other work
    #[arg(long)]
    busy: bool,
}

/// Durations of the parts of a round.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Timing {
    rounds: usize,
    outage: Duration,
    /// Time for which the peer answers after each outage.
    between: Duration,
    /// Time that a slow answer takes.
    slow: Duration,
    /// Time for which the sink waits for an answer to a delivery.
    timeout: Duration,
}

impl Timing {
    fn of(seconds: f64) -> Self {
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // because rounds are few
        let rounds = (seconds / ROUND).max(1.0) as usize;
        #[allow(clippy::cast_precision_loss)] // because rounds are few
        let turn = Duration::from_secs_f64(seconds / (rounds * TURNS.len()) as f64);
        let outage = turn.mul_f64(2.0 / 3.0);
        Self {
            rounds,
            outage,
            between: turn.mul_f64(1.0 / 3.0),
            slow: (outage / 2).min(Duration::from_secs(2)),
            timeout: outage.mul_f64(0.75).min(Duration::from_secs(3)),
        }
    }
}

/// Runs the short form, which is a step of CI.
pub(crate) fn check() -> Result<()> {
    let arguments = Arguments { seconds: 8.0, ordered: true, busy: true };
    scenario::run(&arguments, &Options::default())
}

/// Figures of one outage.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct Outage {
    peer: Behaviour,
    lasted_ms: u128,
    /// Time from the end of the outage to the first delivery.
    recovery_ms: u128,
}

/// Figures of a run.
#[derive(Debug)]
pub(crate) struct Found {
    outages: Vec<Outage>,
    /// Number of records that the source has read.
    sent: u64,
    /// Number of records that the peer has not received.
    lost: u64,
    /// Number of records that the peer has received again.
    again: u64,
    /// Number of records that were first received after a later one of their stream.
    disordered: u64,
    /// Number of partial or unknown records that the peer has received.
    torn: u64,
    /// Memory before the first event, in bytes.
    before: u64,
    /// Maximum memory, in bytes.
    peak: u64,
}

impl Scenario for Arguments {
    const NAME: &'static str = "outage";
    const PLUGINS: &'static [&'static str] = &["fixture-answered"];
    type Found = Found;

    fn play(&self, stage: &Stage<'_>) -> Result<Found> {
        ensure!(
            self.seconds >= 4.0,
            "invalid seconds {}: expected at least 4, so that outages are long enough",
            self.seconds
        );
        let timing = Timing::of(self.seconds);
        let values: [(_, &dyn Display); 5] = [
            ("RECORD", &RECORD),
            ("STREAMS", &STREAMS),
            ("ORDERED", &self.ordered),
            ("BACKOFF", &BACKOFF.as_millis()),
            ("TIMEOUT", &timing.timeout.as_millis()),
        ];
        stage.flow("outage.yaml", include_str!("../flows/outage.yaml"), &values)?;
        let pace = Pace { usual: DELIVERY, slow: timing.slow };
        let received = Received::new(Form::Binary(RECORD), STREAMS);
        let mut peer = Peer::new(&stage.folder.join("peer"), pace, received);
        let mut process = stage.start("tremor", &["outage.yaml"])?;
        let (before, outages) = turns(&mut process, &mut peer, timing)?;
        let peak = process.peak_memory()?;
        let (sent, delivered) = counts(&process.stop(PATIENCE)?, "outage")?;
        ensure!(sent == delivered, "the flow has lost events: {sent} in, {delivered} out");
        Ok(peer.ask(|received| Found {
            outages,
            sent,
            lost: received.missing(sent),
            again: received.again,
            disordered: received.disordered,
            torn: received.torn,
            before,
            peak,
        }))
    }

    fn judge(&self, found: &Found) -> Result<Judgement> {
        let Timing { rounds, outage, between, slow, timeout } = Timing::of(self.seconds);
        let mut judgement = Judgement::default();
        let order = if self.ordered { "in order" } else { "in any order" };
        judgement.line(format_args!(
            "{order}; {rounds} rounds: each outage lasts {outage:?}, followed by {between:?} of answers; a slow answer takes \
             {slow:?}, and the sink times out after {timeout:?}"
        ));
        let Found { outages, sent, lost, again, disordered, torn, before, peak } = found;
        judgement.add(
            "lost",
            format!("{lost} of {sent} events, 0 allowed"),
            *lost == 0 && *sent > 0,
        );
        judgement.add("torn", format!("{torn} events, 0 allowed"), *torn == 0);
        judgement.add("again", format!("{again} events were received again"), true);
        let order = if self.ordered { "0 allowed" } else { "any order is allowed" };
        let text = format!("{disordered} events after a later one of their stream, {order}");
        judgement.add("order", text, *disordered == 0 || !self.ordered);
        let growth = peak.saturating_sub(*before);
        let allowed = QUEUE + MEMORY + if self.busy { BUSY_MEMORY } else { 0 };
        let [from, most, more, bound] = [*before, *peak, growth, allowed].map(mebibytes);
        let text = format!(
            "{from:.1} MiB before the first event, {most:.1} MiB at most: {more:.1} MiB more, {bound:.0} MiB allowed"
        );
        judgement.add("memory", text, growth <= allowed);
        for behaviour in TURNS {
            let of = outages.iter().filter(|it| it.peer == behaviour);
            let times: Vec<_> = of.map(|it| it.recovery_ms).collect();
            // The sink detects a silent connection when an answer times out.
            let silence = if behaviour == Behaviour::Silent { timeout } else { Duration::ZERO };
            let margin = if self.busy { BUSY_MARGIN } else { MARGIN };
            let limit = (silence + BACKOFF + margin).as_millis();
            let latest = times.iter().max().copied().unwrap_or(u128::MAX);
            let text = format!(
                "{} times; at most {latest} ms from the end of the outage to a delivery, {limit} ms allowed",
                times.len()
            );
            judgement.add(&behaviour.name(), text, latest <= limit);
        }
        judgement.files.push(("outages.csv", csv(outages)?));
        Ok(judgement)
    }
}

/// Runs the outages. Returns the memory before the first event, and the figures of the outages.
fn turns(process: &mut Process, peer: &mut Peer, timing: Timing) -> Result<(u64, Vec<Outage>)> {
    // No event flows until the sink has connected once.
    process.until("an attempt to connect", PATIENCE, |process| {
        Ok(process.log()?.contains("no peer").then_some(()))
    })?;
    let before = process.memory()?;
    peer.turn(Behaviour::Answers)?;
    process.until("the first delivery", PATIENCE, |_| Ok(peer.first()))?;
    thread::sleep(timing.between);
    let mut outages = Vec::new();
    for behaviour in TURNS.repeat(timing.rounds) {
        peer.turn(behaviour)?;
        thread::sleep(timing.outage);
        let end = Instant::now();
        peer.turn(Behaviour::Answers)?;
        let what = format!("a delivery after the peer {}", behaviour.name());
        let first = process.until(&what, PATIENCE, |_| Ok(peer.first()))?;
        let (lasted_ms, recovery_ms) = (timing.outage.as_millis(), (first - end).as_millis());
        outages.push(Outage { peer: behaviour, lasted_ms, recovery_ms });
        thread::sleep(timing.between);
    }
    Ok((before, outages))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slow_answers_arrive_before_the_timeout() {
        let long = Timing::of(60.0);
        assert_eq!((long.rounds, long.outage, long.slow), (2, 5 * S, 2 * S));
        for seconds in [4.0, 8.0, 29.0, 60.0, 600.0] {
            let Timing { outage, slow, timeout, .. } = Timing::of(seconds);
            assert!(slow < timeout && timeout < outage, "{seconds}");
        }
    }

    const S: Duration = Duration::from_secs(1);

    fn broken(is_ordered: bool, change: fn(&mut Found)) -> usize {
        let outage = |(peer, recovery_ms)| Outage { peer, lasted_ms: 5_000, recovery_ms };
        let outages = [
            (Behaviour::Stopped, 700),
            (Behaviour::Refuses, 700),
            (Behaviour::Slow, 700),
            (Behaviour::Silent, 3_700),
        ];
        let (lost, again, disordered, torn) = (0, 7, 0, 0);
        let outages = outages.map(outage).into();
        let (before, peak) = (20 << 20, 88 << 20);
        let mut found = Found { outages, sent: 9, lost, again, disordered, torn, before, peak };
        change(&mut found);
        // With 60 s, the timeout is 3 s.
        let arguments = Arguments { seconds: 60.0, ordered: is_ordered, busy: false };
        arguments.judge(&found).expect("the table can be written").broken
    }

    #[test]
    fn each_guarantee_is_broken_by_its_own_fault() {
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
        assert_eq!(
            broken(false, |found| found.disordered = 1),
            0,
            "a flow without order may reorder lines"
        );
    }
}
