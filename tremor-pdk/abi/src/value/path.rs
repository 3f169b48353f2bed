//! Compiled paths to values inside other values.

use std::{fmt, str::FromStr};

use super::Value;
use crate::{
    document::{Key, Step, ValueRef},
    error::PluginError,
};

/// A compiled path to a value inside another value, such as `a.b[2].c`.
///
/// A key of letters, digits, `_`, `-`, `@` and `$` is written without quotes. Any other key is written in double
/// quotes, with `\"` for a quote and `\\` for a backslash: `a."odd key"[0]`. The empty path leads to the value itself.
///
/// Parse a path once and store it, because a lookup with a parsed path does not parse text.
///
/// ```
/// # use tremor_abi::{literal, value::Path};
/// let path: Path = "request.headers[1]".parse()?;
/// let mut event = literal!({ "request": { "headers": ["a", "b"] } });
/// assert_eq!(event.get_path(&path), Some(&literal!("b")));
/// assert_eq!(event.set_path(&path, "c"), Ok(Some(literal!("b"))));
/// # Ok::<(), tremor_abi::error::PluginError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Path(Box<[Segment]>);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Segment {
    Key { text: Box<str>, word: u64 },
    Index(usize),
}

/// The syntax error of a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PathError {
    /// Offset of the error, in bytes from the start of the text.
    pub offset: usize,
    /// Description of the expected syntax at the offset.
    pub expected: &'static str,
}

impl fmt::Display for PathError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "invalid path: expected {} at offset {}", self.expected, self.offset)
    }
}

impl std::error::Error for PathError {}

/// Converts the error to one of kind configuration, because paths are parts of a configuration.
impl From<PathError> for PluginError {
    fn from(error: PathError) -> Self {
        Self::configuration(error)
    }
}

/// The error for a path that does not match the structure of a value: the path leads through a scalar, uses an index in
/// an object or a key in an array, or leads beyond the end of an array.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PathMismatch {
    /// Position of the path segment that could not be followed, from 0.
    pub segment: usize,
    /// Text of the whole path.
    pub path: String,
}

impl fmt::Display for PathMismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cannot follow part {} of the path {} in the value", self.segment + 1, self.path)
    }
}

impl std::error::Error for PathMismatch {}

/// Converts the error to one of kind bad data, because the value of an event does not have the expected structure.
impl From<PathMismatch> for PluginError {
    fn from(error: PathMismatch) -> Self {
        Self::bad_data(error)
    }
}

fn is_plain(c: char) -> bool {
    c.is_alphanumeric() || matches!(c, '_' | '-' | '@' | '$')
}

impl FromStr for Path {
    type Err = PathError;

    fn from_str(text: &str) -> Result<Self, PathError> {
        let mut segments = Vec::new();
        let mut rest = text;
        while !rest.is_empty() {
            let offset = text.len() - rest.len();
            let error = |expected| PathError { offset, expected };
            if let Some(index) = rest.strip_prefix('[') {
                let (digits, after) = index.split_once(']').ok_or(error("an index and `]`"))?;
                let is_number = digits.bytes().all(|digit| digit.is_ascii_digit());
                let index = digits.parse().ok().filter(|_| is_number);
                segments.push(Segment::Index(index.ok_or(error("an index and `]`"))?));
                rest = after;
                continue;
            }
            let key = match rest.strip_prefix('.') {
                Some(key) if !segments.is_empty() => key,
                None if segments.is_empty() => rest,
                _ if segments.is_empty() => return Err(error("a key or an index")),
                _ => return Err(error("`.` or `[`")),
            };
            let (key, after) = if let Some(quoted) = key.strip_prefix('"') {
                unquote(quoted).ok_or(error("a key that ends with `\"`"))?
            } else {
                let end = key.find(|c| !is_plain(c)).unwrap_or(key.len());
                (key[..end].to_owned(), &key[end..])
            };
            if key.is_empty() && !rest.trim_start_matches('.').starts_with('"') {
                return Err(error(
                    "a key, in double quotes unless it has only letters, digits, `_`, `-`, `@` and `$`",
                ));
            }
            segments.push(Segment::Key { word: Key::word_of(&key), text: key.into() });
            rest = after;
        }
        Ok(Self(segments.into()))
    }
}

/// Returns the key up to the closing quote, and the text after the quote.
fn unquote(text: &str) -> Option<(String, &str)> {
    let mut key = String::new();
    let mut chars = text.chars();
    loop {
        match chars.next()? {
            '"' => return Some((key, chars.as_str())),
            '\\' => key.push(chars.next().filter(|c| matches!(c, '"' | '\\'))?),
            other => key.push(other),
        }
    }
}

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (n, segment) in self.0.iter().enumerate() {
            match segment {
                Segment::Index(index) => write!(f, "[{index}]")?,
                Segment::Key { text, .. } => {
                    f.write_str(if n == 0 { "" } else { "." })?;
                    if !text.is_empty() && text.chars().all(is_plain) {
                        f.write_str(text)?;
                    } else {
                        let text = text.replace('\\', "\\\\").replace('"', "\\\"");
                        write!(f, "\"{text}\"")?;
                    }
                }
            }
        }
        Ok(())
    }
}

impl Path {
    /// Returns the path that leads through objects by `keys`.
    #[doc(hidden)]
    pub fn of_keys<'k>(keys: impl IntoIterator<Item = &'k str>) -> Self {
        let segment = |key: &str| Segment::Key { word: Key::word_of(key), text: key.into() };
        Self(keys.into_iter().map(segment).collect())
    }

    /// Returns whether the path is empty, so that it leads to the value itself.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns whether the path begins with all parts of `other`, so that it leads to the value at `other` or to a part
    /// of that value.
    pub fn starts_with(&self, other: &Self) -> bool {
        self.0.starts_with(&other.0)
    }

    /// Returns the keys of a path, or `None` if the path contains an index.
    pub(crate) fn keys(&self) -> Option<Vec<&str>> {
        let keys = self.0.iter().map(|segment| match segment {
            Segment::Key { text, .. } => Some(&**text),
            Segment::Index(_) => None,
        });
        keys.collect()
    }

    fn mismatch(&self, segment: usize) -> PathMismatch {
        PathMismatch { segment, path: self.to_string() }
    }
}

impl<'a> ValueRef<'a> {
    /// Returns the value at `path`.
    #[inline]
    pub fn get_path(self, path: &Path) -> Option<ValueRef<'a>> {
        self.follow(path.0.iter().map(|segment| match segment {
            Segment::Key { text, word } => Step::Key(Key::with_word(text, *word)),
            Segment::Index(index) => Step::Index(*index),
        }))
    }
}

impl<'v> Value<'v> {
    /// Returns the value at `path`.
    pub fn get_path(&self, path: &Path) -> Option<&Value<'v>> {
        path.0.iter().try_fold(self, |value, segment| match segment {
            Segment::Key { text, .. } => value.get(text),
            Segment::Index(index) => value.get_idx(*index),
        })
    }

    /// Returns the value at `path` for editing.
    pub fn get_path_mut(&mut self, path: &Path) -> Option<&mut Value<'v>> {
        path.0.iter().try_fold(self, |value, segment| match segment {
            Segment::Key { text, .. } => value.get_mut(text),
            Segment::Index(index) => value.get_idx_mut(*index),
        })
    }

    /// Sets the value at `path`, and returns the previous value. Missing objects and arrays on the path are created. An
    /// index that equals the length of its array appends an element; a larger index is an error.
    pub fn set_path(
        &mut self,
        path: &Path,
        value: impl Into<Value<'v>>,
    ) -> Result<Option<Value<'v>>, PathMismatch> {
        // The whole path is checked first, so that an error leaves the value unchanged.
        let mut known = Some(self.view());
        for (n, segment) in path.0.iter().enumerate() {
            let is_possible = match (segment, known) {
                (Segment::Key { .. }, Some(value)) => value.as_object().is_some(),
                (Segment::Key { .. }, None) => true,
                (Segment::Index(index), Some(value)) => {
                    value.as_array().is_some_and(|array| *index <= array.len())
                }
                (Segment::Index(index), None) => *index == 0,
            };
            if !is_possible {
                return Err(path.mismatch(n));
            }
            known = known.and_then(|value| match segment {
                Segment::Key { text, .. } => value.get(text),
                Segment::Index(index) => value.get_idx(*index),
            });
        }
        let is_new = known.is_none();
        let mut target = self;
        for (n, segment) in path.0.iter().enumerate() {
            let missing = || match path.0.get(n + 1) {
                Some(Segment::Key { .. }) => Value::object(),
                Some(Segment::Index(_)) => Value::array(),
                None => Value::Null,
            };
            let inner = match segment {
                Segment::Key { text, .. } => {
                    target.as_object_mut().map(|object| object.get_or_insert_with(text, missing))
                }
                Segment::Index(index) => target.as_array_mut().and_then(|array| {
                    if *index == array.len() {
                        array.push(missing());
                    }
                    array.get_mut(*index)
                }),
            };
            target = inner.ok_or_else(|| path.mismatch(n))?;
        }
        let old = std::mem::replace(target, value.into());
        Ok(if is_new { None } else { Some(old) })
    }

    /// Removes the value at `path` and returns it: a key with its value, or an element. With the empty path, takes the
    /// whole value and leaves `null`.
    pub fn remove_path(&mut self, path: &Path) -> Option<Value<'v>> {
        let Some((last, parents)) = path.0.split_last() else { return Some(self.take()) };
        let parent = parents.iter().try_fold(self, |value, segment| match segment {
            Segment::Key { text, .. } => value.get_mut(text),
            Segment::Index(index) => value.get_idx_mut(*index),
        })?;
        match last {
            Segment::Key { text, .. } => parent.remove(text),
            Segment::Index(index) => parent.as_array_mut()?.remove(*index),
        }
    }
}

#[cfg(test)]
mod tests;
