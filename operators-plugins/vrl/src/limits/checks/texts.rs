//! Checks of functions of texts and numbers.

use vrl::value::Value;

use super::{
    Arguments, Checked, ELEMENT, MOST_STEPS, OBJECT, at_most, count, expands, fits, integer,
};

/// Maximum `scale` of `format_number`, and maximum bytes of its separators.
const MOST_SCALE: i64 = 1_000;

/// Maximum absolute value of `format_number`: the crate's decimal numbers have 96 bits.
const MOST_DECIMAL: f64 = 7.9e28;

/// Maximum bytes of a label of a domain. The time of Punycode is quadratic; labels of real domains have 63 bytes.
const MOST_LABEL: usize = 1_000;

/// Maximum bytes of a regular expression that the program computes.
const MOST_PATTERN: usize = 4_096;

pub(crate) fn format_number(arguments: &Arguments<'_>) -> Checked {
    if let Some(Value::Float(number)) = arguments.get("value")
        && number.abs() > MOST_DECIMAL
    {
        let number = number.into_inner();
        return Err(format!("cannot format {number:e}: expected at most {MOST_DECIMAL:e}").into());
    }
    let scale = integer(arguments, "scale", 0);
    if !(0..=MOST_SCALE).contains(&scale) {
        return Err(format!("invalid `scale` {scale}: expected 0 to {MOST_SCALE}").into());
    }
    for name in ["grouping_separator", "decimal_separator"] {
        let most = usize::try_from(MOST_SCALE).unwrap_or(0);
        at_most(arguments.bytes(name).len(), most, &format!("bytes of `{name}`"))?;
    }
    Ok(None)
}

/// `replace` repeats the replacement, which may itself repeat the groups of a match.
pub(crate) fn replace(arguments: &Arguments<'_>) -> Checked {
    let (value, with) = (arguments.bytes("value"), arguments.bytes("with"));
    let most = usize::try_from(integer(arguments, "count", -1)).unwrap_or(usize::MAX);
    let found = |matches: usize| matches.min(most).saturating_mul(with.len());
    // An empty pattern also matches at the end.
    expands(value.len() + 1, with.len() + 1, || {
        let text = String::from_utf8_lossy(value);
        let added = match arguments.get("pattern") {
            Some(Value::Regex(pattern)) => {
                let expanded = count(with, |byte| byte == b'$').saturating_mul(value.len());
                found(pattern.find_iter(&text).count()).saturating_add(expanded)
            }
            Some(pattern) => {
                let pattern = pattern.to_str_lossy().unwrap_or_default();
                found(text.matches(&*pattern).count())
            }
            None => 0,
        };
        value.len().saturating_add(added)
    })
}

/// `sieve` replaces each gap between two matches.
pub(crate) fn sieve(arguments: &Arguments<'_>) -> Checked {
    let longest = ["replace_single", "replace_repeated"].map(|it| arguments.bytes(it).len());
    let longest = longest.into_iter().max().unwrap_or(0);
    let value = arguments.bytes("value");
    expands(value.len(), longest + 1, || {
        let Some(Value::Regex(pattern)) = arguments.get("permitted_characters") else { return 0 };
        let matches = pattern.find_iter(&String::from_utf8_lossy(value)).count();
        value.len().saturating_add(matches.saturating_mul(longest))
    })
}

/// Each part of a text becomes a value.
pub(crate) fn split(arguments: &Arguments<'_>) -> Checked {
    let value = arguments.bytes("value");
    let most = usize::try_from(integer(arguments, "limit", i64::MAX)).unwrap_or(0);
    expands(value.len(), ELEMENT, || {
        let text = String::from_utf8_lossy(value);
        let parts = match arguments.get("pattern") {
            Some(Value::Regex(pattern)) => pattern.find_iter(&text).take(most).count(),
            Some(pattern) => {
                let pattern = pattern.to_str_lossy().unwrap_or_default();
                text.matches(&*pattern).take(most).count()
            }
            None => 0,
        };
        (parts + 1) * ELEMENT + value.len()
    })
}

pub(crate) fn split_path(arguments: &Arguments<'_>) -> Checked {
    separated(arguments.bytes("value"), |byte| byte == b'/' || byte == b'\\')
}

/// Each part of a text between bytes that separate becomes a value.
pub(super) fn separated(text: &[u8], separates: impl Fn(u8) -> bool) -> Checked {
    expands(text.len(), ELEMENT, || (count(text, separates) + 1) * ELEMENT + text.len())
}

/// Each match becomes an object of its groups.
pub(crate) fn parse_regex_all(arguments: &Arguments<'_>) -> Checked {
    let value = arguments.bytes("value");
    let Some(Value::Regex(pattern)) = arguments.get("pattern") else { return Ok(None) };
    let groups = pattern.captures_len();
    let each = OBJECT.max(ELEMENT * 4 * groups);
    expands(value.len() + 1, each + groups, || {
        let matches = pattern.find_iter(&String::from_utf8_lossy(value)).count();
        matches.saturating_mul(each).saturating_add(value.len() * groups)
    })
}

/// The time is the product of the lengths.
pub(crate) fn find(arguments: &Arguments<'_>) -> Checked {
    // The crate compares at least 16 bytes in a step.
    let [value, pattern] = ["value", "pattern"].map(|name| arguments.bytes(name).len());
    at_most(value.saturating_mul(pattern) / 16, MOST_STEPS, "steps of the search")
}

/// The text is searched for each of the other texts.
pub(crate) fn contains_all(arguments: &Arguments<'_>) -> Checked {
    let Some(Value::Array(wanted)) = arguments.get("substrings") else { return Ok(None) };
    let steps = wanted.len().saturating_mul(arguments.bytes("value").len());
    at_most(steps, MOST_STEPS, "steps of the search")
}

pub(crate) fn punycode(arguments: &Arguments<'_>) -> Checked {
    let labels = arguments.bytes("value").split(|byte| *byte == b'.');
    at_most(labels.map(<[u8]>::len).max().unwrap_or(0), MOST_LABEL, "bytes of a label")
}

pub(crate) fn to_regex(arguments: &Arguments<'_>) -> Checked {
    at_most(arguments.bytes("value").len(), MOST_PATTERN, "bytes of the regular expression")
}

/// A specifier of two bytes, such as `%c`, becomes up to 40 bytes.
pub(crate) fn format_timestamp(arguments: &Arguments<'_>) -> Checked {
    fits(arguments.bytes("format").len().saturating_mul(64))
}

/// Each word of a text becomes a text of its own on the way to the result.
pub(crate) fn words(arguments: &Arguments<'_>) -> Checked {
    has_type(arguments, "value", "text", |value| value.as_bytes().is_some())?;
    fits(arguments.bytes("value").len().saturating_mul(ELEMENT))
}

/// Some functions panic with the type of an argument that they do not expect, which takes far more memory than the argument.
fn has_type(
    arguments: &Arguments<'_>,
    name: &str,
    expected: &str,
    is_expected: impl Fn(&Value) -> bool,
) -> Checked {
    match arguments.get(name) {
        Some(value) if !is_expected(value) => {
            Err(format!("invalid `{name}`: expected {expected}, found {}", value.kind_str()).into())
        }
        _ => Ok(None),
    }
}

pub(crate) fn random(arguments: &Arguments<'_>) -> Checked {
    for name in ["length", "min", "max"] {
        let is_number = |value: &Value| value.is_integer() || value.is_float();
        has_type(arguments, name, "a number", is_number)?;
    }
    Ok(None)
}
