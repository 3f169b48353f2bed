//! Conversion of texts to values of other types.

use std::collections::BTreeMap;

use tremor_pdk::{Exact, Writer};

use crate::stop::Stop;

/// The type of a value.
#[tremor_pdk::config]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub enum Type {
    /// Text.
    #[default]
    String,
    /// A whole number of at most 64 bits.
    Integer,
    /// A number.
    Float,
    /// `true` or `false`.
    Boolean,
}

impl Type {
    /// Writes `text`, which is at byte `at` of the parsed text, as a value of this type.
    pub(crate) fn write(self, text: &str, at: usize, out: &mut Writer<'_>) -> Result<(), Stop> {
        match self {
            Self::String => out.str(text),
            Self::Integer => match (text.parse(), text.parse()) {
                (Ok(number), _) => out.i64(number),
                (_, Ok(number)) => out.u64(number),
                _ => return Err(Stop::new(at, "an integer of at most 64 bits")),
            },
            Self::Float => match Exact::float(text) {
                Some(number) if text.parse().is_ok_and(f64::is_finite) => out.exact(&number),
                _ => return Err(Stop::new(at, "a number within the range of floats")),
            },
            Self::Boolean => match text {
                "true" => out.bool(true),
                "false" => out.bool(false),
                _ => return Err(Stop::new(at, "`true` or `false`")),
            },
        }
        Ok(())
    }

    /// Returns the type that a grok pattern names, as Logstash does.
    pub(crate) fn of_grok(name: &str) -> Option<Self> {
        Some(match name {
            "" | "string" => Self::String,
            "int" | "integer" | "long" => Self::Integer,
            "float" | "double" => Self::Float,
            "bool" | "boolean" => Self::Boolean,
            _ => return None,
        })
    }
}

/// Types of fields. Fields that are not listed are text.
#[derive(Clone, Debug, Default)]
pub(crate) struct Types(Vec<(String, Type)>);

impl Types {
    pub(crate) fn new(types: Option<&BTreeMap<String, Type>>) -> Self {
        let types = types.into_iter().flatten();
        Self(types.map(|(name, of)| (name.clone(), *of)).collect())
    }

    pub(crate) fn of(&self, name: &str) -> Type {
        self.0.iter().find(|(known, _)| known == name).map_or(Type::String, |(_, of)| *of)
    }

    /// Returns the first name that `is_known` does not accept.
    pub(crate) fn unknown(&self, is_known: impl Fn(&str) -> bool) -> Option<&str> {
        self.0.iter().map(|(name, _)| name.as_str()).find(|name| !is_known(name))
    }
}

#[cfg(test)]
mod tests {
    use super::Type;
    use crate::testing::written;

    #[test]
    fn text_becomes_a_value_of_its_type_or_an_error() {
        for (of, text, expected) in [
            (Type::String, "1", "\"1\""),
            (Type::Integer, "-9223372036854775808", "-9223372036854775808"),
            (Type::Integer, "18446744073709551615", "18446744073709551615"),
            (Type::Integer, "+7", "7"),
            (Type::Float, "1e3", "1000.0"),
            (Type::Float, "-0.5", "-0.5"),
            (Type::Float, "5", "5.0"),
            (Type::Float, "-0", "-0.0"),
            (Type::Float, "+.5", "0.5"),
            (Type::Float, "3.14159265358979323846", "3.14159265358979323846"),
            (Type::Float, "9007199254740993", "9007199254740993"),
            (Type::Float, "4.9e-325", "4.9e-325"),
            (Type::Boolean, "true", "true"),
            (Type::Boolean, "false", "false"),
        ] {
            let value = written(|out| of.write(text, 0, out));
            assert_eq!(value.as_deref(), Ok(expected), "{text}");
        }
        for (of, text) in [
            (Type::Integer, "18446744073709551616"),
            (Type::Integer, "-9223372036854775809"),
            (Type::Integer, "1.0"),
            (Type::Integer, ""),
            (Type::Float, "1e400"),
            (Type::Float, "nan"),
            (Type::Float, "inf"),
            (Type::Float, "0x1"),
            (Type::Boolean, "yes"),
        ] {
            assert!(written(|out| of.write(text, 7, out)).is_err(), "{text}");
        }
    }
}
