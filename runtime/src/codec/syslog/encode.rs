//! Encoding of syslog messages.

use std::io::Write;

use tremor_abi::document::{ObjectRef, Shape, ValueRef};

use super::{RFC3164, RFC5424, Zone, civil::Civil, is_name, names, rfc3164, rfc5424::is_id};
use crate::codec::{Error, buffer::Bytes, raw};

/// Keys whose values are single words, with the maximum lengths of these values in bytes.
const WORDS: [(&str, usize); 4] =
    [("hostname", 255), ("appname", 48), ("procid", 128), ("msgid", 32)];

/// The top-level parts of a value.
#[derive(Default)]
struct Parts<'v> {
    is_3164: bool,
    facility: Option<u8>,
    severity: Option<u8>,
    timestamp: Option<i64>,
    words: [Option<Word<'v>>; 4],
    structured_data: Option<ObjectRef<'v>>,
    msg: &'v [u8],
}

/// Text, or an integer that is written as text.
enum Word<'v> {
    Text(&'v str),
    Number(itoa::Buffer, i64),
}

impl Word<'_> {
    fn as_str(&mut self) -> &str {
        match self {
            Self::Text(text) => text,
            Self::Number(buffer, number) => buffer.format(*number),
        }
    }
}

/// Appends the message of a value, with times of RFC 3164 in `zone`. After an error, the caller has to discard the
/// appended bytes.
pub(in crate::codec) fn encode(
    zone: &mut Zone,
    value: ValueRef<'_>,
    out: &mut Bytes,
) -> Result<(), Error> {
    let mut parts = Parts::of(value)?;
    // The defaults are `user` and `notice`, as RFC 3164 specifies for messages without a priority.
    let priority = parts.facility.unwrap_or(1) * 8 + parts.severity.unwrap_or(5);
    print(out, format_args!("<{priority}>"));
    if parts.is_3164 { parts.rfc3164(zone, out) } else { parts.rfc5424(out) }
}

fn print(out: &mut Bytes, text: std::fmt::Arguments<'_>) {
    // Writing to memory cannot fail.
    let _ = out.write_fmt(text);
}

fn append(out: &mut Bytes, text: &str) {
    out.extend_from_copy_slice(text.as_bytes());
}

impl<'v> Parts<'v> {
    fn of(value: ValueRef<'v>) -> Result<Self, Error> {
        let Shape::Object(object) = value.shape() else {
            return Err(Error::expected("an object", value.shape()));
        };
        let mut parts = Self::default();
        for (key, value) in object {
            parts.add(key, value)?;
        }
        Ok(parts)
    }

    fn add(&mut self, key: &str, value: ValueRef<'v>) -> Result<(), Error> {
        let wrong = |expected: &str| {
            Err(Error::expected(format_args!("{expected} as `{key}`"), value.shape()))
        };
        let shape = value.shape();
        if let Some(at) = WORDS.iter().position(|(word, _)| *word == key) {
            self.words[at] = match (shape, whole(value)) {
                (Shape::Null, _) => None,
                (Shape::String(text), _) => Some(Word::Text(text)),
                (_, Some(number)) => Some(Word::Number(itoa::Buffer::new(), number)),
                _ => return wrong("text or an integer"),
            };
            return Ok(());
        }
        match (key, shape) {
            (_, Shape::Null) => {}
            ("protocol", Shape::String(RFC5424)) => self.is_3164 = false,
            ("protocol", Shape::String(RFC3164)) => self.is_3164 = true,
            ("protocol", _) => {
                return Err(Error::bad_data(format!(
                    "expected `{RFC5424}` or `{RFC3164}` as `protocol`"
                )));
            }
            ("facility", _) => self.facility = Some(number(key, value, &names::FACILITIES)?),
            ("severity", _) => self.severity = Some(number(key, value, &names::SEVERITIES)?),
            ("timestamp", _) => match whole(value) {
                Some(timestamp) => self.timestamp = Some(timestamp),
                None if value.whole().is_some() => return wrong("ns below 2^63"),
                None => return wrong("ns since the Unix epoch"),
            },
            ("structured_data", Shape::Object(data)) => self.structured_data = Some(data),
            ("structured_data", _) => return wrong("an object"),
            ("msg", Shape::String(text)) => self.msg = text.as_bytes(),
            ("msg", Shape::Bytes(data)) => self.msg = data,
            ("msg", _) => return wrong("text or binary data"),
            _ => {
                return Err(Error::bad_data(format!(
                    "unknown key `{key}`: expected protocol, facility, severity, timestamp, \
                     hostname, appname, procid, msgid, structured_data or msg"
                )));
            }
        }
        Ok(())
    }

    fn rfc5424(&mut self, out: &mut Bytes) -> Result<(), Error> {
        append(out, "1 ");
        match self.timestamp {
            Some(timestamp) => rfc3339(timestamp, out)?,
            None => append(out, "-"),
        }
        for (word, (key, longest)) in self.words.iter_mut().zip(WORDS) {
            append(out, " ");
            let Some(word) = word else {
                append(out, "-");
                continue;
            };
            let text = word.as_str();
            if !is_name(text, longest) || text == "-" {
                return Err(Error::bad_data(format!(
                    "`{key}` is {text:?}: expected 1 to {longest} printable ASCII characters \
                     other than `-`"
                )));
            }
            append(out, text);
        }
        append(out, " ");
        match self.structured_data {
            Some(data) if !data.is_empty() => structured_data(data, out)?,
            _ => append(out, "-"),
        }
        if !self.msg.is_empty() {
            append(out, " ");
            out.extend_from_copy_slice(self.msg);
        }
        Ok(())
    }

    fn rfc3164(&mut self, zone: &mut Zone, out: &mut Bytes) -> Result<(), Error> {
        let [host, program, process, id] = &mut self.words;
        if id.is_some() || self.structured_data.is_some_and(|data| !data.is_empty()) {
            return Err(Error::bad_data("RFC 3164 has neither `msgid` nor `structured_data`"));
        }
        if self.timestamp.is_none() && (host.is_some() || program.is_some()) {
            return Err(Error::bad_data(
                "RFC 3164 needs a `timestamp` before `hostname` and `appname`",
            ));
        }
        if process.is_some() && program.is_none() {
            return Err(Error::bad_data("RFC 3164 needs an `appname` before `procid`"));
        }
        let Some(timestamp) = self.timestamp else {
            out.extend_from_copy_slice(self.msg);
            return Ok(());
        };
        let Civil { month, day, seconds, .. } =
            Civil::of(zone.local(timestamp).unwrap_or(timestamp));
        let month = usize::try_from(month - 1).ok().and_then(|month| names::MONTHS.get(month));
        let (hours, minutes, seconds) = (seconds / 3_600, seconds / 60 % 60, seconds % 60);
        let month = month.copied().unwrap_or_default();
        print(out, format_args!("{month} {day:2} {hours:02}:{minutes:02}:{seconds:02} "));
        let name = |key: &str, text: &str, fits: bool| {
            if is_name(text, 255) && text != "-" && fits {
                return Ok(());
            }
            Err(Error::bad_data(format!("RFC 3164 cannot write the `{key}` {text:?}")))
        };
        match host {
            Some(host) => {
                let host = host.as_str();
                name("hostname", host, rfc3164::host(host.as_bytes()) == Some(host))?;
                append(out, host);
            }
            None => append(out, "-"),
        }
        if let Some(program) = program {
            let program = program.as_str();
            name("appname", program, !program.contains(['[', ']', ':']))?;
            append(out, " ");
            append(out, program);
            if let Some(process) = process {
                let process = process.as_str();
                name("procid", process, !process.contains(['[', ']']))?;
                print(out, format_args!("[{process}]"));
            }
            append(out, ":");
        }
        if !self.msg.is_empty() {
            append(out, " ");
            out.extend_from_copy_slice(self.msg);
        }
        Ok(())
    }
}

/// Returns a whole number that fits 64 bits.
fn whole(value: ValueRef<'_>) -> Option<i64> {
    i64::try_from(value.whole()?).ok()
}

/// Returns the number of a facility or a severity. The value may be the name or the number.
fn number(key: &str, value: ValueRef<'_>, names: &[&str]) -> Result<u8, Error> {
    let number = match value.shape() {
        Shape::String(text) => names.iter().position(|name| *name == text),
        _ => value.whole().and_then(|number| usize::try_from(number).ok()),
    };
    let number = number.filter(|number| *number < names.len());
    number.and_then(|number| u8::try_from(number).ok()).ok_or_else(|| {
        let last = names.len() - 1;
        Error::bad_data(format!("expected a name or a number from 0 to {last} as `{key}`"))
    })
}

fn rfc3339(timestamp: i64, out: &mut Bytes) -> Result<(), Error> {
    let Civil { year, month, day, seconds, nanoseconds } = Civil::of(timestamp);
    if !(0..=9_999).contains(&year) {
        return Err(Error::bad_data(format!("expected a year of four digits, found {year}")));
    }
    let (hours, minutes, seconds) = (seconds / 3_600, seconds / 60 % 60, seconds % 60);
    print(out, format_args!("{year:04}-{month:02}-{day:02}T{hours:02}:{minutes:02}:{seconds:02}"));
    match nanoseconds / 1_000 {
        0 => {}
        fraction => print(out, format_args!(".{fraction:06}")),
    }
    append(out, "Z");
    Ok(())
}

fn structured_data(data: ObjectRef<'_>, out: &mut Bytes) -> Result<(), Error> {
    let id = |text: &str, out: &mut Bytes| {
        if !is_id(text) {
            return Err(Error::bad_data(format!(
                "{text:?} cannot name structured data: expected 1 to 32 printable ASCII characters \
                 without `=`, `]` and `\"`"
            )));
        }
        append(out, text);
        Ok(())
    };
    for (element, parameters) in data {
        let Shape::Object(parameters) = parameters.shape() else {
            let expected = format_args!("an object as the structured data `{element}`");
            return Err(Error::expected(expected, parameters.shape()));
        };
        append(out, "[");
        id(element, out)?;
        for (name, value) in parameters {
            let mut one = |value: ValueRef<'_>| {
                append(out, " ");
                id(name, out)?;
                append(out, "=\"");
                text(name, value, out)?;
                append(out, "\"");
                Ok::<(), Error>(())
            };
            match value.shape() {
                Shape::Array(values) => values.into_iter().try_for_each(one)?,
                Shape::Null => {}
                _ => one(value)?,
            }
        }
        append(out, "]");
    }
    Ok(())
}

fn text(name: &str, value: ValueRef<'_>, out: &mut Bytes) -> Result<(), Error> {
    match value.shape() {
        Shape::String(text) => {
            for byte in text.bytes() {
                if b"\"\\]".contains(&byte) {
                    out.push(b'\\');
                }
                out.push(byte);
            }
        }
        scalar if raw::append_scalar(scalar, out) => {}
        found => {
            return Err(Error::expected(format_args!("text as the parameter `{name}`"), found));
        }
    }
    Ok(())
}
