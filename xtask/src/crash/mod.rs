//! `cargo xtask crash`: a flow from a file to a file, killed at random moments and started again; the second file is
//! judged.

mod feed;
mod judgement;
mod output;

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use serde_json::Value;

use self::feed::Feed;
use self::judgement::Round;
use self::output::Output;
use crate::process::{Process, Program};
use crate::scenario::{self, Judgement, Options, Scenario, Stage, csv};

/// The keys of a source, and what they promise.
struct Setup {
    keys: &'static str,
    /// Number of lines that are there when the flow starts.
    burst: usize,
    /// Maximum number of bytes that may come twice after a crash.
    window: u64,
}

/// Names of the setups.
const SETUPS: [&str; 2] = ["bounded", "defaults"];
/// A source with small bounds.
const BOUNDED: Setup = Setup {
    keys: "      checkpoint_interval: 20ms\n      chunk_bytes: 4096\n      read_ahead: 16\n",
    burst: 400,
    window: 16 * 4_096,
};
/// A source with the defaults.
const DEFAULTS: Setup = Setup {
    keys: "",
    // A burst of 4 MiB shows a checkpoint that trails behind.
    burst: 40_000,
    // 1 MiB that is acknowledged and not written, two chunks that are read, and eight pulls in queue and sink.
    window: (1 << 20) + (2 << 18) + (8 << 16),
};
/// Name of the log.
const LOG: &str = "tremor";
/// Maximum time from a start to the kill, unless the round waits for an event.
const LONGEST: Duration = Duration::from_millis(500);
/// Maximum time for an event in a round that waits for one: longer than it should take.
const PATIENCE: Duration = Duration::from_secs(20);
/// Number of kills of which one leaves a part of a message, by our hand, because a write is rarely interrupted.
const TEAR: u64 = 4;
/// Number of rounds of which one renames the input while the flow runs.
const ROTATE: u64 = 8;
/// Time between two looks at the output.
const LOOK: Duration = Duration::from_millis(2);

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Number of kills with each setup
    #[arg(long, default_value_t = 20, value_name = "N",
          value_parser = clap::value_parser!(u64).range(1..))]
    rounds: u64,
    /// What the moments and the input come from
    #[arg(long, default_value_t = 1, value_name = "S")]
    seed: u64,
    /// Judge the first events by their median, on a machine that does other work
    #[arg(long)]
    busy: bool,
}

/// The short form, for every change.
pub(crate) fn check() -> Result<()> {
    let arguments = Arguments { rounds: 10, seed: 1, busy: true };
    scenario::run(&arguments, &Options::default())
}

/// Result of the rounds with a setup.
pub(crate) struct Found {
    /// Maximum number of bytes that may come twice after a crash.
    window: u64,
    rounds: Vec<Round>,
    /// Lines that are none of the input's.
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
        let log = fs::read_to_string(crash.program.log()).context("the flow has no log")?;
        let cut_off = log.lines().filter(|line| line.contains("not written in whole")).count();
        let window = setup(stage.part).window;
        Ok(Found { window, rounds, torn: crash.output.torn, cut_off })
    }

    fn judge(&self, found: &Found) -> Result<Judgement> {
        let mut judgement = judgement::of(found, self.busy);
        judgement.line(format_args!("  seed         {}", self.seed));
        judgement.files.push(("rounds.csv", csv(&found.rounds)?));
        Ok(judgement)
    }
}

fn setup(part: &str) -> &'static Setup {
    if part == SETUPS[0] { &BOUNDED } else { &DEFAULTS }
}

/// Returns the flow from `in` to `out`, with the checkpoint in `at` and further keys of the source.
fn flow(follow: bool, keys: &str) -> String {
    format!(
        "connectors:
  input:
    type: file
    preprocessors: [lines]
    codec: string
    config:
      path: in
      mode: read
      follow: {follow}
      poll_interval: 10ms
      checkpoint: at
{keys}  output:
    type: file
    codec: string
    postprocessors: [lines]
    config: {{ path: out, mode: append, sync: batch }}
links: [input -> output]
"
    )
}

struct Crash {
    folder: PathBuf,
    program: Program,
    /// The program with the flow that ends with its input.
    last: Program,
    burst: usize,
    random: fastrand::Rng,
    feed: Feed,
    output: Output,
}

impl Crash {
    fn new(stage: &Stage<'_>, seed: u64) -> Result<Self> {
        let (setup, folder) = (setup(stage.part), &stage.folder);
        stage.write("flow.yaml", &flow(true, setup.keys))?;
        stage.write("last.yaml", &flow(false, setup.keys))?;
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
        let newest = self.output.newest();
        let mut round = Round { number, ..Round::default() };
        // In every other round the kill comes after the first event, whenever that is.
        let waits = number % 2 == 1;
        let random = self.random.u64(0..=u64::try_from(LONGEST.as_millis())?);
        let mut kill_at = (!waits).then_some(Duration::from_millis(random));
        let mut rotate_at = (self.random.u64(0..ROTATE) == 0)
            .then(|| Duration::from_millis(self.random.u64(0..=random / 2)));
        let started = Instant::now();
        loop {
            self.feed.some()?;
            // A file that comes and goes between two looks is not known to any reader.
            let is_time = rotate_at.is_some_and(|at| started.elapsed() >= at);
            if is_time && self.feed.is_known(&self.positions()?) {
                rotate_at = None;
                self.feed.rotate()?;
            }
            self.output.read()?;
            let elapsed = started.elapsed();
            if round.first_event_ms.is_none() && self.output.newest() > newest {
                round.first_event_ms = Some(elapsed.as_millis());
                round.waited_ms = waited(&process).as_millis();
                kill_at.get_or_insert(elapsed + Duration::from_millis(random / 2));
            }
            if elapsed >= kill_at.unwrap_or(PATIENCE) {
                break;
            }
            process.expect_alive()?;
            thread::sleep(LOOK);
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
        let json: Value = serde_json::from_str(&text).context("the checkpoint is damaged")?;
        let files = json["files"].as_array().context("the checkpoint has no files")?;
        let position =
            |file: &Value| Some((file["identity"]["inode"].as_u64()?, file["position"].as_u64()?));
        let positions: Option<_> = files.iter().map(position).collect();
        positions.context("a file of the checkpoint has no position")
    }
}

/// Returns how long a process has waited for a processor: the time of the thread that waited longest.
fn waited(process: &Process) -> Duration {
    let threads = fs::read_dir(format!("/proc/{}/task", process.id())).into_iter().flatten();
    let waited = threads.flatten().filter_map(|thread| {
        let text = fs::read_to_string(thread.path().join("schedstat")).ok()?;
        text.split_whitespace().nth(1)?.parse().ok()
    });
    Duration::from_nanos(waited.max().unwrap_or(0))
}
