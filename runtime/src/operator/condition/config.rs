//! Configuration of conditions.

use regex::Regex;
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, de::Error as _};
use tremor_abi::value::from_value;
use tremor_pdk::{Error, Result, Value, template::Field};

use super::{Comparison, Condition, Order};

/// Condition on an event: `field` with exactly one comparison, or exactly one of `all`, `any` and `not`.
#[tremor_pdk::config]
#[derive(Clone, Debug, Default)]
pub(crate) struct Config {
    /// Field that is compared.
    field: Option<Field>,
    /// The field exists and has this value. Numbers are compared by value: 1 equals 1.0.
    #[serde(default, deserialize_with = "given")]
    #[schemars(with = "Option<serde_json::Value>")]
    equals: Option<Value<'static>>,
    /// The field exists and has one of these values.
    #[schemars(with = "Option<Vec<serde_json::Value>>")]
    one_of: Option<Vec<Value<'static>>>,
    /// The field exists (`true`), even if it is `null`, or does not exist (`false`).
    exists: Option<bool>,
    /// The field is a text that this regular expression matches somewhere.
    matches: Option<String>,
    /// The field is a text that contains this text, or an array that contains this element.
    #[serde(default, deserialize_with = "given")]
    #[schemars(with = "Option<serde_json::Value>")]
    contains: Option<Value<'static>>,
    /// The field is a text that starts with this text.
    starts_with: Option<String>,
    /// The field is a text that ends with this text.
    ends_with: Option<String>,
    /// The field is a number less than this number, or a text that sorts before this text.
    #[schemars(with = "Option<serde_json::Value>")]
    less: Option<Value<'static>>,
    /// The field is less than this value, or equal.
    #[schemars(with = "Option<serde_json::Value>")]
    less_or_equal: Option<Value<'static>>,
    /// The field is a number greater than this number, or a text that sorts after this text.
    #[schemars(with = "Option<serde_json::Value>")]
    greater: Option<Value<'static>>,
    /// The field is greater than this value, or equal.
    #[schemars(with = "Option<serde_json::Value>")]
    greater_or_equal: Option<Value<'static>>,
    /// Every one of these conditions holds.
    all: Option<Vec<Self>>,
    /// At least one of these conditions holds.
    any: Option<Vec<Self>>,
    /// This condition does not hold. The value `true` instead of a condition negates the comparison, `all` or `any`
    /// next to this key.
    not: Option<Not>,
}

/// Deserialises a value in such a way that `value: null` differs from a missing key.
pub(in crate::operator) fn given<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<Value<'static>>, D::Error> {
    Value::deserialize(deserializer).map(Some)
}

#[derive(Clone, Debug, JsonSchema)]
#[serde(untagged)]
enum Not {
    Opposite(bool),
    Of(Box<Config>),
}

impl<'de> Deserialize<'de> for Not {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let value = Value::deserialize(deserializer)?;
        match value.as_bool() {
            Some(opposite) => Ok(Self::Opposite(opposite)),
            None => from_value(&value).map(Self::Of).map_err(D::Error::custom),
        }
    }
}

const COMPARISONS: &str = "`equals`, `one_of`, `exists`, `matches`, `contains`, `starts_with`, \
    `ends_with`, `less`, `less_or_equal`, `greater` or `greater_or_equal`";

impl Config {
    /// Compiles the condition.
    ///
    /// # Errors
    /// Returns the reason why the condition is invalid, and the part of the condition to which it applies.
    pub(in crate::operator) fn compile(self) -> Result<Condition> {
        let opposite = matches!(self.not, Some(Not::Opposite(true)));
        let not_of = match &self.not {
            Some(Not::Of(config)) => Some(config.as_ref().clone()),
            _ => None,
        };
        let forms =
            [self.field.is_some(), self.all.is_some(), self.any.is_some(), not_of.is_some()];
        if forms.into_iter().filter(|given| *given).count() != 1 {
            return Err(Error::configuration(
                "expected `field` with a comparison, or exactly one of `all`, `any` and `not`",
            ));
        }
        let is_opposite = |condition| {
            if opposite { Condition::Not(Box::new(condition)) } else { condition }
        };
        let mut comparisons = self.comparisons()?;
        if let Some(field) = self.field {
            let (Some(comparison), None) = (comparisons.pop(), comparisons.pop()) else {
                return Err(Error::configuration(format_args!(
                    "`field`: expected exactly one comparison for `{field}`: {COMPARISONS}"
                )));
            };
            return Ok(is_opposite(Condition::Field(field, comparison)));
        }
        if !comparisons.is_empty() {
            return Err(Error::configuration("expected a `field` for the comparison, found none"));
        }
        let condition = match (self.all, self.any, not_of) {
            (Some(all), ..) => Condition::All(list("all", all)?),
            (_, Some(any), _) => Condition::Any(list("any", any)?),
            (.., Some(not)) => {
                Condition::Not(Box::new(not.compile().map_err(|error| error.context("`not`"))?))
            }
            _ => unreachable!("one of them was counted above"),
        };
        Ok(is_opposite(condition))
    }

    fn comparisons(&self) -> Result<Vec<Comparison>> {
        let mut found = Vec::new();
        if let Some(value) = &self.equals {
            found.push(match value.as_str() {
                Some(text) => Comparison::Text(text.into()),
                None => Comparison::Equals(value.clone()),
            });
        }
        if let Some(values) = &self.one_of {
            found.push(Comparison::OneOf(values.as_slice().into()));
        }
        if let Some(exists) = self.exists {
            found.push(Comparison::Exists(exists));
        }
        if let Some(pattern) = &self.matches {
            let regex = Regex::new(pattern).map_err(|error| wrong("matches", error))?;
            found.push(Comparison::Matches(regex));
        }
        if let Some(value) = &self.contains {
            found.push(Comparison::Contains(value.clone()));
        }
        if let Some(text) = &self.starts_with {
            found.push(Comparison::StartsWith(text.as_str().into()));
        }
        if let Some(text) = &self.ends_with {
            found.push(Comparison::EndsWith(text.as_str().into()));
        }
        for (name, limit, order) in [
            ("less", &self.less, Order::Less),
            ("less_or_equal", &self.less_or_equal, Order::LessOrEqual),
            ("greater", &self.greater, Order::Greater),
            ("greater_or_equal", &self.greater_or_equal, Order::GreaterOrEqual),
        ] {
            let Some(limit) = limit else { continue };
            let is_number = limit.cast_f64().is_some() || limit.view().as_number_text().is_some();
            if !is_number && limit.as_str().is_none() {
                let what = format_args!("expected a number or a text, found {limit}");
                return Err(wrong(name, what));
            }
            found.push(Comparison::Order(order, limit.clone()));
        }
        Ok(found)
    }
}

fn list(key: &str, conditions: Vec<Config>) -> Result<Box<[Condition]>> {
    if conditions.is_empty() {
        return Err(wrong(key, "expected at least one condition, found none"));
    }
    let compiled = conditions.into_iter().enumerate().map(|(position, condition)| {
        condition.compile().map_err(|error| error.context(format_args!("`{key}[{position}]`")))
    });
    compiled.collect()
}

fn wrong(key: &str, what: impl std::fmt::Display) -> Error {
    Error::configuration(format_args!("`{key}`: {what}"))
}
