//! What comes out of a flow under test, and how it differs from what is expected.

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

/// How an expectation is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Format {
    /// A value a line.
    Values,
    /// Value and metadata, a line each.
    Events,
    /// Bytes.
    Raw,
}

impl Format {
    const ALL: [Self; 3] = [Self::Values, Self::Events, Self::Raw];

    fn ending(self) -> &'static str {
        match self {
            Self::Values => ".jsonl",
            Self::Events => ".events.jsonl",
            Self::Raw => ".raw",
        }
    }
}

/// Which expectation there is for an outlet; values where there is none.
pub(super) fn form(folder: &Path, name: &str) -> Format {
    let there = |format: &Format| path(folder, name, *format).exists();
    Format::ALL.into_iter().find(there).unwrap_or(Format::Values)
}

fn path(folder: &Path, name: &str, format: Format) -> PathBuf {
    folder.join(format!("{name}{}", format.ending()))
}

/// What left the flow by one outlet.
pub(super) struct Output {
    name: String,
    format: Format,
    contents: Vec<u8>,
    /// Whether it matters where there is no expectation.
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

/// Where what came out is not what was expected.
#[derive(Debug)]
pub struct Difference {
    /// The file with the expectation, whether or not it is there.
    pub path: PathBuf,
    diff: String,
}

/// The file, and a diff of lines: `-` was expected, `+` came.
impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: - expected, + came out\n{}", self.path.display(), self.diff)
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
        let diff = "there is no such sink, nor such a port without a link\n".to_owned();
        differences.push(Difference { path, diff });
    }
    Ok(differences)
}

/// Files that no outlet belongs to.
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

/// The same JSON written in another way is no difference.
fn normal(format: Format, bytes: &[u8]) -> String {
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

/// The lines that differ, with two lines around each; none where nothing does.
fn diff(format: Format, expected: &[u8], came: &[u8]) -> Option<String> {
    let (expected, came) = (normal(format, expected), normal(format, came));
    if expected == came {
        return None;
    }
    let diff = TextDiff::from_lines(&expected, &came);
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
