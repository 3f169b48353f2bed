//! Scalars that contain references.

use std::{collections::HashSet, path::Path, sync::Arc};

use tremor_pdk::Error;

use super::{
    super::{
        diagnostic::Diagnostic,
        limits::Limits,
        reference::{Environment, Missing, Part, To, split},
        source::{Source, Span},
        suggest::quote,
    },
    node::{Data, Node, Written},
    scalar,
};
use crate::redact;

/// A scalar as it is written in the file.
pub(super) struct Scalar<'t> {
    pub(super) text: &'t str,
    /// `true` if the scalar is a text whatever its characters are, for example because it is quoted.
    pub(super) is_text: bool,
    pub(super) at: Span,
    /// Number of characters (a quotation mark) before the first character of the text.
    pub(super) marks: usize,
}

/// Maximum number of problems for which the exact location is determined, because this takes time in a long line.
const MAX_LOCATED: usize = 50;

/// An error or a warning about a reference.
pub(crate) struct Problem {
    /// Location of the whole scalar.
    pub(crate) scalar: Span,
    /// The message, without help if the help depends on the key of the scalar.
    pub(crate) diagnostic: Diagnostic,
    /// Help for a missing value: for a secret, and for any other value.
    pub(crate) missing: Option<(String, String)>,
}

/// Replaces the references of a file by their values.
pub(super) struct References<'s> {
    source: &'s Arc<Source>,
    limits: &'s Limits,
    environment: &'s Environment<'s>,
    pub(super) problems: Vec<Problem>,
}

impl<'s> References<'s> {
    pub(super) fn new(
        source: &'s Arc<Source>,
        limits: &'s Limits,
        environment: &'s Environment<'s>,
    ) -> Self {
        Self { source, limits, environment, problems: Vec::new() }
    }

    /// Replaces the references of a scalar by their values.
    ///
    /// If a reference is malformed or has no value, adds a problem. The value of the whole scalar is then unknown.
    ///
    /// # Errors
    /// Returns an error if the values exceed a limit.
    pub(super) fn resolve(&mut self, scalar: &Scalar<'_>) -> Result<Node, Diagnostic> {
        let mut has_files = false;
        let node = |data, references: &[&str], variables: Vec<String>, has_files: bool| {
            let references = (!references.is_empty()).then(|| quoted(references).into());
            let variables = (!variables.is_empty()).then(|| variables.into());
            let written = Written { text: scalar.text.into(), is_text: scalar.is_text };
            let written = has_files.then(|| Arc::new(written));
            Node { at: scalar.at, data, inline: None, references, variables, written }
        };
        let parts = match split(scalar.text) {
            Ok(parts) => parts,
            Err(malformed) => {
                let at = self.span(scalar, malformed.at, malformed.width);
                let error = Diagnostic::error(Arc::clone(self.source), at, malformed.message);
                self.problem(scalar, error.help(malformed.help));
                return Ok(node(Data::Unknown, &[scalar.text], Vec::new(), false));
            }
        };
        let folder = self.source.path().parent().unwrap_or(Path::new(""));
        let (mut text, mut written, mut is_known) = (String::new(), Vec::new(), true);
        let (mut variables, mut files) = (Vec::new(), Vec::new());
        for part in &parts {
            let reference = match part {
                Part::Text(part) => {
                    text.push_str(part);
                    continue;
                }
                Part::Reference(reference) => reference,
            };
            written.push(reference.written);
            has_files |= matches!(reference.to, To::File(_));
            match self.environment.value(reference.to, folder) {
                Ok(value) => {
                    text.push_str(&value);
                    match reference.to {
                        To::File(_) => files.push(value),
                        To::Variable { default, .. } if default != Some(&*value) => {
                            variables.push(value);
                        }
                        // The value is the default, which is written in the flow file itself.
                        To::Variable { .. } => {}
                    }
                }
                Err(Missing { severity, message, help, open_help }) => {
                    let at = self.span(scalar, reference.at, reference.written.chars().count());
                    let diagnostic =
                        Diagnostic::new(severity, Arc::clone(self.source), at, message);
                    match open_help {
                        None => self.problem(scalar, diagnostic.help(help)),
                        Some(open) => self.problems.push(Problem {
                            scalar: scalar.at,
                            diagnostic,
                            missing: Some((help, open)),
                        }),
                    }
                    is_known = false;
                }
            }
            check_length(text.len(), self.limits, self.source, scalar.at)?;
        }
        let is_whole = matches!(&*parts, [Part::Reference(_)]);
        let data = if !is_known {
            Data::Unknown
        } else if scalar.is_text || !is_whole {
            Data::Text(text)
        } else {
            scalar::resolve(&text).unwrap_or_else(|unusable| {
                let message =
                    format!("the value of {} is {}", quoted(&written), unusable.description());
                let error = Diagnostic::error(Arc::clone(self.source), scalar.at, message);
                self.problem(scalar, error.help("put it in quotes if it is meant as a text"));
                Data::Unknown
            })
        };
        keep_secret(&data, &files);
        Ok(node(data, &written, variables, has_files))
    }

    /// Returns the location of a part of a scalar. If the characters of the scalar do not appear unchanged on one line,
    /// returns the location of the whole scalar.
    fn span(&self, scalar: &Scalar<'_>, start: usize, width: usize) -> Span {
        let Span { line, column, .. } = scalar.at;
        let column = column + scalar.marks;
        let inline = || {
            let written = self.source.line(line).chars().skip(column - 1);
            written.take(scalar.text.chars().count()).eq(scalar.text.chars())
        };
        if self.problems.len() < MAX_LOCATED && inline() {
            Span { line, column: column + start, width }
        } else {
            scalar.at
        }
    }

    fn problem(&mut self, scalar: &Scalar<'_>, diagnostic: Diagnostic) {
        self.problems.push(Problem { scalar: scalar.at, diagnostic, missing: None });
    }
}

/// Keeps the contents of files and the value that contains them out of messages.
fn keep_secret(data: &Data, files: &[String]) {
    // Booleans and null are not kept secret, because too many messages contain these words.
    if !matches!(data, Data::Bool(_) | Data::Null) {
        files.iter().for_each(|secret| redact::keep(secret));
        match data {
            Data::Number(number) if !files.is_empty() => redact::keep(&number.to_string()),
            Data::Exact(number) if !files.is_empty() => redact::keep(number),
            _ => {}
        }
    }
}

impl Written {
    /// Returns the value with the contents that the files have now.
    ///
    /// # Errors
    /// Returns the reason why a reference has no value, or why the value cannot be used.
    pub(crate) fn read_again(&self, folder: &Path) -> Result<Data, Error> {
        let parts =
            split(&self.text).map_err(|malformed| Error::configuration(malformed.message))?;
        let (mut text, mut files) = (String::new(), Vec::new());
        for part in &parts {
            match part {
                Part::Text(part) => text.push_str(part),
                Part::Reference(reference) => {
                    let value = Environment::default().value(reference.to, folder);
                    let value = value.map_err(|missing| Error::configuration(missing.message))?;
                    text.push_str(&value);
                    if matches!(reference.to, To::File(_)) {
                        files.push(value);
                    }
                }
            }
        }
        let data = match &*parts {
            [Part::Reference(_)] if !self.is_text => {
                scalar::resolve(&text).map_err(|unusable| {
                    Error::configuration(format_args!("the value is {}", unusable.description()))
                })?
            }
            _ => Data::Text(text),
        };
        keep_secret(&data, &files);
        Ok(data)
    }
}

/// Returns the references, each once, as `` `${env:A}` and `${file:b}` ``.
fn quoted(references: &[&str]) -> String {
    let mut seen = HashSet::new();
    let each_once = references.iter().filter(|reference| seen.insert(**reference));
    each_once.map(|reference| quote(reference)).collect::<Vec<_>>().join(" and ")
}

/// Checks the size of the file after aliases and references were replaced.
///
/// # Errors
/// The size exceeds the limit.
pub(super) fn check_length(
    bytes: usize,
    limits: &Limits,
    source: &Arc<Source>,
    at: Span,
) -> Result<(), Diagnostic> {
    if bytes <= limits.max_expanded_bytes {
        return Ok(());
    }
    let message = format!(
        "after aliases and references are replaced by their values, the file exceeds {} bytes",
        limits.max_expanded_bytes
    );
    let error = Diagnostic::error(Arc::clone(source), at, message);
    Err(error.help("avoid aliases of values that contain aliases, or refer to smaller values"))
}
