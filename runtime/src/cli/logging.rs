//! Logs and messages for users. Both are written to stderr, because stdout contains only events.

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
use tracing::{Level, level_filters::LevelFilter};
use tracing_subscriber::{
    EnvFilter,
    filter::Directive,
    fmt::{
        format::Writer,
        time::{FormatTime, SystemTime},
    },
    prelude::*,
};
use tremor_runtime::{
    log::{
        self,
        levels::{self, TARGETS},
    },
    redact,
};

use super::{Failure, stderr};

/// Variable that selects the log lines, in the syntax of `tracing_subscriber::EnvFilter`.
const VARIABLE: &str = "TREMOR_LOG";

/// Maximum wait at the end of the process until stderr has accepted the remaining lines.
const LAST: Duration = Duration::from_secs(1);

/// Format of everything that is written to stderr. Set when logging starts.
static FORMAT: OnceLock<Format> = OnceLock::new();

/// Format of log lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Format {
    /// Human-readable text.
    Text,
    /// A JSON object per line.
    Json,
}

/// A part of [`VARIABLE`] that is invalid or has no effect.
#[derive(Debug, thiserror::Error)]
#[error(
    "error: invalid part `{part}` of the variable `{VARIABLE}`: {problem}; expected a level (`error`, `warn`, `info`, \
     `debug`, `trace` or `off`), or `TARGET=LEVEL` with a target that starts with `tremor`, separated by commas"
)]
struct InvalidFilter {
    part: String,
    problem: &'static str,
}

/// Starts logging. Lines from the level `info` upwards are logged unless `TREMOR_LOG` selects other lines.
///
/// # Errors
/// `TREMOR_LOG` is invalid, or would select no line.
pub(crate) fn start(format: Format) -> Result<(), Failure> {
    let format = *FORMAT.get_or_init(|| format);
    report_panics();
    let text = std::env::var_os(VARIABLE).unwrap_or_default();
    let filter = filter(&text.to_string_lossy()).map_err(Failure::of_usage)?;
    let logs = tracing_subscriber::registry().with(levels::layer(filter));
    let lines = tracing_subscriber::fmt::layer().with_writer(move || Lines(format));
    // If writing the log fails, the subscriber would print the error to stderr. Printing panics if stderr is the cause
    // of the failure.
    let lines = lines.log_internal_errors(false);
    match format {
        Format::Text => {
            logs.with(lines.with_target(false).with_ansi(stderr::is_terminal())).init();
        }
        Format::Json => logs.with(lines.json().flatten_event(true)).init(),
    }
    Ok(())
}

/// Returns the filter with the syntax of [`EnvFilter`] in `text`, or the default filter if `text` is empty.
///
/// `EnvFilter` takes an unknown word for the target of log lines, so that a misspelt level would disable all lines.
fn filter(text: &str) -> Result<EnvFilter, InvalidFilter> {
    let parts: Vec<_> = text.split(',').map(str::trim).filter(|part| !part.is_empty()).collect();
    let invalid = |part: &str, problem| Err(InvalidFilter { part: part.to_owned(), problem });
    let mut selects = parts.is_empty();
    for part in &parts {
        if part.parse::<LevelFilter>().is_ok() {
            selects = true;
            continue;
        }
        let target = part.split(['[', '=']).next().unwrap_or_default();
        let has_level = part.rsplit(']').next().is_some_and(|end| end.contains('='));
        if part.parse::<Directive>().is_err() {
            return invalid(part, "its syntax is invalid");
        }
        if !has_level && !target.starts_with(TARGETS) {
            return invalid(part, "it is not a level");
        }
        selects |= target.starts_with(TARGETS) || TARGETS.starts_with(target);
    }
    if !selects {
        return invalid(&parts.join(","), "it selects no log line");
    }
    let text = if parts.is_empty() { "info".to_owned() } else { parts.join(",") };
    EnvFilter::try_new(&text).or_else(|_| invalid(&text, "its syntax is invalid"))
}

/// Moves the writing of logs and messages to a separate thread, so that stderr blocks no other thread.
pub(super) fn write_from_thread() {
    stderr::start_thread(|dropped| {
        let message = "log lines were dropped because stderr did not accept them";
        let message = format!("{dropped} {message}");
        match format() {
            Format::Text => format!("{}  WARN {message}\n", now()),
            Format::Json => object(Level::WARN, &message, fields([("dropped", json!(dropped))])),
        }
    });
}

/// Waits at the end of the process until stderr has accepted everything, at most for a second.
pub(crate) fn finish() {
    finish_within(LAST);
}

/// Waits until stderr has accepted everything, at most for `limit`.
pub(super) fn finish_within(limit: Duration) {
    stderr::flush(limit);
}

/// Writes a message for users: unchanged, or as a JSON object with these fields.
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

/// Writes an error that ends the process.
pub(super) fn error(problem: &dyn fmt::Display) {
    print(Level::ERROR, &format!("error: {problem}"), Map::new());
}

/// Collects the fields of a message.
pub(super) fn fields<const N: usize>(fields: [(&str, Value); N]) -> Map<String, Value> {
    fields.map(|(key, value)| (key.to_owned(), value)).into_iter().collect()
}

fn format() -> Format {
    FORMAT.get().copied().unwrap_or(Format::Text)
}

/// Returns a line of JSON in the format of the log.
fn object(level: Level, message: &str, fields: Map<String, Value>) -> String {
    let mut line = self::fields([
        ("timestamp", now().into()),
        ("level", level.as_str().into()),
        ("message", message.into()),
    ]);
    line.extend(fields);
    Value::from(line).to_string() + "\n"
}

/// Returns the current time in the format of the log.
fn now() -> String {
    let mut now = String::new();
    // Writing to a string cannot fail.
    _ = SystemTime.format_time(&mut Writer::new(&mut now));
    now
}

/// Reports panics of the program and of linked plugins. The text is that of the standard library, without secret
/// values. With the format JSON, this text is the message of an object.
fn report_panics() {
    panic::set_hook(Box::new(|panic| {
        let (thread, backtrace) = (thread::current(), Backtrace::capture());
        let report = format!("\nthread '{}' {panic}\n", thread.name().unwrap_or("<unnamed>"));
        let has_backtrace = backtrace.status() == BacktraceStatus::Captured;
        let trace = has_backtrace.then(|| format!("stack backtrace:\n{backtrace}"));
        let message = redact::text(&report) + trace.as_deref().unwrap_or_default();
        print(Level::ERROR, &message, Map::new());
    }));
}

/// A writer of log lines that removes secret values and adds the name of the flow.
struct Lines(Format);

impl Write for Lines {
    /// Writes one line. The subscriber passes each line in a single call.
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

/// Adds the flow that the calling thread is working for, as the last field.
fn with_flow(line: &str, format: Format) -> String {
    let flow = log::current_flow().filter(|flow| !flow.is_empty());
    match (flow, format, line.strip_suffix('}')) {
        (Some(flow), Format::Json, Some(line)) => format!("{line},\"flow\":{}}}", json!(*flow)),
        (Some(flow), Format::Text, _) => format!("{line} flow={flow}"),
        _ => line.to_owned(),
    }
}

/// Removes secret values from a line, except from its beginning, which contains the time and the level.
fn redacted(line: &str) -> String {
    const LEVELS: [&str; 5] = ["ERROR", "WARN", "INFO", "DEBUG", "TRACE"];
    let level = LEVELS.iter().filter_map(|level| Some(line.find(level)? + level.len())).min();
    let (start, rest) = line.split_at(level.unwrap_or(0));
    start.to_owned() + &redact::text(rest)
}

#[cfg(test)]
mod tests {
    use super::filter;

    #[test]
    fn levels_and_targets_of_this_program_are_accepted() {
        for text in [
            "",
            "warn",
            "DEBUG",
            "off",
            " info , tremor_runtime::engine=debug",
            "tremor_runtime=trace",
            "tremor_runtime::engine",
            "warn,hyper=off",
            "[a_span]=debug",
            "tremor_runtime[a_span{field=1}]=debug",
        ] {
            assert!(filter(text).is_ok(), "{text}: {:?}", filter(text));
        }
        assert_eq!(filter("").unwrap().to_string(), "info");
    }

    #[test]
    fn invalid_part_of_filter_is_named() {
        for (text, part) in [
            ("wran", "wran"),
            ("info,wran", "wran"),
            ("info, tremor_runtime=wran", "tremor_runtime=wran"),
            ("tremr_runtime=debug", "tremr_runtime=debug"),
            ("[a_span", "[a_span"),
            ("warning", "warning"),
        ] {
            let error = filter(text).unwrap_err().to_string();
            assert!(error.contains(&format!("`{part}` of the variable `TREMOR_LOG`")), "{error}");
        }
    }
}
