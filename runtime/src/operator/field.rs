//! Where operators look: a place in an event's payload or in its metadata.

use std::{fmt, str::FromStr};

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, de::Error};
use tremor_pdk::{EventRef, Path, PathError, ValueRef};

/// A place in an event, written as a path: `host.name`, `tags[0]`. One that starts with `%` is one of
/// the metadata, `%class`; `%` alone is all of the metadata, and nothing the whole payload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Field {
    in_metadata: bool,
    path: Path,
}

impl Field {
    /// What is there.
    #[inline]
    pub(super) fn get<'b>(&self, event: EventRef<'b>) -> Option<ValueRef<'b>> {
        let root = if self.in_metadata { event.metadata() } else { event.value() };
        root?.get_path(&self.path)
    }

    /// As [`Field::get`], for several fields of one event.
    #[inline]
    pub(super) fn get_in<'b>(&self, parts: &EventParts<'b>) -> Option<ValueRef<'b>> {
        let root = if self.in_metadata { parts.metadata } else { parts.payload };
        root?.get_path(&self.path)
    }
}

/// Where the fields of an event lie.
pub(super) struct EventParts<'b> {
    payload: Option<ValueRef<'b>>,
    metadata: Option<ValueRef<'b>>,
}

impl<'b> EventParts<'b> {
    #[inline]
    pub(super) fn of(event: EventRef<'b>) -> Self {
        Self { payload: event.value(), metadata: event.metadata() }
    }
}

impl FromStr for Field {
    type Err = PathError;

    fn from_str(text: &str) -> Result<Self, PathError> {
        let (in_metadata, path) = match text.strip_prefix('%') {
            Some(path) => (true, path),
            None => (false, text),
        };
        let path = path.parse().map_err(|error: PathError| PathError {
            offset: error.offset + usize::from(in_metadata),
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
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
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
            "description": "A path such as `host.name` or `tags[0]`; one that starts with `%`, such \
                as `%class`, leads into the metadata.",
        })
    }
}

#[cfg(test)]
mod tests {
    use tremor_pdk::{Batch, literal};

    use super::Field;

    #[test]
    fn a_field_lies_in_the_payload_or_after_a_percent_sign_in_the_metadata() {
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
    fn a_bad_path_is_an_error_that_says_where() {
        assert_eq!("%a[".parse::<Field>().unwrap_err().offset, 2);
        let error = serde_json::from_str::<Field>("\"a..b\"").unwrap_err().to_string();
        assert!(error.contains("`a..b`") && error.contains("offset"), "{error}");
    }
}
