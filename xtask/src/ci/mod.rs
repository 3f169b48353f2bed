//! `cargo xtask ci`: runs the steps that a change has to pass.
//!
//! A failed step does not end the run, so that one run reports every failure. The output of each step is in
//! `target/ci`. If the step fails, its failed tests and the end of its output are shown. A step that is requested by
//! name prints to the terminal.

mod lanes;
mod logged;
mod packages;
mod passed;
mod steps;
mod tests;

use std::io::{self, Write};
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};

use self::steps::{STEPS, Step};

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Also run steps that have already passed with the same files and tools
    #[arg(long)]
    all: bool,
    /// Run only these steps
    #[arg(value_name = "STEP", value_parser = STEPS.map(|step| step.name))]
    steps: Vec<String>,
}

pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let names: Vec<_> = arguments.steps.iter().map(String::as_str).collect();
    if names.is_empty() { run_logged(arguments.all) } else { run_steps(&names, arguments.all) }
}

/// Runs the steps with these names, one after the other. Without `all`, steps with a remembered pass are skipped.
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

/// Runs all steps, each with its output in a file, and prints a line for each step when it has ended.
fn run_logged(all: bool) -> Result<()> {
    eprintln!("The output of each step is in {}/STEP.log.", logged::FOLDER);
    if let Err(why) = passed::folder() {
        eprintln!("{}: {why:#}", passed::NOT_REMEMBERED);
    }
    let reports = lanes::run(&STEPS, |step| {
        let report = run_in_log(step, all);
        if let Ok((report, ..)) = &report {
            eprintln!("{}", report.line);
        }
        report
    });
    let mut tests = [0; 3];
    let mut steps = Vec::with_capacity(STEPS.len());
    for report in reports {
        let (report, counts) = report?;
        tests.iter_mut().zip(counts).for_each(|(sum, number)| *sum += number);
        steps.push(report);
    }
    let failed: Vec<_> = steps.iter().filter(|report| report.failed).collect();
    if !failed.is_empty() {
        eprintln!("\n==> failed");
        failed.iter().for_each(|report| eprintln!("{}", report.line));
    }
    let [passed, failed, skipped] = tests;
    writeln!(io::stdout(), "{passed} passed, {failed} failed, {skipped} skipped")?;
    count_failed(&steps)
}

/// Runs a step with its output in a file. Returns the report, and the numbers of tests that passed, failed and were
/// ignored.
fn run_in_log(step: &Step, all: bool) -> Result<(Report, [u64; 3])> {
    let start = Instant::now();
    let log = logged::run(step.name, all)?;
    let report = match log.report(step.name) {
        Some(line) => Report { line: line.to_owned(), failed: !log.status.success() },
        None => summarise(step.name, &Err(log.failure()), start.elapsed()),
    };
    if report.failed {
        let shown: Vec<_> = log.shown().collect();
        eprintln!("\n==> from {}\n{}", log.path.display(), shown.join("\n"));
    }
    Ok((report, log.tests()))
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

#[cfg(test)]
mod unit_tests {
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
}
