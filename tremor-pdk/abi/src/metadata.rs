//! The metadata record: a section of a plugin library that describes the plugin. The runtime reads the record without
//! loading the library.
//!
//! # Format
//! ```text
//!  0..16            16..20           20..24           24..
//! +----------------+----------------+----------------+------------------------+
//! | magic          | version u32 LE | length u32 LE  | JSON, `length` bytes   |
//! +----------------+----------------+----------------+------------------------+
//! ```
//! The section has the size of [`Record`]; the bytes after the JSON are zero. The version of the record changes if
//! readers of the old version would misinterpret a new record. Keys may be added without a new version.

use std::fmt;

use serde::Deserialize;

/// Name of the section, prefixed with its segment as Mach-O requires.
#[cfg(target_vendor = "apple")]
pub const SECTION: &str = "__DATA,__tremor_pdk";
/// Name of the section.
#[cfg(not(target_vendor = "apple"))]
pub const SECTION: &str = ".tremor";

/// The first bytes of a record.
pub const MAGIC: [u8; 16] = *b"\x7fTREMOR-PLUGIN\r\n";
/// Version of the record that this crate reads and writes.
pub const VERSION: u32 = 1;

const HEADER: usize = 24;
const JSON: usize = 8_192 - HEADER;

/// The contents of the section: 8,192 bytes.
#[repr(C)]
pub struct Record {
    magic: [u8; 16],
    version: [u8; 4],
    length: [u8; 4],
    json: [u8; JSON],
}

impl Record {
    /// Creates a record with a JSON text.
    #[allow(clippy::cast_possible_truncation)] // the length is at most `JSON`
    pub const fn new(json: &JsonText) -> Self {
        Self {
            magic: MAGIC,
            version: VERSION.to_le_bytes(),
            length: (json.len as u32).to_le_bytes(),
            json: json.buffer,
        }
    }

    /// Returns the JSON text.
    pub fn json(&self) -> &[u8] {
        let length = u32::from_le_bytes(self.length) as usize;
        self.json.get(..length).unwrap_or_default()
    }
}

/// JSON text under construction at compile time, of at most 8,168 bytes.
///
/// The methods panic if the text would be longer. In a constant, the panic is a compile error.
pub struct JsonText {
    buffer: [u8; JSON],
    len: usize,
}

impl Default for JsonText {
    fn default() -> Self {
        Self::new()
    }
}

impl JsonText {
    /// Creates an empty text.
    pub const fn new() -> Self {
        Self { buffer: [0; JSON], len: 0 }
    }

    /// Appends `text` unchanged.
    ///
    /// # Panics
    /// Panics if the text would be longer than 8,168 bytes.
    #[must_use]
    pub const fn raw(mut self, text: &str) -> Self {
        let bytes = text.as_bytes();
        assert!(self.len + bytes.len() <= JSON, "the plugin's metadata is longer than 8,168 bytes");
        let mut i = 0;
        while i < bytes.len() {
            self.buffer[self.len + i] = bytes[i];
            i += 1;
        }
        self.len += bytes.len();
        self
    }

    /// Appends `text` as a JSON string, escaped as RFC 8259 requires.
    #[must_use]
    pub const fn string(mut self, text: &str) -> Self {
        const HEX: &[u8; 16] = b"0123456789abcdef";
        self = self.raw("\"");
        let bytes = text.as_bytes();
        let mut i = 0;
        while i < bytes.len() {
            let byte = bytes[i];
            if byte == b'"' || byte == b'\\' {
                self = self.byte(b'\\').byte(byte);
            } else if byte < 0x20 {
                self = self.raw("\\u00").byte(HEX[(byte >> 4) as usize]);
                self = self.byte(HEX[(byte & 15) as usize]);
            } else {
                self = self.byte(byte);
            }
            i += 1;
        }
        self.raw("\"")
    }

    /// Appends `value` in decimal digits.
    #[must_use]
    pub const fn number(mut self, value: u16) -> Self {
        if value >= 10 {
            self = self.number(value / 10);
        }
        self.byte(b'0' + (value % 10) as u8)
    }

    const fn byte(mut self, byte: u8) -> Self {
        assert!(self.len < JSON, "the plugin's metadata is longer than 8,168 bytes");
        self.buffer[self.len] = byte;
        self.len += 1;
        self
    }
}

/// The contents of a record.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Metadata {
    /// The plugin's package name.
    pub name: String,
    /// The plugin's package version.
    pub version: String,
    /// Purpose of the plugin, in one line.
    #[serde(default)]
    pub description: String,
    /// ABI version that the plugin was built for, as `major.minor`.
    pub abi: String,
    /// Interface through which the host calls the library; `rust` if the record does not name one.
    #[serde(default = "rust")]
    pub interface: String,
    /// Version of `tremor-pdk` that the plugin was built with; `None` if the plugin was built without the kit.
    pub pdk: Option<String>,
    /// Effect of a panic, `unwind` or `abort`; `None` if the library's language has no panics.
    pub panic: Option<String>,
    /// Components that the library offers.
    pub artefacts: Vec<ArtefactMetadata>,
}

/// The interface of plugins that are built with `tremor-pdk`.
pub const RUST: &str = "rust";

fn rust() -> String {
    RUST.to_owned()
}

/// The description of one artefact in a record.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct ArtefactMetadata {
    /// Kind of the artefact, such as `connector` or `codec`.
    pub kind: String,
    /// The `type` by which flow files refer to the artefact.
    pub name: String,
    /// Purpose of the artefact, in one line.
    #[serde(default)]
    pub description: String,
    /// For a connector, whether it needs a codec: `required`, `optional` or `structured`.
    pub codec: Option<String>,
    /// Name of the codec that `optional` falls back to.
    pub default_codec: Option<String>,
    /// Whether the artefact is a stateless operator, of which several instances may share the batches of one pipeline.
    #[serde(default)]
    pub stateless: bool,
}

/// The reason why a section cannot be read as a record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NotARecord {
    /// The section is shorter than the header, or shorter than the header specifies.
    Truncated,
    /// The section does not start with [`MAGIC`].
    Magic,
    /// The record has a version that this crate does not read.
    Version(u32),
}

impl fmt::Display for NotARecord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Truncated => f.write_str("the metadata record is truncated"),
            Self::Magic => f.write_str("the metadata record does not start with the magic bytes"),
            Self::Version(version) => {
                write!(f, "the metadata record has version {version}, expected {VERSION}")
            }
        }
    }
}

impl std::error::Error for NotARecord {}

/// Returns the JSON text of the record in `section`.
///
/// # Errors
/// Returns a [`NotARecord`] if the section contains no readable record.
pub fn json_of(section: &[u8]) -> Result<&[u8], NotARecord> {
    let header = section.get(..HEADER).ok_or(NotARecord::Truncated)?;
    let word = |at: usize| u32::from_le_bytes([0, 1, 2, 3].map(|i| header[at + i]));
    if header[..16] != MAGIC {
        return Err(NotARecord::Magic);
    }
    if word(16) != VERSION {
        return Err(NotARecord::Version(word(16)));
    }
    section.get(HEADER..HEADER + word(20) as usize).ok_or(NotARecord::Truncated)
}

#[cfg(test)]
mod tests {
    use super::{JsonText, Metadata, NotARecord, Record, json_of};

    fn bytes(record: &Record) -> Vec<u8> {
        [&record.magic[..], &record.version, &record.length, &record.json].concat()
    }

    #[test]
    fn text_made_at_compile_time_is_json() {
        const TEXT: JsonText =
            JsonText::new().raw("[").string("a\"\\\n\u{1}é").raw(",").number(407).raw("]");
        let section = bytes(&Record::new(&TEXT));
        let value: serde_json::Value = serde_json::from_slice(json_of(&section).unwrap()).unwrap();
        assert_eq!(value, serde_json::json!(["a\"\\\n\u{1}é", 407]));
    }

    #[test]
    fn records_without_optional_keys_are_rust_plugins() {
        let json = r#"{"name":"x","version":"1","abi":"2.0","later":1,"artefacts":[]}"#;
        let metadata: Metadata = serde_json::from_str(json).unwrap();
        assert_eq!((&*metadata.interface, metadata.pdk, metadata.panic), ("rust", None, None));
        let json = r#"{"name":"x","version":"1","abi":"2.0","interface":"c","artefacts":[]}"#;
        let metadata: Metadata = serde_json::from_str(json).unwrap();
        assert_eq!(metadata.interface, "c");
    }

    #[test]
    fn invalid_records_are_rejected_with_a_reason() {
        let record = bytes(&Record::new(&JsonText::new().raw("{}")));
        assert_eq!(json_of(&record[..20]), Err(NotARecord::Truncated));
        assert_eq!(json_of(&record[..25]), Err(NotARecord::Truncated));
        assert_eq!(json_of(&[0; 64]), Err(NotARecord::Magic));
        let mut newer = record;
        newer[16] = 9;
        assert_eq!(json_of(&newer), Err(NotARecord::Version(9)));
    }
}
