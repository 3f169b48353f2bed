//! Errors and warnings about a flow file, with their location and advice.

use std::{collections::HashSet, fmt, path::Path, sync::Arc};

use super::source::{Source, Span};
use crate::redact;

/// Severity of a [`Diagnostic`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// The flow cannot run.
    Error,
    /// The flow runs, but probably not as intended.
    Warning,
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Error => "error",
            Self::Warning => "warning",
        })
    }
}

/// A single error or warning about a flow file.
///
/// `Display` writes the diagnostic in the style of a compiler, with a line break at the end:
///
/// ```text
/// flow.yaml:4:5: error: unknown key `codex` in connector `input`
///    |
///  4 |     codex: json
///    |     ^^^^^
///   help: did you mean `codec`?
/// ```
#[derive(Debug, Clone)]
pub struct Diagnostic {
    severity: Severity,
    source: Arc<Source>,
    at: Option<Span>,
    message: String,
    notes: Vec<(Span, String)>,
    help: Vec<String>,
}

impl Diagnostic {
    /// Creates a diagnostic. Values of references are removed from the message, because it may quote a text of a
    /// validator or a constructor.
    pub(crate) fn new(
        severity: Severity,
        source: Arc<Source>,
        at: Span,
        message: impl Into<String>,
    ) -> Self {
        let (at, message) = (Some(at), redact::owned(message.into()));
        Self { severity, source, at, message, notes: Vec::new(), help: Vec::new() }
    }

    pub(crate) fn error(source: Arc<Source>, at: Span, message: impl Into<String>) -> Self {
        Self::new(Severity::Error, source, at, message)
    }

    /// Creates an error about a file as a whole, such as one that cannot be read.
    pub(crate) fn of_file(source: Arc<Source>, message: impl Into<String>) -> Self {
        Self { at: None, ..Self::error(source, Span::START, message) }
    }

    /// Adds a note about another location in the file that is related to this diagnostic.
    #[must_use]
    pub fn note(mut self, at: Span, message: impl Into<String>) -> Self {
        self.notes.push((at, redact::owned(message.into())));
        self
    }

    /// Adds advice on how to fix the fault.
    #[must_use]
    pub fn help(mut self, help: impl Into<String>) -> Self {
        self.help.push(redact::owned(help.into()));
        self
    }

    /// Adds advice, if there is any.
    #[must_use]
    pub(crate) fn maybe_help(self, help: Option<String>) -> Self {
        match help {
            Some(help) => self.help(help),
            None => self,
        }
    }

    /// Returns the severity.
    pub fn severity(&self) -> Severity {
        self.severity
    }

    /// Returns the path of the flow file, as it was given.
    pub fn file(&self) -> &Path {
        self.source.path()
    }

    /// Returns the location in the file; `None` if the file could not be read at all.
    pub fn span(&self) -> Option<Span> {
        self.at
    }

    /// Returns what was found and what was expected instead.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// Returns the advice on how to fix the fault, one sentence for each item.
    pub fn helps(&self) -> &[String] {
        &self.help
    }

    /// Returns the notes about other locations that are related to this diagnostic.
    pub fn notes(&self) -> &[(Span, String)] {
        &self.notes
    }
}

impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let file = self.file().display();
        match self.at {
            None => writeln!(f, "{file}: {}: {}", self.severity, self.message)?,
            Some(at) => {
                let Span { line, column, .. } = at;
                writeln!(f, "{file}:{line}:{column}: {}: {}", self.severity, self.message)?;
                write_excerpt(f, self.source.line(line), at)?;
            }
        }
        for (Span { line, column, .. }, note) in &self.notes {
            writeln!(f, "  note: {file}:{line}:{column}: {note}")?;
        }
        for help in &self.help {
            writeln!(f, "  help: {help}")?;
        }
        Ok(())
    }
}

/// Maximum number of characters of a line that are shown before and after the location.
const EXCERPT: (usize, usize) = (60, 80);

fn write_excerpt(f: &mut fmt::Formatter<'_>, line: &str, at: Span) -> fmt::Result {
    if line.is_empty() {
        return Ok(());
    }
    let (before, after) = EXCERPT;
    let skipped = if at.column > before + after { at.column - before } else { 0 };
    // Control characters are shown as blanks, because they would move the cursor or change colours of a terminal.
    let shown: String = line
        .chars()
        .skip(skipped)
        .take(before + after)
        .map(|c| if c.is_control() { ' ' } else { c })
        .collect();
    let more = line.chars().nth(skipped + before + after).is_some();
    let (left, right) = (if skipped > 0 { "…" } else { "" }, if more { "…" } else { "" });

    let indent = at.column - 1 - skipped + left.chars().count();
    let available = (shown.chars().count() + left.chars().count()).saturating_sub(indent);
    let carets = "^".repeat(at.width.min(available).max(1));
    let gutter = at.line.to_string();
    let blank = " ".repeat(gutter.len());
    writeln!(f, " {blank} |")?;
    writeln!(f, " {gutter} | {left}{}{right}", shown.trim_end())?;
    writeln!(f, " {blank} | {:indent$}{carets}", "")
}

/// Faults for which a flow file was rejected, in the order of the file.
///
/// `Display` writes the diagnostics with an empty line between them.
#[derive(Debug, Clone)]
pub struct Error {
    diagnostics: Vec<Diagnostic>,
    left_out: usize,
}

impl Error {
    /// Returns the faults in the order of the file; there is at least one.
    pub fn diagnostics(&self) -> &[Diagnostic] {
        &self.diagnostics
    }

    /// Returns the number of errors that [`Error::diagnostics`] leaves out.
    pub fn left_out(&self) -> usize {
        self.left_out
    }
}

impl From<Diagnostic> for Error {
    fn from(diagnostic: Diagnostic) -> Self {
        Self { diagnostics: vec![diagnostic], left_out: 0 }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, diagnostic) in self.diagnostics.iter().enumerate() {
            if index > 0 {
                writeln!(f)?;
            }
            diagnostic.fmt(f)?;
        }
        match self.left_out {
            0 => Ok(()),
            more => writeln!(f, "\nand {more} more errors"),
        }
    }
}

impl std::error::Error for Error {}

/// Collection of the diagnostics about one file.
#[derive(Debug)]
pub(crate) struct Report {
    source: Arc<Source>,
    found: Vec<Diagnostic>,
    /// Number of errors in `found`.
    errors: usize,
    left_out: usize,
}

impl Report {
    /// Maximum number of errors, and also of warnings, which are counted separately. More lines would not help the
    /// reader. Warnings never cause an error to be left out.
    const MAX: usize = 50;

    pub(crate) fn new(source: Arc<Source>) -> Self {
        Self { source, found: Vec::new(), errors: 0, left_out: 0 }
    }

    /// Creates an error about this file. The caller has to [push](Report::push) the error.
    pub(crate) fn error(&self, at: Span, message: impl Into<String>) -> Diagnostic {
        Diagnostic::error(Arc::clone(&self.source), at, message)
    }

    /// Creates a warning about this file. The caller has to [push](Report::push) the warning.
    pub(crate) fn warning(&self, at: Span, message: impl Into<String>) -> Diagnostic {
        Diagnostic::new(Severity::Warning, Arc::clone(&self.source), at, message)
    }

    pub(crate) fn push(&mut self, diagnostic: Diagnostic) {
        self.push_with(|_| diagnostic);
    }

    /// Creates and pushes a diagnostic, but only if it is going to be shown, because creating it is costly.
    pub(crate) fn push_with(&mut self, make: impl FnOnce(&Self) -> Diagnostic) {
        if self.errors == Self::MAX {
            self.left_out += 1;
            return;
        }
        let mut diagnostic = make(self);
        let warnings = self.found.len() - self.errors;
        match diagnostic.severity {
            Severity::Error => self.errors += 1,
            Severity::Warning if warnings == Self::MAX => {
                "further warnings are left out".clone_into(&mut diagnostic.message);
                (diagnostic.notes, diagnostic.help) = (Vec::new(), Vec::new());
            }
            Severity::Warning if warnings > Self::MAX => return,
            Severity::Warning => {}
        }
        self.found.push(diagnostic);
    }

    /// Returns the number of diagnostics so far, including errors that were left out.
    pub(crate) fn count(&self) -> usize {
        self.found.len() + self.left_out
    }

    /// Returns whether any diagnostic has this location.
    pub(crate) fn points_at(&self, span: Span) -> bool {
        self.found.iter().any(|diagnostic| diagnostic.at == Some(span))
    }

    pub(crate) fn has_errors(&self) -> bool {
        self.errors > 0
    }

    /// Returns the warnings if there are no errors. Otherwise returns all diagnostics as an error.
    pub(crate) fn finish(self) -> Result<Vec<Diagnostic>, Error> {
        let failed = self.has_errors();
        let mut diagnostics = self.found;
        // The sort is stable, so diagnostics with the same location keep the order in which they were found.
        diagnostics.sort_by_key(|diagnostic| diagnostic.at.map(|at| (at.line, at.column)));
        // An alias repeats a value, so an error in the value would be reported once for each alias.
        let mut seen = HashSet::new();
        diagnostics.retain(|one| seen.insert((one.at, one.message.clone())));
        if failed { Err(Error { diagnostics, left_out: self.left_out }) } else { Ok(diagnostics) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(text: &str) -> Arc<Source> {
        Source::new("dir/flow.yaml".into(), text.to_owned())
    }

    #[test]
    fn location_line_notes_and_help_are_shown() {
        let at = Span { line: 2, column: 3, width: 4 };
        let shown = Diagnostic::error(source("a:\n  b: cc dd\n"), at, "no such thing")
            .note(Span::START, "first seen here")
            .help("take another")
            .to_string();
        assert_eq!(
            shown,
            "dir/flow.yaml:2:3: error: no such thing\n   |\n 2 |   b: cc dd\n   |   ^^^^\n  \
             note: dir/flow.yaml:1:1: first seen here\n  help: take another\n"
        );
    }

    #[test]
    fn location_in_long_line_is_shown() {
        let line = format!("{}HERE{}", "x".repeat(5_000), "y".repeat(5_000));
        let at = Span { line: 1, column: 5_001, width: 4 };
        let shown = Diagnostic::error(source(&line), at, "look").to_string();
        let lines: Vec<_> = shown.lines().collect();
        assert!(shown.len() < 600, "{shown}");
        assert_eq!(
            lines[2].find("HERE").map(|at| lines[2][..at].chars().count()),
            lines[3].find('^')
        );
        assert!(lines[3].ends_with("^^^^") && !lines[3].ends_with("^^^^^"));
    }

    #[test]
    fn control_characters_do_not_reach_the_terminal() {
        let shown = Diagnostic::error(source("a: \u{1b}[31m"), Span::START, "look").to_string();
        assert!(!shown.contains('\u{1b}'));
    }

    #[test]
    fn same_error_at_same_location_is_reported_once() {
        let mut report = Report::new(source("a"));
        for message in ["one", "two", "one", "two"] {
            report.push(report.error(Span::START, message));
        }
        let error = report.finish().expect_err("errors");
        let messages: Vec<_> = error.diagnostics().iter().map(Diagnostic::message).collect();
        assert_eq!(messages, ["one", "two"]);
    }

    #[test]
    fn errors_beyond_limit_are_counted_and_left_out() {
        let mut report = Report::new(source("a"));
        for number in 0..60 {
            report.push(report.error(Span::START, format!("wrong {number}")));
        }
        let error = report.finish().expect_err("errors");
        assert_eq!((error.diagnostics().len(), error.left_out()), (50, 10));
        assert!(error.to_string().ends_with("\nand 10 more errors\n"));
    }

    #[test]
    fn warnings_beyond_limit_hide_no_error() {
        let mut report = Report::new(source("a"));
        let at = |column| Span { line: 1, column, width: 1 };
        for column in 1..=60 {
            report.push(report.warning(at(column), format!("warning {column}")));
        }
        assert!(!report.has_errors());
        report.push(report.error(at(61), "an error"));
        assert!(report.has_errors());
        let error = report.finish().unwrap_err().to_string();
        assert!(error.contains("an error") && error.contains("further warnings are left out"));
        assert!(error.contains("warning 50") && !error.contains("warning 51"), "{error}");
    }
}
