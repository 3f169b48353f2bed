//! Numbers as people read them.

use crate::statistics::Interval;

/// With a comma between thousands, rounded to a whole number.
pub(crate) fn whole(value: f64) -> String {
    let digits = format!("{:.0}", value.abs());
    let mut grouped = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    if value < 0.0 && digits != "0" { format!("-{grouped}") } else { grouped }
}

/// To three digits: 1,234 or 123 or 12.3 or 1.23.
pub(crate) fn three_digits(value: f64) -> String {
    match value.abs() {
        large if large >= 99.95 => whole(value),
        medium if medium >= 9.995 => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}

/// A share of 1 in per cent, with one decimal; the sign, too, is the caller's.
pub(crate) fn percent(share: f64) -> String {
    format!("{:.1}", share * 100.0)
}

/// `97.1 [96.5, 97.8]`; without the interval where one value alone tells nothing about it.
pub(crate) fn with_interval(interval: Interval, format: impl Fn(f64) -> String) -> String {
    let Interval { estimate, low, high } = interval;
    if high.is_finite() {
        format!("{} [{}, {}]", format(estimate), format(low), format(high))
    } else {
        format(estimate)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_grouped_and_rounded() {
        let table = [(0.4, "0"), (999.6, "1,000"), (1_234_567.0, "1,234,567"), (-0.2, "0")];
        table.iter().for_each(|(value, text)| assert_eq!(whole(*value), *text));
        let table = [(1.234, "1.23"), (12.34, "12.3"), (123.4, "123"), (12_345.6, "12,346")];
        table.iter().for_each(|(value, text)| assert_eq!(three_digits(*value), *text));
    }

    #[test]
    fn an_interval_that_says_nothing_is_left_out() {
        let interval = Interval { estimate: 0.5, low: 0.0, high: f64::INFINITY };
        assert_eq!(with_interval(interval, percent), "50.0");
        let interval = Interval { estimate: 0.97, low: 0.96, high: 0.98 };
        assert_eq!(with_interval(interval, percent), "97.0 [96.0, 98.0]");
    }
}
