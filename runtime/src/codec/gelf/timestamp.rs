//! Times in seconds with a fraction.

use tremor_abi::document::{Shape, ValueRef};

use crate::codec::buffer::Bytes;

const NS: i64 = 1_000_000_000;

/// Returns a time in ns since the Unix epoch. The value is a number of seconds, or text that is such a number. Returns
/// `None` for another value, and if the time does not fit 64 bits.
pub(super) fn read(value: ValueRef<'_>) -> Option<i64> {
    match value.shape() {
        Shape::I64(seconds) => seconds.checked_mul(NS),
        Shape::U64(seconds) => i64::try_from(seconds).ok()?.checked_mul(NS),
        // The shortest decimal form is the form in the message, if the message has at most six digits after the point.
        Shape::F64(seconds) if seconds.is_finite() => {
            parse(zmij::Buffer::new().format_finite(seconds))
        }
        Shape::Number(text) | Shape::String(text) => parse(text),
        _ => None,
    }
}

/// Parses a number of seconds, which may have a fraction and an exponent. Digits below one nanosecond are ignored.
fn parse(text: &str) -> Option<i64> {
    let (mantissa, exponent) = match text.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, exponent.parse::<i32>().ok()?),
        None => (text, 0),
    };
    let (sign, digits) = match mantissa.strip_prefix('-') {
        Some(digits) => (-1, digits),
        None => (1, mantissa),
    };
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    if whole.is_empty() {
        return None;
    }
    // Number of digits up to the unit of nanoseconds.
    let end = i32::try_from(whole.len()).ok()?.checked_add(exponent)?.checked_add(9)?;
    let mut ns = 0_i64;
    let mut all = whole.bytes().chain(fraction.bytes());
    if !all.clone().all(|digit| digit.is_ascii_digit()) || end > 64 {
        return None;
    }
    for _ in 0..end {
        let digit = i64::from(all.next().unwrap_or(b'0') - b'0');
        ns = ns.checked_mul(10)?.checked_add(sign * digit)?;
    }
    Some(ns)
}

/// Appends a time in ns since the Unix epoch as seconds.
pub(super) fn write(timestamp: i64, out: &mut Bytes) {
    if timestamp < 0 {
        out.push(b'-');
    }
    let [seconds, fraction] = [
        timestamp.unsigned_abs() / NS.unsigned_abs(),
        timestamp.unsigned_abs() % NS.unsigned_abs(),
    ];
    out.extend_from_copy_slice(itoa::Buffer::new().format(seconds).as_bytes());
    if fraction > 0 {
        let digits = format!("{fraction:09}");
        out.push(b'.');
        out.extend_from_copy_slice(digits.trim_end_matches('0').as_bytes());
    }
}
