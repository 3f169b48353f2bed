//! Numbers and times in the syntax of the format.

use tremor_pdk::scaled;

use crate::config::Format;

/// Parses a value: a float, `NaN`, `+Inf` or `-Inf`.
pub(crate) fn value(text: &str) -> Option<f64> {
    // Rust parses the syntax of Go's `ParseFloat`, except hexadecimal floats, which are not used in practice.
    text.parse().ok()
}

/// Returns the text of a value.
pub(crate) fn value_text(value: f64) -> String {
    if value.is_nan() {
        "NaN".to_owned()
    } else if value.is_infinite() {
        if value > 0.0 { "+Inf" } else { "-Inf" }.to_owned()
    } else if value == 0.0 || (1e-5..1e17).contains(&value.abs()) {
        value.to_string()
    } else {
        format!("{value:e}")
    }
}

/// Parses a time to ns since the Unix epoch: ms in the text format, seconds with a fraction in `OpenMetrics`. Digits
/// below one nanosecond are ignored.
pub(crate) fn timestamp(text: &str, format: Format) -> Option<i64> {
    match format {
        Format::Text => text.parse::<i64>().ok()?.checked_mul(1_000_000),
        Format::OpenMetrics => i64::try_from(scaled(text, 9)?).ok(),
    }
}

/// Returns the text of a time. In the text format, fractions of a ms are truncated.
pub(crate) fn timestamp_text(ns: i64, format: Format) -> String {
    match format {
        Format::Text => ns.div_euclid(1_000_000).to_string(),
        Format::OpenMetrics => {
            let sign = if ns < 0 { "-" } else { "" };
            let ns = ns.unsigned_abs();
            let text = format!("{sign}{}.{:09}", ns / 1_000_000_000, ns % 1_000_000_000);
            text.trim_end_matches('0').trim_end_matches('.').to_owned()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{timestamp, timestamp_text, value, value_text};
    use crate::config::Format::{OpenMetrics, Text};

    #[test]
    fn values_are_unchanged_by_a_round_trip() {
        for (text, expected) in [
            ("0", 0.0),
            ("-0", -0.0),
            ("1.5e3", 1500.0),
            ("1E-6", 1e-6),
            ("+Inf", f64::INFINITY),
            ("-Inf", f64::NEG_INFINITY),
            ("inf", f64::INFINITY),
            (".5", 0.5),
        ] {
            assert_eq!(value(text).map(f64::to_bits), Some(expected.to_bits()), "{text}");
        }
        assert!(value("NaN").is_some_and(f64::is_nan));
        for text in ["", "1,5", "0x1p3", "one", "1 2", "--1"] {
            assert_eq!(value(text), None, "{text}");
        }
        for number in [0.0, -1.5, 1e300, 1e-300, 1_458_255_915.0, f64::MIN_POSITIVE, 0.1 + 0.2] {
            assert_eq!(value(&value_text(number)), Some(number));
        }
        assert_eq!(value_text(1_458_255_915.0), "1458255915");
        assert_eq!(value_text(f64::NEG_INFINITY), "-Inf");
    }

    #[test]
    fn times_are_exact_or_rejected() {
        assert_eq!(timestamp("1395066363000", Text), Some(1_395_066_363_000_000_000));
        assert_eq!(timestamp("-3982045", Text), Some(-3_982_045_000_000));
        assert_eq!(timestamp("1520879607.789", OpenMetrics), Some(1_520_879_607_789_000_000));
        assert_eq!(timestamp("-0.000000001", OpenMetrics), Some(-1));
        assert_eq!(timestamp("1.5e3", OpenMetrics), Some(1_500_000_000_000));
        assert_eq!(
            timestamp("1.520879607789123457e9", OpenMetrics),
            Some(1_520_879_607_789_123_457)
        );
        for text in ["", ".", "1.5", "99999999999999", "NaN", "1e3"] {
            assert_eq!(timestamp(text, Text), None, "{text}");
        }
        for text in ["", ".", "-", "1e300", "NaN", "99999999999", "1.x"] {
            assert_eq!(timestamp(text, OpenMetrics), None, "{text}");
        }
        for ns in [0, -1, 1, 1_520_879_607_789_000_000, i64::MAX, i64::MIN] {
            assert_eq!(timestamp(&timestamp_text(ns, OpenMetrics), OpenMetrics), Some(ns));
        }
        assert_eq!(timestamp_text(-1, Text), "-1");
        assert_eq!(timestamp_text(1_999_999, Text), "1");
    }
}
