//! Decodes the part of a message after the priority, according to RFC 5424.

use std::collections::BTreeSet;

use tremor_abi::document::Writer;

use super::{Reader, civil, is_name, msg, optional};
use crate::codec::{Error, ErrorKind, copied::without_signature, limit};

/// Maximum number of elements of a message, and also of parameters of an element.
const MOST: usize = 1_024;

/// A parameter of an element. Escapes in the value are not replaced.
struct Parameter<'m> {
    name: &'m str,
    value: &'m str,
    /// Position of the parameter in the element.
    at: usize,
}

pub(super) fn decode(mut reader: Reader<'_>, writer: &mut Writer<'_>) -> Result<(), Error> {
    header(&mut reader, writer)?;
    reader.take(b' ');
    msg(without_signature(reader.rest()), writer);
    Ok(())
}

/// Writes the parts before the text, up to [`Reader::end`].
///
/// # Errors
/// Returns an error at the start of the first invalid part.
fn header(reader: &mut Reader<'_>, writer: &mut Writer<'_>) -> Result<(), Error> {
    // Skips the version, which the caller has checked.
    reader.at += 1;
    space(reader)?;
    let start = *reader;
    match reader.word() {
        b"-" => {}
        word => {
            let Some(timestamp) = civil::rfc3339(word) else {
                return Err(start.error("expected a time as in RFC 3339, or `-`"));
            };
            writer.key("timestamp");
            writer.i64(timestamp);
        }
    }
    for (key, what, longest) in [
        ("hostname", "the name of a host", 255),
        ("appname", "the name of a program", 48),
        ("procid", "the id of a process", 128),
        ("msgid", "the id of a message", 32),
    ] {
        if !next(reader)? {
            return Ok(());
        }
        optional(key, reader.name(what, longest)?, writer);
    }
    if !next(reader)? {
        return Ok(());
    }
    let start = *reader;
    let data = structured_data(reader, writer).and_then(|()| match reader.rest().first() {
        None | Some(b' ') => Ok(()),
        Some(_) => Err(reader.error("expected a space")),
    });
    data.map_err(|error| match error.kind() {
        ErrorKind::BadData => start.error("expected structured data or `-`, and then a space"),
        ErrorKind::TooLarge => error,
    })
}

/// Consumes the space before the next part. Returns `false` if the text begins here, so that there is no further part.
fn next(reader: &mut Reader<'_>) -> Result<bool, Error> {
    if reader.at >= reader.end {
        return Ok(false);
    }
    space(reader)?;
    Ok(reader.at < reader.end)
}

fn space(reader: &mut Reader<'_>) -> Result<(), Error> {
    if reader.take(b' ') { Ok(()) } else { Err(reader.error("expected a space")) }
}

fn structured_data<'m>(reader: &mut Reader<'m>, writer: &mut Writer<'_>) -> Result<(), Error> {
    if reader.take(b'-') {
        return Ok(());
    }
    if reader.rest().first() != Some(&b'[') {
        return Err(reader.error("expected structured data, which starts with `[`, or `-`"));
    }
    writer.key("structured_data");
    writer.begin_object();
    let mut elements = BTreeSet::new();
    let mut parameters: Vec<Parameter<'m>> = Vec::new();
    let mut unescaped = String::new();
    while reader.take(b'[') {
        let start = *reader;
        let element = name(reader, b" ]", "the id of an element")?;
        if elements.len() == MOST {
            return Err(start.error(format!("more than {MOST} elements")));
        }
        if !elements.insert(element) {
            return Err(start.error(format!("the element `{element}` occurs twice")));
        }
        parameters.clear();
        while reader.take(b' ') {
            if parameters.len() == MOST {
                return Err(reader.error(format!("more than {MOST} parameters in an element")));
            }
            let (name, value) = parameter(reader)?;
            parameters.push(Parameter { name, value, at: parameters.len() });
        }
        if !reader.take(b']') {
            return Err(reader.error("expected `]` or a space and another parameter"));
        }
        writer.key(element);
        write(&mut parameters, &mut unescaped, writer);
        limit::admit(reader.message.len(), writer.nodes())?;
    }
    writer.end_object();
    Ok(())
}

/// Consumes the bytes before the first byte of `ends`. They must be a valid name.
fn name<'m>(reader: &mut Reader<'m>, ends: &[u8], what: &str) -> Result<&'m str, Error> {
    let rest = reader.rest();
    let length = rest.iter().position(|byte| ends.contains(byte)).unwrap_or(rest.len());
    let name = std::str::from_utf8(&rest[..length]).ok();
    match name.filter(|name| is_id(name)) {
        Some(name) => {
            reader.at += length;
            Ok(name)
        }
        None => Err(reader.error(format!(
            "expected {what}: 1 to 32 printable ASCII characters without `=`, `]` and `\"`"
        ))),
    }
}

/// Returns whether `text` is a valid name of an element or a parameter.
pub(super) fn is_id(text: &str) -> bool {
    is_name(text, 32) && !text.contains(['=', ']', '"'])
}

/// Consumes a parameter. Returns its name and its value, in which escapes are not replaced.
fn parameter<'m>(reader: &mut Reader<'m>) -> Result<(&'m str, &'m str), Error> {
    let name = name(reader, b"=", "the name of a parameter")?;
    if !reader.take(b'=') || !reader.take(b'"') {
        return Err(reader.error("expected `=` and a value in quotes"));
    }
    let (start, rest) = (*reader, reader.rest());
    let mut length = 0;
    loop {
        match rest.get(length) {
            Some(b'"') => break,
            Some(b'\\') if rest.get(length + 1).is_some_and(|next| b"\"\\]".contains(next)) => {
                length += 2;
            }
            Some(b']') => {
                reader.at += length;
                return Err(reader.error("expected a backslash before `]` within a value"));
            }
            Some(_) => length += 1,
            None => return Err(start.error("unterminated value")),
        }
    }
    let value = std::str::from_utf8(&rest[..length])
        .map_err(|error| Error::bad_data_at(reader.at + error.valid_up_to(), "invalid UTF-8"))?;
    reader.at += length + 1;
    Ok((name, value))
}

/// Writes the parameters of an element, in the order in which their names first occur. If several parameters have the
/// same name, their values become an array.
fn write(parameters: &mut [Parameter<'_>], unescaped: &mut String, writer: &mut Writer<'_>) {
    parameters.sort_by_key(|parameter| parameter.name);
    let mut names: Vec<&[Parameter<'_>]> =
        parameters.chunk_by(|one, other| one.name == other.name).collect();
    names.sort_unstable_by_key(|same| same.first().map(|first| first.at));
    writer.begin_object();
    for same in names {
        let Some(first) = same.first() else { continue };
        writer.key(first.name);
        if same.len() > 1 {
            writer.begin_array();
        }
        for parameter in same {
            writer.str(unescape(parameter.value, unescaped));
        }
        if same.len() > 1 {
            writer.end_array();
        }
    }
    writer.end_object();
}

fn unescape<'t>(text: &'t str, out: &'t mut String) -> &'t str {
    if !text.contains('\\') {
        return text;
    }
    out.clear();
    let mut characters = text.chars().peekable();
    while let Some(character) = characters.next() {
        let escaped = (character == '\\')
            .then(|| characters.next_if(|next| ['"', '\\', ']'].contains(next)))
            .flatten();
        out.push(escaped.unwrap_or(character));
    }
    out
}
