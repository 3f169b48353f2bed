//! Configuration keys that take a value from each event, such as the topic of a message.
//!
//! ```
//! use std::borrow::Cow;
//! use tremor_pdk::{StructuredEvent, metadata::Text, prelude::*};
//!
//! #[tremor_pdk::config]
//! struct Config {
//!     /// Name of the table, or the path at which the metadata of events has the name.
//!     table: Text,
//! }
//!
//! fn table<'a>(config: &'a Config, event: StructuredEvent<'a>) -> Result<Cow<'a, str>> {
//!     config.table.get("table", event)
//! }
//! ```

use std::{borrow::Cow, fmt, str::FromStr};

use schemars::JsonSchema;
use serde::Deserialize;

use crate::{Error, EventRef, Path, Result, ValueRef};

/// The path of a value in the metadata of an event: `%headers`, `%kafka.partition`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(try_from = "String")]
// The configuration key that has this type has a description of its own.
#[schemars(
    with = "String",
    description = "",
    extend("pattern" = "^%", "examples" = ["%name"])
)]
pub struct FieldPath {
    path: Path,
    text: String,
}

/// A fixed text such as `orders`, or the path of a value in the metadata of each event, which begins with `%`:
/// `%topic`. With the feature `template` of this crate, also a [template](crate::template::Template) such as
/// `logs-{host}`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(try_from = "String")]
#[schemars(with = "String", description = "", extend("examples" = ["text"]))]
#[cfg_attr(feature = "template", schemars(extend("format" = "template")))]
#[non_exhaustive]
pub enum Text {
    /// The same text for all events.
    Fixed(String),
    /// The text at this path in the metadata of an event.
    At(FieldPath),
    /// A text with fields and times of an event.
    #[cfg(feature = "template")]
    Template(Box<crate::template::Template>),
}

impl Text {
    /// Returns the text if it is the same for all events.
    #[must_use]
    pub fn fixed(&self) -> Option<&str> {
        match self {
            Self::Fixed(text) => Some(text),
            _ => None,
        }
    }

    /// Returns the text for `event`. `key` is the configuration key, for errors.
    ///
    /// # Errors
    /// Returns an error of the kind bad data if the metadata has no text at the path, or if a field of the template has
    /// neither text nor a default. The error contains neither the text nor the value of a field.
    pub fn get<'a, 'b: 'a>(
        &'a self,
        key: &str,
        event: impl Into<EventRef<'b>>,
    ) -> Result<Cow<'a, str>> {
        let event = event.into();
        match self {
            Self::Fixed(text) => Ok(text.into()),
            Self::At(path) => {
                let text = path.get(event).and_then(ValueRef::as_str);
                text.map(Cow::Borrowed).ok_or_else(|| path.wrong(key, "a text", event))
            }
            #[cfg(feature = "template")]
            Self::Template(template) => {
                let mut text = String::new();
                template.render(event, &mut text).map_err(|why| {
                    Error::bad_data(format_args!("`{key}` of the event, `{template}`: {why}"))
                })?;
                Ok(text.into())
            }
        }
    }
}

impl FieldPath {
    /// Returns the value at this path in the metadata of `event`; `None` if there is no value or the value is `null`.
    #[inline]
    pub fn get<'b>(&self, event: impl Into<EventRef<'b>>) -> Option<ValueRef<'b>> {
        event.into().metadata()?.get_path(&self.path).filter(|value| !value.is_null())
    }

    /// Returns an error of the kind bad data for an event without a value of the expected type at this path.
    ///
    /// `key` is the configuration key. The error does not contain the value, because the value may be a secret or
    /// very long.
    pub fn wrong<'b>(
        &self,
        key: &str,
        expected: impl fmt::Display,
        event: impl Into<EventRef<'b>>,
    ) -> Error {
        let found = if self.get(event).is_some() { "another value" } else { "nothing" };
        Error::bad_data(format_args!(
            "`{key}` of the event, `{self}`: expected {expected}, found {found}"
        ))
    }
}

impl FromStr for FieldPath {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let path = text.strip_prefix('%').ok_or_else(|| {
            Error::configuration(format_args!(
                "expected `%` and a path in the metadata of an event, such as `%headers`, found `{text}`"
            ))
        })?;
        let path = path
            .parse()
            .map_err(|error| Error::configuration(format_args!("`{text}`: {error}")))?;
        Ok(Self { path, text: text.to_owned() })
    }
}

impl TryFrom<String> for FieldPath {
    type Error = Error;

    fn try_from(text: String) -> Result<Self> {
        text.parse()
    }
}

impl TryFrom<String> for Text {
    type Error = Error;

    fn try_from(text: String) -> Result<Self> {
        if text.starts_with('%') {
            return text.parse().map(Self::At);
        }
        #[cfg(feature = "template")]
        if text.contains(['{', '}']) {
            let template: crate::template::Template = text
                .parse()
                .map_err(|error| Error::configuration(format_args!("`{text}`: {error}")))?;
            return Ok(match template.constant() {
                Some(text) => Self::Fixed(text.to_owned()),
                None => Self::Template(template.into()),
            });
        }
        Ok(Self::Fixed(text))
    }
}

impl fmt::Display for FieldPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl fmt::Display for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fixed(text) => f.write_str(text),
            Self::At(path) => path.fmt(f),
            #[cfg(feature = "template")]
            Self::Template(template) => template.fmt(f),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{FieldPath, Text};
    use crate::{Batch, ErrorKind, literal};

    #[test]
    fn text_is_fixed_unless_it_begins_with_percent_sign() {
        let text = |text: &str| Text::try_from(text.to_owned());
        assert_eq!(text("orders"), Ok(Text::Fixed("orders".to_owned())));
        assert_eq!(text("%a.b").map(|parsed| parsed.to_string()), Ok("%a.b".to_owned()));
        for mistake in [text("%a[").map(drop), "headers".parse::<FieldPath>().map(drop)] {
            assert_eq!(mistake.map_err(|error| error.kind()), Err(ErrorKind::CONFIGURATION));
        }
    }

    #[cfg(feature = "template")]
    #[test]
    fn text_with_braces_is_a_template() {
        let text = |text: &str| Text::try_from(text.to_owned());
        assert_eq!(text("a{{b}}").unwrap().fixed(), Some("a{b}"));
        let mut batch = Batch::new();
        batch.push(&literal!({ "host": "h", "list": [] })).unwrap();
        batch.last_mut().unwrap().set_metadata(literal!({ "class": "c" }));
        let event = batch.get(0).unwrap();
        let get = |template: &str| {
            let text = text(template).unwrap();
            assert_eq!((text.to_string().as_str(), text.fixed()), (template, None));
            text.get("topic", event).map(String::from).map_err(|error| error.to_string())
        };
        assert_eq!(get("logs-{host}-{%class}-{x:-y}").as_deref(), Ok("logs-h-c-y"));
        let expected = "`topic` of the event, `a{list}`: expected text, a number or a truth value as `list`, found an array";
        assert_eq!(get("a{list}"), Err(expected.to_owned()));
        assert_eq!(get("%class").as_deref(), Ok("c"));
        let error = text("a{host").unwrap_err();
        assert_eq!(error.kind(), ErrorKind::CONFIGURATION);
        assert!(
            error.to_string().starts_with("`a{host`: invalid template: expected `}`"),
            "{error}"
        );
        let schema = schemars::schema_for!(Text).to_value();
        assert_eq!(schema["format"], "template");
    }

    #[test]
    fn error_does_not_contain_the_unexpected_value() {
        let mut batch = Batch::new();
        for metadata in [literal!({ "to": "x" }), literal!({ "to": 17 }), literal!({ "to": null })]
        {
            batch.push_message(b"");
            batch.last_mut().unwrap().set_metadata(metadata);
        }
        let path: FieldPath = "%to".parse().unwrap();
        let text = Text::At(path);
        let found = batch.iter().map(|event| {
            text.get("topic", event).map(String::from).map_err(|error| error.to_string())
        });
        let expected = "`topic` of the event, `%to`: expected a text, found ";
        assert_eq!(
            found.collect::<Vec<_>>(),
            [
                Ok("x".to_owned()),
                Err(format!("{expected}another value")),
                Err(format!("{expected}nothing"))
            ]
        );
    }
}
