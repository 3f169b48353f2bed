//! Behind the priority, as RFC 3164 has it, and as it is found.

use tremor_abi::document::Writer;

use super::{
    Reader,
    civil::{self, Civil},
    msg,
    names::MONTHS,
    optional,
};
use crate::codec::Error;

/// How far a time may be ahead of the clock before it is one of last year. ns.
const AHEAD: i64 = 86_400 * 1_000_000_000;

pub(super) fn decode(
    mut reader: Reader<'_>,
    now: u64,
    writer: &mut Writer<'_>,
) -> Result<(), Error> {
    let now = i64::try_from(now).unwrap_or(i64::MAX);
    let Some(timestamp) = timestamp(&mut reader, now) else {
        msg(reader.rest(), writer);
        return Ok(());
    };
    writer.key("timestamp");
    writer.i64(timestamp);
    if !reader.take(b' ') {
        return if reader.rest().is_empty() {
            Ok(())
        } else {
            Err(reader.error("expected a space after the time"))
        };
    }
    let mut ahead = reader;
    let word = ahead.word();
    if !looks_like_program(word) {
        let host = match std::str::from_utf8(word) {
            Ok(host) => Some(host).filter(|host| !["", "-"].contains(host)),
            Err(_) => return Err(reader.error("expected the name of a host, in UTF-8")),
        };
        optional("hostname", host, writer);
        reader = ahead;
        reader.take(b' ');
    }
    if let Some((program, process, length)) = program(reader.rest()) {
        optional("appname", Some(program), writer);
        optional("procid", process, writer);
        reader.at += length;
        reader.take(b' ');
    }
    msg(reader.rest(), writer);
    Ok(())
}

/// Whether the word after the time is no host.
pub(super) fn looks_like_program(word: &[u8]) -> bool {
    word.ends_with(b":") || word.contains(&b'[')
}

/// Reads a time, if there is one.
fn timestamp(reader: &mut Reader<'_>, now: i64) -> Option<i64> {
    let mut ahead = *reader;
    if let Some(timestamp) = civil::rfc3339(ahead.word()) {
        *reader = ahead;
        return Some(timestamp);
    }
    let rest = reader.rest();
    let name = std::str::from_utf8(rest.get(..3)?).ok()?;
    let month = MONTHS.iter().position(|month| *month == name)?;
    let rest = rest[3..].strip_prefix(b" ")?;
    let (day, rest) = match rest {
        [b' ', rest @ ..] => civil::number(rest, 1)?,
        rest => civil::number(rest, 2)?,
    };
    let (seconds, rest) = civil::time_of_day(rest.strip_prefix(b" ")?)?;
    let month = i64::try_from(month).ok()? + 1;
    let this_year = Civil::of(now).year;
    // The 29th of February is there every fourth year, or after eight where a century is none.
    let timestamp = (this_year - 8..=this_year + 1)
        .rev()
        .filter_map(|year| Civil { year, month, day, seconds, nanoseconds: 0 }.timestamp())
        .find(|timestamp| *timestamp <= now.saturating_add(AHEAD))?;
    reader.at = reader.message.len() - rest.len();
    Some(timestamp)
}

/// A program, its process and how many bytes they take: `name:` or `name[process]:`.
fn program(rest: &[u8]) -> Option<(&str, Option<&str>, usize)> {
    let length = rest.iter().position(|byte| b" :[".contains(byte))?;
    let name = std::str::from_utf8(&rest[..length]).ok().filter(|name| !name.is_empty())?;
    match rest[length] {
        b':' => Some((name, None, length + 1)),
        b'[' => {
            let inner = &rest[length + 1..];
            let end = inner.iter().position(|byte| b"] ".contains(byte))?;
            let process = std::str::from_utf8(&inner[..end]).ok().filter(|it| !it.is_empty())?;
            let closed = inner[end..].strip_prefix(b"]")?;
            let colon = usize::from(closed.starts_with(b":"));
            Some((name, Some(process), length + end + 2 + colon))
        }
        _ => None,
    }
}
