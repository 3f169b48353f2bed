//! Checks of the arguments of functions.
//!
//! An estimate of memory is an upper bound for what the function allocates, or close to it. Each check first estimates
//! from the length of the argument alone, so that usual arguments cost no further look at them.

use vrl::{compiler::ExpressionError, value::Value};

use super::{guard::Arguments, mebibytes};
use crate::memory::remaining;

pub(crate) mod codecs;
pub(crate) mod nested;
pub(crate) mod parsers;
pub(crate) mod texts;

pub(crate) type Checked = Result<Option<Value>, ExpressionError>;

/// Memory of a value in an array, with a short text, in bytes.
const ELEMENT: usize = 96;

/// Memory of a field of an object that has several fields, with short texts, in bytes.
const FIELD: usize = 192;

/// Memory of an object that has few fields, in bytes. Its tree has space for eleven.
pub(super) const OBJECT: usize = 1_024;

/// Maximum steps of a search whose time is the product of the lengths of two arguments.
const MOST_STEPS: usize = 1 << 30;

/// Maximum levels of arrays, objects and elements in a text that is parsed, as in the crate's `parse_json`.
const MOST_LEVELS: usize = 128;

/// Returns an error if a function would take more memory than the program may still take.
fn fits(bytes: usize) -> Checked {
    let remaining = remaining();
    if bytes <= remaining {
        return Ok(None);
    }
    Err(format!(
        "with these arguments it may take {}; the program may take only {} more for this event",
        mebibytes(bytes),
        mebibytes(remaining)
    )
    .into())
}

/// Checks `estimate` only if the function may take too much memory for `length` bytes, of which each takes at most
/// `factor` bytes.
fn expands(length: usize, factor: usize, estimate: impl FnOnce() -> usize) -> Checked {
    if length.saturating_mul(factor) <= remaining() {
        return Ok(None);
    }
    fits(estimate())
}

/// Returns an error if `found` exceeds `most`.
fn at_most(found: usize, most: usize, object: &str) -> Checked {
    if found <= most {
        return Ok(None);
    }
    Err(format!("{object}: {found} are too many; at most {most} are allowed").into())
}

/// Returns how often a byte occurs.
fn count(bytes: &[u8], wanted: impl Fn(u8) -> bool) -> usize {
    bytes.iter().filter(|byte| wanted(**byte)).count()
}

/// Returns an integer argument, or `default` if the call does not have it.
fn integer(arguments: &Arguments<'_>, name: &str, default: i64) -> i64 {
    arguments.get(name).and_then(Value::as_integer).unwrap_or(default)
}
