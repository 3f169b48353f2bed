//! Keys of a configuration that say where in the metadata of each event something is, such as the topic that it
//! goes to.
//!
//! ```
//! use tremor_pdk::{StructuredEvent, metadata::Text, prelude::*};
//!
//! #[tremor_pdk::config]
//! struct Config {
//!     /// The table: a name, or where events have it.
//!     table: Text,
//! }
//!
//! fn table<'a>(config: &'a Config, event: StructuredEvent<'a>) -> Result<&'a str> {
//!     match &config.table {
//!         Text::Fixed(table) => Ok(table),
//!         Text::At(place) => {
//!             let table = place.get(event).and_then(ValueRef::as_str);
//!             table.ok_or_else(|| place.wrong("table", "a text", event))
//!         }
//!     }
//! }
//! ```

use std::{fmt, str::FromStr};

use schemars::JsonSchema;
use serde::Deserialize;

use crate::{Error, EventRef, Path, Result, ValueRef};

/// A place in the metadata of an event: `%headers`, `%kafka.partition`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(try_from = "String")]
// No description: the key that is of this type has one.
#[schemars(
    with = "String",
    description = "",
    extend("pattern" = "^%", "examples" = ["%name"])
)]
pub struct Place {
    path: Path,
    text: String,
}

/// A text; or, with `%` before it, the path of a place in the metadata of the event: `orders`, `%topic`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(try_from = "String")]
#[schemars(with = "String", description = "", extend("examples" = ["text"]))]
pub enum Text {
    /// The same for all events.
    Fixed(String),
    /// What the event has there.
    At(Place),
}

impl Place {
    /// What an event has there; null is nothing.
    #[inline]
    pub fn get<'b>(&self, event: impl Into<EventRef<'b>>) -> Option<ValueRef<'b>> {
        event.into().metadata()?.get_path(&self.path).filter(|value| !value.is_null())
    }

    /// The event has nothing there, or not what is expected: an error of the kind bad data about this key of the
    /// configuration. The value itself is not shown: it may be anything.
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

impl FromStr for Place {
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

impl TryFrom<String> for Place {
    type Error = Error;

    fn try_from(text: String) -> Result<Self> {
        text.parse()
    }
}

impl TryFrom<String> for Text {
    type Error = Error;

    fn try_from(text: String) -> Result<Self> {
        if text.starts_with('%') { text.parse().map(Self::At) } else { Ok(Self::Fixed(text)) }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl fmt::Display for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fixed(text) => f.write_str(text),
            Self::At(place) => place.fmt(f),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Place, Text};
    use crate::{Batch, ErrorKind, ValueRef, literal};

    #[test]
    fn a_text_is_fixed_unless_it_begins_with_a_percent_sign() {
        let text = |text: &str| Text::try_from(text.to_owned());
        assert_eq!(text("orders"), Ok(Text::Fixed("orders".to_owned())));
        assert_eq!(text("%a.b").map(|it| it.to_string()), Ok("%a.b".to_owned()));
        for mistake in [text("%a[").map(drop), "headers".parse::<Place>().map(drop)] {
            assert_eq!(mistake.map_err(|it| it.kind()), Err(ErrorKind::CONFIGURATION));
        }
    }

    #[test]
    fn what_is_not_as_expected_is_said_without_its_value() {
        let mut batch = Batch::new();
        for metadata in [literal!({ "to": "x" }), literal!({ "to": 17 }), literal!({ "to": null })]
        {
            batch.push_message(b"");
            batch.last_mut().unwrap().set_metadata(metadata);
        }
        let place: Place = "%to".parse().unwrap();
        let found = batch.iter().map(|event| {
            let text = place.get(event).and_then(ValueRef::as_str);
            text.map(str::to_owned).ok_or_else(|| place.wrong("topic", "a text", event).to_string())
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
