//! The events in one buffer.

use std::{ops::Range, path::Path};

use base64::{Engine as _, engine::general_purpose::STANDARD};

/// The events of a file, one per line.
pub(crate) struct Data {
    bytes: Vec<u8>,
    events: Vec<Range<usize>>,
}

impl Data {
    pub(crate) fn read(path: &Path, base64: bool) -> Result<Self, String> {
        let wrong = |error: String| format!("{}: {error}", path.display());
        let text = std::fs::read(path).map_err(|error| wrong(error.to_string()))?;
        let mut data = Self { bytes: Vec::new(), events: Vec::new() };
        for (number, line) in text.split(|byte| *byte == b'\n').enumerate() {
            if line.trim_ascii().is_empty() {
                continue;
            }
            let start = data.bytes.len();
            if base64 {
                STANDARD
                    .decode_vec(line.trim_ascii(), &mut data.bytes)
                    .map_err(|error| wrong(format!("line {}: {error}", number + 1)))?;
            } else {
                data.bytes.extend_from_slice(line);
            }
            data.events.push(start..data.bytes.len());
        }
        if data.events.is_empty() {
            return Err(wrong("has no event".to_owned()));
        }
        Ok(data)
    }

    /// Returns an endless iterator that repeats the events.
    pub(crate) fn cycle(&self) -> impl Iterator<Item = &[u8]> {
        self.events.iter().cycle().map(|range| &self.bytes[range.clone()])
    }
}
