//! `cargo xtask tidy`: checks rules of this project that no compiler and no linter checks.
//!
//! [`Repository`] reads the project once. Each rule is a function in a module of `rules` that returns the violations in
//! a repository, with a test in which a planted violation is found.

pub(crate) mod messages;
mod repository;
mod rules;
mod tokens;

use anyhow::{Result, bail};

use repository::Repository;

pub(crate) fn run() -> Result<()> {
    let repository = Repository::read()?;
    let violations = rules::violations(&repository);
    for violation in &violations {
        let line = violation.line.map_or_else(String::new, |line| format!(":{line}"));
        eprintln!("{}{line}: {}", violation.path, violation.message);
    }
    if !violations.is_empty() {
        bail!("{} violations", violations.len());
    }
    Ok(())
}

/// A line or file that violates a rule.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Violation {
    path: String,
    /// Number of the line, from 1; `None` if the violation concerns the whole file.
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

#[cfg(test)]
mod tests {
    /// The check is also a step of CI, which reports violations before the tests are compiled.
    #[test]
    fn project_is_tidy() {
        super::run().expect("the violations are printed above");
    }
}
