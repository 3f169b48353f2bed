//! Logs, on stderr: stdout carries events only.

use std::io;

use tracing_subscriber::EnvFilter;

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
    let filter = EnvFilter::try_from_env(VARIABLE);
    let wrong = filter.as_ref().err().filter(|_| std::env::var_os(VARIABLE).is_some());
    let wrong = wrong.map(ToString::to_string);
    let filter = filter.unwrap_or_else(|_| EnvFilter::new("info"));
    let logs = tracing_subscriber::fmt().with_env_filter(filter).with_writer(io::stderr);
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
