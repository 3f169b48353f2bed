//! `cargo xtask network`: what connections, requests and TLS cost, by turns through this program and through programs
//! that do the same work without it (`bench/network`).
//!
//! What is measured is the server: its processor time, its memory, and what clients see of it.

mod case;
mod cases;
mod process;
mod samples;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf, absolute};

use anyhow::{Context, Result, bail};

use self::case::Case;
use self::process::{Command, Process};
use self::samples::Samples;
use crate::built::{self, Built};
use crate::project::{cargo, run as run_command};
use crate::running::{empty_folder, load, write};

/// The package of what clients and servers are beside this program.
const PEERS: &str = "network-bench";

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// What to measure; unless given, all
    #[arg(value_enum, value_name = "CASE")]
    cases: Vec<Case>,
    /// How often each server has its turn
    #[arg(long, default_value_t = 5, value_name = "N")]
    rounds: usize,
    /// How long each turn counts, in seconds
    #[arg(long, default_value_t = 5, value_name = "S", value_parser = clap::value_parser!(u64).range(1..))]
    seconds: u64,
    /// How many connections are idle
    #[arg(long, default_value_t = 10_000, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    idle: u64,
    /// How many connections are busy
    #[arg(long, default_value_t = 1_000, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    busy: u64,
    /// Build in the profile `release`
    #[arg(long)]
    release: bool,
    /// Build nothing, and take programs and plugins from this folder: of another build, say
    #[arg(long, value_name = "DIR")]
    bin: Option<PathBuf>,
    /// A folder in memory for what servers write
    #[arg(long, default_value = "/dev/shm", value_name = "DIR")]
    memory: PathBuf,
    /// Where to write samples.csv, summary.txt and logs
    #[arg(long, default_value = "target/network", value_name = "DIR")]
    output: PathBuf,
}

/// What all cases need.
struct Bench<'a> {
    arguments: &'a Arguments,
    folder: PathBuf,
    built: Built,
    /// The program of `bench/network`.
    peers: PathBuf,
}

pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let cases = if arguments.cases.is_empty() { Case::ALL } else { &arguments.cases };
    let bench = Bench::new(arguments, cases)?;
    let mut samples = Samples::default();
    for case in cases {
        for round in 0..arguments.rounds {
            case.turn(&bench, round, &mut samples)
                .with_context(|| format!("{case}: see {}", bench.folder.display()))?;
        }
    }
    let (mut summary, mut missed) = (bench.head(), 0);
    for case in cases {
        let verdicts = case.verdicts(&samples);
        missed += verdicts.iter().filter(|verdict| verdict.is_missed()).count();
        summary.push_str(&samples.table_of(*case));
        summary.extend(verdicts.iter().map(|verdict| format!("  {verdict}\n")));
    }
    eprint!("{summary}");
    write(&bench.folder.join("samples.csv"), &samples.csv())?;
    write(&bench.folder.join("summary.txt"), &summary)?;
    match missed {
        0 => Ok(()),
        missed => bail!("{missed} of the figures are not what they should be"),
    }
}

impl<'a> Bench<'a> {
    fn new(arguments: &'a Arguments, cases: &[Case]) -> Result<Self> {
        let folder = absolute(&arguments.output)?;
        empty_folder(&folder)?;
        if let Some(bin) = &arguments.bin {
            let bin = absolute(bin)?;
            let built = Built { tremor: bin.join("tremor"), plugins: bin.clone() };
            return Self { arguments, peers: bin.join(PEERS), built, folder }.with_certificates();
        }
        let bin = folder.join("bin");
        let plugins: BTreeSet<_> = cases.iter().flat_map(|case| case.plugins()).copied().collect();
        let plugins: Vec<_> = plugins.into_iter().collect();
        let built = built::build(&plugins, arguments.release, &bin)?;
        let build = ["build", "--package", PEERS];
        run_command(cargo([&build[..], built::profile(arguments.release)].concat()))?;
        built::copy(&built::folder(arguments.release).join(PEERS), &bin)?;
        Self { arguments, peers: bin.join(PEERS), built, folder }.with_certificates()
    }

    fn with_certificates(self) -> Result<Self> {
        self.peer("certificates").argument(self.folder.display()).run()?;
        Ok(self)
    }

    fn head(&self) -> String {
        let Arguments { rounds, seconds, release, bin, .. } = self.arguments;
        let profile = match bin {
            Some(bin) => format!("of {}", bin.display()),
            None if *release => "release".to_owned(),
            None => "dev".to_owned(),
        };
        format!(
            "profile {profile}; {rounds} rounds of {seconds} s each; load at the end {}\n",
            load()
        )
    }

    /// The program of `bench/network` in one of its parts.
    fn peer(&self, part: &str) -> Command {
        Command::new(&self.peers, part, &self.folder).argument(part)
    }

    /// A flow of `bench/network`.
    fn flow(&self, file: &str) -> Command {
        let path = crate::project::root().join("bench/network").join(file);
        Command::new(&self.built.tremor, "tremor", &self.folder)
            .argument("run")
            .argument(path.display())
            .variable("TREMOR_PLUGIN_PATH", self.built.plugins.display())
            .variable("CERTIFICATES", self.folder.display())
    }

    /// A file in memory, which is not there yet.
    fn in_memory(&self, name: &str) -> InMemory {
        let name = format!("network-{name}-{}", std::process::id());
        let path = self.arguments.memory.join(name);
        let _ = std::fs::remove_file(&path);
        InMemory(path)
    }
}

/// A file in memory. Dropped, it is removed.
struct InMemory(PathBuf);

impl InMemory {
    fn path(&self) -> &Path {
        &self.0
    }

    /// Waits until it has so many bytes.
    fn until(&self, bytes: u64, server: &mut Process) -> Result<()> {
        let has = || std::fs::metadata(&self.0).map_or(0, |file| file.len());
        server.until("all lines in its file", || Ok((has() >= bytes).then_some(())))?;
        match has() {
            found if found == bytes => Ok(()),
            found => bail!("{found} bytes are in its file, and {bytes} were sent"),
        }
    }
}

impl Drop for InMemory {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}
