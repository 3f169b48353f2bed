//! Flow tests: folders with a flow, its input and its expected output.
//!
//! Flows run without their connectors and with a simulated clock, so that the same events always give the same results.
//!
//! ```text
//! classify/
//!   flow.yaml                 flow, unless `test.yaml` names another file
//!   test.yaml                 settings; optional
//!   input/NAME.jsonl          input of the source NAME, one value per line
//!   input/NAME.events.jsonl   input with times and metadata, { at_ms, value, metadata } per line,
//!                             or { at_ms, base64, metadata } for a message in bytes
//!   input/NAME.raw            bytes for the preprocessors and the codec of the source
//!   expected/NAME.jsonl       output of the sink NAME, one value per line
//!   expected/NAME.events.jsonl  output with metadata, { value, metadata } per line
//!   expected/NAME.raw         bytes from the codec and the postprocessors of the sink
//! ```
//!
//! For a port of a pipeline to which nothing is linked, NAME is `PIPELINE.PORT`. A sink without a file is expected to
//! receive no event. Events at a port that is not linked are compared only if there is a file for the port. The port
//! `err` is an exception: events that fail are always a difference.
//!
//! The first event of each source has the time `clock.start_ms`. Each further event is `clock.step_ms` later than the
//! one before. After the last event, `clock.run_on_ms` pass before the flow drains.

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

/// An error that prevents a test from running. The message names the file and what was expected.
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

/// Settings in `test.yaml`.
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
    /// Returns a clock that starts at the beginning of 2026, with one event for each millisecond.
    fn default() -> Self {
        Self { start_ms: 1_767_225_600_000, step_ms: 1, run_on_ms: 0 }
    }
}

/// A flow test in a folder.
#[derive(Debug)]
pub struct FlowTest {
    folder: PathBuf,
    settings: Settings,
}

impl FlowTest {
    /// Reads the settings of the test in `folder`.
    ///
    /// # Errors
    /// The folder does not exist, or `test.yaml` is invalid.
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

    /// Returns the path of the flow file.
    pub fn flow(&self) -> PathBuf {
        self.folder.join(&self.settings.flow)
    }

    /// Runs the flow, and compares its output with the expected output.
    ///
    /// The flow must have been checked [without connectors](Components::without_connectors).
    ///
    /// # Errors
    /// Files cannot be read, or components cannot be created.
    pub fn run(&self, flow: &Flow, components: &Components) -> Result<Vec<Difference>, Error> {
        output::compare(&self.expected(), &self.outputs(flow, components)?)
    }

    /// Runs the flow, and stores its output as the expected output. Returns the files that have changed.
    ///
    /// # Errors
    /// Errors of [`FlowTest::run`], or a file cannot be written.
    pub fn update(&self, flow: &Flow, components: &Components) -> Result<Vec<PathBuf>, Error> {
        output::update(&self.expected(), &self.outputs(flow, components)?)
    }

    fn expected(&self) -> PathBuf {
        self.folder.join("expected")
    }

    fn outputs(&self, flow: &Flow, components: &Components) -> Result<Vec<output::Output>, Error> {
        let (run, calls) = (RunHandle::default(), Arc::default());
        let (memory, clock) = (FlowMemory::default(), crate::clock::Clock::simulated(0));
        let parts = FlowParts {
            components,
            flow,
            run: &run,
            calls: &calls,
            memory: &memory,
            clock: &clock,
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
