//! Encoding of lines.

use tremor_abi::document::{ObjectRef, Shape, ValueRef};

use super::is_blank;
use crate::codec::{Error, buffer::Bytes, copied::signature_of, raw};

/// The top-level parts of a value.
#[derive(Default)]
struct Parts<'v> {
    measurement: Option<&'v str>,
    tags: Option<ObjectRef<'v>>,
    fields: Option<ObjectRef<'v>>,
    timestamp: Option<ValueRef<'v>>,
}

/// Appends the line of a value. After an error, the caller has to discard the appended bytes.
pub(in crate::codec) fn encode(value: ValueRef<'_>, out: &mut Bytes) -> Result<(), Error> {
    let parts = Parts::of(value)?;
    let measurement = parts.measurement.unwrap_or_default();
    let start = out.len();
    if !measurement.is_empty() {
        name(measurement, b", ", "measurement", out)?;
    }
    // A line that starts with `#` is a comment, and a byte order mark is not read as a part of the text.
    if is_blank(&out[start..]) || signature_of(measurement.as_bytes()) > 0 {
        return Err(Error::bad_data(
            "expected a `measurement` that is neither empty nor starts with `#` or a byte order mark",
        ));
    }
    for (key, value) in parts.tags.into_iter().flatten() {
        tag(key, value, out)?;
    }
    let mut before = b' ';
    for (key, value) in parts.fields.into_iter().flatten() {
        if matches!(value.shape(), Shape::Null) {
            continue;
        }
        out.push(before);
        before = b',';
        name(key, b",= ", "name of a field", out)?;
        out.push(b'=');
        field(key, value, out)?;
    }
    if before == b' ' {
        return Err(Error::bad_data("expected an object `fields` with at least one field"));
    }
    if let Some(timestamp) = parts.timestamp.filter(|timestamp| !timestamp.is_null()) {
        let Some(timestamp) = timestamp.whole().and_then(|it| i64::try_from(it).ok()) else {
            return Err(Error::bad_data("expected an integer below 2^63 as `timestamp`"));
        };
        out.push(b' ');
        append(out, itoa::Buffer::new().format(timestamp));
    }
    Ok(())
}

impl<'v> Parts<'v> {
    fn of(value: ValueRef<'v>) -> Result<Self, Error> {
        let Shape::Object(object) = value.shape() else {
            return Err(Error::expected("an object", value.shape()));
        };
        let mut parts = Self::default();
        for (key, value) in object {
            match (key, value.shape()) {
                ("measurement", Shape::String(text)) => parts.measurement = Some(text),
                ("tags", Shape::Object(tags)) => parts.tags = Some(tags),
                ("tags", Shape::Null) => {}
                ("fields", Shape::Object(fields)) => parts.fields = Some(fields),
                ("timestamp", _) => parts.timestamp = Some(value),
                ("measurement" | "tags" | "fields", _) => {
                    let expected = if key == "measurement" { "text" } else { "an object" };
                    let expected = format_args!("{expected} as `{key}`");
                    return Err(Error::expected(expected, value.shape()));
                }
                _ => {
                    return Err(Error::bad_data(format!(
                        "unknown key `{key}`: expected measurement, tags, fields or timestamp"
                    )));
                }
            }
        }
        Ok(parts)
    }
}

fn append(out: &mut Bytes, text: &str) {
    out.extend_from_copy_slice(text.as_bytes());
}

/// Appends a name or tag, with escapes.
fn name(text: &str, escapes: &[u8], what: &str, out: &mut Bytes) -> Result<(), Error> {
    if text.is_empty() || text.ends_with('\\') || text.contains('\n') {
        return Err(Error::bad_data(format!(
            "the protocol cannot write the {what} {text:?}: it is empty, has a line feed or ends \
             with a backslash"
        )));
    }
    escaped(text, escapes, out);
    Ok(())
}

fn escaped(text: &str, escapes: &[u8], out: &mut Bytes) {
    if !text.bytes().any(|byte| escapes.contains(&byte)) {
        return append(out, text);
    }
    for byte in text.bytes() {
        if escapes.contains(&byte) {
            out.push(b'\\');
        }
        out.push(byte);
    }
}

fn tag(key: &str, value: ValueRef<'_>, out: &mut Bytes) -> Result<(), Error> {
    if matches!(value.shape(), Shape::Null) {
        return Ok(());
    }
    out.push(b',');
    name(key, b",= ", "name of a tag", out)?;
    out.push(b'=');
    match value.shape() {
        Shape::String(text) => name(text, b",= ", "tag", out)?,
        scalar if raw::append_scalar(scalar, out) => {}
        found => return Err(Error::expected(format_args!("text as the tag `{key}`"), found)),
    }
    Ok(())
}

fn field(key: &str, value: ValueRef<'_>, out: &mut Bytes) -> Result<(), Error> {
    match value.shape() {
        Shape::String(text) => {
            out.push(b'"');
            escaped(text, b"\"\\", out);
            out.push(b'"');
        }
        Shape::Bool(value) => append(out, if value { "true" } else { "false" }),
        Shape::I64(number) => {
            append(out, itoa::Buffer::new().format(number));
            out.push(b'i');
        }
        Shape::U64(number) => {
            append(out, itoa::Buffer::new().format(number));
            out.push(if i64::try_from(number).is_ok() { b'i' } else { b'u' });
        }
        Shape::F64(number) if number.is_finite() => {
            append(out, zmij::Buffer::new().format_finite(number));
        }
        Shape::Number(text) if value.as_f64().is_some() => append(out, text),
        Shape::F64(_) | Shape::Number(_) => {
            let expected =
                format!("expected a finite number as the field `{key}`, found {value:?}");
            return Err(Error::bad_data(expected));
        }
        found => {
            let expected = format_args!("a number, a truth value or text as the field `{key}`");
            return Err(Error::expected(expected, found));
        }
    }
    Ok(())
}
