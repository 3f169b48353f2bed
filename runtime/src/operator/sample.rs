//! The operator `sample`, which passes a part of the events.

use std::num::NonZeroU64;

use tremor_pdk::{
    Batch, Component, ComponentContext, Error, EventRef, Operator, Output, Result, template::Field,
};

use super::{
    condition::{self, Condition},
    key::KeyBuffer,
};

/// Passes a part of the events, and discards the others.
#[tremor_pdk::config]
pub(crate) struct Config {
    /// Size of a group of consecutive events, of which the first event passes.
    every: Option<NonZeroU64>,
    /// Part of the events that passes, from 0 to 1.
    #[schemars(range(min = 0, max = 1))]
    rate: Option<f64>,
    /// With `rate`: fields that make up the key. Events with the same key either all pass or are all discarded. An
    /// event that has none of the fields is treated as if `by` were not set.
    #[serde(default)]
    by: Vec<Field>,
    /// Condition of events that pass in any case and are not counted.
    except: Option<condition::Config>,
}

pub(crate) struct Sample {
    rule: Rule,
    except: Option<Condition>,
}

enum Rule {
    Every {
        every: u64,
        /// Number of events until the next one passes.
        left: u64,
    },
    Rate {
        /// Rate as a fraction of 2⁶⁴. A rate of 1 is represented as the largest number.
        rate: u64,
        /// Sum of the rates of the events so far, modulo 2⁶⁴. An event passes if the addition overflows.
        sum: u64,
        by: Vec<Field>,
        key: KeyBuffer,
    },
}

impl Component for Sample {
    const NAME: &str = "sample";
    type Config = Config;

    fn new(config: Config, _context: ComponentContext) -> Result<Self> {
        let rule = match (config.every, config.rate) {
            (Some(_), None) if !config.by.is_empty() => {
                return Err(Error::configuration("`by`: expected `rate` instead of `every`"));
            }
            (Some(every), None) => Rule::Every { every: every.get(), left: 0 },
            (None, Some(rate)) => {
                if !(0.0..=1.0).contains(&rate) {
                    return Err(Error::configuration(format_args!(
                        "`rate`: expected a number from 0 to 1, found {rate}"
                    )));
                }
                Rule::Rate { rate: scaled(rate), sum: 0, by: config.by, key: KeyBuffer::new() }
            }
            (None, None) => {
                let message = "expected `every` or `rate`, found neither";
                return Err(Error::configuration(message));
            }
            (Some(_), Some(_)) => {
                let message = "expected either `every` or `rate`, found both";
                return Err(Error::configuration(message));
            }
        };
        let except = config.except.map(condition::Config::compile).transpose();
        let except = except.map_err(|error| error.context("`except`"))?;
        Ok(Self { rule, except })
    }
}

/// Returns a rate as a fraction of 2⁶⁴.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "the result of the conversion is within the bounds of the type"
)]
fn scaled(rate: f64) -> u64 {
    const WHOLE: f64 = 18_446_744_073_709_551_616.0;
    (rate * WHOLE) as u64
}

impl Operator for Sample {
    fn process(&mut self, batch: &mut Batch, output: &mut Output) -> Result<()> {
        output.retain(batch, |event| {
            self.except.as_ref().is_some_and(|except| except.holds(event))
                || self.rule.passes(event)
        });
        Ok(())
    }
}

impl Rule {
    #[inline]
    fn passes(&mut self, event: EventRef<'_>) -> bool {
        match self {
            Self::Every { every, left } => {
                let passes = *left == 0;
                *left = if passes { *every } else { *left } - 1;
                passes
            }
            Self::Rate { rate: u64::MAX, .. } => true,
            Self::Rate { rate, sum, by, key } => {
                let mut has_key = false;
                key.clear();
                for field in by.iter() {
                    let value = field.get(event);
                    has_key |= value.is_some();
                    key.push(value);
                }
                if has_key {
                    return key.stable_hash() < *rate;
                }
                let (next, overflows) = sum.overflowing_add(*rate);
                *sum = next;
                overflows
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use serde_json::{Value as Json, json};

    use crate::operator::testing::{Bench, batch, creation_error};

    fn numbers(count: u64) -> Vec<Json> {
        (0..count).map(|number| json!({ "n": number, "key": number % 1_000 })).collect()
    }

    #[test]
    fn first_event_of_each_group_passes() {
        let mut sample = Bench::new("sample", json!({ "every": 3 }));
        let first = sample.process(batch(&[0, 1, 2, 3]));
        let second = sample.process(batch(&[4, 5, 6, 7]));
        assert_eq!((&first.out[..], first.discarded), (&["0".to_owned(), "3".to_owned()][..], 2));
        assert_eq!((&second.out[..], second.discarded), (&["6".to_owned()][..], 3));
    }

    #[test]
    fn rate_without_key_spreads_events_evenly() {
        for (rate, expected) in [(0.0, 0), (0.25, 250), (0.1, 100), (1.0, 1_000)] {
            let mut sample = Bench::new("sample", json!({ "rate": rate }));
            let passed = sample.process(batch(&numbers(1_000))).out.len();
            assert!(passed.abs_diff(expected) <= 1, "{rate}: {passed}");
        }
    }

    #[test]
    fn rate_decides_per_key() {
        let config = json!({ "rate": 0.2, "by": ["key", "%key"] });
        let ran = Bench::new("sample", config.clone()).process(batch(&numbers(10_000)));
        let mut passed: HashMap<u64, usize> = HashMap::new();
        for text in &ran.out {
            let event: Json = serde_json::from_str(text).unwrap();
            *passed.entry(event["key"].as_u64().unwrap()).or_default() += 1;
        }
        assert!(passed.values().all(|count| *count == 10), "all events of a key, or none");
        assert!((150..250).contains(&passed.len()), "{}", passed.len());
        let again = Bench::new("sample", config.clone()).process(batch(&numbers(10_000)));
        assert_eq!(again.out, ran.out);
        let without = Bench::new("sample", config).process(batch(&[1; 100]));
        assert_eq!(without.out.len(), 20, "at the same rate, not all or none");
    }

    /// The decision for a key has to be the same in other processes and in later versions.
    #[test]
    fn hash_of_a_key_is_fixed() {
        let passes = |key: Json| {
            let mut sample = Bench::new("sample", json!({ "rate": 0.5, "by": [""] }));
            sample.process(batch(&[key])).out.len()
        };
        let keys = (0..16).map(|number| passes(json!(number)).to_string()).collect::<String>();
        assert_eq!(keys, "1011010001111001");
        assert_eq!(passes(json!(1)), passes(json!(1.0)));
    }

    #[test]
    fn excepted_events_pass_and_are_not_counted() {
        let config = json!({ "every": 2, "except": { "field": "level", "equals": "error" } });
        let levels =
            ["error", "info", "error", "debug", "error"].map(|level| json!({ "level": level }));
        let ran = Bench::new("sample", config).process(batch(&levels));
        assert_eq!((ran.out.len(), ran.discarded), (4, 1));
    }

    #[test]
    fn invalid_configuration_is_reported() {
        for (config, expected) in [
            (json!({}), "expected `every` or `rate`, found neither"),
            (json!({ "every": 2, "rate": 0.5 }), "found both"),
            (json!({ "every": 0 }), "`every`"),
            (json!({ "rate": 1.5 }), "`rate`: expected a number from 0 to 1, found 1.5"),
            (json!({ "every": 2, "by": ["a"] }), "`by`: expected `rate`"),
            (json!({ "every": 2, "except": {} }), "`except`: expected `field`"),
        ] {
            let error = creation_error("sample", &config);
            assert!(error.contains(expected), "{config}: {error}");
        }
    }
}
