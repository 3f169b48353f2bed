//! The tests of the workspace, of which the failed ones are repeated.

use std::io::{self, BufRead, BufReader, Write};
use std::process::Stdio;
use std::{num::NonZeroUsize, thread};

use anyhow::{Context, Result, ensure};

use crate::project::{Skipped, cargo, run, shown};

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
    command.env("RUST_TEST_THREADS", (2 * processors).to_string()).stdout(Stdio::piped());
    let mut tests = command.spawn().with_context(|| format!("cannot start {}", shown(&command)))?;
    let printed = tests.stdout.take().context("the tests have no standard output")?;
    let mut failed = Vec::new();
    for line in BufReader::new(printed).split(b'\n') {
        let line = line.context("cannot read the output of the tests")?;
        failed.extend(failed_test(&String::from_utf8_lossy(&line)));
        io::stdout().write_all(&[&line[..], b"\n"].concat())?;
    }
    let status = tests.wait().context("cannot wait for the tests")?;
    if status.success() {
        return Ok(None);
    }
    let is_repeated = (1..=MAX_REPEATED).contains(&failed.len());
    ensure!(is_repeated, "{} failed: {status}", shown(&command));
    let mut again = cargo(["test", "--workspace", "--no-fail-fast", "--", "--exact"]);
    again.args(&failed).env("RUST_TEST_THREADS", "1");
    run(again)?;
    failed
        .iter()
        .for_each(|name| eprintln!("FLAKY: {name} failed, and passed when it was repeated"));
    Ok(Some(
        "the failure of tests that passed when they were repeated (see FLAKY in target/ci/test.log)",
    ))
}

/// Returns the name of the test if a line of a test program reports its failure.
fn failed_test(line: &str) -> Option<String> {
    let name = line.strip_prefix("test ")?.strip_suffix(" ... FAILED")?;
    Some(name.trim_end_matches(" - should panic").to_owned())
}

#[cfg(test)]
mod tests {
    use super::failed_test;

    #[test]
    fn names_of_failed_tests_are_found() {
        let name = |line| failed_test(line);
        assert_eq!(name("test a::b ... FAILED").as_deref(), Some("a::b"));
        assert_eq!(name("test a - should panic ... FAILED").as_deref(), Some("a"));
        assert_eq!(name("test a::b ... ok"), None);
        assert_eq!(name("test result: FAILED. 1 passed; 1 failed"), None);
    }
}
