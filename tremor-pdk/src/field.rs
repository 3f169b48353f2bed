//! Paths of fields in the payload or the metadata of an event.

use std::{fmt, str::FromStr};

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, de::Error};

use crate::{EventRef, Part, Path, PathError, Result, ValueRef};

/// Path of a field, such as `host.name` or `tags[0]`.
///
/// A path that starts with `%`, such as `%class`, refers to the metadata. The path `%` is the whole metadata, and the
/// empty path is the whole payload. A path of the payload may start with a point, as in VRL: `.host.name`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Field {
    in_metadata: bool,
    path: Path,
}

impl Field {
    /// Parses the path that a configuration has under `key`.
    ///
    /// # Errors
    /// Returns an error of the kind configuration with the key, the path and the offset of the mistake.
    pub fn of_key(key: &str, path: &str) -> Result<Self> {
        path.parse().map_err(|error: PathError| {
            crate::Error::configuration(format_args!("invalid `{key}` `{path}`: {error}"))
        })
    }

    /// Returns whether the field is the whole payload.
    #[must_use]
    pub fn is_payload(&self) -> bool {
        !self.in_metadata && self.path.is_empty()
    }

    /// Returns the part of the event that contains the field.
    #[inline]
    #[must_use]
    pub const fn part(&self) -> Part {
        if self.in_metadata { Part::Metadata } else { Part::Payload }
    }

    /// Returns the path of the field in its part of the event.
    #[inline]
    #[must_use]
    pub const fn path(&self) -> &Path {
        &self.path
    }

    /// Returns whether one of the fields is a part of the other one, or both are the same.
    #[must_use]
    pub fn overlaps(&self, other: &Self) -> bool {
        self.in_metadata == other.in_metadata
            && (self.path.starts_with(&other.path) || other.path.starts_with(&self.path))
    }

    /// Returns the value of the field in an event.
    #[inline]
    #[must_use]
    pub fn get<'b>(&self, event: EventRef<'b>) -> Option<ValueRef<'b>> {
        let root = if self.in_metadata { event.metadata() } else { event.value() };
        root?.get_path(&self.path)
    }

    /// Returns the value of the field. Use this if several fields of the same event are needed.
    #[inline]
    #[must_use]
    pub fn get_in<'b>(&self, parts: &EventParts<'b>) -> Option<ValueRef<'b>> {
        let root = if self.in_metadata { parts.metadata } else { parts.payload };
        root?.get_path(&self.path)
    }
}

/// Payload and metadata of an event.
#[derive(Clone, Copy, Debug)]
pub struct EventParts<'b> {
    payload: Option<ValueRef<'b>>,
    metadata: Option<ValueRef<'b>>,
}

impl<'b> EventParts<'b> {
    /// Returns both parts of an event.
    #[inline]
    #[must_use]
    pub fn of(event: EventRef<'b>) -> Self {
        Self { payload: event.value(), metadata: event.metadata() }
    }
}

impl FromStr for Field {
    type Err = PathError;

    fn from_str(text: &str) -> std::result::Result<Self, PathError> {
        let (in_metadata, path) = match text.strip_prefix('%') {
            Some(path) => (true, path),
            None => (false, text.strip_prefix('.').unwrap_or(text)),
        };
        let path = path.parse().map_err(|error: PathError| PathError {
            offset: error.offset + text.len() - path.len(),
            ..error
        })?;
        Ok(Self { in_metadata, path })
    }
}

impl fmt::Display for Field {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.in_metadata { "%" } else { "" })?;
        self.path.fmt(f)
    }
}

impl<'de> Deserialize<'de> for Field {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(|error| D::Error::custom(format_args!("`{text}`: {error}")))
    }
}

impl JsonSchema for Field {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Field".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "string",
            "description": "A path such as `host.name` or `tags[0]`; a path that starts with `%`, such \
                as `%class`, is in the metadata.",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::Field;
    use crate::{Batch, literal};

    #[test]
    fn field_is_in_payload_or_with_percent_sign_in_metadata() {
        let mut batch = Batch::new();
        batch.push(&literal!({ "a": { "b": [1, 2] }, "%c": 3 })).unwrap();
        batch.last_mut().unwrap().set_metadata(literal!({ "class": { "name": "x" } }));
        let event = batch.get(0).unwrap();
        for (field, expected) in [
            ("a.b[1]", Some("2")),
            ("\"%c\"", Some("3")),
            ("", Some(r#"{"a":{"b":[1,2]},"%c":3}"#)),
            ("%class.name", Some("\"x\"")),
            ("%", Some(r#"{"class":{"name":"x"}}"#)),
            ("class", None),
            ("%a", None),
        ] {
            let parsed: Field = field.parse().unwrap();
            let found = parsed.get(event).map(|value| value.to_string());
            assert_eq!(found.as_deref(), expected, "{field}");
            assert_eq!(parsed.to_string(), field);
        }
    }

    #[test]
    fn payload_path_may_start_with_a_point() {
        for (text, same) in [(".a.b[0]", "a.b[0]"), (".", ""), (".\"odd key\"", "\"odd key\"")] {
            assert_eq!(text.parse::<Field>(), same.parse(), "{text}");
        }
    }

    #[test]
    fn invalid_path_is_an_error_with_its_offset() {
        assert_eq!("%a[".parse::<Field>().unwrap_err().offset, 2);
        assert_eq!(".a[".parse::<Field>().unwrap_err().offset, 2);
        assert_eq!("..a".parse::<Field>().unwrap_err().offset, 1);
        let error = serde_json::from_str::<Field>("\"a..b\"").unwrap_err().to_string();
        assert!(error.contains("`a..b`") && error.contains("offset"), "{error}");
    }
}
