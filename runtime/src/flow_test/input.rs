//! Input of flow tests.

use std::{fs, path::Path};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde::{Deserialize, Deserializer};
use tremor_abi::{batch::HostBatch, value::to_value};
use tremor_pdk::Batch;

use super::{Clock, Error};

/// A batch that a source reads in one pull.
pub(super) struct Input {
    pub(super) source: String,
    pub(super) at_ns: u64,
    pub(super) batch: Batch,
}

/// A line of an `.events.jsonl` file.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Event {
    /// Time since the start of the test.
    at_ms: Option<u64>,
    /// Value of the event. `Some` if the line has the key, even if the value is `null`.
    #[serde(default, deserialize_with = "present")]
    value: Option<serde_json::Value>,
    /// Message for the preprocessors and the codec, in Base64. Set instead of `value`.
    base64: Option<String>,
    metadata: Option<serde_json::Value>,
}

fn present<'de, D: Deserializer<'de>>(from: D) -> Result<Option<serde_json::Value>, D::Error> {
    serde_json::Value::deserialize(from).map(Some)
}

/// Reads all files of the folder. Batches are sorted by time, and batches of the same time by the name of the source.
pub(super) fn read(folder: &Path, sources: &[String], clock: Clock) -> Result<Vec<Input>, Error> {
    let mut files = Vec::new();
    let entries = fs::read_dir(folder).map_err(|error| {
        Error::at(folder, format_args!("{error}; expected a folder with a file for each source"))
    })?;
    for entry in entries {
        files.push(entry.map_err(|error| Error::at(folder, error))?.path());
    }
    files.sort();
    let mut inputs = Vec::new();
    for path in &files {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let suffix = [".events.jsonl", ".jsonl", ".raw"].into_iter().find(|it| name.ends_with(it));
        let Some(suffix) = suffix else {
            return Err(Error::at(
                path,
                "expected a name with the suffix .jsonl, .events.jsonl or .raw",
            ));
        };
        let source = name[..name.len() - suffix.len()].to_owned();
        if !sources.contains(&source) {
            let known = sources.join(", ");
            return Err(Error::at(
                path,
                format_args!("the flow has no source `{source}`; its sources are {known}"),
            ));
        }
        let bytes = fs::read(path).map_err(|error| Error::at(path, error))?;
        let start = clock.start_ms.saturating_mul(1_000_000);
        if suffix == ".raw" {
            let mut batch = Batch::new();
            batch.stream(0).push_fragment(&bytes);
            inputs.push(stamped(source, start, batch));
            continue;
        }
        let text = String::from_utf8(bytes).map_err(|error| Error::at(path, error))?;
        let lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
        for (position, (number, line)) in lines.enumerate() {
            let wrong = |error: &dyn std::fmt::Display| {
                Error::at(path, format_args!("line {}: {error}", number + 1))
            };
            let event = if suffix == ".jsonl" {
                let value = serde_json::from_str(line).map_err(|error| wrong(&error))?;
                Event { at_ms: None, value: Some(value), base64: None, metadata: None }
            } else {
                serde_json::from_str(line).map_err(|error| wrong(&error))?
            };
            let mut batch = Batch::new();
            match (&event.value, &event.base64) {
                (Some(value), None) => {
                    batch.push(value).map_err(|error| wrong(&error))?;
                }
                (None, Some(text)) => {
                    let bytes = STANDARD.decode(text).map_err(|error| wrong(&error))?;
                    batch.push_message(&bytes);
                }
                _ => return Err(wrong(&"expected either `value` or `base64`")),
            }
            if let Some(metadata) = &event.metadata {
                batch.set_metadata(0, to_value(metadata).map_err(|error| wrong(&error))?);
            }
            let at = event.at_ms.unwrap_or(position as u64 * clock.step_ms);
            inputs.push(stamped(source.clone(), start + at.saturating_mul(1_000_000), batch));
        }
    }
    inputs.sort_by_key(|input| input.at_ns);
    Ok(inputs)
}

fn stamped(source: String, at_ns: u64, mut batch: Batch) -> Input {
    for event in batch.events_mut() {
        event.ingest_ns = at_ns;
    }
    Input { source, at_ns, batch }
}
