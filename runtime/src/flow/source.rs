//! The text of a flow file, and places in it.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

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

/// A flow file as it was read: kept for as long as errors may point into it.
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

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    /// The place after the last character.
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
}
