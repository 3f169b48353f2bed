//! `cargo xtask tidy`: the habits that no compiler and no linter knows.
//!
//! [`Repository`] reads the project once; each module under `rules` is one habit: a function from the
//! repository to the places that break it, and a test with a place that does.

mod packages;
mod repository;
mod rules;
mod tokens;

use std::fmt;

use anyhow::{Result, bail};

use crate::project::root;
use repository::Repository;

pub(crate) fn run() -> Result<()> {
    let violations = rules::violations(&Repository::read(root())?);
    for violation in &violations {
        eprintln!("{violation}");
    }
    if !violations.is_empty() {
        bail!("{} violations", violations.len());
    }
    Ok(())
}

/// A place that breaks a habit.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Violation {
    path: String,
    /// Counted from 1; `None` where the whole file is meant.
    line: Option<usize>,
    message: String,
}

impl Violation {
    fn in_file(path: &str, message: impl Into<String>) -> Self {
        Self { path: path.to_owned(), line: None, message: message.into() }
    }

    fn at(path: &str, line: usize, message: impl Into<String>) -> Self {
        Self { path: path.to_owned(), line: Some(line), message: message.into() }
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            Some(line) => write!(f, "{}:{line}: {}", self.path, self.message),
            None => write!(f, "{}: {}", self.path, self.message),
        }
    }
}

#[cfg(test)]
mod tests {
    /// Also a step of its own in CI, where it tells what is wrong before anything is compiled.
    #[test]
    fn the_project_is_tidy() {
        super::run().expect("the violations are printed above");
    }
}
