//! `cargo xtask crash`: kills a flow that copies a file at random moments, restarts it, and checks the copy for lost,
//! torn and repeated lines.

mod feed;
mod output;

use std::time::{Duration, Instant};
use std::{collections::BTreeMap, fmt::Display, fs, path::PathBuf, thread};

use anyhow::{Context, Result};
use serde::Serialize;
use serde_json::Value;

use self::feed::Feed;
use self::output::Output;
use crate::process::Program;
use crate::scenario::{self, Judgement, Options, Scenario, Stage, csv, spread};

/// Configuration of the source, and the bytes that may be repeated with it.
struct Setup {
    /// Further keys for the configuration of the source.
    keys: &'static str,
    /// Number of lines that are added before each start of the flow.
    burst: usize,
    /// Maximum number of bytes that may be written again after a crash.
    window: u64,
}

/// Names of the setups.
const SETUPS: [&str; 2] = ["bounded", "defaults"];
/// Name of the log file, without extension.
const LOG: &str = "tremor";
/// Maximum time from the start of the flow to the kill, in a round that does not wait for an event.
const LONGEST: Duration = Duration::from_millis(500);
/// Maximum time from the start of the flow to the first event, in a round that waits for an event.
const PATIENCE: Duration = Duration::from_secs(20);
/// Average number of kills after which the test appends a part of a line to the output, because a
/// kill rarely interrupts a write.
const TEAR: u64 = 4;
/// Average number of rounds between two rounds in which the test renames the input while the flow
/// runs.
const ROTATE: u64 = 8;
/// Time between two checks of the output.
const CHECK: Duration = Duration::from_millis(2);

/// Maximum time until the first new event after a restart, in ms.
const FIRST_EVENT: f64 = 1_000.0;

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Number of kills with each setup
    #[arg(long, default_value_t = 20, value_name = "N",
          value_parser = clap::value_parser!(u64).range(1..))]
    rounds: u64,
    /// Seed of the input and of the times of kills
    #[arg(long, default_value_t = 1, value_name = "S")]
    seed: u64,
    /// Judge the times of first events by their median, for a machine that is busy with other work
    #[arg(long)]
    busy: bool,
}

/// Runs the short form, which is a step of CI.
pub(crate) fn check() -> Result<()> {
    let arguments = Arguments { rounds: 10, seed: 1, busy: true };
    scenario::run(&arguments, &Options::default())
}

/// Figures of one start and one kill.
#[derive(Debug, Default, Serialize)]
pub(crate) struct Round {
    #[serde(rename = "round")]
    number: u64,
    killed_after_ms: u128,
    /// Time from the start of the process to the first line that the output did not have before.
    first_event_ms: Option<f64>,
    events: u64,
    /// Bytes of lines that the output already had.
    again_bytes: u64,
    /// Number of lines that are acknowledged according to the checkpoint, but missing in the output.
    lost: usize,
    /// `true` if the test has appended a part of a line to the output, which the next start has to
    /// cut off.
    torn: bool,
}

/// Result of the rounds with a setup.
pub(crate) struct Found {
    /// Maximum number of bytes that may be written again after a crash.
    window: u64,
    rounds: Vec<Round>,
    /// Number of lines of the output that the input does not contain.
    torn: u64,
    /// Number of starts at which the sink has cut off a part of a message.
    cut_off: usize,
}

impl Scenario for Arguments {
    const NAME: &'static str = "crash";
    const PLUGINS: &'static [&'static str] = &["connector-file"];
    const PARTS: &'static [&'static str] = &SETUPS;
    type Found = Found;

    fn play(&self, stage: &Stage<'_>) -> Result<Found> {
        let mut crash = Crash::new(stage, self.seed)?;
        let rounds = (0..self.rounds).map(|number| crash.round(number)).collect::<Result<_>>()?;
        crash.finish()?;
        let log =
            fs::read_to_string(&crash.program.log).context("cannot read the log of the flow")?;
        let cut_off = log.lines().filter(|line| line.contains("written only in part")).count();
        let window = setup(stage.part).window;
        Ok(Found { window, rounds, torn: crash.output.torn, cut_off })
    }

    fn judge(&self, found: &Found) -> Result<Judgement> {
        let Found { window, rounds, torn, cut_off } = found;
        let lost: usize = rounds.iter().map(|round| round.lost).sum();
        let events: u64 = rounds.iter().map(|round| round.events).sum();
        let again = rounds.iter().map(|round| round.again_bytes).max().unwrap_or(0);
        let tears = rounds.iter().filter(|round| round.torn).count();
        let first: Vec<_> = rounds.iter().filter_map(|round| round.first_event_ms).collect();
        let [_, half, all] = spread(first.iter().copied());
        let late = first.iter().filter(|&&time| time > FIRST_EVENT).count();
        let (judged, by) = if self.busy { (half, "by the median") } else { (all, "by the latest") };
        let mut judgement = Judgement::default();
        judgement.line(format_args!("  rounds       {}", rounds.len()));
        let text = format!("{lost} acknowledged events of {events}, 0 allowed");
        judgement.add("lost", text, lost == 0);
        // The two numbers may differ, because a process that is killed before it opens its output
        // leaves the partial line to the next start.
        let text = format!(
            "{torn} lines, 0 allowed; {cut_off} starts have cut off a partial line, and the test has appended {tears} partial lines"
        );
        judgement.add("torn", text, *torn == 0);
        let text = format!("{again} bytes in a round at most, {window} allowed");
        judgement.add("again", text, again <= *window);
        let text = format!(
            "{all:.0} ms after the start at most, {half:.0} ms in 50 % of the {} rounds that had an event; \
             {late} were later than {FIRST_EVENT} ms, which is the limit, judged {by}",
            first.len()
        );
        judgement.add("first event", text, judged <= FIRST_EVENT);
        judgement.line(format_args!("  seed         {}", self.seed));
        judgement.files.push(("rounds.csv", csv(rounds)?));
        Ok(judgement)
    }
}

/// Returns the setup with small limits for the part `bounded`, and otherwise the setup with the defaults.
fn setup(part: &str) -> Setup {
    if part == SETUPS[0] {
        let keys = ", checkpoint_interval: 20ms, chunk_bytes: 4096, read_ahead: 16";
        return Setup { keys, burst: 400, window: 16 * 4_096 };
    }
    // A burst of 4 MiB shows whether the checkpoint lags. The window is 1 MiB that is acknowledged but not in the
    // checkpoint, two chunks that are read, and eight pulls in the queue and the sink.
    Setup { keys: "", burst: 40_000, window: (1 << 20) + (2 << 18) + (8 << 16) }
}

struct Crash {
    folder: PathBuf,
    program: Program,
    /// The program with a flow that ends at the end of its input.
    last: Program,
    burst: usize,
    random: fastrand::Rng,
    feed: Feed,
    output: Output,
}

impl Crash {
    fn new(stage: &Stage<'_>, seed: u64) -> Result<Self> {
        let (setup, folder) = (setup(stage.part), &stage.folder);
        for (name, follow) in [("flow.yaml", true), ("last.yaml", false)] {
            let values: [(_, &dyn Display); 2] = [("FOLLOW", &follow), ("KEYS", &setup.keys)];
            stage.flow(name, include_str!("../flows/crash.yaml"), &values)?;
        }
        let program = |flow: &str| Program::tremor(stage.built, LOG, folder).argument(flow);
        Ok(Self {
            folder: folder.clone(),
            program: program("flow.yaml"),
            last: program("last.yaml"),
            burst: setup.burst,
            random: fastrand::Rng::with_seed(seed),
            feed: Feed::open(&folder.join("in"), seed)?,
            output: Output::new(&folder.join("out")),
        })
    }

    /// Starts the flow and kills it, while its input grows.
    fn round(&mut self, number: u64) -> Result<Round> {
        self.feed.add(self.burst)?;
        let mut process = self.program.start()?;
        let newest = self.output.newest;
        let mut round = Round { number, ..Round::default() };
        // In every other round, the kill waits for the first event, however long that takes.
        let waits = number % 2 == 1;
        let random = self.random.u64(0..=u64::try_from(LONGEST.as_millis())?);
        let mut kill_at = (!waits).then_some(Duration::from_millis(random));
        let mut rotate_at = (self.random.u64(0..ROTATE) == 0)
            .then(|| Duration::from_millis(self.random.u64(0..=random / 2)));
        let started = Instant::now();
        loop {
            self.feed.add_some()?;
            // The input is renamed only once the checkpoint has it, because no reader can know a file that is created
            // and renamed between two polls.
            let is_time = rotate_at.is_some_and(|at| started.elapsed() >= at);
            if is_time && self.feed.is_known(&self.positions()?) {
                rotate_at = None;
                self.feed.rotate()?;
            }
            self.output.read()?;
            let elapsed = started.elapsed();
            if round.first_event_ms.is_none() && self.output.newest > newest {
                round.first_event_ms = Some(elapsed.as_secs_f64() * 1e3);
                kill_at.get_or_insert(elapsed + Duration::from_millis(random / 2));
            }
            if elapsed >= kill_at.unwrap_or(PATIENCE) {
                break;
            }
            process.expect_alive()?;
            thread::sleep(CHECK);
        }
        process.kill()?;
        round.killed_after_ms = started.elapsed().as_millis();
        self.output.read()?;
        round.lost = self.output.missing(self.feed.acknowledged(&self.positions()?));
        (round.events, round.again_bytes) = self.output.end_round();
        if self.random.u64(0..TEAR) == 0 {
            self.output.tear(self.random.usize(1..60))?;
            round.torn = true;
        }
        Ok(round)
    }

    /// Lets the flow run to the end of its input.
    fn finish(&mut self) -> Result<()> {
        self.feed.end_line()?;
        self.last.start()?.finish()?;
        self.output.read()?;
        self.output.expect_all(self.feed.lines())
    }

    /// Returns the position of each file in the checkpoint, by its inode.
    fn positions(&self) -> Result<BTreeMap<u64, u64>> {
        let path = self.folder.join("at");
        if !path.exists() {
            return Ok(BTreeMap::new());
        }
        let text = fs::read_to_string(&path).context("cannot read the checkpoint")?;
        let json: Value = serde_json::from_str(&text).context("the checkpoint is not JSON")?;
        let files = json["files"].as_array().context("the checkpoint has no files")?;
        let position =
            |file: &Value| Some((file["identity"]["inode"].as_u64()?, file["position"].as_u64()?));
        let positions: Option<_> = files.iter().map(position).collect();
        positions.context("a file of the checkpoint has no position")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WINDOW: u64 = 64 << 10;

    fn broken(change: fn(&mut Round, &mut u64)) -> usize {
        let mut torn = 0;
        let mut round =
            Round { first_event_ms: Some(300.0), again_bytes: WINDOW, ..Round::default() };
        change(&mut round, &mut torn);
        let found = Found { window: WINDOW, rounds: vec![round], torn, cut_off: 1 };
        let arguments = Arguments { rounds: 1, seed: 1, busy: false };
        arguments.judge(&found).expect("the table can be written").broken
    }

    #[test]
    fn each_guarantee_is_broken_by_its_own_fault() {
        for (name, change, expected) in [
            ("nothing", (|_, _| {}) as fn(&mut Round, &mut u64), 0),
            ("a lost event", |round, _| round.lost = 1, 1),
            ("a torn line", |_, torn| *torn = 1, 1),
            ("more than the window", |round, _| round.again_bytes += 1, 1),
            ("a late event", |round, _| round.first_event_ms = Some(2_000.0), 1),
            ("no event at all", |round, _| round.first_event_ms = None, 1),
        ] {
            assert_eq!(broken(change), expected, "{name}");
        }
    }
}
