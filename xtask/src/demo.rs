//! `cargo xtask demo`: an example flow through dynamically loaded plugins.

use std::{fs, process::Command};

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use crate::project::{cargo, output, root, run as run_command};

pub(crate) const FLOW: &str = "examples/errors.yaml";
const INPUT: &str = "examples/logs.json";
/// The fields that the flow keeps of an event.
const FIELDS: [&str; 3] = ["guid", "short_message", "syslog_hostname"];
/// The page that shows the first events and the summary of the demo.
const PAGE: &str = "README.md";
const SHOWN: usize = 3;

pub(crate) fn run() -> Result<()> {
    run_command(build_command())?;
    run_command(tremor())
}

/// Runs the demo, and compares all its events with the expected ones, and the beginning of its output with the README.
pub(crate) fn check() -> Result<()> {
    run_command(build_command())?;
    let out = output(&mut tremor())?;
    eprintln!("{} events, as expected", expect(&out.stdout)?);
    let page =
        fs::read_to_string(root().join(PAGE)).with_context(|| format!("cannot read {PAGE}"))?;
    let [events, log] = [&out.stdout, &out.stderr].map(|bytes| String::from_utf8_lossy(bytes));
    // The duration, which is the last part of the summary, differs from run to run.
    let summary = log
        .lines()
        .last()
        .and_then(|line| line.rsplit_once(", "))
        .context("the log has no summary")?;
    for line in events.lines().take(SHOWN).chain([summary.0]) {
        ensure!(page.contains(line), "{PAGE} does not show this line of the demo: {line}");
    }
    Ok(())
}

/// Compares the events that the demo wrote with the expected ones, and returns their number.
pub(crate) fn expect(stdout: &[u8]) -> Result<usize> {
    let shown = events(stdout)?;
    let expected = expected_events()?;
    ensure!(
        shown == expected,
        "the demo's {} events differ from the {} events of {INPUT} that {FLOW} selects",
        shown.len(),
        expected.len(),
    );
    Ok(shown.len())
}

/// Returns a command that builds into `target/`, even if the caller uses another target folder, because the flow names
/// `target/`.
pub(crate) fn build_command() -> Command {
    let mut command = cargo(["build", "--release", "--target-dir=target"]);
    let packages = ["tremor-runtime", "connector-file", "connector-stdio"];
    command.args(packages.map(|package| format!("--package={package}")));
    command
}

fn tremor() -> Command {
    let mut command = Command::new(root().join("target/release/tremor"));
    command.args(["run", FLOW]).current_dir(root());
    command
}

/// Returns the events of the input that meet the conditions of the flow, evaluated here in plain Rust.
fn expected_events() -> Result<Vec<Value>> {
    let input = fs::read(root().join(INPUT)).with_context(|| format!("cannot read {INPUT}"))?;
    let mut events = events(&input)?;
    events.retain(|event| {
        event["short_message"] == "ERROR"
            && event["application"] == "app1"
            && event["syslog_hostname"] == "host3"
            && event["index_type"].as_str().is_some_and(|name| name.starts_with("syslog_"))
    });
    for event in events.iter_mut().filter_map(Value::as_object_mut) {
        event.retain(|field, _| FIELDS.contains(&field.as_str()));
    }
    Ok(events)
}

fn events(lines: &[u8]) -> Result<Vec<Value>> {
    let lines = lines.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
    lines.map(|line| serde_json::from_slice(line).context("a line is not JSON")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Compares with the output of `cargo xtask generate-logs --lines 10000 --seed 1 --output examples/logs.json`.
    #[test]
    fn generator_reproduces_the_shipped_logs() {
        let mut generated = Vec::new();
        sample_logs::write_lines(10_000, 1, &mut generated).expect("writing to memory succeeds");
        let shipped = fs::read(root().join(INPUT)).expect("the example's input is shipped");
        assert!(shipped == generated, "{INPUT} differs from the generator's output");
    }

    #[test]
    fn demo_fits_on_a_few_screens() {
        let count = expected_events().expect("the example's input is shipped").len();
        assert!((20..=60).contains(&count), "{count} events");
    }
}
