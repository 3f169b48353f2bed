//! Configuration of windows.

use std::num::{NonZeroU32, NonZeroU64};

use tremor_pdk::{Error, Result, template::Field, units::Interval};

use super::aggregate::Function;
use crate::operator::ordered::Ordered;

/// Aggregates the events of a window into one event per group. Windows do not overlap: each event belongs to one
/// window.
#[tremor_pdk::config]
pub(crate) struct Config {
    /// Duration of a time window. The windows of all groups begin at multiples of the duration since the Unix
    /// epoch. Set either this key or `events`.
    pub(super) every: Option<Interval>,
    /// Number of events of a group that make up a window.
    pub(super) events: Option<NonZeroU64>,
    /// Fields whose values identify a group. Without fields, all events form one group.
    #[serde(default)]
    pub(super) by: Vec<Field>,
    /// Aggregates that are computed for each group, by name.
    pub(super) aggregates: Ordered<Aggregate>,
    /// Maximum number of open groups. If there are more, the oldest is emitted early.
    #[serde(default = "max_groups")]
    pub(super) max_groups: NonZeroU32,
}

fn max_groups() -> NonZeroU32 {
    NonZeroU32::new(10_000).expect("not zero")
}

/// Aggregate of a group.
#[tremor_pdk::config]
#[derive(Clone, Debug)]
pub(super) struct Aggregate {
    /// Function that is computed.
    function: Name,
    /// Field that is aggregated. Events in which it is missing or `null` do not count. Required for all functions
    /// except `count`, which counts all events if no field is set.
    field: Option<Field>,
    /// Percentiles to compute, each above 0 and at most 100; only for `percentiles`.
    at: Option<Vec<f64>>,
    /// Factor by which values are multiplied before they are rounded and counted; only for `percentiles`. With
    /// 1000, 0.0125 is counted as 13, which stands for 0.013. Unless set, values are rounded to integers.
    scale: Option<f64>,
}

#[tremor_pdk::config]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
enum Name {
    /// Number of events that have the field.
    Count,
    /// Sum of numbers.
    Sum,
    /// Smallest number.
    Min,
    /// Greatest number.
    Max,
    /// Arithmetic mean of numbers.
    Mean,
    /// First value of any kind.
    First,
    /// Last value of any kind.
    Last,
    /// Percentiles of numbers that are not negative, to three significant digits.
    Percentiles,
}

/// Default of `at`.
const PERCENTILES: [f64; 5] = [50.0, 90.0, 99.0, 99.9, 100.0];

/// Compiled aggregate.
pub(super) struct Column {
    pub(super) name: String,
    pub(super) field: Option<Field>,
    pub(super) function: Function,
}

/// Keys of an emitted event that are not aggregates.
const OWN_KEYS: [&str; 2] = ["window", "group"];

impl Aggregate {
    pub(super) fn compile(self, name: String) -> Result<Column> {
        let wrong = |key: &str, what: &str| {
            Err(Error::configuration(format_args!("`aggregates.{name}{key}`: {what}")))
        };
        if OWN_KEYS.contains(&name.as_str()) {
            return wrong(
                "",
                "expected another name than `window` and `group`, which emitted events contain",
            );
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
