//! Conditions on events: comparisons of fields with values, combined with and, or and not.
//!
//! A condition is compiled once. Evaluating it allocates nothing, unless it compares objects.

mod config;
#[cfg(test)]
mod tests;

use std::cmp::Ordering;

use regex::Regex;
use tremor_pdk::{EventRef, Value, ValueRef, template::Field};

pub(super) use self::config::{Config, given};

/// Compiled condition.
#[derive(Debug)]
pub(super) enum Condition {
    All(Box<[Condition]>),
    Any(Box<[Condition]>),
    Not(Box<Condition>),
    Field(Field, Comparison),
}

/// A comparison of a field with a value.
///
/// If the field is missing, only [`Comparison::Exists`] with `false` holds. If the field has another type than the
/// comparison requires, the comparison does not hold.
#[derive(Debug)]
pub(super) enum Comparison {
    Equals(Value<'static>),
    /// Faster variant of `Equals` for texts.
    Text(Box<str>),
    OneOf(Box<[Value<'static>]>),
    Exists(bool),
    Matches(Regex),
    Contains(Value<'static>),
    StartsWith(Box<str>),
    EndsWith(Box<str>),
    /// Comparison with a number or a text.
    Order(Order, Value<'static>),
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Order {
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

impl Condition {
    /// Returns the fields that the condition reads.
    pub(super) fn fields(&self) -> Vec<&Field> {
        match self {
            Self::Field(field, _) => vec![field],
            Self::Not(condition) => condition.fields(),
            Self::All(conditions) | Self::Any(conditions) => {
                conditions.iter().flat_map(Self::fields).collect()
            }
        }
    }

    /// Returns whether an event fulfils the condition.
    #[inline]
    pub(super) fn holds(&self, event: EventRef<'_>) -> bool {
        match self {
            Self::Field(field, comparison) => comparison.holds(field.get(event)),
            Self::Not(condition) => !condition.holds(event),
            Self::All(all) => all.iter().all(|condition| condition.holds(event)),
            Self::Any(any) => any.iter().any(|condition| condition.holds(event)),
        }
    }
}

impl Comparison {
    #[inline]
    fn holds(&self, field: Option<ValueRef<'_>>) -> bool {
        let Some(field) = field else { return matches!(self, Self::Exists(false)) };
        match self {
            Self::Text(expected) => field.text_bytes() == Some(expected.as_bytes()),
            Self::Equals(expected) => field == expected.view(),
            Self::OneOf(values) => values.iter().any(|value| field == value.view()),
            Self::Exists(exists) => *exists,
            Self::Matches(regex) => field.as_str().is_some_and(|text| regex.is_match(text)),
            Self::Contains(part) => contains(field, part.view()),
            Self::StartsWith(start) => is_text(field, |text| text.starts_with(start.as_bytes())),
            Self::EndsWith(end) => is_text(field, |text| text.ends_with(end.as_bytes())),
            Self::Order(order, limit) => order.holds(field, limit.view()),
        }
    }
}

#[inline]
fn is_text(field: ValueRef<'_>, holds: impl FnOnce(&[u8]) -> bool) -> bool {
    field.text_bytes().is_some_and(holds)
}

fn contains(field: ValueRef<'_>, part: ValueRef<'_>) -> bool {
    match (field.as_array(), field.as_str(), part.as_str()) {
        (Some(elements), ..) => elements.iter().any(|element| element == part),
        (_, Some(text), Some(part)) => text.contains(part),
        _ => false,
    }
}

impl Order {
    fn holds(self, field: ValueRef<'_>, limit: ValueRef<'_>) -> bool {
        let is_number = |value: ValueRef<'_>| {
            value.cast_f64().is_some_and(|value| !value.is_nan())
                || value.as_number_text().is_some()
        };
        let comparable = is_number(field) && is_number(limit)
            || field.as_str().is_some() && limit.as_str().is_some();
        comparable && {
            let found = field.cmp(&limit);
            match self {
                Self::Less => found == Ordering::Less,
                Self::LessOrEqual => found != Ordering::Greater,
                Self::Greater => found == Ordering::Greater,
                Self::GreaterOrEqual => found != Ordering::Less,
            }
        }
    }
}
