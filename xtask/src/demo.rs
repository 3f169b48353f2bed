//! `cargo xtask demo`: an example flow through dynamically loaded plugins.

use std::fs;
use std::process::{Command, Output};

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use crate::project::{cargo, root, run as run_command, shown};
use crate::terminal::{self, Line};

pub(crate) const FLOW: &str = "examples/errors.yaml";
const INPUT: &str = "examples/logs.json";
/// The fields that the flow keeps of an event.
const FIELDS: [&str; 3] = ["guid", "short_message", "syslog_hostname"];
const PICTURE: &str = "docs/images/demo.svg";
/// Events in the picture.
const SHOWN: usize = 6;

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

/// Runs the demo and compares every event that comes out with those that should, and the picture of
/// it with the one that is committed.
pub(crate) fn check() -> Result<()> {
    let out = output()?;
    let events = expect(&out.stdout)?;
    eprintln!("{events} events, as expected");
    let kept = fs::read_to_string(root().join(PICTURE));
    let kept = kept.with_context(|| format!("cannot read {PICTURE}"))?;
    // No two runs take the same time.
    let [kept, drawn] =
        [kept, picture(&out)].map(|svg| svg.replace(|c: char| c.is_ascii_digit(), ""));
    ensure!(kept == drawn, "{PICTURE} does not show the demo: `cargo xtask pictures` draws it");
    Ok(())
}

/// Compares the events that came out of the demo with those that should; how many they are.
pub(crate) fn expect(stdout: &[u8]) -> Result<usize> {
    let shown = events(stdout)?;
    let expected = expected_events()?;
    ensure!(
        shown == expected,
        "the demo's {} events are not the {} that {FLOW} should leave of {INPUT}",
        shown.len(),
        expected.len(),
    );
    Ok(shown.len())
}

/// Runs the demo and draws what a terminal shows of it.
pub(crate) fn draw() -> Result<()> {
    let picture = picture(&output()?);
    fs::write(root().join(PICTURE), picture).with_context(|| format!("cannot write {PICTURE}"))
}

/// The first events, and the summary, which is the last line on standard error.
fn picture(out: &Output) -> String {
    let [events, log] = [&out.stdout, &out.stderr].map(|bytes| String::from_utf8_lossy(bytes));
    let mut lines = vec![Line::Typed("cargo xtask demo")];
    lines.extend(events.lines().take(SHOWN).map(Line::Out));
    lines.push(Line::Note(format!("… {} more", events.lines().count().saturating_sub(SHOWN))));
    lines.extend(log.lines().last().map(Line::Log));
    terminal::draw("A terminal with the demo: events, and the summary of the flow", &lines)
}

fn output() -> Result<Output> {
    build()?;
    let mut command = tremor();
    let out = command.output().context("cannot start tremor")?;
    let log = String::from_utf8_lossy(&out.stderr);
    ensure!(out.status.success(), "{} failed: {}\n{log}", shown(&command), out.status);
    Ok(out)
}

/// Builds into `target/`, wherever else the caller builds: the flow names that folder.
pub(crate) fn build() -> Result<()> {
    run_command(build_command())
}

/// See [`build`].
pub(crate) fn build_command() -> Command {
    cargo([
        "build",
        "--release",
        "--target-dir=target",
        "--package=tremor-runtime",
        "--package=connector-file",
        "--package=connector-stdio",
    ])
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
    for event in events.iter_mut().filter_map(Value::as_object_mut) {
        event.retain(|field, _| FIELDS.contains(&field.as_str()));
    }
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
