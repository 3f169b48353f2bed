//! Durations and sizes with units, as people write them in flow files: `250ms`, `100MiB`. The types are for
//! configuration keys.

pub(crate) mod parse;

use std::{fmt, time::Duration};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use self::parse::{parse_size, parse_time};
use crate::Error;

/// A duration above zero that is written with its unit: `250ms`, `5s`, `2m`, `1h`.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize, Serialize, JsonSchema,
)]
#[serde(try_from = "Written", into = "String")]
// The configuration key that has this type has a description of its own.
#[schemars(
    inline,
    description = "",
    with = "String",
    extend("pattern" = "^[0-9]+ *(ms|s|m|h)$", "examples" = ["10s"])
)]
pub struct Interval {
    ns: u64,
}

impl Interval {
    /// Creates an interval of `milliseconds` ms.
    ///
    /// # Panics
    /// Panics if `milliseconds` is 0 or more than about 584 years. In a constant, the panic is a compile error.
    pub const fn of_ms(milliseconds: u64) -> Self {
        assert!(milliseconds > 0);
        Self { ns: milliseconds.checked_mul(1_000_000).expect("less than 584 years") }
    }

    /// Returns the interval as a [`Duration`].
    pub const fn get(self) -> Duration {
        Duration::from_nanos(self.ns)
    }

    /// Returns the interval in ns, the unit of the times of events.
    #[inline]
    pub const fn ns(self) -> u64 {
        self.ns
    }
}

/// The value of a key of the type [`Interval`] before it is checked. Values other than text are accepted here, so that
/// the error can ask for a unit.
#[derive(Deserialize)]
#[serde(untagged)]
enum Written {
    WithUnit(String),
    Other(serde_json::Value),
}

impl TryFrom<Written> for Interval {
    type Error = Error;

    fn try_from(written: Written) -> Result<Self, Error> {
        let text = match written {
            Written::WithUnit(text) => text,
            Written::Other(value) => value.to_string(),
        };
        let ns = parse_time(&text).and_then(|time| u64::try_from(time.as_nanos()).ok());
        ns.filter(|ns| *ns > 0).map(|ns| Self { ns }).ok_or_else(|| {
            Error::configuration(format!(
                "expected a time with its unit and above zero, found `{text}`; write a whole number and `ms`, `s`, \
                 `m` or `h`, such as `250ms` or `5s`"
            ))
        })
    }
}

impl From<Interval> for String {
    fn from(interval: Interval) -> Self {
        interval.to_string()
    }
}

impl fmt::Display for Interval {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ms = self.ns / 1_000_000;
        if ms.is_multiple_of(1_000) { write!(f, "{}s", ms / 1_000) } else { write!(f, "{ms}ms") }
    }
}

/// A size of at least one byte, written as a number of bytes or as a number with a unit: `64KiB`, `100MiB`, `1GiB`.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize, Serialize, JsonSchema,
)]
#[serde(try_from = "Text", into = "u64")]
#[schemars(
    inline,
    description = "",
    with = "serde_json::Value",
    extend(
        "type" = ["integer", "string"],
        "minimum" = 1,
        "pattern" = "^[0-9]+ *(B|KiB|MiB|GiB|kB|MB|GB)$",
        "examples" = ["64KiB"]
    )
)]
pub struct Size(u64);

/// The value of a key of the type [`Size`] before it is checked.
#[derive(Deserialize)]
#[serde(untagged)]
enum Text {
    Bytes(u64),
    WithUnit(String),
}

impl Size {
    /// Creates a size of `bytes` bytes.
    ///
    /// # Panics
    /// Panics if `bytes` is 0. In a constant, the panic is a compile error.
    pub const fn of_bytes(bytes: u64) -> Self {
        assert!(bytes > 0);
        Self(bytes)
    }

    /// Returns the number of bytes.
    pub const fn get(self) -> u64 {
        self.0
    }
}

impl TryFrom<Text> for Size {
    type Error = Error;

    fn try_from(text: Text) -> Result<Self, Error> {
        let (bytes, found) = match text {
            Text::Bytes(bytes) => (Some(bytes), bytes.to_string()),
            Text::WithUnit(text) => (parse_size(&text), text),
        };
        bytes.filter(|bytes| *bytes > 0).map(Self).ok_or_else(|| {
            Error::configuration(format!(
                "expected a number of bytes, 1 or more, alone or with `KiB`, `MiB` or `GiB`, such as \
                 `100MiB`, found `{found}`"
            ))
        })
    }
}

impl From<Size> for u64 {
    fn from(size: Size) -> Self {
        size.0
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use schemars::{JsonSchema, schema_for};
    use serde_json::{Value, from_value, json};

    use super::{Interval, Size};

    #[test]
    fn interval_has_a_unit_and_is_above_zero() {
        let read = |text: &str| from_value::<Interval>(json!(text));
        assert_eq!(read("250ms").unwrap(), Interval::of_ms(250));
        assert_eq!(read("2 m").unwrap().get(), Duration::from_mins(2));
        assert_eq!(read("1s").unwrap().ns(), 1_000_000_000);
        let text = |ms| serde_json::to_value(Interval::of_ms(ms)).unwrap();
        assert_eq!((text(2_000), text(2_050)), (json!("2s"), json!("2050ms")));
        for text in ["0s", "5", "1 day", "999999999h"] {
            let error = read(text).unwrap_err().to_string();
            assert!(error.contains(&format!("found `{text}`; write ")), "{error}");
        }
        for value in [json!(5), json!(2.5), json!(true), json!(["5s"])] {
            let error = from_value::<Interval>(value.clone()).unwrap_err().to_string();
            assert!(error.contains(&format!("found `{value}`; write ")), "{error}");
            assert!(error.ends_with("such as `250ms` or `5s`"), "{error}");
        }
    }

    #[test]
    fn size_is_a_number_of_bytes_or_has_a_unit() {
        let read = |size: Value| from_value::<Size>(size);
        assert_eq!(read(json!("100MiB")).unwrap(), Size::of_bytes(100 << 20));
        assert_eq!(read(json!(7)).unwrap().get(), 7);
        for size in [json!(0), json!("0KiB"), json!("1Mb"), json!("5")] {
            let error = read(size).unwrap_err().to_string();
            assert!(error.starts_with("expected a number of bytes, 1 or more"), "{error}");
        }
    }

    #[test]
    fn schemas_are_inlined() {
        assert!(Interval::inline_schema() && Size::inline_schema());
        for schema in [schema_for!(Interval), schema_for!(Size)] {
            assert!(schema.get("pattern").is_some());
        }
    }
}
