//! The text of a flow file, and locations in it.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

/// A location in a flow file: the start of an element, and the length of the element on that line.
///
/// Lines and columns count from 1. Columns and widths are in characters (Unicode scalar values). If an element spans
/// several lines, the location is its part on the first line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Span {
    /// Line; the first line is 1.
    pub line: usize,
    /// Column in characters; the first column is 1.
    pub column: usize,
    /// Length in characters; 0 if the location is a position between characters.
    pub width: usize,
}

impl Span {
    /// Beginning of a file.
    pub const START: Self = Self { line: 1, column: 1, width: 0 };
}

/// Value read from a flow file, with its location.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Located<T> {
    /// The value.
    pub value: T,
    /// Location of the value.
    pub at: Span,
}

impl<T> Located<T> {
    /// Creates a value with its location.
    pub const fn new(value: T, at: Span) -> Self {
        Self { value, at }
    }
}

/// The text of a flow file. It is kept as long as errors may refer to it.
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
            // YAML ends a line at LF, CR LF or a single CR.
            if *byte == b'\n' || (*byte == b'\r' && bytes.get(at + 1) != Some(&b'\n')) {
                lines.push(at + 1);
            }
        }
        Arc::new(Self { path, text, lines })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    /// Returns the location after the last character.
    pub(crate) fn end(&self) -> Span {
        let line = self.lines.len();
        Span { line, column: self.line(line).chars().count() + 1, width: 1 }
    }

    /// Returns a line without its line break, or an empty text if there is no such line. The first line has the number
    /// 1.
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
    fn lines_end_at_every_yaml_line_break() {
        let source = Source::new(PathBuf::new(), "a\nb\r\nc\rd".to_owned());
        let lines: Vec<_> = (0..=5).map(|line| source.line(line)).collect();
        assert_eq!(lines, ["", "a", "b", "c", "d", ""]);
    }
}
