//! The text of a flow file, and places in it.

use std::{
    fs::File,
    io::{self, Read},
    path::{Path, PathBuf},
    sync::Arc,
};

use super::{diagnostic::Diagnostic, limits::Limits};

/// A place in a flow file: where something starts and how far it goes on that line.
///
/// Lines and columns count from 1, columns and width in characters (Unicode scalar values).
/// What spans several lines is represented by its part on the first one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Span {
    /// Line, the first being 1.
    pub line: usize,
    /// Column in characters, the first being 1.
    pub column: usize,
    /// Length in characters; 0 where only the position matters.
    pub width: usize,
}

impl Span {
    /// The very beginning of a file.
    pub const START: Self = Self { line: 1, column: 1, width: 0 };
}

/// Something read from a flow file, together with where it stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Located<T> {
    /// What was read.
    pub value: T,
    /// Where it was read.
    pub at: Span,
}

impl<T> Located<T> {
    /// Puts a value and its place together.
    pub const fn new(value: T, at: Span) -> Self {
        Self { value, at }
    }
}

/// A flow file as it was read: kept for as long as anybody may still complain about it.
#[derive(Debug)]
pub(crate) struct Source {
    path: PathBuf,
    text: String,
    /// Byte offset of the start of each line.
    lines: Vec<usize>,
}

impl Source {
    pub(crate) fn new(path: PathBuf, text: String) -> Arc<Self> {
        let bytes = text.as_bytes();
        let mut lines = vec![0];
        for (at, byte) in bytes.iter().enumerate() {
            // YAML breaks lines at LF, CR LF and a CR alone.
            if *byte == b'\n' || (*byte == b'\r' && bytes.get(at + 1) != Some(&b'\n')) {
                lines.push(at + 1);
            }
        }
        Arc::new(Self { path, text, lines })
    }

    /// Reads a file, refusing what cannot be a flow file before any of it is parsed.
    pub(crate) fn read(path: &Path, limits: &Limits) -> Result<Arc<Self>, Diagnostic> {
        let refuse = |message: String| {
            Diagnostic::of_file(Self::new(path.to_path_buf(), String::new()), message)
        };
        let mut bytes = Vec::new();
        let read = File::open(path)
            .and_then(|file| file.take(limits.max_file_bytes + 1).read_to_end(&mut bytes));
        match read {
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Err(refuse("there is no such file".into())
                    .help("give the path of a flow file, relative to the current folder"));
            }
            Err(error) if error.kind() == io::ErrorKind::IsADirectory => {
                return Err(refuse("this is a folder, not a flow file".into())
                    .help("give the path of a file in it"));
            }
            Err(error) => return Err(refuse(format!("the file cannot be read: {error}"))),
        }
        if bytes.len() as u64 > limits.max_file_bytes {
            return Err(refuse(format!(
                "the file is larger than {} bytes, the limit for a flow file",
                limits.max_file_bytes
            ))
            .help("data belongs in files of its own, which connectors read"));
        }
        Self::decode(path, bytes)
    }

    fn decode(path: &Path, bytes: Vec<u8>) -> Result<Arc<Self>, Diagnostic> {
        let utf16 = bytes.starts_with(&[0xff, 0xfe]) || bytes.starts_with(&[0xfe, 0xff]);
        match String::from_utf8(bytes) {
            Ok(text) => {
                // A byte order mark is allowed, and is no character of the first line.
                let text = text.strip_prefix('\u{feff}').map(ToOwned::to_owned).unwrap_or(text);
                Ok(Self::new(path.to_path_buf(), text))
            }
            Err(error) => {
                let valid = error.utf8_error().valid_up_to();
                let bytes = error.into_bytes();
                let byte = bytes[valid];
                let before = String::from_utf8_lossy(&bytes[..valid]).into_owned();
                let source =
                    Self::new(path.to_path_buf(), String::from_utf8_lossy(&bytes).into_owned());
                let at = Self::new(PathBuf::new(), before).end();
                let message = if utf16 {
                    "the file is UTF-16, a flow file must be UTF-8".to_owned()
                } else {
                    format!("the file is not UTF-8: byte 0x{byte:02x} cannot stand here")
                };
                Err(Diagnostic::error(source, at, message).help("save the file as UTF-8"))
            }
        }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    /// The place behind the last character.
    pub(crate) fn end(&self) -> Span {
        let line = self.lines.len();
        Span { line, column: self.line(line).chars().count() + 1, width: 1 }
    }

    /// The text of a line (counted from 1) without its line break; empty if there is none.
    pub(crate) fn line(&self, line: usize) -> &str {
        let Some(start) = line.checked_sub(1).and_then(|index| self.lines.get(index)) else {
            return "";
        };
        let end = self.lines.get(line).copied().unwrap_or(self.text.len());
        self.text[*start..end].trim_end_matches(['\n', '\r'])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_end_at_every_break_that_yaml_knows() {
        let source = Source::new(PathBuf::new(), "a\nb\r\nc\rd".to_owned());
        let lines: Vec<_> = (0..=5).map(|line| source.line(line)).collect();
        assert_eq!(lines, ["", "a", "b", "c", "d", ""]);
    }

    #[test]
    fn a_byte_order_mark_does_not_count() {
        let source =
            Source::decode(Path::new("f"), b"\xef\xbb\xbflinks: []".to_vec()).expect("valid");
        assert_eq!(source.line(1), "links: []");
    }
}
