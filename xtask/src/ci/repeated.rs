//! The tests of the workspace, of which the failed ones are repeated.

use std::io::{self, BufRead, BufReader, Write};
use std::process::{Command, ExitStatus, Stdio};
use std::{num::NonZeroUsize, thread};

use anyhow::{Context, Result, ensure};

use crate::project::{Skipped, cargo, shown};

/// Maximum number of failed tests that are repeated. If more tests fail, load of the machine is not the likely cause.
const MAX_REPEATED: usize = 3;

/// Runs the tests of the workspace. If at most [`MAX_REPEATED`] of them fail, runs these once more, one after the other.
///
/// The tests start processes and wait for them with deadlines, which a machine under load can miss. If the failed tests
/// pass when nothing runs beside them, the step passes, and its line of the summary reports that tests failed before.
pub(super) fn test() -> Result<Skipped> {
    let mut command = cargo(["test", "--workspace", "--no-fail-fast"]);
    // Most tests wait for a process, so there are more of them at once than processors.
    let processors = thread::available_parallelism().map_or(1, NonZeroUsize::get);
    command.env("RUST_TEST_THREADS", (2 * processors).to_string());
    let first = Run::of(&mut command)?;
    if first.status.success() {
        return Ok(None);
    }
    let failed = first.failed;
    let is_repeated = first.incomplete == 0 && (1..=MAX_REPEATED).contains(&failed.len());
    ensure!(is_repeated, "{} failed: {}", shown(&command), first.status);
    let mut again = cargo(["test", "--workspace", "--no-fail-fast", "--", "--exact"]);
    let second = Run::of(again.args(&failed).env("RUST_TEST_THREADS", "1"))?;
    ensure!(second.status.success(), "{} failed: {}", shown(&again), second.status);
    let missing = failed.iter().find(|name| !second.passed.contains(name));
    ensure!(missing.is_none(), "the failed test {missing:?} was not repeated");
    failed
        .iter()
        .for_each(|name| eprintln!("FLAKY: {name} failed, and passed when it was repeated"));
    Ok(Some(
        "the failure of tests that passed when they were repeated (see FLAKY in target/ci/test.log)",
    ))
}

/// Result of a run of tests.
struct Run {
    status: ExitStatus,
    /// Names of tests.
    passed: Vec<String>,
    failed: Vec<String>,
    /// Number of test programs that ended without a result, such as those that a signal killed, and of failed tests
    /// whose names are unknown.
    incomplete: usize,
}

impl Run {
    /// Runs a command and passes on its output.
    fn of(command: &mut Command) -> Result<Self> {
        command.stdout(Stdio::piped());
        let mut tests =
            command.spawn().with_context(|| format!("cannot start {}", shown(command)))?;
        let printed = tests.stdout.take().context("the tests have no standard output")?;
        let (mut passed, mut failed) = (Vec::new(), Vec::new());
        let (mut begun, mut ended, mut counted) = (0, 0, 0);
        for line in BufReader::new(printed).split(b'\n') {
            let line = line.context("cannot read the output of the tests")?;
            io::stdout().write_all(&[&line[..], b"\n"].concat())?;
            let line = String::from_utf8_lossy(&line);
            passed.extend(name(&line, " ... ok"));
            failed.extend(name(&line, " ... FAILED"));
            begun += usize::from(line.starts_with("running ") && line.contains(" test"));
            ended += usize::from(line.starts_with("test result: "));
            counted += failures(&line).unwrap_or_default();
        }
        let status = tests.wait().context("cannot wait for the tests")?;
        let unnamed = failed.len().abs_diff(counted);
        Ok(Self { status, passed, failed, incomplete: begun.abs_diff(ended) + unnamed })
    }
}

/// Returns the number of failed tests if a line is the result of a test program.
fn failures(line: &str) -> Option<usize> {
    let (before, _) = line.strip_prefix("test result: ")?.split_once(" failed;")?;
    before.rsplit(' ').next()?.parse().ok()
}

/// Returns the name of the test if a line of a test program ends with this result.
fn name(line: &str, result: &str) -> Option<String> {
    let name = line.strip_prefix("test ")?.strip_suffix(result)?;
    Some(name.trim_end_matches(" - should panic").to_owned())
}

#[cfg(test)]
mod tests {
    use super::{failures, name};

    #[test]
    fn names_of_tests_are_found_by_their_result() {
        let failed = |line| name(line, " ... FAILED");
        assert_eq!(failed("test a::b ... FAILED").as_deref(), Some("a::b"));
        assert_eq!(failed("test a - should panic ... FAILED").as_deref(), Some("a"));
        assert_eq!(failed("test a::b ... ok"), None);
        assert_eq!(failed("test result: FAILED. 1 passed; 1 failed"), None);
        assert_eq!(name("test a ... ok", " ... ok").as_deref(), Some("a"));
    }

    #[test]
    fn failures_of_a_test_program_are_counted() {
        assert_eq!(
            failures("test result: FAILED. 2 passed; 15 failed; 0 ignored; 0 measured"),
            Some(15)
        );
        assert_eq!(failures("test a ... FAILED"), None);
    }
}
