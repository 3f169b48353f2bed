//! Paths of fields in the payload or the metadata of an event.

use tremor_pdk::{Error, EventRef, Path, Result, ValueRef};

/// Path of a field, such as `message` or `.host.name`. A path that starts with `%` refers to the metadata. The paths
/// `.` and the empty path are the whole payload.
#[derive(Clone, Debug)]
pub(crate) struct Field {
    in_metadata: bool,
    path: Path,
    is_whole: bool,
}

impl Field {
    /// Compiles the path that the configuration has under `key`.
    pub(crate) fn new(key: &str, text: &str) -> Result<Self> {
        let (in_metadata, path) = match text.strip_prefix('%') {
            Some(path) => (true, path),
            None => (false, text.strip_prefix('.').unwrap_or(text)),
        };
        let offset = text.len() - path.len();
        let parsed = path.parse().map_err(|mut error: tremor_pdk::PathError| {
            error.offset += offset;
            Error::configuration(format_args!("invalid `{key}` `{text}`: {error}"))
        })?;
        Ok(Self { in_metadata, path: parsed, is_whole: path.is_empty() })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn is_in_metadata(&self) -> bool {
        self.in_metadata
    }

    /// Returns whether the path is that of the whole payload.
    pub(crate) fn is_payload(&self) -> bool {
        self.is_whole && !self.in_metadata
    }

    /// Returns the value of the field.
    #[inline]
    pub(crate) fn get<'b>(&self, event: EventRef<'b>) -> Option<ValueRef<'b>> {
        let root = if self.in_metadata { event.metadata() } else { event.value() };
        root?.get_path(&self.path)
    }

    /// Returns the name of the field in messages.
    pub(crate) fn name(&self) -> String {
        match (self.in_metadata, self.is_whole) {
            (false, true) => "the event".to_owned(),
            (false, false) => format!("`{}`", self.path),
            (true, _) => format!("`%{}`", self.path),
        }
    }
}
