//! A step as a process of its own, whose output goes to a file, so that the report of the whole run fits on a screen
//! and ends with the failures.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};

use anyhow::{Context, Result, anyhow};

use crate::project::{TIMED_OUT, cargo, limited, root};

/// Folder of the logs, relative to the project's folder.
pub(super) const FOLDER: &str = "target/ci";

/// Number of lines that are shown of the failed tests of a step, and number of lines that are shown from the end of its
/// output.
const SHOWN_LINES: usize = 100;
/// Maximum number of characters that are shown of a line.
const SHOWN_CHARACTERS: usize = 400;

/// Maximum duration of a step. On two cores of a slow machine, a step with a cold build beside others takes half of it.
const LIMIT: &str = "50m";

/// Runs `cargo xtask ci STEP` to its end, with its output in a file of [`FOLDER`].
pub(super) fn run(step: &str, all: bool) -> Result<Log> {
    let path = Path::new(FOLDER).join(step).with_extension("log");
    let whole = root().join(&path);
    fs::create_dir_all(root().join(FOLDER)).with_context(|| format!("cannot create {FOLDER}"))?;
    let file = File::create(&whole).with_context(|| format!("cannot write {}", path.display()))?;
    let mut command = cargo(["run", "--quiet", "--package=xtask", "--", "ci", step]);
    command.args(all.then_some("--all"));
    let mut command = limited(LIMIT, &command);
    let both = file.try_clone().context("cannot write to one file from two descriptors")?;
    command.stdin(Stdio::null()).stdout(file).stderr(both);
    let status = command.status().with_context(|| format!("cannot start the step {step}"))?;
    let text = fs::read(&whole).with_context(|| format!("cannot read {}", path.display()))?;
    Ok(Log { path, text: String::from_utf8_lossy(&text).into_owned(), status })
}

/// Output and status of a step.
pub(super) struct Log {
    pub(super) path: PathBuf,
    pub(super) text: String,
    pub(super) status: ExitStatus,
}

impl Log {
    /// Returns the error for a step that ended without a report.
    pub(super) fn failure(&self) -> anyhow::Error {
        match self.status.code() {
            Some(TIMED_OUT) => anyhow!("the step took longer than {LIMIT} and was ended"),
            _ => anyhow!("the step ended without a report: {}", self.status),
        }
    }

    /// Returns the step's line of the summary; `None` if the step ended before it printed the line.
    pub(super) fn report(&self, step: &str) -> Option<&str> {
        let is_report =
            |line: &&str| line.strip_prefix("    ").is_some_and(|it| it.starts_with(step));
        self.text.lines().rev().find(is_report)
    }

    /// Returns the first lines of the reports of failed tests, and the last lines of the output.
    /// Long lines are cut.
    pub(super) fn shown(&self) -> impl Iterator<Item = String> {
        let mut in_failures = false;
        let failures = self.text.lines().filter(move |line| {
            in_failures = (in_failures || *line == "failures:") && !line.starts_with("test result");
            in_failures
        });
        let count = self.text.lines().count();
        let end = self.text.lines().skip(count.saturating_sub(SHOWN_LINES));
        let shown = failures.take(SHOWN_LINES).chain(end);
        shown.map(|line| line.chars().take(SHOWN_CHARACTERS).collect())
    }

    /// Returns the numbers of tests that passed, failed and were ignored, summed over all test programs of this step.
    pub(super) fn tests(&self) -> [u64; 3] {
        let mut sum = [0; 3];
        for line in self.text.lines().filter_map(|line| line.strip_prefix("test result: ")) {
            let words: Vec<_> = line.split([' ', ';']).filter(|word| !word.is_empty()).collect();
            for pair in words.windows(2) {
                let kind = ["passed", "failed", "ignored"].iter().position(|kind| *kind == pair[1]);
                if let (Some(kind), Ok(number)) = (kind, pair[0].parse::<u64>()) {
                    sum[kind] += number;
                }
            }
        }
        sum
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn log(text: &str) -> Log {
        Log { path: PathBuf::new(), text: text.to_owned(), status: ExitStatus::default() }
    }

    #[test]
    fn tests_of_all_programs_are_counted() {
        let text = "test result: ok. 47 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out\n\
            noise of 3 passed\n\
            test result: FAILED. 2 passed; 5 failed; 0 ignored; 0 measured; 9 filtered out\n";
        assert_eq!(log(text).tests(), [49, 5, 1]);
    }

    #[test]
    fn last_report_of_the_step_itself_is_found() {
        let text = "    test       ok         0.1 s\nnoise\n    test       FAILED     1.5 s  red\n    \
            doc        ok         1.0 s\n";
        assert_eq!(log(text).report("test"), Some("    test       FAILED     1.5 s  red"));
        assert_eq!(log(text).report("book"), None);
    }

    #[test]
    fn failed_tests_are_shown_before_the_end_of_output() {
        let text = format!(
            "test a ... ok\nfailures:\n---- b stdout ----\nred\ntest result: FAILED. 1 passed\n{}",
            "line\n".repeat(SHOWN_LINES)
        );
        let shown: Vec<_> = log(&text).shown().take(4).collect();
        assert_eq!(shown, ["failures:", "---- b stdout ----", "red", "line"]);
    }

    #[test]
    fn end_of_output_and_beginning_of_lines_are_shown() {
        let text = format!("{}last {}", "line\n".repeat(300), "x".repeat(9_000));
        let end: Vec<_> = log(&text).shown().collect();
        assert_eq!(end.len(), SHOWN_LINES);
        assert_eq!(end.last().map(|line| line.chars().count()), Some(SHOWN_CHARACTERS));
    }
}
