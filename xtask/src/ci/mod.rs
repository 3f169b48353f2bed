//! `cargo xtask ci`: runs the steps that a change has to pass, one after the other.
//!
//! A failed step does not end the run, so that one run reports every failure. The output of each step is in
//! `target/ci`. If the step fails, its failed tests and the end of its output are shown. A step that is requested by name
//! prints to the terminal.

mod inputs;
mod logged;
mod passed;
mod repeated;

use std::io::{self, Write};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

use self::inputs::{BENCH, CHECKS, CLIENTS, EXAMPLES, FUZZ, TESTS, VRL_PLUGIN};
use self::inputs::{hash, is_source, within};
use crate::project::{Skipped, cargo, files, is_on_path, root, run as run_command};
use crate::{
    book, boundary, crash, demo, faults, models, new_plugin, outage, perf_gate, restarts, scripts,
    tidy, tools::Tool,
};

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Also run steps that have already passed with the same files and tools
    #[arg(long)]
    all: bool,
    /// Run only these steps
    #[arg(value_name = "STEP", value_parser = STEPS.map(|step| step.name))]
    steps: Vec<String>,
}

/// A check with the name that reports use.
struct Step {
    name: &'static str,
    check: fn() -> Result<Skipped>,
    /// Returns whether the step reads a file of the project. `None` if the result also depends on time or chance, so that
    /// a pass must not be remembered.
    reads: Option<fn(&str) -> bool>,
}

impl Step {
    const fn new(name: &'static str, check: fn() -> Result<Skipped>) -> Self {
        Self { name, check, reads: None }
    }

    const fn reads(self, reads: fn(&str) -> bool) -> Self {
        Self { reads: Some(reads), ..self }
    }

    /// Runs the check. If `all` is not set, and a pass with the same inputs is remembered, does nothing. Returns the
    /// remark for the summary.
    fn run(&self, all: bool) -> Result<String> {
        let Some(reads) = self.reads else {
            return Ok((self.check)()?.unwrap_or_default().to_owned());
        };
        let before = hash(reads);
        let known = before.as_ref().ok().and_then(|hash| passed::find(self.name, hash));
        if let Some(left_out) = known.filter(|_| !all) {
            let without =
                if left_out.is_empty() { left_out } else { format!(", without {left_out}") };
            return Ok(format!("it passed with the same inputs ({}){without}", before?));
        }
        let skipped = (self.check)()?.unwrap_or_default();
        let kept = before.and_then(|before| {
            // If a file has changed while the step ran, it is unknown which version the step has read.
            ensure!(hash(reads)? == before, "files of the step have changed while it ran");
            passed::keep(self.name, &before, skipped)
        });
        kept.unwrap_or_else(|why| eprintln!("{NOT_REMEMBERED}: {why:#}"));
        Ok(skipped.to_owned())
    }
}

const NOT_REMEMBERED: &str = "the successful run of the step is not remembered";

/// The steps, in the order in which they run. Cheap steps that often fail are first.
const STEPS: [Step; 19] = [
    Step::new("fmt", || done(run_command(cargo(["fmt", "--all", "--check"])))),
    Step::new("tidy", || done(tidy::run())),
    Step::new("deny", deny).reads(|path| {
        ["Cargo.toml", "Cargo.lock", "deny.toml"].iter().any(|it| path.ends_with(it))
    }),
    Step::new("clippy", clippy).reads(|path| is_source(path, &[CLIENTS, FUZZ, CHECKS, VRL_PLUGIN])),
    Step::new("test", repeated::test),
    Step::new("new-plugin", || done(new_plugin::check())).reads(|path| {
        is_source(path, &[BENCH, CLIENTS, EXAMPLES, FUZZ, CHECKS, TESTS, VRL_PLUGIN])
    }),
    Step::new("vrl", vrl).reads(|path| {
        within(path, &["docs/guide/vrl.md", "docs/guide/cookbook/prometheus.md"])
            || is_source(path, &[CLIENTS, FUZZ, CHECKS])
    }),
    Step::new("brokers", brokers).reads(|path| {
        let pages =
            ["docs/guide/cookbook/kubernetes.md", "docs/guide/kafka.md", "docs/guide/nats.md"];
        within(path, &pages) || is_source(path, &[FUZZ, CHECKS, VRL_PLUGIN])
    }),
    Step::new("models", models::run)
        .reads(|path| within(path, &[CHECKS, "runtime/src/", "tremor-pdk/", "Cargo."])),
    Step::new("scripts", scripts::check).reads(|path| {
        within(path, &[".ci/", "bench/report/", "Cargo.", "dist/", EXAMPLES, "scripts/"])
    }),
    Step::new("boundary", boundary::check).reads(|path| {
        path == "scripts/fixed-layouts.sh" || is_source(path, &[CLIENTS, CHECKS, VRL_PLUGIN])
    }),
    Step::new("doc", || done(doc(&["--workspace"])))
        .reads(|path| is_source(path, &[CLIENTS, FUZZ, CHECKS, VRL_PLUGIN])),
    Step::new("book", book::check)
        .reads(|path| within(path, &["bench/report/", "bench/runs/", "docs/", "Cargo."])),
    Step::new("demo", || done(demo::check())).reads(|path| {
        let is_page = path == "README.md";
        is_page || is_source(path, &[BENCH, CLIENTS, FUZZ, CHECKS, TESTS, VRL_PLUGIN])
    }),
    Step::new("crash", || done(crash::check())),
    Step::new("faults", || done(faults::check())),
    Step::new("restarts", || done(restarts::check())),
    Step::new("outage", || done(outage::check())),
    Step::new("perf", || perf_gate::gate(false))
        .reads(|path| is_source(path, &[CLIENTS, EXAMPLES, FUZZ, CHECKS, TESTS, VRL_PLUGIN])),
];

pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let names: Vec<_> = arguments.steps.iter().map(String::as_str).collect();
    if names.is_empty() { run_logged(arguments.all) } else { run_steps(&names, arguments.all) }
}

/// Runs the steps with these names. Without `all`, steps with a remembered pass are skipped.
pub(crate) fn run_steps(names: &[&str], all: bool) -> Result<()> {
    let mut reports = Vec::new();
    for step in STEPS.iter().filter(|step| names.contains(&step.name)) {
        eprintln!("\n==> {}", step.name);
        let start = Instant::now();
        let report = summarise(step.name, &step.run(all), start.elapsed());
        eprintln!("{}", report.line);
        reports.push(report);
    }
    eprintln!("\n==> summary");
    reports.iter().for_each(|report| eprintln!("{}", report.line));
    count_failed(&reports)
}

/// Runs all steps, each with its output in a file.
fn run_logged(all: bool) -> Result<()> {
    eprintln!("The output of each step is in {}/STEP.log.", logged::FOLDER);
    if let Err(why) = passed::folder() {
        eprintln!("{NOT_REMEMBERED}: {why:#}");
    }
    let mut tests = [0; 3];
    let mut reports = Vec::with_capacity(STEPS.len());
    let mut ahead = None;
    for step in &STEPS {
        eprintln!("==> {}", step.name);
        if step.name == "test" {
            ahead = build_ahead();
        }
        let start = Instant::now();
        let log = logged::run(step.name, all)?;
        tests.iter_mut().zip(log.tests()).for_each(|(sum, number)| *sum += number);
        let report = match log.report(step.name) {
            Some(line) => Report { line: line.to_owned(), failed: !log.status.success() },
            None => summarise(step.name, &Err(log.failure()), start.elapsed()),
        };
        if report.failed {
            eprintln!("\n==> from {}", log.path.display());
            log.shown().for_each(|line| eprintln!("{line}"));
        }
        eprintln!("{}", report.line);
        reports.push(report);
    }
    if let Some(mut ahead) = ahead {
        ahead.kill().and_then(|()| ahead.wait()).context("cannot end the build of the demo")?;
    }
    let failed: Vec<_> = reports.iter().filter(|report| report.failed).collect();
    if !failed.is_empty() {
        eprintln!("\n==> failed");
        failed.iter().for_each(|report| eprintln!("{}", report.line));
    }
    let [passed, failed, skipped] = tests;
    writeln!(io::stdout(), "{passed} passed, {failed} failed, {skipped} skipped")?;
    count_failed(&reports)
}

/// Starts the build of the demo, which takes minutes, in parallel with the tests, most of which
/// wait for a process. Steps that need the build wait for cargo's lock. Returns `None` if `nice` is
/// not installed.
fn build_ahead() -> Option<Child> {
    let build = demo::build_command();
    let mut command = Command::new("nice");
    command.args(["-n", "19"]).arg(build.get_program()).args(build.get_args()).current_dir(root());
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().ok()
}

fn count_failed(reports: &[Report]) -> Result<()> {
    let failed = reports.iter().filter(|report| report.failed).count();
    ensure!(failed == 0, "{failed} of {} steps failed", reports.len());
    Ok(())
}

struct Report {
    line: String,
    failed: bool,
}

fn summarise(name: &str, result: &Result<String>, took: Duration) -> Report {
    let (verdict, remark) = match result {
        Ok(skipped) if skipped.is_empty() => ("ok", String::new()),
        Ok(skipped) => ("ok", format!("  SKIPPED: {skipped}")),
        Err(error) => ("FAILED", format!("  {error:#}")),
    };
    let seconds = took.as_secs_f64();
    let line = format!("    {name:<10} {verdict:<6} {seconds:>7.1} s{remark}");
    Report { line, failed: result.is_err() }
}

/// Returns the result of a check without a skipped part.
fn done(result: Result<()>) -> Result<Skipped> {
    result.map(|()| None)
}

const DENY: Tool =
    Tool { name: "cargo-deny", version: "0.20.2", says: "cargo-deny 0.20.", features: &[] };

/// Checks licences, sources and banned crates. Advisories are skipped, because CI cannot access their database.
fn deny() -> Result<Skipped> {
    let program =
        DENY.find().context("cargo-deny is not installed, and cargo cannot install it")?;
    let workspaces: [&[&str]; 3] = [
        &[],
        &[VRL, "--config=operators-plugins/vrl/deny.toml"],
        &[BROKERS, "--config=brokers/deny.toml"],
    ];
    for workspace in workspaces {
        let mut command = Command::new(&program);
        command.args(workspace).args(["--workspace", "check", "bans", "licenses", "sources"]);
        command.current_dir(root());
        run_command(command)?;
    }
    Ok(Some("advisories (no access to their database; run `cargo deny check advisories`)"))
}

fn clippy() -> Result<Skipped> {
    run_command(cargo(["clippy", "--workspace", "--all-targets", "--", "--deny", "warnings"]))?;
    // Cargo enables the features that one package needs for all packages that it builds together. Therefore only a
    // plugin that is compiled by itself shows whether its manifest names all features that the plugin needs.
    for manifest in files()?.iter().filter(|path| is_manifest_of_plugin(path)) {
        run_command(cargo(["check", "--lib", "--manifest-path", manifest]))?;
    }
    Ok(None)
}

/// Returns whether a file is the manifest of a plugin of the main workspace.
fn is_manifest_of_plugin(path: &str) -> bool {
    path.ends_with("/Cargo.toml")
        && within(path, &["codecs-plugins/", "connectors-plugins/", "operators-plugins/"])
        && !within(path, &[VRL_PLUGIN])
}

fn doc(selected: &[&str]) -> Result<()> {
    let mut command = cargo([&["doc", "--no-deps"], selected].concat());
    command.env("RUSTDOCFLAGS", "--deny warnings");
    run_command(command)
}

const VRL: &str = "--manifest-path=operators-plugins/vrl/Cargo.toml";
const BROKERS: &str = "--manifest-path=brokers/Cargo.toml";

/// Checks another workspace: runs rustfmt, clippy, the tests and rustdoc.
fn other_workspace(manifest: &str) -> Result<()> {
    run_command(cargo(["fmt", manifest, "--all", "--check"]))?;
    let shared = [manifest, "--workspace", "--target-dir=target"];
    let lints = ["--all-targets", "--", "--deny", "warnings"];
    run_command(cargo([&["clippy"][..], &shared, &lints].concat()))?;
    run_command(cargo([&["test"][..], &shared].concat()))?;
    // `--examples` selects none, but enables the features that tests need, with which the dependencies were checked.
    doc(&[&shared[..], &["--lib", "--bins", "--examples"]].concat())
}

/// Checks the plugin `vrl`, and runs the tests of the runtime that load it.
fn vrl() -> Result<Skipped> {
    other_workspace(VRL)?;
    // With the selection of the step `test`, cargo builds nothing again.
    let loading = ["test", "--workspace", "--test=binary", "--", "--ignored", "vrl"];
    done(run_command(cargo(loading)))
}

/// Checks the clients of brokers, and runs the tests against real brokers. These tests report what they skip.
fn brokers() -> Result<Skipped> {
    other_workspace(BROKERS)?;
    let is_whole = ["java", "mvn", "go"].iter().all(|program| is_on_path(program));
    Ok((!is_whole).then_some(
        "the tests against real brokers (at least one of `java`, `mvn` and `go` is not installed)",
    ))
}

#[cfg(test)]
mod tests {
    use anyhow::anyhow;

    use super::*;

    #[test]
    fn skipped_part_is_reported_as_success() {
        let outcome = Ok("advisories".to_owned());
        let report = summarise("deny", &outcome, Duration::from_millis(1_500));
        assert_eq!(report.line, "    deny       ok         1.5 s  SKIPPED: advisories");
        assert!(!report.failed);
    }

    #[test]
    fn failure_is_reported_with_its_reason() {
        let outcome = Err(anyhow!("3 violations"));
        let report = summarise("tidy", &outcome, Duration::from_millis(100));
        assert_eq!(report.line, "    tidy       FAILED     0.1 s  3 violations");
        assert!(report.failed);
    }

    #[test]
    fn plugins_of_the_main_workspace_are_found_by_manifest() {
        let found = ["connectors-plugins/file/Cargo.toml", "operators-plugins/parse/Cargo.toml"];
        let others = ["connectors-plugins/file/src/lib.rs", "operators-plugins/vrl/Cargo.toml"];
        assert!(found.iter().all(|path| is_manifest_of_plugin(path)));
        assert!(!others.iter().any(|path| is_manifest_of_plugin(path)));
    }

    #[test]
    fn every_remembered_step_reads_xtask_and_the_lock_file() {
        for step in STEPS {
            let Some(reads) = step.reads else { continue };
            assert!(reads("Cargo.lock") && !reads("CHANGELOG.md"), "{}", step.name);
        }
    }
}
