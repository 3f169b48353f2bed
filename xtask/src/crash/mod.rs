//! `cargo xtask crash`: a flow from a file to a file, killed at random moments and started again; what is in
//! the end in the second file, judged.

mod feed;
mod judgement;
mod output;
mod process;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf, absolute};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use serde_json::Value;

use self::feed::Feed;
use self::judgement::{Judgement, Round};
use self::output::Output;
use self::process::Running;
use crate::built::{self, Built};
use crate::running::load;

/// The keys of a source, and what they promise.
struct Setup {
    name: &'static str,
    keys: &'static str,
    /// Number of lines that are there when the flow starts.
    burst: usize,
    /// Maximum number of bytes that may come twice after a crash.
    window: u64,
}

/// A source with small bounds, and a source with the defaults.
const SETUPS: [Setup; 2] = [
    Setup {
        name: "bounded",
        keys: "      checkpoint_interval: 20ms\n      chunk_bytes: 4096\n      read_ahead: 16\n",
        burst: 400,
        window: 16 * 4_096,
    },
    Setup {
        name: "defaults",
        keys: "",
        // A burst of 4 MiB shows a checkpoint that trails behind.
        burst: 40_000,
        // 1 MiB that is acknowledged and not written, two chunks that are read, and eight pulls in queue and sink.
        window: (1 << 20) + (2 << 18) + (8 << 16),
    },
];
/// The longest time from a start to the kill, if nothing else is waited for.
const LONGEST: Duration = Duration::from_millis(500);
/// How long an event may take in a round that waits for one: longer than it should.
const PATIENCE: Duration = Duration::from_secs(20);
/// Of so many kills, one leaves a part of a message, by our hand: a write is rarely interrupted.
const TEAR: u64 = 4;
/// In one of so many rounds the input gets another name while the flow runs.
const ROTATE: u64 = 8;
/// How often the output is looked at.
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
    /// Build in the profile `release`
    #[arg(long)]
    release: bool,
    /// Judge the first events by their median, on a machine that does other work
    #[arg(long)]
    busy: bool,
    /// Folder for in, out, at, rounds.csv, summary.txt and the log of the flow, with a folder for each setup
    #[arg(long, default_value = "target/crash", value_name = "DIR")]
    output: PathBuf,
}

pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let folder = absolute(&arguments.output)?;
    if folder.exists() {
        fs::remove_dir_all(&folder)
            .with_context(|| format!("cannot empty {}", folder.display()))?;
    }
    fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
    let built = built::build(&["connector-file"], arguments.release, &folder.join("bin"))?;
    let mut broken = 0;
    for setup in &SETUPS {
        broken += judged(setup, arguments, &folder.join(setup.name), &built)?;
    }
    eprintln!("rounds, files and logs are in {}", folder.display());
    match broken {
        0 => Ok(()),
        broken => bail!("{broken} promises are broken: see {}", folder.display()),
    }
}

/// Runs all rounds with the keys of `setup`. Returns the number of promises that are broken.
fn judged(setup: &Setup, arguments: &Arguments, folder: &Path, built: &Built) -> Result<usize> {
    fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    let started = Instant::now();
    let mut crash = Crash::new(folder, built, setup, arguments.seed)?;
    let mut rounds = Vec::new();
    for number in 0..arguments.rounds {
        rounds.push(crash.round(number)?);
    }
    crash.finish()?;
    let cut_off = process::cut_off(folder)?;
    let judgement = Judgement::of(&rounds, &crash.output, cut_off, setup.window, arguments.busy);
    let (took, load) = (started.elapsed().as_secs(), load());
    let profile = if arguments.release { "release" } else { "dev" };
    let (name, seed) = (setup.name, arguments.seed);
    let summary = format!(
        "{name}: profile {profile}, seed {seed}, {took} s, load at the end {load}\n{judgement}"
    );
    print(&summary);
    write(&folder.join("rounds.csv"), &judgement::table(&rounds))?;
    write(&folder.join("summary.txt"), &summary)?;
    Ok(judgement.broken())
}

/// The short form, for every change.
pub(crate) fn check() -> Result<()> {
    run(&Arguments {
        rounds: 10,
        seed: 1,
        release: false,
        busy: true,
        output: "target/crash".into(),
    })
}

struct Crash<'b> {
    folder: PathBuf,
    built: &'b Built,
    burst: usize,
    random: fastrand::Rng,
    feed: Feed,
    output: Output,
}

impl<'b> Crash<'b> {
    fn new(folder: &Path, built: &'b Built, setup: &Setup, seed: u64) -> Result<Self> {
        let flow = |follow| process::flow(follow, setup.keys);
        write(&folder.join("flow.yaml"), &flow(true))?;
        write(&folder.join("last.yaml"), &flow(false))?;
        Ok(Self {
            folder: folder.to_owned(),
            built,
            burst: setup.burst,
            random: fastrand::Rng::with_seed(seed),
            feed: Feed::open(&folder.join("in"), seed)?,
            output: Output::new(&folder.join("out")),
        })
    }

    /// Starts the flow and kills it, while its input grows.
    fn round(&mut self, number: u64) -> Result<Round> {
        self.feed.add(self.burst)?;
        let mut running = Running::start(self.built, &self.folder, "flow.yaml")?;
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
            if round.first_event.is_none() && self.output.newest() > newest {
                round.first_event = Some(elapsed);
                round.waited = running.waited();
                kill_at.get_or_insert(elapsed + Duration::from_millis(random / 2));
            }
            if elapsed >= kill_at.unwrap_or(PATIENCE) {
                break;
            }
            running.expect_alive()?;
            std::thread::sleep(LOOK);
        }
        running.kill()?;
        round.killed_after = started.elapsed();
        self.output.read()?;
        round.lost = self.output.missing(self.feed.acknowledged(&self.positions()?));
        (round.events, round.again_bytes) = self.output.end_round();
        if self.random.u64(0..TEAR) == 0 {
            self.output.tear(self.random.usize(1..60))?;
            round.is_torn = true;
        }
        Ok(round)
    }

    /// Lets the flow run to the end of its input.
    fn finish(&mut self) -> Result<()> {
        self.feed.end_line()?;
        Running::start(self.built, &self.folder, "last.yaml")?.finish()?;
        self.output.read()?;
        self.output.expect_all(self.feed.lines())
    }

    /// The position of each file in the checkpoint, by its inode.
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

fn write(path: &Path, text: &str) -> Result<()> {
    fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))
}

#[allow(clippy::print_stdout)] // what was asked for
fn print(summary: &str) {
    print!("{summary}");
}
