//! The operator `filter`: keeps the events that meet a condition.

use regex::Regex;
use schemars::JsonSchema;
use serde::Deserialize;
use tremor_pdk::{
    Batch, Operator, Output, Result, Value, ValueRef,
    abi::value::{Path, to_value},
};

/// Keeps the events whose field meets the condition, and drops the others. Exactly one of
/// `equals`, `exists` and `matches` is given.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(title = "filter")]
pub(super) struct Config {
    /// The path of the field, such as `host.name` or `tags[0]`.
    field: String,
    /// The field is there and equals this value.
    #[serde(default, deserialize_with = "given")]
    equals: Option<serde_json::Value>,
    /// The field is there (`true`), or is not (`false`).
    exists: Option<bool>,
    /// The field is a string that this regular expression matches somewhere.
    matches: Option<String>,
    /// Keeps what does not meet the condition instead.
    #[serde(default)]
    not: bool,
}

/// Tells `equals: null` from no `equals`.
fn given<'de, D: serde::Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<serde_json::Value>, D::Error> {
    serde_json::Value::deserialize(deserializer).map(Some)
}

#[derive(Debug)]
enum Condition {
    Equals(Value<'static>),
    Exists(bool),
    Matches(Regex),
}

#[derive(Debug)]
pub(super) struct Filter {
    field: Path,
    condition: Condition,
    not: bool,
}

impl Filter {
    pub(super) fn new(config: &serde_json::Value) -> Result<Self, String> {
        let config = Config::deserialize(config).map_err(|error| error.to_string())?;
        let field = config.field.parse().map_err(|error| format!("field: {error}"))?;
        let condition = match (config.equals, config.exists, config.matches) {
            (Some(value), None, None) => {
                Condition::Equals(to_value(&value).map_err(|error| format!("equals: {error}"))?)
            }
            (None, Some(exists), None) => Condition::Exists(exists),
            (None, None, Some(pattern)) => Condition::Matches(
                Regex::new(&pattern).map_err(|error| format!("matches: {error}"))?,
            ),
            _ => return Err("expected exactly one of `equals`, `exists` and `matches`".to_owned()),
        };
        Ok(Self { field, condition, not: config.not })
    }

    fn keeps(&self, event: ValueRef<'_>) -> bool {
        let field = event.get_path(&self.field);
        let meets = match &self.condition {
            Condition::Equals(value) => field.is_some_and(|field| field == ValueRef::from(value)),
            Condition::Exists(exists) => field.is_some() == *exists,
            Condition::Matches(regex) => {
                field.and_then(ValueRef::as_str).is_some_and(|text| regex.is_match(text))
            }
        };
        meets != self.not
    }
}

impl Operator for Filter {
    fn process(&mut self, batch: &mut Batch, output: &mut Output) -> Result<()> {
        let dropped =
            batch.retain(|batch, event| batch.value(event).is_some_and(|value| self.keeps(value)));
        output.discard(dropped);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value as Json, json};
    use tremor_pdk::{Batch, Operator, Output};

    use super::Filter;

    fn kept(config: &Json, events: &[Json]) -> Vec<usize> {
        let mut filter = Filter::new(config).expect("a good configuration");
        let mut batch = Batch::new();
        for (number, event) in events.iter().enumerate() {
            batch.push_value(number as u64, event).expect("a good value");
        }
        let mut output = Output::new();
        filter.process(&mut batch, &mut output).expect("a filter cannot fail");
        assert_eq!(output.take_discarded() + batch.len(), events.len());
        batch.events().iter().map(|event| usize::try_from(event.stream).unwrap()).collect()
    }

    #[test]
    fn each_condition_keeps_what_meets_it_and_with_not_the_rest() {
        let events = [
            json!({"a": {"b": 1}}),
            json!({"a": {"b": 1.0}}),
            json!({"a": {"b": "one"}}),
            json!({"a": null}),
            json!("text"),
        ];
        assert_eq!(kept(&json!({"field": "a.b", "equals": 1}), &events), [0, 1]);
        assert_eq!(kept(&json!({"field": "a.b", "exists": true}), &events), [0, 1, 2]);
        assert_eq!(kept(&json!({"field": "a", "exists": false}), &events), [4]);
        assert_eq!(kept(&json!({"field": "a.b", "matches": "^o"}), &events), [2]);
        let not = json!({"field": "a.b", "matches": "^o", "not": true});
        assert_eq!(kept(&not, &events), [0, 1, 3, 4]);
        assert_eq!(kept(&json!({"field": "a", "equals": null}), &events), [3]);
    }

    #[test]
    fn a_bad_configuration_says_what_is_wrong() {
        let error = |config| Filter::new(&config).unwrap_err();
        assert!(error(json!({"field": "a"})).contains("exactly one"));
        assert!(error(json!({"field": "a", "equals": 1, "exists": true})).contains("exactly one"));
        assert!(error(json!({"field": "a", "matches": "("})).starts_with("matches: "));
        assert!(error(json!({"field": "a[", "exists": true})).starts_with("field: "));
    }
}
