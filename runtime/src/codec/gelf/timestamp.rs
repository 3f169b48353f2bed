//! Times in seconds with a fraction.

use tremor_abi::document::{Shape, ValueRef, scaled};

use crate::codec::buffer::Bytes;

const NS: i64 = 1_000_000_000;

/// Returns a time in ns since the Unix epoch. The value is a number of seconds, or text that is such a number. Digits
/// below one nanosecond are ignored. Returns `None` for another value, and if the time does not fit 64 bits.
pub(super) fn read(value: ValueRef<'_>) -> Option<i64> {
    let ns = match value.shape() {
        // The shortest decimal form is the form in the message, if the message has at most six digits after the point.
        Shape::F64(seconds) if seconds.is_finite() => {
            scaled(zmij::Buffer::new().format_finite(seconds), 9)
        }
        Shape::Number(text) | Shape::String(text) => scaled(text, 9),
        _ => value.whole()?.checked_mul(NS.into()),
    };
    i64::try_from(ns?).ok()
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
