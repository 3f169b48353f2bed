//! Times and sizes with their units, as people write them: `250ms`, `100MiB`.

use std::{borrow::Cow, time::Duration};

use tremor_pdk::{
    Error,
    schemars::{JsonSchema, Schema, SchemaGenerator, json_schema},
    serde::{Deserialize, Serialize},
};

/// A time of more than nothing, with its unit: `250ms`, `5s`, `2m`, `1h`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(crate = "tremor_pdk::serde", try_from = "String", into = "String")]
pub struct Interval(Duration);

impl Interval {
    /// So many milliseconds.
    ///
    /// # Panics
    /// Where that is none: at compile time for a default.
    pub const fn of_ms(milliseconds: u64) -> Self {
        assert!(milliseconds > 0);
        Self(Duration::from_millis(milliseconds))
    }

    /// As a time.
    pub const fn get(self) -> Duration {
        self.0
    }
}

impl TryFrom<String> for Interval {
    type Error = Error;

    fn try_from(text: String) -> Result<Self, Error> {
        let units = [("ms", 1), ("s", 1_000), ("m", 60_000), ("h", 3_600_000)];
        match parse(&text, &units) {
            Some(milliseconds) if milliseconds > 0 => Ok(Self::of_ms(milliseconds)),
            _ => Err(Error::configuration(format!(
                "`{text}` is no time: write a whole number from 1 on and `ms`, `s`, `m` or `h`, such \
                 as `250ms` or `1h`"
            ))),
        }
    }
}

impl From<Interval> for String {
    fn from(interval: Interval) -> Self {
        let ms = interval.0.as_millis();
        if ms.is_multiple_of(1_000) { format!("{}s", ms / 1_000) } else { format!("{ms}ms") }
    }
}

impl JsonSchema for Interval {
    fn schema_name() -> Cow<'static, str> {
        "Interval".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_generator: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string", "pattern": "^[0-9]+ *(ms|s|m|h)$" })
    }
}

/// A size of at least a byte: a number of bytes, or a number and its unit: `64KiB`, `100MiB`, `1GiB`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(crate = "tremor_pdk::serde", try_from = "Text", into = "u64")]
pub struct Size(u64);

/// What a size may be written as.
#[derive(Deserialize)]
#[serde(crate = "tremor_pdk::serde", untagged)]
enum Text {
    Bytes(u64),
    WithUnit(String),
}

impl Size {
    /// In bytes.
    pub const fn get(self) -> u64 {
        self.0
    }
}

impl TryFrom<Text> for Size {
    type Error = Error;

    fn try_from(text: Text) -> Result<Self, Error> {
        let units = [
            ("B", 1),
            ("KiB", 1 << 10),
            ("MiB", 1 << 20),
            ("GiB", 1 << 30),
            ("kB", 1_000),
            ("MB", 1_000_000),
            ("GB", 1_000_000_000),
        ];
        let (bytes, found) = match text {
            Text::Bytes(bytes) => (Some(bytes), bytes.to_string()),
            Text::WithUnit(text) => (parse(&text, &units), text),
        };
        bytes.filter(|&bytes| bytes > 0).map(Self).ok_or_else(|| {
            Error::configuration(format!(
                "`{found}` is no size: write a whole number of bytes from 1 on, or a number and `KiB`, \
                 `MiB` or `GiB`, such as `100MiB`"
            ))
        })
    }
}

impl From<Size> for u64 {
    fn from(size: Size) -> Self {
        size.0
    }
}

impl JsonSchema for Size {
    fn schema_name() -> Cow<'static, str> {
        "Size".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_generator: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": ["integer", "string"],
            "minimum": 1,
            "pattern": "^[0-9]+ *(B|KiB|MiB|GiB|kB|MB|GB)$"
        })
    }
}

/// A whole number, in the smallest of these units.
fn parse(text: &str, units: &[(&str, u64)]) -> Option<u64> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at(digits);
    let (_, factor) = units.iter().find(|(name, _)| *name == unit.trim_start())?;
    number.parse::<u64>().ok()?.checked_mul(*factor)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tremor_pdk::{
        schemars::SchemaGenerator,
        serde::{
            Deserialize,
            de::{
                IntoDeserializer,
                value::{Error, U64Deserializer},
            },
        },
    };

    use super::{Interval, JsonSchema, Size};

    fn time(text: &str) -> Result<Duration, Error> {
        Interval::deserialize(text.into_deserializer()).map(Interval::get)
    }

    fn size(text: &str) -> Result<u64, Error> {
        Size::deserialize(text.into_deserializer()).map(Size::get)
    }

    #[test]
    fn times_have_units_and_are_more_than_nothing() {
        assert_eq!(time("250ms"), Ok(Duration::from_millis(250)));
        assert_eq!(String::from(Interval::of_ms(2_000)), "2s");
        assert_eq!(String::from(Interval::of_ms(2_050)), "2050ms");
        assert_eq!(time("2 m"), Ok(Duration::from_mins(2)));
        for text in ["", "5", "s", "0s", "-1s", "1.5s", "5 days", "99999999999999999999s"] {
            assert!(time(text).unwrap_err().to_string().contains("no time"), "{text}");
        }
    }

    #[test]
    fn sizes_are_bytes_or_have_units() {
        assert_eq!(size("100MiB"), Ok(100 << 20));
        assert_eq!(size("5 kB"), Ok(5_000));
        let bytes: U64Deserializer<Error> = 7_u64.into_deserializer();
        assert_eq!(Size::deserialize(bytes).map(Size::get), Ok(7));
        for text in ["", "0", "5", "0KiB", "1Mb", "99999999999999999999GiB", "18014398509481984KiB"]
        {
            assert!(size(text).unwrap_err().to_string().contains("no size"), "{text}");
        }
    }

    #[test]
    fn schemas_are_within_the_keys() {
        assert!(Interval::inline_schema() && Size::inline_schema());
        let mut generator = SchemaGenerator::default();
        assert!(Interval::json_schema(&mut generator).get("pattern").is_some());
        assert!(Size::json_schema(&mut generator).get("pattern").is_some());
    }
}
