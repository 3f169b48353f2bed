//! How windows are configured.

use std::{
    collections::BTreeMap,
    num::{NonZeroU32, NonZeroU64},
};

use tremor_pdk::{Error, Result, units::Interval};

use super::aggregate::Function;
use crate::operator::field::Field;

/// Turns the events of a window into one event a group. Windows tumble: each event belongs to one.
#[tremor_pdk::config]
pub(crate) struct Config {
    /// How long a window of time is. Windows of all groups begin at multiples of this since the
    /// Unix epoch. Either this or `events` is given.
    pub(super) every: Option<Interval>,
    /// How many events of a group make a window.
    pub(super) events: Option<NonZeroU64>,
    /// The fields whose values make up a group. None is one group of all events.
    #[serde(default)]
    pub(super) by: Vec<Field>,
    /// What is computed of each group, by the name that it gets.
    pub(super) aggregates: BTreeMap<String, Aggregate>,
    /// How many groups are open at a time. When there are more, the oldest is emitted early.
    #[serde(default = "max_groups")]
    pub(super) max_groups: NonZeroU32,
}

fn max_groups() -> NonZeroU32 {
    NonZeroU32::new(10_000).expect("not zero")
}

/// One aggregate.
#[tremor_pdk::config]
#[derive(Clone, Debug)]
pub(super) struct Aggregate {
    /// What is computed.
    function: Name,
    /// Of which field. Events that lack it do not count, nor do those in which it is `null`.
    /// Required for everything but `count`, which without it counts all events.
    field: Option<Field>,
    /// For `percentiles`: which ones, above 0 and at most 100.
    at: Option<Vec<f64>>,
    /// For `percentiles`: values are multiplied by this and rounded before they are counted. With
    /// 1000, 0.0125 is counted as 13, so as 0.013. Unless set, values are rounded to integers.
    scale: Option<f64>,
}

#[tremor_pdk::config]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
enum Name {
    /// How many events have the field.
    Count,
    /// The sum of numbers.
    Sum,
    /// The least number.
    Min,
    /// The greatest number.
    Max,
    /// The arithmetic mean of numbers.
    Mean,
    /// The first value of any kind.
    First,
    /// The last value of any kind.
    Last,
    /// Percentiles of numbers that are not negative, to three significant digits.
    Percentiles,
}

/// The percentiles that are computed unless others are asked for.
const PERCENTILES: [f64; 5] = [50.0, 90.0, 99.0, 99.9, 100.0];

/// An aggregate as events are fed to it.
pub(super) struct Column {
    pub(super) name: String,
    pub(super) field: Option<Field>,
    pub(super) function: Function,
}

/// The keys of an emitted event that are no aggregates.
const OWN_KEYS: [&str; 2] = ["window", "group"];

impl Aggregate {
    pub(super) fn compile(self, name: String) -> Result<Column> {
        let wrong = |key: &str, what: &str| {
            Err(Error::configuration(format_args!("`aggregates.{name}{key}`: {what}")))
        };
        if OWN_KEYS.contains(&name.as_str()) {
            return wrong("", "expected another name: the emitted event has a key of this one");
        }
        if self.function != Name::Percentiles && (self.at.is_some() || self.scale.is_some()) {
            return wrong("", "expected neither `at` nor `scale`, which are for `percentiles`");
        }
        if self.function != Name::Count && self.field.is_none() {
            return wrong("", "expected the `field` that is aggregated, found none");
        }
        let function = match self.function {
            Name::Count => Function::Count,
            Name::Sum => Function::Sum,
            Name::Min => Function::Min,
            Name::Max => Function::Max,
            Name::Mean => Function::Mean,
            Name::First => Function::First,
            Name::Last => Function::Last,
            Name::Percentiles => {
                let at = self.at.unwrap_or_else(|| PERCENTILES.to_vec());
                if at.is_empty() || !at.iter().all(|p| *p > 0.0 && *p <= 100.0) {
                    return wrong(".at", "expected percentiles above 0 and at most 100");
                }
                if self.scale.is_some_and(|scale| !scale.is_normal() || scale < 0.0) {
                    return wrong(".scale", "expected a number above 0");
                }
                Function::Percentiles { at: at.into(), scale: self.scale }
            }
        };
        Ok(Column { name, field: self.field, function })
    }
}
