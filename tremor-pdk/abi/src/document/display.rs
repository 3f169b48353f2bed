//! Display of values as compact JSON, for people.

use std::fmt::{self, Write};

use super::{MAX_DEPTH, Shape, ValueRef};

/// Writes compact JSON, for logs and error messages. Binary data is base64 text as in the JSON codec; unlike in the
/// codec, a float that is not finite is `null`. The alternate form (`{:#}`) is indented.
impl fmt::Display for ValueRef<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write(f, *self, MAX_DEPTH)
    }
}

impl fmt::Debug for ValueRef<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

fn write(f: &mut fmt::Formatter<'_>, value: ValueRef<'_>, depth: usize) -> fmt::Result {
    match value.shape() {
        Shape::Bool(value) => write!(f, "{value}"),
        Shape::I64(value) => write!(f, "{value}"),
        Shape::U64(value) => write!(f, "{value}"),
        Shape::F64(value) if value.is_finite() => write!(f, "{value:?}"),
        Shape::F64(_) | Shape::Null => f.write_str("null"),
        Shape::Number(value) => f.write_str(value),
        Shape::String(value) => text(f, value),
        Shape::Bytes(value) => base64(f, value),
        Shape::Array(_) | Shape::Object(_) if depth == 0 => f.write_str("null"),
        Shape::Array(array) => {
            f.write_char('[')?;
            for (n, element) in array.iter().enumerate() {
                separate(f, n, depth)?;
                write(f, element, depth - 1)?;
            }
            end(f, array.is_empty(), depth)?;
            f.write_char(']')
        }
        Shape::Object(object) => {
            f.write_char('{')?;
            for (n, (key, value)) in object.iter().enumerate() {
                separate(f, n, depth)?;
                text(f, key)?;
                f.write_str(if f.alternate() { ": " } else { ":" })?;
                write(f, value, depth - 1)?;
            }
            end(f, object.is_empty(), depth)?;
            f.write_char('}')
        }
    }
}

/// Writes the separator and the indentation before the element `n` of a container. `depth` is the remaining nesting
/// depth.
fn separate(f: &mut fmt::Formatter<'_>, n: usize, depth: usize) -> fmt::Result {
    if n > 0 {
        f.write_char(',')?;
    }
    indent(f, MAX_DEPTH + 1 - depth)
}

/// Writes the indentation after the last element.
fn end(f: &mut fmt::Formatter<'_>, is_empty: bool, depth: usize) -> fmt::Result {
    if is_empty { Ok(()) } else { indent(f, MAX_DEPTH - depth) }
}

fn indent(f: &mut fmt::Formatter<'_>, level: usize) -> fmt::Result {
    if f.alternate() { write!(f, "\n{:width$}", "", width = 2 * level) } else { Ok(()) }
}

fn text(f: &mut fmt::Formatter<'_>, text: &str) -> fmt::Result {
    let is_special = |c: char| c == '"' || c == '\\' || c < ' ';
    f.write_char('"')?;
    for run in text.split_inclusive(is_special) {
        let Some(last) = run.chars().next_back().filter(|c| is_special(*c)) else {
            f.write_str(run)?;
            continue;
        };
        f.write_str(&run[..run.len() - 1])?;
        match last {
            '"' => f.write_str("\\\"")?,
            '\\' => f.write_str("\\\\")?,
            '\n' => f.write_str("\\n")?,
            '\r' => f.write_str("\\r")?,
            '\t' => f.write_str("\\t")?,
            other => write!(f, "\\u{:04x}", u32::from(other))?,
        }
    }
    f.write_char('"')
}

fn base64(f: &mut fmt::Formatter<'_>, data: &[u8]) -> fmt::Result {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    f.write_char('"')?;
    for group in data.chunks(3) {
        let byte = |n: usize| u32::from(group.get(n).copied().unwrap_or(0));
        let bits = byte(0) << 16 | byte(1) << 8 | byte(2);
        for n in 0..4 {
            let digit = DIGITS[(bits >> (18 - 6 * n)) as usize & 63];
            f.write_char(if n <= group.len() { digit.into() } else { '=' })?;
        }
    }
    f.write_char('"')
}
