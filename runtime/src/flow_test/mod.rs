//! Flow tests: folders with a flow, what goes in and what has to come out. Flows run without their
//! connectors, on a clock of their own, so that the same events give the same results.
//!
//! ```text
//! classify/
//!   flow.yaml                 the flow, unless `test.yaml` names another
//!   test.yaml                 settings; may be left out
//!   input/NAME.jsonl          what the source NAME brings: a value a line
//!   input/NAME.events.jsonl   the same with times and metadata: { at_ms, value, metadata } a line,
//!                             or { at_ms, base64, metadata } for a message in bytes
//!   input/NAME.raw            bytes, through its preprocessors and its codec
//!   expected/NAME.jsonl       what the sink NAME gets, a value a line
//!   expected/NAME.events.jsonl  the same with metadata: { value, metadata } a line
//!   expected/NAME.raw         bytes, through its codec and its postprocessors
//! ```
//! A port of a pipeline that nothing is linked to is called `PIPELINE.PORT` there. A sink without a
//! file is expected to get nothing; what leaves by a port that is not linked is looked at only
//! where there is a file for it, but for `err`: events that fail are a difference always.
//!
//! The first event of each source comes at `clock.start_ms`, each that follows `clock.step_ms`
//! later, and after the last one `clock.run_on_ms` pass before everything drains.

mod input;
mod output;

use std::{
    fmt,
    path::{Path, PathBuf},
    sync::Arc,
};

use serde::Deserialize;

pub use self::output::Difference;
use crate::{
    components::{Components, FlowParts},
    engine::Simulation,
    flow::{self, Flow},
    memory::FlowMemory,
    run_handle::RunHandle,
};

/// What keeps a test from running: it names the file, and says what was expected.
#[derive(Debug)]
pub struct Error(String);

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Error {}

impl Error {
    fn at(path: &Path, what: impl fmt::Display) -> Self {
        Self(format!("{}: {what}", path.display()))
    }
}

/// What `test.yaml` says.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Settings {
    flow: PathBuf,
    clock: Clock,
}

impl Default for Settings {
    fn default() -> Self {
        Self { flow: "flow.yaml".into(), clock: Clock::default() }
    }
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
#[allow(clippy::struct_field_names)] // the names that users type have their unit
struct Clock {
    start_ms: u64,
    step_ms: u64,
    run_on_ms: u64,
}

impl Default for Clock {
    /// From the beginning of 2026 on, an event a millisecond.
    fn default() -> Self {
        Self { start_ms: 1_767_225_600_000, step_ms: 1, run_on_ms: 0 }
    }
}

/// A test in its folder.
#[derive(Debug)]
pub struct FlowTest {
    folder: PathBuf,
    settings: Settings,
}

impl FlowTest {
    /// Reads the settings of the test in `folder`.
    ///
    /// # Errors
    /// Where there is no such folder, or `test.yaml` says what it cannot.
    pub fn open(folder: &Path) -> Result<Self, Error> {
        if !folder.is_dir() {
            return Err(Error::at(
                folder,
                "there is no such folder; expected one with a flow test",
            ));
        }
        let path = folder.join("test.yaml");
        let settings = if path.exists() {
            let yaml = flow::read_yaml(&path).map_err(|error| Error(error.to_string()))?;
            Settings::deserialize(yaml).map_err(|error| Error::at(&path, error))?
        } else {
            Settings::default()
        };
        Ok(Self { folder: folder.to_owned(), settings })
    }

    /// The flow file.
    pub fn flow(&self) -> PathBuf {
        self.folder.join(&self.settings.flow)
    }

    /// Runs the flow, which was checked [without connectors](Components::without_connectors), and
    /// compares what comes out with what is expected.
    ///
    /// # Errors
    /// What keeps it from running: files that cannot be read, components that cannot be made.
    pub fn run(&self, flow: &Flow, components: &Components) -> Result<Vec<Difference>, Error> {
        output::compare(&self.expected(), &self.outputs(flow, components)?)
    }

    /// Runs the flow, and makes what comes out what is expected. Returns the files that changed.
    ///
    /// # Errors
    /// As [`FlowTest::run`]; also where a file cannot be written.
    pub fn update(&self, flow: &Flow, components: &Components) -> Result<Vec<PathBuf>, Error> {
        output::update(&self.expected(), &self.outputs(flow, components)?)
    }

    fn expected(&self) -> PathBuf {
        self.folder.join("expected")
    }

    fn outputs(&self, flow: &Flow, components: &Components) -> Result<Vec<output::Output>, Error> {
        let (run, calls) = (RunHandle::default(), Arc::default());
        let (memory, clock) = (FlowMemory::default(), Arc::default());
        let parts = FlowParts {
            components,
            flow,
            run: &run,
            calls: &calls,
            memory: &memory,
            clock: Some(&clock),
        };
        let expected = self.expected();
        let form = |name: &str| output::form(&expected, name);
        let is_encoded = |name: &str| form(name) == output::Format::Raw;
        let mut simulation = Simulation::new(flow, &parts, clock.clone(), is_encoded)
            .map_err(|diagnostic| Error(diagnostic.to_string()))?;
        let sources: Vec<String> = simulation.sources().map(str::to_owned).collect();
        let clock = self.settings.clock;
        let mut end = clock.start_ms;
        for input in input::read(&self.folder.join("input"), &sources, clock)? {
            end = end.max(input.at_ns / 1_000_000);
            simulation.feed(&input.source, input.batch);
        }
        simulation.advance((end + clock.run_on_ms).saturating_mul(1_000_000));
        simulation.finish();
        let outputs = simulation
            .taken()
            .map(|(name, taken)| output::Output::of(name, form(name), &taken, flow));
        outputs.collect()
    }
}
