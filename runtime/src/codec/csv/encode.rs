//! Encoding of records.

use tremor_abi::document::{Shape, ValueRef, is_json_number};

use super::Options;
use crate::codec::{Error, buffer::Bytes, copied::signature_of};

/// Appends the record of a value. After an error, the caller has to discard the appended bytes.
pub(in crate::codec) fn encode(
    options: &Options,
    value: ValueRef<'_>,
    out: &mut Bytes,
) -> Result<(), Error> {
    let start = out.len();
    let count = match (value.shape(), &options.headers) {
        (Shape::Array(array), None) => {
            for (index, element) in array.into_iter().enumerate() {
                field(options, index, Some(element), out)?;
            }
            array.len()
        }
        (Shape::Array(array), Some(headers)) if array.len() == headers.len() => {
            for (index, element) in array.into_iter().enumerate() {
                field(options, index, Some(element), out)?;
            }
            array.len()
        }
        (Shape::Object(object), Some(headers)) => {
            let mut known = 0;
            for (index, header) in headers.iter().enumerate() {
                let element = object.get(header);
                known += usize::from(element.is_some());
                field(options, index, element, out)?;
            }
            if known < object.len() {
                let unknown = object.iter().find(|(key, _)| !headers.iter().any(|it| it == key));
                let key = unknown.map_or("", |(key, _)| key);
                return Err(Error::bad_data(format!("the key `{key}` is not among the headers")));
            }
            headers.len()
        }
        (Shape::Array(array), Some(headers)) => {
            let (expected, found) = (headers.len(), array.len());
            return Err(Error::bad_data(format!("expected {expected} fields, found {found}")));
        }
        (_, headers) => {
            let what = if headers.is_some() { "an object" } else { "an array" };
            return Err(Error::expected(what, value.shape()));
        }
    };
    if count == 0 {
        return Err(Error::bad_data(
            "expected an array of at least one field, found an empty array",
        ));
    }
    // A record of a single empty field would be an empty line, which other programs do not accept as a record.
    if out.len() == start {
        quoted(options, "", out)?;
    }
    Ok(())
}

fn field(
    options: &Options,
    index: usize,
    value: Option<ValueRef<'_>>,
    out: &mut Bytes,
) -> Result<(), Error> {
    if index > 0 {
        out.push(options.delimiter);
    }
    let Some(value) = value else { return Ok(()) };
    match value.shape() {
        Shape::Null => Ok(()),
        Shape::Bool(value) => {
            plain((options, index == 0), if value { "true" } else { "false" }, out)
        }
        Shape::I64(number) => plain((options, index == 0), itoa::Buffer::new().format(number), out),
        Shape::U64(number) => plain((options, index == 0), itoa::Buffer::new().format(number), out),
        Shape::F64(number) if number.is_finite() => {
            plain((options, index == 0), zmij::Buffer::new().format_finite(number), out)
        }
        Shape::F64(number) => Err(Error::bad_data(format!("field {index} is {number}"))),
        Shape::String(text) if options.numbers && is_json_number(text.as_bytes()) => {
            quoted(options, text, out)
        }
        Shape::String(text) | Shape::Number(text) => plain((options, index == 0), text, out),
        found @ (Shape::Bytes(_) | Shape::Array(_) | Shape::Object(_)) => {
            Err(Error::expected(format_args!("a scalar as field {index}"), found))
        }
    }
}

/// Appends a field, in quotes if necessary.
fn plain((options, is_first): (&Options, bool), text: &str, out: &mut Bytes) -> Result<(), Error> {
    let special =
        |byte| byte == options.delimiter || Some(byte) == options.quote || b"\r\n".contains(&byte);
    // At the start of a record, a byte order mark would not be read as a part of the text.
    if text.bytes().any(special) || is_first && signature_of(text.as_bytes()) > 0 {
        return quoted(options, text, out);
    }
    out.extend_from_copy_slice(text.as_bytes());
    Ok(())
}

fn quoted(options: &Options, text: &str, out: &mut Bytes) -> Result<(), Error> {
    let Some(quote) = options.quote else {
        return Err(Error::bad_data(format!(
            "{text:?} cannot be written without quotes, and `quote` is null"
        )));
    };
    out.push(quote);
    for byte in text.bytes() {
        if byte == quote {
            out.push(quote);
        }
        out.push(byte);
    }
    out.push(quote);
    Ok(())
}
