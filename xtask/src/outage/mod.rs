//! `cargo xtask outage`: a flow of as many events as there can be, to a sink whose peer takes 20 ms for each
//! delivery, and is stopped, refuses, is slow and is silent by turns; what the peer has in the end, judged.

mod books;
mod judgement;
mod peer;

use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};

use self::books::Books;
use self::judgement::{Found, Outage};
use self::peer::{Manner, Peer};
use crate::process::Process;
use crate::scenario::{self, Judgement, Options, Scenario, Stage, counts};

/// The size of an event, in bytes, and of how many streams there are.
const RECORD: usize = 1_000;
const STREAMS: usize = 8;
/// Manners of the peer that are outages, in this order.
const TURNS: [Manner; 4] = [Manner::Stopped, Manner::Refuses, Manner::Slow, Manner::Silent];
/// A time of all of them is no longer than this, so that there are several in the long form.
const ROUND: f64 = 30.0;
/// The longest wait between two attempts, in the flow.
const BACKOFF: Duration = Duration::from_millis(500);
/// Maximum time for what takes no time.
const PATIENCE: Duration = Duration::from_secs(30);

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// How long the peer answers and does not by turns, in seconds
    #[arg(long, default_value_t = 60.0, value_name = "S")]
    seconds: f64,
    /// Deliver the events of each stream in order
    #[arg(long)]
    ordered: bool,
    /// Allow for a machine that does other work
    #[arg(long)]
    busy: bool,
}

/// Times of the parts of a round.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Timing {
    rounds: usize,
    outage: Duration,
    /// In which the peer answers, after each outage.
    between: Duration,
    /// Time of a slow answer, and time that the flow waits for an answer.
    slow: Duration,
    timeout: Duration,
}

impl Timing {
    fn of(seconds: f64) -> Self {
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // some rounds
        let rounds = (seconds / ROUND).max(1.0) as usize;
        #[allow(clippy::cast_precision_loss)] // some rounds
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

/// The short form, for every change.
pub(crate) fn check() -> Result<()> {
    let arguments = Arguments { seconds: 8.0, ordered: true, busy: true };
    scenario::run(&arguments, &Options::default())
}

impl Scenario for Arguments {
    const NAME: &'static str = "outage";
    const PLUGINS: &'static [&'static str] = &["fixture-answered"];
    type Found = Found;

    fn play(&self, stage: &Stage<'_>) -> Result<Found> {
        ensure!(self.seconds >= 4.0, "an outage of less than some hundred milliseconds is none");
        let timing = Timing::of(self.seconds);
        stage.write("outage.yaml", &flow(timing, self.ordered))?;
        let peer = Peer::new(&stage.folder.join("peer"), timing.slow, Books::new(RECORD, STREAMS));
        let mut process = stage.start("tremor", &["outage.yaml"])?;
        let (before, outages) = turns(&mut process, &peer, timing)?;
        let peak = process.peak_memory()?;
        let (sent, delivered) = counts(&process.stop(PATIENCE)?, "outage")?;
        ensure!(sent == delivered, "the flow has lost events: {sent} in, {delivered} out");
        let found = peer.ask(|books| Found {
            outages,
            sent,
            lost: books.missing(sent),
            again: books.again,
            disordered: books.disordered,
            torn: books.torn,
            before,
            peak,
        });
        peer.end()?;
        Ok(found)
    }

    fn judge(&self, found: &Found) -> Result<Judgement> {
        judgement::of(self, found)
    }
}

/// Lets the peer answer and not answer by turns. The memory before the first event, and the outages.
fn turns(process: &mut Process, peer: &Peer, timing: Timing) -> Result<(u64, Vec<Outage>)> {
    // No event flows until the sink has connected once.
    process.until("an attempt to connect", PATIENCE, |process| {
        Ok(process.log()?.contains("no peer").then_some(()))
    })?;
    let before = process.memory()?;
    peer.turn(Manner::Answers);
    process.until("the first delivery", PATIENCE, |_| Ok(peer.first()))?;
    thread::sleep(timing.between);
    let mut outages = Vec::new();
    for manner in TURNS.repeat(timing.rounds) {
        peer.turn(manner);
        thread::sleep(timing.outage);
        let end = Instant::now();
        peer.turn(Manner::Answers);
        let what = format!("a delivery after the peer {}", manner.name());
        let first = process.until(&what, PATIENCE, |_| Ok(peer.first()))?;
        let (lasted_ms, recovery_ms) = (timing.outage.as_millis(), (first - end).as_millis());
        outages.push(Outage { peer: manner, lasted_ms, recovery_ms });
        thread::sleep(timing.between);
    }
    Ok((before, outages))
}

/// Returns a flow at full load, to a sink with eight deliveries in flight.
fn flow(timing: Timing, is_ordered: bool) -> String {
    let (backoff, timeout) = (BACKOFF.as_millis(), timing.timeout.as_millis());
    format!(
        "connectors:
  numbers: {{ type: numbers, codec: binary, config: {{ bytes: {RECORD}, streams: {STREAMS} }} }}
  peer:
    type: answered
    codec: binary
    in_flight: 8
    ordered: {is_ordered}
    batch: {{ max_events: 1000 }}
    reconnect: {{ backoff: 20ms, max_backoff: {backoff}ms }}
    retry: {{ backoff: 20ms, max_backoff: {backoff}ms }}
    config: {{ path: peer, timeout: {timeout}ms }}
links: [numbers -> peer]
"
    )
}

#[cfg(test)]
mod tests {
    use super::{Duration, Timing};

    #[test]
    fn a_minute_has_every_outage_twice_and_answers_in_time_where_the_peer_is_slow() {
        let long = Timing::of(60.0);
        assert_eq!((long.rounds, long.outage, long.slow), (2, 5 * S, 2 * S));
        for seconds in [4.0, 8.0, 29.0, 60.0, 600.0] {
            let Timing { outage, slow, timeout, .. } = Timing::of(seconds);
            assert!(slow < timeout && timeout < outage, "{seconds}");
        }
    }

    const S: Duration = Duration::from_secs(1);
}
