//! Paths of fields in the payload or the metadata of an event.

use std::borrow::Cow;

use tremor_pdk::{Error, EventRef, Path, Result, Shape};

/// Path of the field with the key of an event. A path that starts with `%` refers to the metadata.
#[derive(Debug)]
pub(crate) struct KeyField {
    text: String,
    in_metadata: bool,
    path: Path,
}

impl KeyField {
    pub(crate) fn new(text: &str) -> Result<Self> {
        let path = path("key", text.strip_prefix('%').unwrap_or(text))?;
        Ok(Self { text: text.to_owned(), in_metadata: text.starts_with('%'), path })
    }

    /// Returns the text of the field: text, or the text of a number. Returns `None` if the field is missing or has
    /// another type.
    pub(crate) fn get<'b>(&self, event: EventRef<'b>) -> Option<Cow<'b, str>> {
        let root = if self.in_metadata { event.metadata() } else { event.value() };
        let value = root?.get_path(&self.path)?;
        if let Some(text) = value.as_str() {
            return Some(text.into());
        }
        if let Some(data) = value.as_bytes() {
            return std::str::from_utf8(data).ok().map(Into::into);
        }
        let is_number = matches!(
            value.shape(),
            Shape::I64(_) | Shape::U64(_) | Shape::F64(_) | Shape::Number(_)
        );
        is_number.then(|| value.to_string().into())
    }

    /// Returns the path for messages.
    pub(crate) fn name(&self) -> &str {
        if self.text.is_empty() { "." } else { &self.text }
    }
}

/// Compiles the path of a field of the payload that the configuration has under `key`. `.` is the whole payload.
pub(crate) fn path(key: &str, text: &str) -> Result<Path> {
    text.strip_prefix('.')
        .unwrap_or(text)
        .parse()
        .map_err(|error| Error::configuration(format_args!("invalid `{key}` `{text}`: {error}")))
}
