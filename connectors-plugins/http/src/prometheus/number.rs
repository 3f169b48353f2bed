//! Values and times of samples.

use tremor_pdk::ValueRef;

/// Bits of the NaN with which Prometheus marks the end of a series. Other NaNs are values.
pub(crate) const STALE: u64 = 0x7ff0_0000_0000_0002;

/// Text of the stale marker in events, for formats such as JSON that have no NaN.
const STALE_TEXT: &str = "StaleNaN";

/// Nanoseconds in a millisecond.
pub(crate) const MS: i64 = 1_000_000;

/// Returns whether `value` is the stale marker.
pub(crate) fn is_stale(value: f64) -> bool {
    value.to_bits() == STALE
}

/// Returns the value of a sample: a number, or the text of a number, such as `NaN`, `+Inf` or `StaleNaN`.
pub(crate) fn value(value: ValueRef<'_>) -> Option<f64> {
    value.cast_f64().or_else(|| match value.as_str()? {
        STALE_TEXT => Some(f64::from_bits(STALE)),
        text => text.parse().ok(),
    })
}

/// Returns the text of a value that is not finite.
pub(crate) fn text_of_non_finite(value: f64) -> &'static str {
    if is_stale(value) {
        STALE_TEXT
    } else if value.is_nan() {
        "NaN"
    } else if value > 0.0 {
        "+Inf"
    } else {
        "-Inf"
    }
}

#[cfg(test)]
mod tests {
    use tremor_pdk::Value;

    use super::{STALE, text_of_non_finite, value};

    #[test]
    fn text_of_non_finite_value_is_read_again() {
        for float in [f64::INFINITY, f64::NEG_INFINITY, f64::NAN, f64::from_bits(STALE)] {
            let text = Value::from(text_of_non_finite(float).to_owned());
            let read = value(text.view()).unwrap();
            assert_eq!(read.to_bits(), float.to_bits(), "{text}");
        }
        for (text, expected) in [("1.5", Some(1.5)), ("1e3", Some(1e3)), ("", None), ("one", None)]
        {
            assert_eq!(value(Value::from(text).view()), expected, "{text}");
        }
    }
}
