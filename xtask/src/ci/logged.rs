//! A step as a process of its own, whose output goes to a file: the whole run fits on a screen, and what
//! failed is at its end.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Stdio;

use anyhow::{Context, Result};

use crate::project::{cargo, root};

/// The folder of the files, below the project's.
pub(super) const FOLDER: &str = "target/ci";

/// What of the output of a step that failed is shown: lines from its end, and characters of a line.
const SHOWN_LINES: usize = 100;
const SHOWN_CHARACTERS: usize = 400;

/// Runs `cargo xtask ci STEP` to its end, with its output in a file of [`FOLDER`].
pub(super) fn run(step: &str, all: bool) -> Result<Log> {
    let path = Path::new(FOLDER).join(step).with_extension("log");
    let whole = root().join(&path);
    fs::create_dir_all(root().join(FOLDER)).with_context(|| format!("cannot create {FOLDER}"))?;
    let file = File::create(&whole).with_context(|| format!("cannot write {}", path.display()))?;
    let mut command = cargo(["run", "--quiet", "--package=xtask", "--", "ci", step]);
    command.args(all.then_some("--all"));
    let both = file.try_clone().context("cannot write to one file from two descriptors")?;
    command.stdin(Stdio::null()).stdout(file).stderr(both);
    let status = command.status().with_context(|| format!("cannot start the step {step}"))?;
    let text = fs::read(&whole).with_context(|| format!("cannot read {}", path.display()))?;
    Ok(Log { path, text: String::from_utf8_lossy(&text).into_owned(), passed: status.success() })
}

/// What a step has written.
pub(super) struct Log {
    pub(super) path: PathBuf,
    pub(super) text: String,
    pub(super) passed: bool,
}

impl Log {
    /// The line of the summary that the step has printed, if it came so far.
    pub(super) fn report(&self, step: &str) -> Option<&str> {
        let is_report =
            |line: &&str| line.strip_prefix("    ").is_some_and(|it| it.starts_with(step));
        self.text.lines().rev().find(is_report)
    }

    /// The end of the output, without characters that end no line and take much room.
    pub(super) fn end(&self) -> impl Iterator<Item = String> {
        let lines: Vec<_> = self.text.lines().collect();
        let from = lines.len().saturating_sub(SHOWN_LINES);
        let shown = |line: &str| line.chars().take(SHOWN_CHARACTERS).collect();
        lines[from..].iter().map(|line| shown(line)).collect::<Vec<_>>().into_iter()
    }

    /// The tests that passed, failed and were left out, of all programs that tested in this step.
    pub(super) fn tests(&self) -> [u64; 3] {
        let mut sum = [0; 3];
        for line in self.text.lines().filter_map(|line| line.strip_prefix("test result: ")) {
            for (sum, kind) in sum.iter_mut().zip(["passed", "failed", "ignored"]) {
                *sum += number_before(line, kind);
            }
        }
        sum
    }
}

fn number_before(line: &str, word: &str) -> u64 {
    let before = line.split([' ', ';']).filter(|it| !it.is_empty()).collect::<Vec<_>>();
    let at = before.iter().position(|it| *it == word).and_then(|at| at.checked_sub(1));
    at.and_then(|at| before[at].parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn log(text: &str) -> Log {
        Log { path: PathBuf::new(), text: text.to_owned(), passed: false }
    }

    #[test]
    fn tests_of_all_programs_are_counted() {
        let text = "test result: ok. 47 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out\n\
            noise of 3 passed\n\
            test result: FAILED. 2 passed; 5 failed; 0 ignored; 0 measured; 9 filtered out\n";
        assert_eq!(log(text).tests(), [49, 5, 1]);
    }

    #[test]
    fn the_last_report_of_the_step_counts_and_another_s_does_not() {
        let text = "    test       ok         0.1 s\nnoise\n    test       FAILED     1.5 s  red\n    \
            doc        ok         1.0 s\n";
        assert_eq!(log(text).report("test"), Some("    test       FAILED     1.5 s  red"));
        assert_eq!(log(text).report("book"), None);
    }

    #[test]
    fn of_a_long_output_the_end_is_shown_and_of_long_lines_the_beginning() {
        let text = format!("{}last {}", "line\n".repeat(300), "x".repeat(9_000));
        let end: Vec<_> = log(&text).end().collect();
        assert_eq!(end.len(), SHOWN_LINES);
        assert_eq!(end.last().map(|line| line.chars().count()), Some(SHOWN_CHARACTERS));
    }
}
