//! Logs, on stderr: stdout carries events only.

use std::{
    backtrace::{Backtrace, BacktraceStatus},
    io::{self, Write},
    panic, thread,
};

use tracing_subscriber::EnvFilter;
use tremor_runtime::redact;

use super::terminal;

/// The variable that selects the log lines, in the syntax of `tracing_subscriber::EnvFilter`.
const VARIABLE: &str = "TREMOR_LOG";

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
    report_panics();
    let filter = EnvFilter::try_from_env(VARIABLE);
    let wrong = filter.as_ref().err().filter(|_| std::env::var_os(VARIABLE).is_some());
    let wrong = wrong.map(ToString::to_string);
    let filter = filter.unwrap_or_else(|_| EnvFilter::new("info"));
    let logs = tracing_subscriber::fmt().with_env_filter(filter).with_writer(move || Lines(format));
    match format {
        Format::Text => {
            logs.with_target(false).with_ansi(io::IsTerminal::is_terminal(&io::stderr())).init();
        }
        Format::Json => logs.json().flatten_event(true).init(),
    }
    if let Some(error) = wrong {
        tracing::warn!("{VARIABLE} is invalid, so everything from `info` on is logged: {error}");
    }
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
        // Nobody may read it.
        _ = io::stderr().write_all(whole.as_bytes());
    }));
}

/// Writes log lines without the values that are kept out of them.
struct Lines(Format);

impl Write for Lines {
    /// All that is written at once is one line.
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let text = String::from_utf8_lossy(line);
        let redacted = match self.0 {
            Format::Json => redact::log_line(text.trim_end_matches('\n')).into_owned() + "\n",
            Format::Text => redacted(&text),
        };
        terminal::write_above(redacted.as_bytes())?;
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        io::stderr().flush()
    }
}

/// A line for people: what follows the level, before which there is the time.
fn redacted(line: &str) -> String {
    const LEVELS: [&str; 5] = ["ERROR", "WARN", "INFO", "DEBUG", "TRACE"];
    let level = LEVELS.iter().filter_map(|level| Some(line.find(level)? + level.len())).min();
    let (start, rest) = line.split_at(level.unwrap_or(0));
    start.to_owned() + &redact::text(rest)
}
