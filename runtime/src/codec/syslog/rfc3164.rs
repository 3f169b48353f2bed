//! Decodes the part of a message after the priority, according to RFC 3164 and to formats that were observed.

use std::net::IpAddr;

use tremor_abi::document::Writer;

use super::{
    Reader,
    civil::{self, Civil},
    msg,
    names::MONTHS,
    optional,
};

/// Maximum time in ns by which a time without a year may be ahead of the clock. If it is ahead by more, it belongs to
/// an earlier year.
const AHEAD: i64 = 86_400 * 1_000_000_000;

/// Writes the parts that the message contains. The remaining text becomes `msg`, so that every message is valid (RFC
/// 3164, section 4.3).
pub(super) fn decode(mut reader: Reader<'_>, now: u64, writer: &mut Writer<'_>) {
    let now = i64::try_from(now).unwrap_or(i64::MAX);
    let Some(timestamp) = timestamp(&mut reader, now) else {
        return msg(reader.rest(), writer);
    };
    writer.key("timestamp");
    writer.i64(timestamp);
    // Cisco devices write a colon after the time, and no host.
    let has_host = !reader.take(b':');
    reader.take(b' ');
    let mut ahead = reader;
    if ahead.take(b' ') {
        reader = ahead;
    } else if let Some(host) = host(ahead.word()).filter(|_| has_host) {
        optional("hostname", Some(host).filter(|host| *host != "-"), writer);
        reader = ahead;
        // Cisco devices separate the host from the text with ` : `.
        let colon = if reader.rest().starts_with(b" : ") { 2 } else { 0 };
        reader.at += colon;
        reader.take(b' ');
    }
    if let Some((program, process, length)) = program(reader.rest()) {
        optional("appname", Some(program), writer);
        optional("procid", process, writer);
        reader.at += length;
        reader.take(b' ');
    }
    msg(reader.rest(), writer);
}

/// Returns the host if `word`, the word after the time, is a host. Returns `None` if the word is the program.
pub(super) fn host(word: &[u8]) -> Option<&str> {
    let word = std::str::from_utf8(word).ok().filter(|word| !word.is_empty())?;
    let is_program = word.ends_with(':') || word.contains('[');
    if is_program { address(word) } else { Some(word) }
}

/// Returns the IP address if a word consists of one. The word may have brackets around the address and a colon at the
/// end.
fn address(word: &str) -> Option<&str> {
    fn bare(word: &str) -> Option<&str> {
        let inner = word.strip_prefix('[').and_then(|word| word.strip_suffix(']')).unwrap_or(word);
        // An IPv6 address may have a zone: `fe80::1%eth0`.
        let (number, zone) = inner.split_once('%').unwrap_or((inner, ""));
        (number.parse::<IpAddr>().is_ok() && !zone.contains(':')).then_some(inner)
    }
    bare(word).or_else(|| bare(word.strip_suffix(':')?))
}

/// Parses a time, if there is one. The time must be followed by a space, a colon or the end.
fn timestamp(reader: &mut Reader<'_>, now: i64) -> Option<i64> {
    let mut ahead = *reader;
    let word = ahead.word();
    let word = word.strip_suffix(b":").unwrap_or(word);
    if let Some(timestamp) = civil::rfc3339(word) {
        reader.at += word.len();
        return Some(timestamp);
    }
    // Cisco devices put a mark before the time if their clock is not synchronised.
    let rest = reader.rest();
    let rest = rest.strip_prefix(b"*").or_else(|| rest.strip_prefix(b".")).unwrap_or(rest);
    let name = std::str::from_utf8(rest.get(..3)?).ok()?;
    let month = MONTHS.iter().position(|month| *month == name)?;
    let rest = rest[3..].strip_prefix(b" ")?;
    let (day, rest) = match rest {
        [b' ', rest @ ..] => civil::number(rest, 1)?,
        rest => civil::number(rest, 2)?,
    };
    let rest = rest.strip_prefix(b" ")?;
    let with_year = civil::number(rest, 4)
        .and_then(|(year, rest)| Some((year, civil::time_of_day(rest.strip_prefix(b" ")?)?)));
    let (year, (seconds, rest)) = match with_year {
        Some((year, time)) => (Some(year), time),
        None => (None, civil::time_of_day(rest)?),
    };
    let (nanoseconds, rest) = civil::fraction(rest).unwrap_or((0, rest));
    // Any other text directly after the time may change the meaning of the time.
    if !matches!(rest, [] | [b' ', ..] | [b':'] | [b':', b' ', ..]) {
        return None;
    }
    let month = i64::try_from(month).ok()? + 1;
    let this_year = Civil::of(now).year;
    let at = |year| Civil { year, month, day, seconds, nanoseconds }.timestamp();
    let timestamp = match year {
        Some(year) => at(year)?,
        // Leap years are four years apart, and eight years around most turns of a century.
        None => (this_year - 8..=this_year + 1)
            .rev()
            .filter_map(at)
            .find(|timestamp| *timestamp <= now.saturating_add(AHEAD))?,
    };
    reader.at = reader.message.len() - rest.len();
    Some(timestamp)
}

/// Parses `name:` or `name[process]:`. Returns the program, its process, and the number of bytes read.
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
