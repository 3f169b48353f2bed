//! Formats of numbers for readers.

use crate::statistics::Interval;

/// Formats a number as a whole number with commas between thousands.
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

/// Formats a number with three digits, or as a whole number from 100 on: 1,234 or 123 or 12.3 or 1.23.
pub(crate) fn three_digits(value: f64) -> String {
    match value.abs() {
        large if large >= 99.95 => whole(value),
        medium if medium >= 9.995 => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}

/// Formats a share of 1 in per cent, with one decimal and without the sign `%`.
pub(crate) fn percent(share: f64) -> String {
    format!("{:.1}", share * 100.0)
}

/// Formats an estimate with its interval, such as `97.1 [96.5, 97.8]`. An infinite interval, which one value alone has,
/// is left out.
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
    fn infinite_interval_is_left_out() {
        let interval = Interval { estimate: 0.5, low: 0.0, high: f64::INFINITY };
        assert_eq!(with_interval(interval, percent), "50.0");
        let interval = Interval { estimate: 0.97, low: 0.96, high: 0.98 };
        assert_eq!(with_interval(interval, percent), "97.0 [96.0, 98.0]");
    }
}
