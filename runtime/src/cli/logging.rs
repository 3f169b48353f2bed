//! Logs and messages for users, on stderr: stdout carries events only.

use std::{
    backtrace::{Backtrace, BacktraceStatus},
    fmt,
    io::{self, Write},
    panic,
    sync::OnceLock,
    thread,
    time::Duration,
};

use serde_json::{Map, Value, json};
use tracing::Level;
use tracing_subscriber::{
    EnvFilter,
    fmt::{
        format::Writer,
        time::{FormatTime, SystemTime},
    },
};
use tremor_runtime::{log, redact};

use super::stderr;

/// The variable that selects the log lines, in the syntax of `tracing_subscriber::EnvFilter`.
const VARIABLE: &str = "TREMOR_LOG";

/// The time that stderr has at the end to accept what is left.
const LAST: Duration = Duration::from_secs(1);

/// The format of everything that is written to stderr, once it is known.
static FORMAT: OnceLock<Format> = OnceLock::new();

/// The format of log lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Format {
    /// For people.
    Text,
    /// A JSON object on each line.
    Json,
}

/// Starts logging, from `info` upwards unless `TREMOR_LOG` says otherwise.
pub(crate) fn start(format: Format) {
    let format = *FORMAT.get_or_init(|| format);
    report_panics();
    let filter = EnvFilter::try_from_env(VARIABLE);
    let wrong = filter.as_ref().err().filter(|_| std::env::var_os(VARIABLE).is_some());
    let wrong = wrong.map(ToString::to_string);
    let filter = filter.unwrap_or_else(|_| EnvFilter::new("info"));
    let logs = tracing_subscriber::fmt().with_env_filter(filter).with_writer(move || Lines(format));
    // An error of the log would be printed to stderr, which panics if stderr is the cause.
    let logs = logs.log_internal_errors(false);
    match format {
        Format::Text => logs.with_target(false).with_ansi(stderr::is_terminal()).init(),
        Format::Json => logs.json().flatten_event(true).init(),
    }
    if let Some(error) = wrong {
        tracing::warn!("{VARIABLE} is invalid, so everything from `info` on is logged: {error}");
    }
}

/// Writes logs and messages from a thread of its own from now on, so that stderr blocks nothing else.
pub(super) fn leave_to_thread() {
    stderr::start_thread(|dropped| {
        let message = "log lines were dropped because stderr did not accept them";
        let message = format!("{dropped} {message}");
        match format() {
            Format::Text => format!("{}  WARN {message}\n", now()),
            Format::Json => object(Level::WARN, &message, fields([("dropped", json!(dropped))])),
        }
    });
}

/// Waits at the end of the process until stderr has accepted everything, for a second at most.
pub(crate) fn finish() {
    finish_within(LAST);
}

/// Waits until stderr has accepted everything, for `limit` at most.
pub(super) fn finish_within(limit: Duration) {
    stderr::flush(limit);
}

/// Writes a message for users: as it is, or as a JSON object with these fields.
pub(crate) fn print(level: Level, message: &str, fields: Map<String, Value>) {
    let message = message.trim_end();
    stderr::print(match format() {
        Format::Text => format!("{message}\n"),
        Format::Json => object(level, message, fields),
    });
}

/// Warns the user about a problem.
pub(super) fn warn(problem: &dyn fmt::Display) {
    print(Level::WARN, &format!("warning: {problem}"), Map::new());
}

/// Collects the fields of a message.
pub(super) fn fields<const N: usize>(fields: [(&str, Value); N]) -> Map<String, Value> {
    fields.map(|(key, value)| (key.to_owned(), value)).into_iter().collect()
}

fn format() -> Format {
    FORMAT.get().copied().unwrap_or(Format::Text)
}

/// Makes a line of JSON as the log has it.
fn object(level: Level, message: &str, fields: Map<String, Value>) -> String {
    let mut line = self::fields([
        ("timestamp", now().into()),
        ("level", level.as_str().into()),
        ("message", message.into()),
    ]);
    line.extend(fields);
    Value::from(line).to_string() + "\n"
}

/// Returns the time as the log writes it.
fn now() -> String {
    let mut now = String::new();
    // Writing to a string cannot fail.
    _ = SystemTime.format_time(&mut Writer::new(&mut now));
    now
}

/// Has the program's own panics, and those of what is linked into it, reported as the standard library does,
/// without the values that are kept out of messages.
fn report_panics() {
    panic::set_hook(Box::new(|panic| {
        let (thread, backtrace) = (thread::current(), Backtrace::capture());
        let report = format!("\nthread '{}' {panic}\n", thread.name().unwrap_or("<unnamed>"));
        let is_traced = backtrace.status() == BacktraceStatus::Captured;
        let trace = is_traced.then(|| format!("stack backtrace:\n{backtrace}"));
        let whole = redact::text(&report) + trace.as_deref().unwrap_or_default();
        print(Level::ERROR, &whole, Map::new());
    }));
}

/// Writes log lines without the values that are kept out of them, and with the flow that they are about.
struct Lines(Format);

impl Write for Lines {
    /// All that is written at once is one line.
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let text = String::from_utf8_lossy(line);
        let text = with_flow(text.trim_end_matches('\n'), self.0);
        let redacted = match self.0 {
            Format::Json => redact::log_line(&text).into_owned(),
            Format::Text => redacted(&text),
        };
        stderr::log(redacted + "\n");
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Adds the flow that the calling thread works for, as the last field.
fn with_flow(line: &str, format: Format) -> String {
    let flow = log::current_flow().filter(|flow| !flow.is_empty());
    match (flow, format, line.strip_suffix('}')) {
        (Some(flow), Format::Json, Some(line)) => format!("{line},\"flow\":{}}}", json!(*flow)),
        (Some(flow), Format::Text, _) => format!("{line} flow={flow}"),
        _ => line.to_owned(),
    }
}

/// A line for people: what follows the level, before which there is the time.
fn redacted(line: &str) -> String {
    const LEVELS: [&str; 5] = ["ERROR", "WARN", "INFO", "DEBUG", "TRACE"];
    let level = LEVELS.iter().filter_map(|level| Some(line.find(level)? + level.len())).min();
    let (start, rest) = line.split_at(level.unwrap_or(0));
    start.to_owned() + &redact::text(rest)
}
