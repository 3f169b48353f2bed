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

/// The value of a key with a unit before it is checked. Values of any type are accepted here, so that the error can
/// describe the expected ones.
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
#[serde(try_from = "Written", into = "u64")]
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

impl Written {
    /// Returns the number of bytes.
    ///
    /// # Errors
    /// The value is not a number of bytes from 1 to `most`.
    fn bytes(self, most: u64) -> Result<u64, Error> {
        let (bytes, found) = match self {
            Self::WithUnit(text) => (parse_size(&text), text),
            Self::Other(value) => (value.as_u64(), value.to_string()),
        };
        bytes.filter(|bytes| (1..=most).contains(bytes)).ok_or_else(|| {
            let range = if most == u64::MAX { "or more".to_owned() } else { format!("to {most}") };
            Error::configuration(format!(
                "expected a number of bytes, 1 {range}, alone or with `KiB`, `MiB` or `GiB`, such as `64KiB`, found \
                 `{found}`"
            ))
        })
    }
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

    /// Returns the number of bytes. Use [`Size::in_memory`] unless the size is that of a file or another thing outside of
    /// memory.
    pub const fn get(self) -> u64 {
        self.0
    }

    /// Returns the number of bytes, for data in memory. A number that exceeds the address space is reduced to the largest
    /// one.
    pub fn in_memory(self) -> usize {
        usize::try_from(self.0).unwrap_or(usize::MAX)
    }
}

impl TryFrom<Written> for Size {
    type Error = Error;

    fn try_from(written: Written) -> Result<Self, Error> {
        written.bytes(u64::MAX).map(Self)
    }
}

impl From<Size> for u64 {
    fn from(size: Size) -> Self {
        size.0
    }
}

/// A size of 1 to `MOST` bytes, written as a number of bytes or as a number with a unit: `64KiB`, `4MiB`.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize, Serialize, JsonSchema,
)]
#[serde(try_from = "Written", into = "u32")]
#[schemars(
    inline,
    description = "",
    with = "serde_json::Value",
    extend(
        "type" = ["integer", "string"],
        "minimum" = 1,
        "maximum" = MOST,
        "pattern" = "^[0-9]+ *(B|KiB|MiB|GiB|kB|MB|GB)$",
        "examples" = [MOST.min(64 << 10)]
    )
)]
pub struct LimitedSize<const MOST: u32>(u32);

/// Maximum number of bytes that a source reads at once, from 1 byte to 64 MiB.
///
/// The type is for a configuration key, usually `chunk_bytes`.
pub type ChunkBytes = LimitedSize<{ 64 << 20 }>;

/// Maximum length of a message, from 1 byte to 1 GiB.
///
/// The type is for a configuration key, usually `max_length`.
pub type MessageBytes = LimitedSize<{ 1 << 30 }>;

impl<const MOST: u32> LimitedSize<MOST> {
    /// Largest size in bytes.
    pub const MOST: usize = MOST as usize;

    /// Creates a size of `bytes` bytes.
    ///
    /// # Panics
    /// Panics if `bytes` is 0 or more than [`LimitedSize::MOST`]. In a constant, the panic is a compile error.
    #[allow(clippy::cast_possible_truncation)] // `MOST` fits
    pub const fn new(bytes: usize) -> Self {
        assert!(bytes > 0 && bytes <= Self::MOST);
        Self(bytes as u32)
    }

    /// Returns the number of bytes.
    pub const fn get(self) -> usize {
        self.0 as usize
    }
}

impl<const MOST: u32> TryFrom<Written> for LimitedSize<MOST> {
    type Error = Error;

    fn try_from(written: Written) -> Result<Self, Error> {
        let bytes = written.bytes(MOST.into())?;
        Ok(Self(u32::try_from(bytes).unwrap_or(MOST)))
    }
}

impl<const MOST: u32> From<LimitedSize<MOST>> for u32 {
    fn from(size: LimitedSize<MOST>) -> Self {
        size.0
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use schemars::{JsonSchema, schema_for};
    use serde_json::{Value, from_value, json};

    use super::{ChunkBytes, Interval, MessageBytes, Size};

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
        for size in [json!(0), json!("0KiB"), json!("1Mb"), json!("5"), json!(1.5), json!([])] {
            let error = read(size).unwrap_err().to_string();
            assert!(error.starts_with("expected a number of bytes, 1 or more"), "{error}");
        }
    }

    #[test]
    fn limited_size_is_at_most_its_limit() {
        let read = |size: Value| from_value::<ChunkBytes>(size);
        for size in [json!(67_108_864), json!("64MiB"), json!("65536 KiB")] {
            assert_eq!(read(size).unwrap(), ChunkBytes::new(64 << 20));
        }
        assert_eq!(serde_json::to_value(ChunkBytes::new(7)).unwrap(), json!(7));
        for (size, found) in
            [(json!(0), "0"), (json!("65MiB"), "65MiB"), (json!(u64::MAX), "18446744073709551615")]
        {
            let expected = format!(
                "expected a number of bytes, 1 to 67108864, alone or with `KiB`, `MiB` or `GiB`, such as `64KiB`, found \
                 `{found}`"
            );
            assert_eq!(read(size).unwrap_err().to_string(), expected);
        }
        let schema = schema_for!(MessageBytes).to_value();
        assert_eq!((&schema["minimum"], &schema["maximum"]), (&json!(1), &json!(1 << 30)));
    }

    #[test]
    fn schemas_are_inlined() {
        assert!(Interval::inline_schema() && Size::inline_schema() && ChunkBytes::inline_schema());
        for schema in [schema_for!(Interval), schema_for!(Size), schema_for!(ChunkBytes)] {
            assert!(schema.get("pattern").is_some());
        }
    }
}
