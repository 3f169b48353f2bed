//! A cycle loads, checks, runs and drops flows, and keeps no state for the next cycle.

use std::{
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

use tempfile::TempDir;
use tremor_runtime::{
    components::Components,
    engine::Report,
    flow,
    plugin::{Describer, Policy, SearchPath},
    run::{RunHandle, run},
};

/// Maximum time for a flow to drain.
const DRAIN: Duration = Duration::from_secs(10);
/// Number of events of a flow that ends by itself.
const EVENTS: usize = 100;
/// Number of events of the flow whose operator panics at every batch.
const PANICS: usize = 20_000;

/// Flows that a cycle runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Scenario {
    /// Finds plugins, loads two flows and ends them: one ends by itself, the other is stopped.
    Load,
    /// Runs flows in which a source, a sink and an operator panic until their restarts are used up:
    /// nine restarts and twelve panics.
    Restart,
}

/// The flow files and the folder of the plugins.
pub struct Soak {
    folder: TempDir,
    search: [SearchPath; 1],
    tremor: PathBuf,
}

const ENDS: &str = "connectors:
  bench: { type: bench, codec: mischief, config: { file: words, iterations: 1 } }
pipelines: { p: { operators: [{ type: mischief, config: { ports: [elsewhere] } }] } }
links: [bench -> p -> bench]
";
const STOPS: &str = "connectors:
  ticks: { type: metronome, config: { interval_ms: 1 } }
  output: { type: 'null' }
links: [ticks -> output]
";
const SOURCE: &str = "connectors:
  bad:
    type: hostile
    reconnect: { backoff: 1ms, max_backoff: 1ms }
    restart: { attempts: 3 }
    config: { fault: pull_panic, after: 5 }
  output: { type: 'null' }
links: [bad -> output]
";
const SINK: &str = "connectors:
  bench: { type: bench, codec: string, config: { file: words, iterations: 1000000 } }
  bad:
    type: hostile
    reconnect: { backoff: 1ms, max_backoff: 1ms }
    restart: { attempts: 3 }
    config: { fault: deliver_panic }
links: [bench -> bad]
";
const OPERATOR: &str = "connectors:
  bench: { type: bench, codec: string, config: { file: panics, iterations: 1 } }
  output: { type: 'null' }
pipelines: { p: { operators: [{ type: mischief }] } }
links: [bench -> p -> output]
";

impl Soak {
    /// Writes the flow files to a new folder.
    ///
    /// # Errors
    /// The folder cannot be created.
    pub fn new(plugins: &Path, tremor: &Path) -> Result<Self, String> {
        let wrong = |error| format!("no folder for flow files: {error}");
        let folder = TempDir::new().map_err(wrong)?;
        let (words, panics) = ("word\n".repeat(EVENTS), "panic\n".repeat(PANICS));
        for (name, contents) in [
            ("ends", ENDS),
            ("stops", STOPS),
            ("source", SOURCE),
            ("sink", SINK),
            ("operator", OPERATOR),
            ("words", &words),
            ("panics", &panics),
        ] {
            fs::write(folder.path().join(name), contents).map_err(wrong)?;
        }
        let search = [SearchPath::new(plugins, "--plugins")];
        Ok(Self { folder, search, tremor: tremor.to_owned() })
    }

    /// Runs one cycle.
    ///
    /// # Errors
    /// A flow ended in an unexpected way, so the measurement would not be valid for the scenario.
    pub fn cycle(&self, scenario: Scenario) -> Result<(), String> {
        match scenario {
            Scenario::Load => {
                let ended = self.flow("ends", &RunHandle::default())?;
                let arrived = ended.counts.events_in == EVENTS as u64
                    && ended.counts.events_out == EVENTS as u64;
                expect(arrived && ended.failure.is_none(), &ended)?;
                let handle = RunHandle::default();
                handle.drain();
                let stopped = self.flow("stops", &handle)?;
                expect(stopped.failure.is_none() && !stopped.cut_off, &stopped)
            }
            Scenario::Restart => {
                for name in ["source", "sink"] {
                    let report = self.flow(name, &RunHandle::default())?;
                    let reason = report.failure.as_ref().map(|failure| failure.error.to_string());
                    expect(reason.is_some_and(|reason| reason.contains("panicked")), &report)?;
                }
                let report = self.flow("operator", &RunHandle::default())?;
                let counts = report.counts;
                let all = PANICS as u64;
                expect(counts.events_in == all && counts.failed == all, &report)
            }
        }
    }

    /// Loads and runs a flow. Only loaded libraries are kept from earlier runs.
    fn flow(&self, name: &str, handle: &RunHandle) -> Result<Report, String> {
        let policy = Policy::default();
        let describer = Describer::new(policy).program(&self.tremor).cache(None);
        let (components, problems) = Components::find(&self.search, describer, policy);
        if let Some(problem) = problems.first() {
            return Err(problem.to_string());
        }
        let flow = flow::load(self.folder.path().join(name)).map_err(|error| error.to_string())?;
        components.check(&flow).map_err(|error| error.to_string())?;
        let reports = run(&[(&flow, &components)], handle, DRAIN);
        let mut reports = reports.map_err(|error| error.to_string())?;
        reports.pop().ok_or_else(|| format!("flow `{name}` left no report"))
    }
}

fn expect(is_so: bool, report: &Report) -> Result<(), String> {
    if is_so { Ok(()) } else { Err(format!("a flow did not end as expected: {report:?}")) }
}
