//! `cargo xtask network`: what connections, requests and TLS cost, by turns through this program and through programs
//! that do the same work without it (`bench/network`).
//!
//! The server is measured: its processor time, its memory, and what clients see of it.

mod cases;
mod client;

use std::fmt::Display;
use std::fs;
use std::path::{Path, PathBuf, absolute};

use anyhow::{Result, ensure};
use clap::builder::{PossibleValue, PossibleValuesParser};

use self::cases::{CASES, Case};
use crate::built::{self, Built};
use crate::process::{Process, Program};
use crate::project::{cargo, root, run};
use crate::samples::Samples;
use crate::scenario::{Judgement, PATIENCE, Scenario, Stage};

/// The package of the clients, and of the servers beside this program.
pub(crate) const PEERS: &str = "network-bench";

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// What to measure; unless given, all
    #[arg(value_name = "CASE", value_parser = names())]
    cases: Vec<String>,
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
    /// Build nothing, and take programs and plugins from this folder: of another build, say
    #[arg(long, value_name = "DIR")]
    bin: Option<PathBuf>,
    /// A folder in memory for what servers write
    #[arg(long, default_value = "/dev/shm", value_name = "DIR")]
    memory: PathBuf,
}

fn names() -> PossibleValuesParser {
    CASES.iter().map(|case| PossibleValue::new(case.name).help(case.what)).into()
}

impl Scenario for Arguments {
    const NAME: &'static str = "network";
    const PLUGINS: &'static [&'static str] = &[
        "connector-exec",
        "connector-file",
        "connector-http-client",
        "connector-http-server",
        "connector-metronome",
        "connector-null",
        "connector-stdio",
        "connector-tcp-client",
        "connector-tcp-server",
        "connector-udp-client",
        "connector-udp-server",
        "connector-unix-client",
        "connector-unix-server",
        "connector-ws-client",
        "connector-ws-server",
    ];
    type Found = Samples;

    fn build(&self, release: bool, to: &Path) -> Result<Built> {
        if let Some(bin) = &self.bin {
            let plugins = absolute(bin)?;
            return Ok(Built { tremor: plugins.join("tremor"), plugins });
        }
        build(Self::PLUGINS, release, to)
    }

    fn play(&self, stage: &Stage<'_>) -> Result<Samples> {
        let bench = Bench { arguments: self, stage };
        let folder = stage.folder.display();
        bench.peer("certificates").argument(folder).start()?.finish()?;
        let mut samples = Samples::default();
        for case in self.cases() {
            samples.by_turns(case.name, self.rounds, case.servers, |samples, _, server| {
                (case.turn)(&bench, server, samples)
            })?;
        }
        Ok(samples)
    }

    fn judge(&self, samples: &Samples) -> Result<Judgement> {
        let mut judgement = Judgement::default();
        if let Some(bin) = &self.bin {
            judgement.line(format_args!("programs of {}", bin.display()));
        }
        judgement.line(format_args!("{} rounds of {} s each", self.rounds, self.seconds));
        for case in self.cases() {
            samples.show(&mut judgement, case.name, case.what);
            (case.judge)(samples, &mut judgement);
        }
        samples.keep(&mut judgement)?;
        Ok(judgement)
    }
}

/// Builds the program with these plugins and the package `network-bench`, and copies them to a folder.
pub(crate) fn build(plugins: &[&str], release: bool, to: &Path) -> Result<Built> {
    let built = built::build(plugins, release, to)?;
    run(cargo([&["build", "--package", PEERS], built::profile(release)].concat()))?;
    built::copy(&built::folder(release).join(PEERS), to)?;
    Ok(built)
}

impl Arguments {
    fn cases(&self) -> impl Iterator<Item = &'static Case> {
        let is_selected = move |case: &&Case| {
            self.cases.is_empty() || self.cases.iter().any(|it| it == case.name)
        };
        CASES.iter().filter(is_selected)
    }
}

/// What cases start their programs with.
struct Bench<'a> {
    arguments: &'a Arguments,
    stage: &'a Stage<'a>,
}

impl Bench<'_> {
    /// The program of `bench/network` in one of its roles.
    fn peer(&self, role: &str) -> Program {
        let program = self.stage.built.plugins.join(PEERS);
        Program::new(program, role, &self.stage.folder).argument(role)
    }

    /// A flow of `bench/network` that listens on a port.
    fn flow(&self, file: &str, port: u16) -> Program {
        let path = root().join("bench/network").join(file);
        let program = Program::tremor(self.stage.built, "tremor", &self.stage.folder);
        let program = program.argument(path.display()).variable("PORT", port);
        program.variable("CERTIFICATES", self.stage.folder.display())
    }
}

/// A file in memory. Dropped, it is removed.
pub(crate) struct InMemory(PathBuf);

impl InMemory {
    /// A file that is not there yet.
    pub(crate) fn new(folder: &Path, name: &str) -> Self {
        let path = folder.join(format!("xtask-{name}-{}", std::process::id()));
        let _ = fs::remove_file(&path);
        Self(path)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    pub(crate) fn shown(&self) -> impl Display + '_ {
        self.0.display()
    }

    pub(crate) fn size(&self) -> u64 {
        fs::metadata(&self.0).map_or(0, |file| file.len())
    }

    /// Waits until a server has written so many bytes to the file.
    fn until(&self, bytes: u64, server: &mut Process) -> Result<()> {
        let is_there = || Ok((self.size() >= bytes).then_some(()));
        server.until("all lines in its file", PATIENCE, |_| is_there())?;
        let found = self.size();
        ensure!(found == bytes, "{found} bytes are in its file, and {bytes} were sent");
        Ok(())
    }
}

impl Drop for InMemory {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}
