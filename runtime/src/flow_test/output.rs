//! Output of flow tests, and its differences from the expected output.

use std::{
    collections::BTreeSet,
    fmt, fs, io,
    path::{Path, PathBuf},
};

use serde::Serialize;
use similar::{ChangeTag, TextDiff};
use tremor_abi::batch::HostBatch;
use tremor_pdk::{Batch, ValueRef};

use super::Error;
use crate::{
    engine::Taken,
    flow::{ERR, Flow, Role},
};

/// Format of a file with expected output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Format {
    /// A value per line.
    Values,
    /// An object with value and metadata per line.
    Events,
    /// Bytes.
    Raw,
}

impl Format {
    const ALL: [Self; 3] = [Self::Values, Self::Events, Self::Raw];

    fn suffix(self) -> &'static str {
        match self {
            Self::Values => ".jsonl",
            Self::Events => ".events.jsonl",
            Self::Raw => ".raw",
        }
    }
}

/// Returns the format of the expected output of an outlet, which is a sink or a port without a link. Without expected
/// output, returns the format for values.
pub(super) fn form(folder: &Path, name: &str) -> Format {
    let exists = |format: &Format| path(folder, name, *format).exists();
    Format::ALL.into_iter().find(exists).unwrap_or(Format::Values)
}

fn path(folder: &Path, name: &str, format: Format) -> PathBuf {
    folder.join(format!("{name}{}", format.suffix()))
}

/// Output of one outlet of the flow.
pub(super) struct Output {
    name: String,
    format: Format,
    contents: Vec<u8>,
    /// `true` if the output is compared even if there is no file with the expected output.
    counts: bool,
}

#[derive(Serialize)]
struct Event<'b> {
    value: ValueRef<'b>,
    #[serde(skip_serializing_if = "Option::is_none")]
    metadata: Option<ValueRef<'b>>,
}

impl Output {
    pub(super) fn of(
        name: &str,
        format: Format,
        taken: &[Taken],
        flow: &Flow,
    ) -> Result<Self, Error> {
        let mut contents = Vec::new();
        for Taken { values, encoded } in taken {
            let written = match (format, encoded) {
                (Format::Raw, Some(encoded)) => {
                    let messages = encoded.events().iter().filter_map(|event| encoded.raw(event));
                    messages.for_each(|message| contents.extend_from_slice(message));
                    Ok(())
                }
                _ => write_lines(format, values, &mut contents),
            };
            written
                .map_err(|error| Error(format!("`{name}`: cannot be written as JSON: {error}")))?;
        }
        let is_err = name.rsplit_once('.').is_some_and(|(_, port)| port == ERR);
        let counts = flow.graph.find(Role::Sink, name).is_some() || is_err;
        Ok(Self { name: name.to_owned(), format, contents, counts })
    }
}

fn write_lines(format: Format, values: &Batch, contents: &mut Vec<u8>) -> Result<(), io::Error> {
    for event in values.events() {
        let value = values.value(event).unwrap_or(ValueRef::NULL);
        if format == Format::Events {
            serde_json::to_writer(
                &mut *contents,
                &Event { value, metadata: values.metadata(event) },
            )?;
        } else {
            serde_json::to_writer(&mut *contents, &value)?;
        }
        contents.push(b'\n');
    }
    Ok(())
}

/// A difference between the output and the expected output.
#[derive(Debug)]
pub struct Difference {
    /// Path of the file with the expected output, which need not exist.
    pub path: PathBuf,
    diff: String,
}

/// Displays the path and a diff of lines: `-` before expected lines, `+` before actual lines.
impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: - expected, + actual\n{}", self.path.display(), self.diff)
    }
}

pub(super) fn compare(folder: &Path, outputs: &[Output]) -> Result<Vec<Difference>, Error> {
    let mut differences = Vec::new();
    for output in outputs {
        let path = path(folder, &output.name, output.format);
        let expected = read(&path)?;
        if expected.is_none() && !output.counts {
            continue;
        }
        let expected = expected.unwrap_or_default();
        if let Some(diff) = diff(output.format, &expected, &output.contents) {
            differences.push(Difference { path, diff });
        }
    }
    for path in strays(folder, outputs)? {
        let diff = "there is no such sink, and no such port without a link\n".to_owned();
        differences.push(Difference { path, diff });
    }
    Ok(differences)
}

/// Returns the files in the folder `expected` that belong to no outlet.
fn strays(folder: &Path, outputs: &[Output]) -> Result<Vec<PathBuf>, Error> {
    let known: BTreeSet<PathBuf> =
        outputs.iter().map(|output| path(folder, &output.name, output.format)).collect();
    if !folder.exists() {
        return Ok(Vec::new());
    }
    let entries = fs::read_dir(folder).map_err(|error| Error::at(folder, error))?;
    let mut strays = Vec::new();
    for entry in entries {
        let path = entry.map_err(|error| Error::at(folder, error))?.path();
        if !known.contains(&path) {
            strays.push(path);
        }
    }
    strays.sort();
    Ok(strays)
}

fn read(path: &Path) -> Result<Option<Vec<u8>>, Error> {
    match fs::read(path) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(Error::at(path, error)),
    }
}

/// Normalises the text of a file, so that a different notation of the same JSON is not a difference.
fn normalised(format: Format, bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    if format == Format::Raw {
        return text.into_owned();
    }
    let line = |line: &str| match serde_json::from_str::<serde_json::Value>(line) {
        Ok(value) => format!("{value}\n"),
        Err(_) => format!("{line}\n"),
    };
    text.lines().filter(|line| !line.trim().is_empty()).map(line).collect()
}

/// Returns the lines that differ, with two lines of context, or `None` if there is no difference.
fn diff(format: Format, expected: &[u8], actual: &[u8]) -> Option<String> {
    let (expected, actual) = (normalised(format, expected), normalised(format, actual));
    if expected == actual {
        return None;
    }
    let diff = TextDiff::from_lines(&expected, &actual);
    let mut text = String::new();
    for group in diff.grouped_ops(2) {
        for change in group.iter().flat_map(|op| diff.iter_changes(op)) {
            let sign = match change.tag() {
                ChangeTag::Delete => '-',
                ChangeTag::Insert => '+',
                ChangeTag::Equal => ' ',
            };
            text.push(sign);
            text.push_str(change.value().trim_end_matches('\n'));
            text.push('\n');
        }
    }
    Some(text)
}

pub(super) fn update(folder: &Path, outputs: &[Output]) -> Result<Vec<PathBuf>, Error> {
    let mut changed = Vec::new();
    fs::create_dir_all(folder).map_err(|error| Error::at(folder, error))?;
    for output in outputs {
        let path = path(folder, &output.name, output.format);
        let expected = read(&path)?;
        let same = |expected: &Vec<u8>| diff(output.format, expected, &output.contents).is_none();
        if expected.as_ref().is_some_and(same) {
            continue;
        }
        if expected.is_none() && (!output.counts || output.contents.is_empty()) {
            continue;
        }
        fs::write(&path, &output.contents).map_err(|error| Error::at(&path, error))?;
        changed.push(path);
    }
    for path in strays(folder, outputs)? {
        fs::remove_file(&path).map_err(|error| Error::at(&path, error))?;
        changed.push(path);
    }
    Ok(changed)
}
