//! Replayed data: events as bytes in one buffer.

use std::{fs::File, io::Read, ops::Range, path::Path};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use liblzma::read::XzDecoder;
use tremor_pdk::prelude::*;

/// Encoding of the lines of a file.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Form {
    Plain,
    Base64,
}

impl Form {
    pub(crate) fn of(base64: bool) -> Self {
        if base64 { Self::Base64 } else { Self::Plain }
    }
}

/// The events of a file, at least one.
#[derive(Debug)]
pub(crate) struct Data {
    bytes: Vec<u8>,
    events: Vec<Range<usize>>,
}

impl Data {
    /// Reads a file.
    ///
    /// # Errors
    /// An error of the kind configuration, because a retry would read the same file.
    pub(crate) fn read(path: &Path, form: Form) -> Result<Self> {
        let of_file = |error: Error| error.context(format_args!("`file`: {}", path.display()));
        let bytes = read(path).map_err(|error| {
            of_file(Error::configuration(format_args!("cannot read the file: {error}")))
        })?;
        let data = Self::cut(bytes, form).map_err(of_file)?;
        if data.events.is_empty() {
            return Err(of_file(Error::configuration(
                "the file has no events; write one event per line",
            )));
        }
        Ok(data)
    }

    fn cut(bytes: Vec<u8>, form: Form) -> Result<Self> {
        let mut events = Vec::new();
        let mut start = 0;
        let mut decoded = Vec::new();
        for (number, line) in bytes.split(|byte| *byte == b'\n').enumerate() {
            let range = start..start + line.len();
            start = range.end + 1;
            if line.trim_ascii().is_empty() {
                continue;
            }
            match form {
                Form::Plain => events.push(range),
                Form::Base64 => {
                    let from = decoded.len();
                    STANDARD.decode_vec(line.trim_ascii(), &mut decoded).map_err(|error| {
                        Error::configuration(format_args!(
                            "line {}: expected a base64 event: {error}; remove `base64` if the lines are not \
                             encoded",
                            number + 1
                        ))
                    })?;
                    events.push(from..decoded.len());
                }
            }
        }
        let bytes = match form {
            Form::Plain => bytes,
            Form::Base64 => decoded,
        };
        Ok(Self { bytes, events })
    }

    pub(crate) fn len(&self) -> usize {
        self.events.len()
    }

    /// Returns the bytes of the event at `position`.
    pub(crate) fn event(&self, position: usize) -> &[u8] {
        &self.bytes[self.events[position].clone()]
    }
}

fn read(path: &Path) -> std::io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let mut file = File::open(path)?;
    if path.extension().is_some_and(|extension| extension == "xz") {
        XzDecoder::new_multi_decoder(file).read_to_end(&mut bytes)?;
    } else {
        file.read_to_end(&mut bytes)?;
    }
    Ok(bytes)
}
