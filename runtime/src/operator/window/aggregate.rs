//! Aggregate functions for the values of a group.

use hdrhistogram::Histogram;
use tremor_pdk::{Object, Value, ValueRef};

/// Aggregate function.
#[derive(Clone, Debug)]
pub(super) enum Function {
    Count,
    Sum,
    Min,
    Max,
    Mean,
    First,
    Last,
    Percentiles { at: Box<[f64]>, scale: Option<f64> },
}

/// Number of significant decimal digits of a histogram. The values that it returns are at most 0.1 % greater than the
/// recorded values.
const DIGITS: u8 = 3;

/// The intermediate result of a function. Its size does not depend on the number of values.
#[derive(Debug)]
pub(super) enum State {
    Count(u64),
    Sum(Sum),
    Mean(Sum, u64),
    /// Value that is the result so far.
    One(Option<Value<'static>>),
    Percentiles(Box<Histogram<u32>>),
}

impl State {
    /// Returns the approximate memory of the state, in bytes.
    pub(super) fn memory(&self) -> usize {
        let beside = match self {
            Self::One(Some(value)) => size(value.view()),
            Self::Percentiles(histogram) => histogram.distinct_values() * size_of::<u32>(),
            _ => 0,
        };
        size_of::<Self>() + beside
    }
}

/// Returns the approximate memory of a value that owns its parts, in bytes.
pub(super) fn size(value: ValueRef<'_>) -> usize {
    let array = value.as_array().into_iter().flatten().map(size);
    let object = value.as_object().into_iter().flatten();
    let object = object.map(|(key, value)| size_of::<Value<'_>>() + key.len() + size(value));
    let text = value.as_str().map_or(0, str::len) + value.as_bytes().map_or(0, <[u8]>::len);
    size_of::<Value<'_>>() + text + array.chain(object).sum::<usize>()
}

impl Function {
    pub(super) fn begin(&self) -> State {
        match self {
            Self::Count => State::Count(0),
            Self::Sum => State::Sum(Sum::default()),
            Self::Mean => State::Mean(Sum::default(), 0),
            Self::Min | Self::Max | Self::First | Self::Last => State::One(None),
            Self::Percentiles { .. } => {
                let histogram = Histogram::new(DIGITS).expect("between 0 and 5 digits");
                State::Percentiles(Box::new(histogram))
            }
        }
    }

    /// Checks whether the function accepts a value. If it does not, returns a description of the values that it
    /// accepts.
    pub(super) fn check(&self, value: ValueRef<'_>) -> Result<(), &'static str> {
        let number = value.cast_f64().filter(|number| number.is_finite());
        match self {
            Self::Count | Self::First | Self::Last => Ok(()),
            Self::Percentiles { scale, .. } => match number {
                Some(number) if recorded(number, *scale).is_some() => Ok(()),
                _ => Err("a number that is not negative and, scaled, below 2^63"),
            },
            // The largest of all numbers may be one beyond the range of floats, but floats are added.
            Self::Min | Self::Max if value.as_number_text().is_some() => Ok(()),
            _ => number.map(drop).ok_or("a finite number"),
        }
    }

    /// Adds a value that was [checked](Function::check).
    pub(super) fn add(&self, state: &mut State, value: ValueRef<'_>) {
        match state {
            State::Count(count) => *count += 1,
            State::Sum(sum) => sum.add(value),
            State::Mean(sum, count) => {
                sum.add(value);
                *count += 1;
            }
            State::One(one) => {
                let replaces = one.as_ref().is_none_or(|one| match self {
                    Self::Min => value < one.view(),
                    Self::Max => value > one.view(),
                    Self::First => false,
                    _ => true,
                });
                if replaces {
                    *one = Some(value.to_value());
                }
            }
            State::Percentiles(histogram) => {
                let Self::Percentiles { scale, .. } = self else { return };
                let number = value.cast_f64().and_then(|number| recorded(number, *scale));
                let recorded = histogram.record(number.unwrap_or_default());
                recorded.expect("a histogram grows to any value below 2^63");
            }
        }
    }

    /// Returns the result. If there were no values, counts and sums are 0, and all other results are `null`.
    #[expect(clippy::cast_precision_loss, reason = "means and percentiles are no exact numbers")]
    pub(super) fn end(&self, state: State) -> Value<'static> {
        match state {
            State::Count(count) => Value::from(count),
            State::Sum(sum) => sum.value(),
            State::Mean(_, 0) => Value::Null,
            State::Mean(sum, count) => Value::from(sum.float() / count as f64),
            State::One(value) => value.unwrap_or_default(),
            State::Percentiles(histogram) => {
                let Self::Percentiles { at, scale } = self else { return Value::Null };
                if histogram.is_empty() {
                    return Value::Null;
                }
                let mut percentiles = Object::with_capacity(at.len());
                for percentile in at {
                    let value = histogram.value_at_quantile(percentile / 100.0);
                    let value = match scale {
                        None => Value::from(value),
                        Some(scale) => Value::from(value as f64 / scale),
                    };
                    percentiles.insert(format!("p{percentile}"), value);
                }
                Value::Object(percentiles)
            }
        }
    }
}

/// Returns the integer that a histogram records for a number, or `None` if the number is out of range.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "in range")]
fn recorded(number: f64, scale: Option<f64>) -> Option<u64> {
    // 2^63
    const END: f64 = 9_223_372_036_854_775_808.0;
    let scaled = (number * scale.unwrap_or(1.0)).round();
    (0.0..END).contains(&scaled).then_some(scaled as u64)
}

/// A sum that is exact if all numbers are integers.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Sum {
    /// Sum of all 64-bit integers. 2^63 such integers cannot overflow the sum.
    integers: i128,
    floats: f64,
    has_floats: bool,
}

impl Sum {
    fn add(&mut self, value: ValueRef<'_>) {
        let integer = value.as_i64().map(i128::from).or_else(|| value.as_u64().map(i128::from));
        match (integer, value.as_f64()) {
            (Some(integer), _) => self.integers = self.integers.saturating_add(integer),
            (None, Some(float)) => {
                self.floats += float;
                self.has_floats = true;
            }
            (None, None) => {}
        }
    }

    #[expect(clippy::cast_precision_loss, reason = "a float is what is asked for")]
    fn float(self) -> f64 {
        self.integers as f64 + self.floats
    }

    /// Returns an integer if all numbers were integers and their sum fits into 64 bits. Returns a float otherwise.
    fn value(self) -> Value<'static> {
        let signed = i64::try_from(self.integers).map(Value::from);
        let integer = signed.or_else(|_| u64::try_from(self.integers).map(Value::from));
        match integer {
            Ok(integer) if !self.has_floats => integer,
            _ => Value::from(self.float()),
        }
    }
}

#[cfg(test)]
mod tests {
    use tremor_pdk::{Number, Value, literal};

    use super::Function;

    fn number(text: &'static str) -> Value<'static> {
        Value::Number(Number::new(text).unwrap())
    }

    fn of(function: &Function, values: &Value<'static>) -> Value<'static> {
        let mut state = function.begin();
        for value in values.view().as_array().unwrap() {
            function.check(value).unwrap();
            function.add(&mut state, value);
        }
        function.end(state)
    }

    #[test]
    fn each_function_computes_its_result() {
        let percentiles = |scale| Function::Percentiles { at: [50.0, 99.9, 100.0].into(), scale };
        for (function, values, expected) in [
            (Function::Count, literal!([1, "a", null]), literal!(3)),
            (Function::Count, literal!([]), literal!(0)),
            (Function::Sum, literal!([1, -2, 4]), literal!(3)),
            (Function::Sum, literal!([]), literal!(0)),
            (Function::Sum, literal!([i64::MAX, 1]), literal!(i64::MAX as u64 + 1)),
            (Function::Sum, literal!([u64::MAX, i64::MIN, i64::MIN, 1]), literal!(0)),
            (Function::Sum, literal!([u64::MAX, 1]), literal!(18_446_744_073_709_551_616.0)),
            (Function::Sum, literal!([1, 0.5]), literal!(1.5)),
            (Function::Min, literal!([2, 1.5, 3]), literal!(1.5)),
            (Function::Max, literal!([2, u64::MAX, 3.0]), literal!(u64::MAX)),
            (Function::Min, literal!([]), literal!(null)),
            (
                Function::Max,
                literal!([0.1, number("0.1000000000000000001")]),
                number("0.1000000000000000001"),
            ),
            (Function::Min, literal!([0.1, number("0.1000000000000000001")]), literal!(0.1)),
            (Function::Max, literal!([f64::MAX, number("1e400")]), number("1e400")),
            (Function::Mean, literal!([1, 2.0, 6]), literal!(3.0)),
            (Function::Mean, literal!([]), literal!(null)),
            (Function::First, literal!(["a", "b"]), literal!("a")),
            (Function::Last, literal!(["a", ["b"]]), literal!(["b"])),
            (Function::Last, literal!([]), literal!(null)),
            (
                percentiles(None),
                literal!([3, 1, 2.4]),
                literal!({ "p50": 2, "p99.9": 3, "p100": 3 }),
            ),
            (
                percentiles(Some(1000.0)),
                literal!([0.0125, 0.5]),
                literal!({ "p50": 0.013, "p99.9": 0.5, "p100": 0.5 }),
            ),
            (percentiles(None), literal!([]), literal!(null)),
        ] {
            assert_eq!(of(&function, &values), expected, "{function:?} of {values}");
        }
    }

    #[test]
    fn percentiles_exceed_recorded_values_by_at_most_0_1_percent() {
        let function = Function::Percentiles { at: [100.0].into(), scale: None };
        for value in [0_u64, 1, 2_047, 2_048, 123_456_789, 1 << 62] {
            let found = of(&function, &literal!([value]));
            let found = found.get("p100").and_then(Value::as_u64).unwrap();
            assert!(found >= value && found - value <= value / 1_000, "{value}: {found}");
        }
    }

    #[test]
    fn unsupported_values_are_rejected() {
        let percentiles = Function::Percentiles { at: [50.0].into(), scale: Some(10.0) };
        for (function, value) in [
            (&Function::Sum, literal!("1")),
            (&Function::Min, literal!(f64::NAN)),
            (&Function::Mean, literal!(f64::INFINITY)),
            (&Function::Max, literal!([1])),
            (&percentiles, literal!(-1)),
            (&percentiles, literal!(1e18)),
            (&percentiles, literal!(true)),
        ] {
            assert!(function.check(value.view()).is_err(), "{function:?} of {value}");
        }
        assert_eq!(percentiles.check(literal!(-0.01).view()), Ok(()), "it is rounded to 0");
    }
}
