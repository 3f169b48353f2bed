//! Syslog messages, according to [RFC 5424](https://www.rfc-editor.org/rfc/rfc5424) and [RFC
//! 3164](https://www.rfc-editor.org/rfc/rfc3164).
//!
//! ```text
//! <165>1 2003-10-11T22:14:15.003Z mymachine evntslog - ID47 [exampleSDID@32473 iut="3"] It works
//! ```
//! ```json
//! {"protocol":"RFC5424","facility":"local4","severity":"notice","timestamp":1065910455003000000,
//!  "hostname":"mymachine","appname":"evntslog","msgid":"ID47",
//!  "structured_data":{"exampleSDID@32473":{"iut":"3"}},"msg":"It works"}
//! ```
//!
//! | key | value |
//! |---|---|
//! | `protocol` | `RFC5424` (the default for encoding) or `RFC3164` |
//! | `facility` | `kern`, `user`, `mail`, `daemon`, `auth`, `syslog`, `lpr`, `news`, `uucp`, `cron`, `authpriv`, `ftp`, `ntp`, `audit`, `alert`, `clock`, `local0` … `local7`; to encode, also its number; `user` if it is left out |
//! | `severity` | `emerg`, `alert`, `crit`, `err`, `warning`, `notice`, `info`, `debug`; to encode, also its number; `notice` if it is left out |
//! | `timestamp` | ns since the Unix epoch |
//! | `hostname`, `appname`, `procid`, `msgid` | text; to encode, also integers |
//! | `structured_data` | an object of objects of text; a name that occurs several times in one element has an array of text |
//! | `msg` | text, or binary data where it is not UTF-8 |
//!
//! If a message lacks a part, or contains `-` instead, the value has no key for the part. If a value lacks a key,
//! the part is written as `-` or omitted.
//!
//! A message with an invalid header is never lost: the keys before the invalid part are kept, and the remaining text
//! becomes `msg`. If the time after the version of RFC 5424 is invalid, the message is read as one of RFC 3164, and the
//! version becomes a part of `msg`.
//!
//! A message without a priority has the priority 13, `user` and `notice` (RFC 3164, section 4.3.3).
//!
//! RFC 3164 describes formats that were observed and is not a standard, so several formats are accepted. Times may have
//! the format of RFC 3339, with or without an offset, or of Cisco devices: counters and a host before the time, an
//! optional `*` or `.` directly before it, a year before the month, after the day or after the seconds, a fraction, the
//! abbreviation of a zone, and a colon at the end. The counters are dropped. A message without a time consists of `msg`
//! only. If a word after the time ends with a colon or contains a bracket, it is the program and not the host, unless it
//! is an IP address. A time without a year is the latest matching time that is at most one day ahead of the clock.
//!
//! | option | |
//! |---|---|
//! | `timezone` | zone of times that have no offset: `local`, the default, for the zone of the machine, a name such as `Europe/Berlin` or `UTC`, or an offset such as `+02:00` |
//!
//! A time that occurs twice, because clocks are set back, is the earlier one. A time that clocks skip, because they are
//! set forward, becomes later by the skipped time.
//!
//! Some data changes in a round trip. Times are written in UTC with µs in RFC 5424, and in the zone of the option, with
//! seconds and without the year, in RFC 3164. The byte order mark before UTF-8 text is removed and not written. NUL,
//! carriage returns and line feeds at the end of a message are removed. If a message of RFC 3164 is written without
//! `appname`, and the first words of its `msg` look like a program, they are decoded as `appname`.

pub(crate) mod civil;
mod encode;
mod names;
mod rfc3164;
mod rfc5424;
mod zone;

use tremor_abi::document::Writer;

pub(super) use self::encode::encode;
pub use self::zone::{Options, Zone};
use super::{
    Error, ErrorKind,
    buffer::{Bytes, Nodes, Span},
    copied::{Copied, without_signature},
};
use crate::clock::Clock;

/// Decodes the message at `span`. `zone` is the zone of times without an offset.
///
/// # Errors
/// Returns an error of kind "bad data" if the message is blank.
pub(super) fn decode(
    zone: &mut Zone,
    copied: &mut Copied,
    bytes: &mut Bytes,
    span: Span,
    nodes: &mut Nodes,
) -> Result<u32, Error> {
    decode_at(&mut Clocks { now: Clock::default().now_ns(), zone }, copied, bytes, span, nodes)
}

/// The current time, and the zone of times without an offset.
struct Clocks<'z> {
    /// ns since the Unix epoch.
    now: u64,
    zone: &'z mut Zone,
}

/// Decodes in the same way as [`decode`].
fn decode_at(
    clocks: &mut Clocks<'_>,
    copied: &mut Copied,
    bytes: &mut Bytes,
    span: Span,
    nodes: &mut Nodes,
) -> Result<u32, Error> {
    let mut attempt = |end| {
        copied.decode(bytes, span, nodes, |message, writer| write(message, end, clocks, writer))
    };
    match attempt(usize::MAX) {
        // The header is valid only up to this position, so the second attempt ends the header here.
        Err(error) if error.kind() == ErrorKind::BadData => {
            attempt(error.position().unwrap_or_default())
        }
        decoded => decoded,
    }
}

/// Returns whether a message consists only of blanks and of its trailer.
pub(super) fn is_blank(message: &[u8]) -> bool {
    without_signature(trimmed(message)).trim_ascii().is_empty()
}

/// Returns a message without its trailer. Senders end messages with a line feed, with a carriage return and a line
/// feed, or with NUL, even in datagrams and after a length prefix.
fn trimmed(message: &[u8]) -> &[u8] {
    let is_text = |byte: &u8| !b"\0\r\n".contains(byte);
    let length = message.iter().rposition(is_text).map_or(0, |last| last + 1);
    &message[..length]
}

/// Writes the value of a message. The header is read up to the position `end` at most.
///
/// # Errors
/// Returns an error of kind "bad data" at the position of the first invalid part of the header before `end`.
fn write(
    message: &[u8],
    end: usize,
    clocks: &mut Clocks<'_>,
    writer: &mut Writer<'_>,
) -> Result<(), Error> {
    let message = trimmed(message);
    let signature = message.len() - without_signature(message).len();
    let mut reader = Reader { message, at: signature, end };
    let sent = reader.priority();
    if sent.is_none() && reader.rest().trim_ascii().is_empty() {
        return Err(reader.error("expected a message, found only blanks"));
    }
    let priority = sent.unwrap_or(DEFAULT_PRIORITY);
    // If the time directly after the digit is invalid, the digit is not a version.
    let is_5424 = sent.is_some() && reader.rest().starts_with(b"1 ") && reader.at + 2 < end;
    writer.begin_object();
    writer.key("protocol");
    writer.str(if is_5424 { RFC5424 } else { RFC3164 });
    writer.key("facility");
    writer.str(names::FACILITIES[usize::from(priority / 8)]);
    writer.key("severity");
    writer.str(names::SEVERITIES[usize::from(priority % 8)]);
    if is_5424 {
        rfc5424::decode(reader, writer)?;
    } else {
        rfc3164::decode(reader, clocks, writer);
    }
    writer.end_object();
    Ok(())
}

/// Priority of messages without one: `user` and `notice` (RFC 3164, section 4.3.3).
const DEFAULT_PRIORITY: u8 = 13;
const RFC5424: &str = "RFC5424";
const RFC3164: &str = "RFC3164";

/// A message, and the position up to which it has been read.
#[derive(Clone, Copy)]
struct Reader<'m> {
    message: &'m [u8],
    at: usize,
    /// Position at which the header ends and `msg` begins, even if the syntax of the header continues there.
    /// `usize::MAX` in the first attempt.
    end: usize,
}

impl<'m> Reader<'m> {
    fn rest(&self) -> &'m [u8] {
        &self.message[self.at..]
    }

    #[cold]
    fn error(&self, what: impl Into<Box<str>>) -> Error {
        Error::bad_data_at(self.at, what)
    }

    fn take(&mut self, byte: u8) -> bool {
        let found = self.rest().first() == Some(&byte);
        self.at += usize::from(found);
        found
    }

    /// Consumes the bytes before the next space.
    fn word(&mut self) -> &'m [u8] {
        let rest = self.rest();
        let length = memchr::memchr(b' ', rest).unwrap_or(rest.len());
        self.at += length;
        &rest[..length]
    }

    /// Consumes a word of at most `longest` printable ASCII characters. Returns `None` for `-`.
    fn name(&mut self, what: &str, longest: usize) -> Result<Option<&'m str>, Error> {
        let start = *self;
        let word = self.word();
        match std::str::from_utf8(word) {
            Ok("-") => Ok(None),
            Ok(text) if is_name(text, longest) => Ok(Some(text)),
            _ => Err(start.error(format!(
                "expected {what}: 1 to {longest} printable ASCII characters or `-`"
            ))),
        }
    }

    /// Consumes a priority from `<0>` to `<191>`, if there is one.
    fn priority(&mut self) -> Option<u8> {
        let rest = self.rest().strip_prefix(b"<")?;
        let count = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
        if !(1..=3).contains(&count) || rest.get(count) != Some(&b'>') {
            return None;
        }
        let priority = std::str::from_utf8(&rest[..count]).ok()?.parse().ok()?;
        if priority > 191 {
            return None;
        }
        self.at += count + 2;
        Some(priority)
    }
}

fn is_name(text: &str, longest: usize) -> bool {
    (1..=longest).contains(&text.len()) && text.bytes().all(|byte| (33..=126).contains(&byte))
}

/// Writes a key and its text, if the text is present.
fn optional(key: &str, text: Option<&str>, writer: &mut Writer<'_>) {
    if let Some(text) = text {
        writer.key(key);
        writer.str(text);
    }
}

/// Writes the text of a message as `msg`, if it is not empty.
fn msg(msg: &[u8], writer: &mut Writer<'_>) {
    if msg.is_empty() {
        return;
    }
    writer.key("msg");
    match std::str::from_utf8(msg) {
        Ok(text) => writer.str(text),
        Err(_) => writer.bytes(msg),
    }
}

#[cfg(test)]
mod tests;
