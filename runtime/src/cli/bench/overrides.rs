//! Command-line options that replace values in the flow file.

use std::{
    borrow::Cow,
    io,
    path::{Path, PathBuf, absolute},
    time::Duration,
};

use serde::Serialize;
use serde_json::Value;
use tremor_runtime::{
    flow::{self, Connector, Flow, Role, Span},
    redact,
};

use super::Arguments;

/// Type of the connectors that measure the flow.
const BENCH: &str = "bench";

/// Values from the command line for keys of the `bench` connectors of a flow.
pub(super) struct Overrides<'a> {
    arguments: &'a Arguments,
    report: &'a Path,
    data: Option<PathBuf>,
    hgrm: Option<PathBuf>,
}

impl<'a> Overrides<'a> {
    /// Returns the values of the command line. Relative paths in them are relative to the current folder. `report` is
    /// the file to which the sink writes its report.
    ///
    /// # Errors
    /// A path is invalid.
    pub(super) fn new(arguments: &'a Arguments, report: &'a Path) -> io::Result<Self> {
        let absolute_path = |path: &Option<PathBuf>| path.as_ref().map(absolute).transpose();
        let (data, hgrm) = (absolute_path(&arguments.data)?, absolute_path(&arguments.hgrm)?);
        Ok(Self { arguments, report, data, hgrm })
    }

    /// Sets the keys in the `bench` connectors of a flow.
    ///
    /// # Errors
    /// The flow has no `bench` source, or not exactly one `bench` sink, or a file to replay does not exist.
    pub(super) fn apply(&self, flow: &mut Flow) -> Result<(), flow::Error> {
        let Arguments { warmup, duration, rate, .. } = *self.arguments;
        let seconds = |time: Option<Duration>| time.map(|time| Value::from(time.as_secs_f64()));
        let sources = benches(flow, Role::Source);
        let sinks = benches(flow, Role::Sink);
        let (Some(_), [sink]) = (sources.first(), &*sinks) else {
            let message = format!(
                "a benchmark needs sources of type `{BENCH}` and one sink of that type: this flow has \
                 {} of these sources and {} of these sinks",
                sources.len(),
                sinks.len()
            );
            let at =
                flow.spec.connectors.first().map_or(Span::START, |connector| connector.name.at);
            return Err(flow.error(at, message).into());
        };
        // The conversion is exact, because there are fewer than 2^53 sources.
        #[allow(clippy::cast_precision_loss)]
        let share = rate.map(|rate| rate / sources.len() as f64);
        for position in &sources {
            let connector = &mut flow.spec.connectors[*position];
            set(connector, "rate", share.map(Value::from));
            set(connector, "file", self.data.as_deref().map(text));
        }
        let sink = &mut flow.spec.connectors[*sink];
        set(sink, "report", Some(text(self.report)));
        set(sink, "hgrm", self.hgrm.as_deref().map(text));
        let connectors = flow.spec.connectors.iter_mut();
        for connector in connectors.filter(|connector| is_bench(connector)) {
            set(connector, "warmup_s", seconds(warmup));
            set(connector, "duration_s", seconds(duration));
            if duration.is_some() {
                connector.component.config.set("iterations", None);
            }
        }
        sources.iter().try_for_each(|position| is_there(flow, &flow.spec.connectors[*position]))
    }
}

/// Events per second that all sources of a flow offer together. In JSON: a number, `null` for `Unlimited`, or a text
/// for `Redacted`.
#[derive(Clone, Copy, Debug, Serialize)]
#[serde(untagged)]
pub(super) enum Rate {
    /// The sources offer this number of events.
    Events(f64),
    /// The sources offer as many events as the flow accepts.
    Unlimited,
    /// The rate of a source comes from a reference. Contains the text that replaces the rate in the report.
    Redacted(&'static str),
}

/// Returns the rate of a flow. Call this after the values of the command line were set.
pub(super) fn rate(flow: &Flow) -> Rate {
    let mut sum = 0.0;
    for position in benches(flow, Role::Source) {
        let Some(rate) = config(flow, position).get("rate").filter(|rate| rate.is_number()) else {
            return Rate::Unlimited;
        };
        if matches!(redact::text(&rate.to_string()), Cow::Owned(_)) {
            return Rate::Redacted(redact::REDACTED);
        }
        sum += rate.as_f64().unwrap_or_default();
    }
    Rate::Events(sum)
}

/// Returns the files that the sources of a flow replay, each once.
pub(super) fn files(flow: &Flow) -> Vec<PathBuf> {
    let file = |position| config(flow, position).get("file").and_then(Value::as_str);
    let mut files: Vec<_> = benches(flow, Role::Source)
        .into_iter()
        .filter_map(file)
        .map(|file| flow.folder().join(file))
        .collect();
    files.sort();
    files.dedup();
    files
}

fn config(flow: &Flow, position: usize) -> &Value {
    flow.spec.connectors[position].component.config.value()
}

/// Sets a key if there is a value for it.
fn set(connector: &mut Connector, key: &str, value: Option<Value>) {
    if value.is_some() {
        connector.component.config.set(key, value);
    }
}

fn text(path: &Path) -> Value {
    path.to_string_lossy().into()
}

fn is_bench(connector: &Connector) -> bool {
    connector.component.name.value == BENCH
}

/// Returns the positions of the `bench` connectors that are linked in this role.
fn benches(flow: &Flow, role: Role) -> Vec<usize> {
    let connectors = flow.spec.connectors.iter().enumerate();
    connectors
        .filter(|(_, connector)| is_bench(connector))
        .filter(|(_, connector)| flow.graph.find(role, &connector.name.value).is_some())
        .map(|(position, _)| position)
        .collect()
}

/// Checks that the file to replay exists, before any plugin is loaded.
fn is_there(flow: &Flow, connector: &Connector) -> Result<(), flow::Error> {
    let config = &connector.component.config;
    let Some(file) = config.value().get("file").and_then(Value::as_str) else { return Ok(()) };
    let path = flow.folder().join(file);
    if path.is_file() {
        return Ok(());
    }
    let message = format!("{}: there is no such file to replay", path.display());
    let help = "correct `file` or `--data`; `cargo xtask generate-logs` writes the data of the flows in \
                `bench/flows`";
    Err(flow.error(config.span("/file"), message).help(help).into())
}
