//! Checks of functions of arrays and objects.

use bytes::Bytes;
use tremor_pdk::MAX_DEPTH;
use vrl::value::{KeyString, Value};

use super::{
    Arguments, Checked, ELEMENT, FIELD, MOST_STEPS, OBJECT, at_most, expands, fits, integer,
};

/// Maximum number of nested arrays or objects without values that follow one another. `flatten` calls itself for each.
const MOST_EMPTY: usize = 1_000;

/// Rejects a call of `zip` with an empty array as its only argument, because `zip` then never ends.
pub(crate) fn zip(arguments: &Arguments<'_>) -> Checked {
    match (arguments.get("array_0"), arguments.get("array_1")) {
        (Some(Value::Array(arrays)), None) if arrays.is_empty() => {
            Err("`array_0` has no elements: expected at least one array".into())
        }
        _ => Ok(None),
    }
}

/// `set` creates all elements before the position of an element, and calls itself for each segment of the path.
pub(crate) fn set(arguments: &Arguments<'_>) -> Checked {
    let Some(Value::Array(path)) = arguments.get("path") else { return Ok(None) };
    at_most(path.len(), MAX_DEPTH, "segments of `path`")?;
    let elements = path.iter().filter_map(Value::as_integer).map(i64::unsigned_abs);
    let elements = elements.fold(0_u64, u64::saturating_add);
    fits(usize::try_from(elements).unwrap_or(usize::MAX).saturating_mul(size_of::<Value>()))
}

/// `unflatten` never ends if the separator is empty, calls itself for each part of a key, prepares a search for the
/// separator for each key, and copies the rest of a key for each of its parts.
pub(crate) fn unflatten(arguments: &Arguments<'_>) -> Checked {
    let separator = arguments.get("separator").and_then(Value::to_str_lossy);
    let separator = separator.as_deref().unwrap_or(".");
    if separator.is_empty() {
        return Err("`separator` is empty: expected at least one character".into());
    }
    let mut keys = Keys { separator, parts: 0, steps: 0 };
    if let Some(value) = arguments.get("value") {
        keys.count(value, 0)?;
    }
    fits(keys.parts.saturating_mul(OBJECT))
}

/// The keys that `unflatten` divides.
struct Keys<'s> {
    separator: &'s str,
    /// Number of separators in all keys.
    parts: usize,
    /// Estimated number of bytes that the function reads and copies.
    steps: usize,
}

impl Keys<'_> {
    /// Counts the keys of a value. `levels` is the number of parts that lead to the value.
    fn count(&mut self, value: &Value, levels: usize) -> Checked {
        let Value::Object(object) = value else { return Ok(None) };
        for (key, value) in object {
            // The search reads the whole separator before it compares, even if the key is shorter.
            let is_shorter = key.len() < self.separator.len();
            let separators = if is_shorter { 0 } else { key.matches(self.separator).count() };
            let levels = levels + separators + 1;
            at_most(levels, MAX_DEPTH, "nested parts of keys")?;
            self.parts += separators;
            let copied = key.len().saturating_mul(separators + 1);
            self.steps = self.steps.saturating_add(copied).saturating_add(self.separator.len());
            at_most(self.steps, MOST_STEPS, "steps of the search")?;
            self.count(value, levels)?;
        }
        Ok(None)
    }
}

/// The keys of `flatten` contain all outer keys. The function calls itself for each value, so that values between which
/// there are none take stack.
pub(crate) fn flatten(arguments: &Arguments<'_>) -> Checked {
    let separator = arguments.get("separator").map_or(1, |_| arguments.bytes("separator").len());
    let Some(value) = arguments.get("value") else { return Ok(None) };
    let mut walk = Flatten { separator, is_array: value.is_array(), empty: 0, bytes: 0 };
    walk.visit(value, 0)?;
    fits(walk.bytes)
}

struct Flatten {
    separator: usize,
    /// `true` if nested arrays are flattened, and `false` if nested objects are.
    is_array: bool,
    /// Number of arrays or objects since the last value.
    empty: usize,
    bytes: usize,
}

impl Flatten {
    fn visit(&mut self, value: &Value, path: usize) -> Checked {
        match value {
            Value::Array(array) if self.is_array => {
                self.count_empty()?;
                for element in array {
                    self.visit(element, 0)?;
                }
            }
            Value::Object(object) if !self.is_array => {
                self.count_empty()?;
                // The function keeps the paths of all outer objects.
                self.bytes = self.bytes.saturating_add(path);
                for (key, value) in object {
                    self.visit(value, path + self.separator + key.len())?;
                }
            }
            _ => {
                self.empty = 0;
                self.bytes = self.bytes.saturating_add(ELEMENT + path);
            }
        }
        Ok(None)
    }

    fn count_empty(&mut self) -> Checked {
        self.empty += 1;
        let kind = if self.is_array { "arrays" } else { "objects" };
        at_most(self.empty, MOST_EMPTY, &format!("nested {kind} without a value in between"))
    }
}

/// The keys of encoded fields contain all outer keys.
pub(crate) fn encode_fields(arguments: &Arguments<'_>) -> Checked {
    let delimiters = ["key_value_delimiter", "field_delimiter"].map(|it| arguments.bytes(it).len());
    let delimiters = delimiters.iter().sum::<usize>() + FIELD;
    let mut bytes = 0;
    visit_paths(arguments.get("value").unwrap_or(&Value::Null), 0, &mut |path, text| {
        // A key is kept while the text is built, and both become longer if they are quoted.
        bytes += delimiters + 4 * (path + text);
    });
    fits(bytes)
}

/// Calls `visit` for each value with the lengths of the path to it and of its text.
fn visit_paths(value: &Value, path: usize, visit: &mut impl FnMut(usize, usize)) {
    visit(path, value.as_bytes().map_or(0, Bytes::len));
    match value {
        Value::Array(array) => array.iter().for_each(|it| visit_paths(it, path + 8, visit)),
        Value::Object(object) => {
            let mut field = |(key, value): (&KeyString, _)| {
                visit_paths(value, path + key.len() + 1, visit);
            };
            object.iter().for_each(&mut field);
        }
        _ => {}
    }
}

/// Readable JSON has two spaces for each level in each line.
pub(crate) fn encode_json(arguments: &Arguments<'_>) -> Checked {
    if !matches!(arguments.get("pretty"), Some(Value::Boolean(true))) {
        return Ok(None);
    }
    let mut bytes = 0_usize;
    visit_levels(arguments.get("value").unwrap_or(&Value::Null), 1, &mut |level, length| {
        bytes = bytes.saturating_add(4 * level + 6 * length);
    });
    fits(bytes)
}

/// Calls `visit` for each value with the number of its level, and with the length of its key and text.
fn visit_levels(value: &Value, level: usize, visit: &mut impl FnMut(usize, usize)) {
    match value {
        Value::Array(array) => {
            visit(level, 0);
            array.iter().for_each(|it| visit_levels(it, level + 1, visit));
        }
        Value::Object(object) => {
            visit(level, 0);
            for (key, value) in object {
                visit(level, key.len());
                visit_levels(value, level + 1, visit);
            }
        }
        _ => visit(level, value.as_bytes().map_or(0, Bytes::len)),
    }
}

/// Each element becomes an object.
pub(crate) fn to_entries(arguments: &Arguments<'_>) -> Checked {
    let elements = match arguments.get("value") {
        Some(Value::Array(array)) => array.len(),
        Some(Value::Object(object)) => object.len(),
        _ => 0,
    };
    fits(elements.saturating_mul(OBJECT))
}

/// Each value becomes an object.
pub(crate) fn tag_types(arguments: &Arguments<'_>) -> Checked {
    let mut values = 0_usize;
    visit_levels(arguments.get("value").unwrap_or(&Value::Null), 1, &mut |_, _| values += 1);
    fits(values.saturating_mul(OBJECT))
}

/// `join` repeats the separator.
pub(crate) fn join(arguments: &Arguments<'_>) -> Checked {
    let Some(Value::Array(array)) = arguments.get("value") else { return Ok(None) };
    fits(array.len().saturating_mul(arguments.bytes("separator").len()))
}

/// Each chunk becomes a value.
pub(crate) fn chunks(arguments: &Arguments<'_>) -> Checked {
    let length = arguments.bytes("value").len();
    let size = usize::try_from(integer(arguments, "chunk_size", 1)).unwrap_or(1).max(1);
    expands(length, ELEMENT, || length.div_ceil(size) * ELEMENT + length)
}
