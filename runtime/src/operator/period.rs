//! Lengths of time in operators' configurations.

use std::{fmt, num::NonZeroU64};

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, de::Error};

use crate::flow::parse_duration;

/// A length of time in ns, written as everywhere in a flow: `250ms`, `1s`, `5m`, `24h`. Not zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Period(NonZeroU64);

impl Period {
    pub(super) const SECOND: Self = Self(NonZeroU64::new(1_000_000_000).expect("not zero"));

    #[inline]
    pub(super) const fn ns(self) -> u64 {
        self.0.get()
    }
}

impl fmt::Display for Period {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", std::time::Duration::from_nanos(self.ns()))
    }
}

impl<'de> Deserialize<'de> for Period {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let ns = parse_duration(&text).and_then(|time| u64::try_from(time.as_nanos()).ok());
        ns.and_then(NonZeroU64::new).map(Self).ok_or_else(|| {
            D::Error::custom(format_args!(
                "expected a time with its unit and above zero, such as `250ms` or `5s`, found \
                 `{text}`"
            ))
        })
    }
}

impl JsonSchema for Period {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Period".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "string",
            "pattern": "^[0-9]+ *(ms|s|m|h)$",
            "description": "A whole number and `ms`, `s`, `m` or `h`, such as `250ms`.",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::Period;

    #[test]
    fn a_period_is_a_time_with_its_unit_and_not_zero() {
        let read = |text: &str| serde_json::from_str::<Period>(&format!("\"{text}\""));
        assert_eq!(read("250ms").unwrap().ns(), 250_000_000);
        assert_eq!(read("1s").unwrap(), Period::SECOND);
        for text in ["0s", "5", "1 day", "999999999h"] {
            assert!(read(text).unwrap_err().to_string().contains(text));
        }
    }
}
