//! `cargo xtask network`: measures connections, requests, TLS and messages of brokers in `tremor`, and in turn in other
//! programs that do the same work (most of them in `bench/network`).
//!
//! The figures are the processor time and memory of the server, and the throughput and latency that clients observe.

mod brokers;
mod cases;
mod client;
mod syslog;

use std::{fmt::Display, fs, path::Path, process::Command, time::Duration};

use anyhow::{Result, ensure};
use tempfile::{NamedTempFile, TempPath};

use self::cases::{CASES, Case};
use crate::built::{self, Built};
use crate::process::{Process, Program, need};
use crate::project::{cargo, profile_folder, root, run};
use crate::samples::Samples;
use crate::scenario::{Judgement, PATIENCE, Scenario, Stage};

/// Package of the clients and of the servers with which `tremor` is compared.
const PEERS: &str = "network-bench";
/// Name of `tremor` among the servers.
const OURS: &str = "tremor";
/// Server that only reads and writes, in a loop.
const BARE: &str = "bare-loop";
const COST: &str = "us of processor time per line";
const RATE: &str = "lines/s";
/// Pause after the start of a server, and after clients have connected, so that the work of starting and connecting is
/// not measured.
const SETTLE: Duration = Duration::from_millis(500);
/// Program that only copies records of Kafka.
const KCAT: &str = "kcat";
/// Flow that decodes, filters and encodes records of Kafka.
const KAFKA: &str = "tremor-kafka";
/// Program that only receives messages of NATS.
const GO: &str = "nats.go";
/// Flow that takes messages of NATS as text.
const NATS: &str = "tremor-nats";
/// Flow that decodes messages of NATS as JSON.
const NATS_JSON: &str = "tremor-nats-json";

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Cases to measure; unless given, all
    #[arg(value_name = "CASE", value_parser = CASES.each_ref().map(|case| case.name))]
    cases: Vec<String>,
    /// Number of measurements of each program
    #[arg(long, default_value_t = 5, value_name = "N")]
    rounds: usize,
    /// Duration of each measurement, in seconds
    #[arg(long, default_value_t = 5, value_name = "S", value_parser = clap::value_parser!(u64).range(1..))]
    seconds: u64,
}

impl Scenario for Arguments {
    const NAME: &'static str = "network";
    const PLUGINS: &'static [&'static str] = &[
        "connector-exec",
        "connector-file",
        "connector-http",
        "connector-metronome",
        "connector-null",
        "connector-socket",
        "connector-stdio",
        "connector-ws",
    ];
    type Found = Vec<Samples>;

    fn build(&self, release: bool, to: &Path) -> Result<Built> {
        let built = built::build(Self::PLUGINS, release, to)?;
        run(cargo([&["build", "--package", PEERS], built::profile(release)].concat()))?;
        built::copy(&profile_folder(release).join(PEERS), to)?;
        let is_measured =
            |name, program| self.cases().any(|case| case.name == name) && is_available(program);
        if is_measured("kafka", KCAT) {
            built::build_broker("connector-kafka", release, to)?;
        }
        if is_measured("nats", GO) {
            built::build_broker("connector-nats", release, to)?;
            let mut command = Command::new("go");
            command.args(["build", "-trimpath", "-o"]).arg(to.join("bare")).arg(".");
            command.current_dir(root().join("bench/nats/bare"));
            run(command)?;
        }
        Ok(built)
    }

    fn play(&self, stage: &Stage<'_>) -> Result<Vec<Samples>> {
        let bench = Bench { arguments: self, stage };
        let folder = stage.folder.display();
        bench.peer("certificates").argument(folder).start()?.finish()?;
        let measure = |case: &Case| {
            let servers = case.servers.iter().copied().filter(|server| is_available(server));
            let servers: Vec<_> = servers.collect();
            let turn = |server, samples: &_| (case.turn)(&bench, server, samples);
            Samples::by_turns(case.name, self.rounds, &servers, turn)
        };
        self.cases().map(measure).collect()
    }

    fn judge(&self, found: &Vec<Samples>) -> Result<Judgement> {
        let mut judgement = Judgement::default();
        judgement.line(format_args!("{} rounds of {} s each", self.rounds, self.seconds));
        for (case, samples) in self.cases().zip(found) {
            judgement.line(format_args!("{}: {}", case.name, case.what));
            samples.show(&mut judgement);
            (case.judge)(samples, &mut judgement);
        }
        judgement.files.push(Samples::csv(found)?);
        Ok(judgement)
    }
}

/// Returns whether the program that a server needs is installed, and reports it if not.
fn is_available(server: &str) -> bool {
    let program = match server {
        "rsyslog" | "rsyslog-json" => "rsyslogd",
        "syslog-ng" => "syslog-ng",
        KCAT | KAFKA => "kcat",
        GO | NATS | NATS_JSON => "go",
        _ => return true,
    };
    let found = need(program, "an installation");
    found.inspect_err(|error| eprintln!("SKIPPED: {server}: {error}")).is_ok()
}

impl Arguments {
    fn cases(&self) -> impl Iterator<Item = &'static Case> {
        let is_selected = move |case: &&Case| {
            self.cases.is_empty() || self.cases.iter().any(|it| it == case.name)
        };
        CASES.iter().filter(is_selected)
    }
}

/// The options, folder and build with which cases start their programs.
struct Bench<'a> {
    arguments: &'a Arguments,
    stage: &'a Stage<'a>,
}

impl Bench<'_> {
    /// Returns the program of `bench/network` in one of its roles, such as `hello` or `idle`.
    fn peer(&self, role: &str) -> Program {
        let program = self.stage.built.plugins.join(PEERS);
        Program::new(program, role, &self.stage.folder).argument(role)
    }

    /// Returns `tremor` with a flow of `bench/network` that listens on a port.
    fn flow(&self, file: &str, port: u16) -> Program {
        let program = self.program(&format!("bench/network/{file}")).variable("PORT", port);
        program.variable("CERTIFICATES", self.stage.folder.display())
    }

    /// Returns `tremor` with a flow file of the project.
    fn program(&self, flow: &str) -> Program {
        let program = Program::tremor(self.stage.built, "tremor", &self.stage.folder);
        program.argument(root().join(flow).display())
    }
}

/// A file in memory, which is removed when this value is dropped.
struct InMemory(TempPath);

impl InMemory {
    fn new() -> Result<Self> {
        Ok(Self(NamedTempFile::new_in("/dev/shm")?.into_temp_path()))
    }

    fn shown(&self) -> impl Display + '_ {
        self.0.display()
    }

    fn size(&self) -> u64 {
        fs::metadata(&self.0).map_or(0, |file| file.len())
    }

    /// Waits until a server has written this number of bytes to the file.
    fn until(&self, bytes: u64, server: &mut Process) -> Result<()> {
        let is_complete = || Ok((self.size() >= bytes).then_some(()));
        server.until("all lines in the file of the server", PATIENCE, |_| is_complete())?;
        let found = self.size();
        ensure!(found == bytes, "the file of the server has {found} bytes, but {bytes} were sent");
        Ok(())
    }
}
