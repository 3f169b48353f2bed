//! Paths into values, compiled once.

use std::{fmt, str::FromStr};

use super::Value;
use crate::document::{Key, Step, ValueRef};

/// The way to a place in a value, as in `a.b[2].c`.
///
/// A key is written plainly if it consists of letters, digits, `_`, `-`, `@` and `$`; any other in
/// double quotes, where `\"` and `\\` stand for a quote and a backslash: `a."odd key"[0]`. The empty
/// path leads to the value itself.
///
/// Parse it once and keep it: a lookup compares prepared keys and parses nothing.
///
/// ```
/// use tremor_abi::{literal, value::Path};
///
/// let path: Path = "request.headers[1]".parse()?;
/// let mut event = literal!({ "request": { "headers": ["a", "b"] } });
/// assert_eq!(event.get_path(&path), Some(&literal!("b")));
/// assert_eq!(event.set_path(&path, "c"), Ok(Some(literal!("b"))));
/// # Ok::<(), tremor_abi::value::PathError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Path(Box<[Segment]>);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Segment {
    Key { text: Box<str>, word: u64 },
    Index(usize),
}

/// What is wrong with the text of a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PathError {
    /// Where, in bytes from the start.
    pub offset: usize,
    /// What was expected there.
    pub expected: &'static str,
}

impl fmt::Display for PathError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "invalid path: expected {} at offset {}", self.expected, self.offset)
    }
}

impl std::error::Error for PathError {}

/// A place that a path leads to cannot exist: it runs through a value that is no container, an
/// object where an index is, an array where a key is, or beyond the end of an array.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NoSuchPlace {
    /// The part of the path that could not be followed, counted from 0.
    pub segment: usize,
    /// The whole path.
    pub path: String,
}

impl fmt::Display for NoSuchPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the value has no place for part {} of the path {}", self.segment + 1, self.path)
    }
}

impl std::error::Error for NoSuchPlace {}

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
                return Err(error("a key; unusual ones are quoted"));
            }
            segments.push(Segment::Key { word: Key::word_of(&key), text: key.into() });
            rest = after;
        }
        Ok(Self(segments.into()))
    }
}

/// The key up to the closing quote, and what comes after that.
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
    /// The keys of a path that has no index.
    pub(crate) fn keys(&self) -> Option<Vec<&str>> {
        let keys = self.0.iter().map(|segment| match segment {
            Segment::Key { text, .. } => Some(&**text),
            Segment::Index(_) => None,
        });
        keys.collect()
    }

    fn no_place(&self, segment: usize) -> NoSuchPlace {
        NoSuchPlace { segment, path: self.to_string() }
    }
}

impl<'a> ValueRef<'a> {
    /// What a path leads to.
    #[inline]
    pub fn get_path(self, path: &Path) -> Option<ValueRef<'a>> {
        self.follow(path.0.iter().map(|segment| match segment {
            Segment::Key { text, word } => Step::Key(Key::with_word(text, *word)),
            Segment::Index(index) => Step::Index(*index),
        }))
    }
}

impl<'v> Value<'v> {
    /// What a path leads to.
    pub fn get_path(&self, path: &Path) -> Option<&Value<'v>> {
        path.0.iter().try_fold(self, |value, segment| match segment {
            Segment::Key { text, .. } => value.get(text),
            Segment::Index(index) => value.get_idx(*index),
        })
    }

    /// What a path leads to, to be edited.
    pub fn get_path_mut(&mut self, path: &Path) -> Option<&mut Value<'v>> {
        path.0.iter().try_fold(self, |value, segment| match segment {
            Segment::Key { text, .. } => value.get_mut(text),
            Segment::Index(index) => value.get_idx_mut(*index),
        })
    }

    /// Puts a value where a path leads to, and returns what was there. Objects and arrays that are
    /// missing on the way are made; an index may be at most the length of its array, and then
    /// appends.
    pub fn set_path(
        &mut self,
        path: &Path,
        value: impl Into<Value<'v>>,
    ) -> Result<Option<Value<'v>>, NoSuchPlace> {
        // Nothing is made before the whole way is known to exist or to be free.
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
                return Err(path.no_place(n));
            }
            known = known.and_then(|value| match segment {
                Segment::Key { text, .. } => value.get(text),
                Segment::Index(index) => value.get_idx(*index),
            });
        }
        let is_new = known.is_none();
        let mut place = self;
        for (n, segment) in path.0.iter().enumerate() {
            let missing = || match path.0.get(n + 1) {
                Some(Segment::Key { .. }) => Value::object(),
                Some(Segment::Index(_)) => Value::array(),
                None => Value::Null,
            };
            let inner = match segment {
                Segment::Key { text, .. } => {
                    place.as_object_mut().map(|object| object.get_or_insert_with(text, missing))
                }
                Segment::Index(index) => place.as_array_mut().and_then(|array| {
                    if *index == array.len() {
                        array.push(missing());
                    }
                    array.get_mut(*index)
                }),
            };
            place = inner.ok_or_else(|| path.no_place(n))?;
        }
        let old = std::mem::replace(place, value.into());
        Ok(if is_new { None } else { Some(old) })
    }

    /// Takes out what a path leads to: a key with its value, an element, or with the empty path the
    /// whole value, which leaves `null`.
    pub fn remove_path(&mut self, path: &Path) -> Option<Value<'v>> {
        let Some((last, way)) = path.0.split_last() else { return Some(self.take()) };
        let holder = way.iter().try_fold(self, |value, segment| match segment {
            Segment::Key { text, .. } => value.get_mut(text),
            Segment::Index(index) => value.get_idx_mut(*index),
        })?;
        match last {
            Segment::Key { text, .. } => holder.remove(text),
            Segment::Index(index) => holder.as_array_mut()?.remove(*index),
        }
    }
}

#[cfg(test)]
mod tests;
