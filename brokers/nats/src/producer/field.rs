//! Keys of the configuration that are a text for all messages, or a place in the metadata of each event.

use std::{borrow::Cow, fmt, str::FromStr};

use tremor_pdk::{Path, prelude::*, schemars};

/// A text; or, with `%` before it, the path of a place in the metadata of the event: `orders.new`, `%subject`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(crate = "tremor_pdk::serde", try_from = "String")]
pub enum Text {
    /// The same for all messages.
    Fixed(String),
    /// What the event has there.
    At(Place),
}

/// A place in the metadata of an event: `%headers`, `%nats.headers`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(crate = "tremor_pdk::serde", try_from = "String")]
pub struct Place {
    path: Path,
    text: String,
}

impl Place {
    /// What an event has there.
    #[inline]
    pub(super) fn get<'b>(&self, event: EventRef<'b>) -> Option<ValueRef<'b>> {
        event.metadata()?.get_path(&self.path)
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

impl JsonSchema for Text {
    fn schema_name() -> Cow<'static, str> {
        "Text".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({ "type": "string" })
    }
}

impl JsonSchema for Place {
    fn schema_name() -> Cow<'static, str> {
        "Place".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({ "type": "string", "pattern": "^%" })
    }
}
