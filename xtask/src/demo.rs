//! `cargo xtask demo`: an example flow through dynamically loaded plugins.

use std::fs;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use crate::project::{cargo, root, run as run_command, shown};

const FLOW: &str = "examples/errors.yaml";
const INPUT: &str = "examples/logs.json";

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Compare the events with what the flow's conditions leave of its input, and print none
    #[arg(long)]
    check: bool,
}

pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    if arguments.check {
        return check();
    }
    build()?;
    run_command(tremor())
}

/// Runs the demo and compares every event that comes out with those that should.
pub(crate) fn check() -> Result<()> {
    build()?;
    let mut command = tremor();
    let out = command.stderr(Stdio::inherit()).output().context("cannot start tremor")?;
    ensure!(out.status.success(), "{} failed: {}", shown(&command), out.status);
    let shown = events(&out.stdout)?;
    let expected = expected_events()?;
    ensure!(
        shown == expected,
        "the demo's {} events are not the {} that {FLOW} should leave of {INPUT}",
        shown.len(),
        expected.len(),
    );
    eprintln!("{} events, as expected", shown.len());
    Ok(())
}

/// Builds into `target/`, wherever else the caller builds: the flow names that folder.
fn build() -> Result<()> {
    run_command(cargo([
        "build",
        "--release",
        "--target-dir=target",
        "--package=tremor-runtime",
        "--package=connector-file",
        "--package=connector-stdio",
    ]))
}

fn tremor() -> Command {
    let mut command = Command::new(root().join("target/release/tremor"));
    command.args(["run", FLOW]).current_dir(root());
    command
}

/// The conditions of the flow once more, in plain Rust.
fn expected_events() -> Result<Vec<Value>> {
    let path = root().join(INPUT);
    let input = fs::read(&path).with_context(|| format!("cannot read {}", path.display()))?;
    let mut events = events(&input)?;
    events.retain(|event| {
        event["short_message"] == "ERROR"
            && event["application"] == "app1"
            && event["syslog_hostname"] == "host3"
            && event["index_type"].as_str().is_some_and(|name| name.starts_with("syslog_"))
    });
    Ok(events)
}

fn events(lines: &[u8]) -> Result<Vec<Value>> {
    let lines = lines.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
    lines.map(|line| serde_json::from_slice(line).context("a line is no JSON")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What `cargo xtask generate-logs --lines 10000 --seed 1 --output examples/logs.json` writes.
    #[test]
    fn the_generator_reproduces_the_shipped_logs() {
        let mut generated = Vec::new();
        sample_logs::write_lines(10_000, 1, &mut generated).expect("a Vec takes every byte");
        let shipped = fs::read(root().join(INPUT)).expect("the example's input is shipped");
        assert!(shipped == generated, "{INPUT} is not what the generator writes");
    }

    #[test]
    fn the_demo_fits_on_a_few_screens() {
        let count = expected_events().expect("the example's input is shipped").len();
        assert!((20..=60).contains(&count), "{count} events");
    }
}
