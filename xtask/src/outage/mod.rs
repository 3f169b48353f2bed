//! `cargo xtask outage`: a flow of as many events as there can be, to a sink whose peer takes 20 ms for each
//! delivery, and is stopped, refuses, is slow and is silent by turns; what the peer has in the end, judged.

mod books;
mod judgement;
mod peer;

use std::path::{Path, PathBuf, absolute};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};

use self::books::Books;
use self::judgement::{Found, Judgement, Outage, Waits};
use self::peer::{Manner, Peer};
use crate::built;
use crate::running::{Running, empty_folder, load, write};

/// The size of an event, in bytes, and of how many streams there are.
const RECORD: usize = 1_000;
const STREAMS: usize = 8;
/// What the peer does that it should not, in this order.
const TURNS: [Manner; 4] = [Manner::Stopped, Manner::Refuses, Manner::Slow, Manner::Silent];
/// A time of all of them is no longer than this, so that there are several in the long form.
const ROUND: f64 = 30.0;
/// The longest wait between two attempts, in the flow.
const BACKOFF: Duration = Duration::from_millis(500);
/// How long anything may take that takes no time.
const PATIENCE: Duration = Duration::from_secs(30);

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// How long the peer answers and does not by turns, in seconds
    #[arg(long, default_value_t = 60.0, value_name = "S")]
    seconds: f64,
    /// Deliver the events of each stream in order
    #[arg(long)]
    ordered: bool,
    /// Build in the profile `release`
    #[arg(long)]
    release: bool,
    /// Allow for a machine that does other work
    #[arg(long)]
    busy: bool,
    /// Where to write outages.csv, summary.txt, the flow and its log
    #[arg(long, default_value = "target/outage", value_name = "DIR")]
    output: PathBuf,
}

/// How long each part of a round lasts.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Timing {
    rounds: usize,
    outage: Duration,
    /// In which the peer answers, after each outage.
    between: Duration,
    /// How long a slow answer takes, and how long one is waited for.
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

pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    ensure!(arguments.seconds >= 4.0, "an outage of less than some hundred milliseconds is none");
    let folder = absolute(&arguments.output)?;
    empty_folder(&folder)?;
    let built = built::build(&["fixture-answered"], arguments.release, &folder.join("bin"))?;
    let timing = Timing::of(arguments.seconds);
    write(&folder.join("outage.yaml"), &flow(timing, arguments.ordered))?;
    let peer = Peer::new(&folder.join("peer"), timing.slow, Books::new(RECORD, STREAMS));
    let mut running = Running::start(&built, &folder, "tremor.log", &["outage.yaml"])?;
    let (before, outages) = turns(&mut running, &peer, timing)?;
    let peak = running.peak_memory()?;
    running.signal("TERM")?;
    let status = running.end(PATIENCE)?;
    ensure!(status.success(), "tremor failed: {status}; see {}", folder.display());
    let sent = delivered(&running.log()?)?;
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
    report(arguments, timing, &found, &folder)
}

/// The short form, for every change.
pub(crate) fn check() -> Result<()> {
    let output = "target/outage".into();
    run(&Arguments { seconds: 8.0, ordered: true, release: false, busy: true, output })
}

/// Lets the peer answer and not answer by turns. The memory before the first event, and the outages.
fn turns(running: &mut Running, peer: &Peer, timing: Timing) -> Result<(u64, Vec<Outage>)> {
    // No event flows until the sink has connected once.
    running.until("an attempt to connect", PATIENCE, |running| {
        Ok(running.log()?.contains("no peer").then_some(()))
    })?;
    let before = running.memory()?;
    peer.turn(Manner::Answers);
    running.until("the first delivery", PATIENCE, |_| Ok(peer.first()))?;
    thread::sleep(timing.between);
    let mut outages = Vec::new();
    for manner in TURNS.repeat(timing.rounds) {
        peer.turn(manner);
        thread::sleep(timing.outage);
        let end = Instant::now();
        peer.turn(Manner::Answers);
        let what = format!("a delivery after the peer {}", manner.name());
        let first = running.until(&what, PATIENCE, |_| Ok(peer.first()))?;
        outages.push(Outage { manner, lasted: timing.outage, recovery: first - end });
        thread::sleep(timing.between);
    }
    Ok((before, outages))
}

/// As many events as there can be, to a sink with as many deliveries as the contract says.
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

/// How many events the flow has taken in, all of which are delivered: the summary says so.
fn delivered(log: &str) -> Result<u64> {
    let line = log.lines().find_map(|line| line.strip_prefix("flow `outage`: "));
    let line = line.context("no summary of the flow")?;
    let numbers: Vec<u64> =
        line.split([' ', ',']).filter_map(|word| word.parse().ok()).take(2).collect();
    let [taken, delivered] = numbers[..] else { bail!("no numbers in the summary: {line}") };
    let is_whole = !line.contains("failed") && line.contains(" 0 dead-lettered");
    ensure!(is_whole && taken == delivered, "the flow says that it has lost events: {line}");
    Ok(taken)
}

/// Says and writes what was found.
///
/// # Errors
/// A promise is broken.
fn report(arguments: &Arguments, timing: Timing, found: &Found, folder: &Path) -> Result<()> {
    let waits = Waits { backoff: BACKOFF, timeout: timing.timeout };
    let judgement = Judgement::of(found, waits, arguments.ordered, arguments.busy);
    let profile = if arguments.release { "release" } else { "dev" };
    let order = if arguments.ordered { "in order" } else { "in any order" };
    let Timing { rounds, outage, between, slow, timeout } = timing;
    let summary = format!(
        "profile {profile}, {order}, load at the end {}\n{rounds} rounds: {outage:?} of each outage, {between:?} \
         after each; a slow answer takes {slow:?}, one is waited for {timeout:?}\n{judgement}",
        load()
    );
    print(&summary);
    write(&folder.join("outages.csv"), &judgement::table(&found.outages))?;
    write(&folder.join("summary.txt"), &summary)?;
    match judgement.broken() {
        0 => Ok(()),
        broken => bail!("{broken} promises are broken: see {}", folder.display()),
    }
}

#[allow(clippy::print_stdout)] // what was asked for
fn print(summary: &str) {
    print!("{summary}");
}

#[cfg(test)]
mod tests {
    use super::{Duration, Timing, delivered};

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

    #[test]
    fn the_summary_of_a_flow_says_what_was_delivered() {
        let log =
            |counts: &str| format!("a line\nflow `outage`: {counts}, 0 dead-lettered, 1.2 s\n");
        assert_eq!(delivered(&log("30 events in, 30 out")).unwrap(), 30);
        assert!(delivered(&log("30 events in, 29 out")).is_err());
        assert!(delivered("a line").is_err());
    }
}
