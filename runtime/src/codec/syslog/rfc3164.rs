//! Decodes the part of a message after the priority, according to RFC 3164 and to formats that were observed.

use std::net::IpAddr;

use tremor_abi::document::Writer;

use super::{
    Clocks, Reader,
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
pub(super) fn decode(mut reader: Reader<'_>, clocks: &mut Clocks<'_>, writer: &mut Writer<'_>) {
    let (timestamp, device) = match timestamp(&mut reader, clocks) {
        Some(timestamp) => (timestamp, None),
        None => match after_prefix(&mut reader, clocks) {
            Some(found) => found,
            None => return msg(reader.rest(), writer),
        },
    };
    writer.key("timestamp");
    writer.i64(timestamp);
    optional("hostname", device, writer);
    // Cisco devices write a colon after the time, and no host.
    let has_host = !reader.take(b':') && device.is_none();
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

/// Parses the time after the words that Cisco devices write before it: counters and the host, each followed by a colon, or
/// only a colon or blanks. Returns the time and the host. A word without a counter beside it is the host only if the time
/// ends as on these devices, because other senders write the name of the program there.
fn after_prefix<'m>(
    reader: &mut Reader<'m>,
    clocks: &mut Clocks<'_>,
) -> Option<(i64, Option<&'m str>)> {
    /// Maximum number of words before a time: a counter of messages, the host, and a sequence number.
    const MAX_WORDS: usize = 3;
    let (mut ahead, mut device, mut is_counted) = (*reader, None, false);
    for _ in 0..=MAX_WORDS {
        while ahead.take(b' ') || ahead.take(b':') {}
        if let Some(timestamp) = timestamp(&mut ahead, clocks) {
            if device.is_some() && !is_counted && !ahead.rest().starts_with(b": %") {
                return None;
            }
            *reader = ahead;
            return Some((timestamp, device));
        }
        let word = ahead.word().strip_suffix(b":")?;
        if word.iter().all(u8::is_ascii_digit) {
            is_counted = true;
        } else {
            device = Some(std::str::from_utf8(word).ok().filter(|_| device.is_none())?);
        }
    }
    None
}

/// Parses a time, if there is one. The time must be followed by a space, a colon or the end.
fn timestamp(reader: &mut Reader<'_>, clocks: &mut Clocks<'_>) -> Option<i64> {
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
    let (date, rest) = date(rest)?;
    let (seconds, rest) = civil::time_of_day(rest)?;
    let (nanoseconds, rest) = civil::fraction(rest).unwrap_or((0, rest));
    let (year, rest) = match date.year {
        Some(year) => (Some(year), rest),
        None => year_after(rest).map_or((None, rest), |(year, rest)| (Some(year), rest)),
    };
    let (is_utc, rest) = abbreviation(rest).unwrap_or((false, rest));
    // Any other text directly after the time may change the meaning of the time.
    if !matches!(rest, [] | [b' ', ..] | [b':'] | [b':', b' ', ..]) {
        return None;
    }
    let local =
        |year| Civil { year, month: date.month, day: date.day, seconds, nanoseconds }.timestamp();
    let Clocks { now, zone } = clocks;
    let mut at = |local| if is_utc { Some(local) } else { zone.timestamp(local) };
    let timestamp = match year {
        Some(year) => at(local(year)?)?,
        // Leap years are four years apart, and eight years around most turns of a century.
        None => {
            let now = i64::try_from(*now).unwrap_or(i64::MAX);
            let (this_year, latest) = (Civil::of(now).year, now.saturating_add(AHEAD));
            (this_year - 8..=this_year + 1)
                .rev()
                .filter_map(local)
                // Local times differ from UTC by less than a day. This filter needs no rules of the zone, and
                // usually leaves out the next year.
                .filter(|local| *local <= latest.saturating_add(AHEAD))
                .filter_map(at)
                .find(|timestamp| *timestamp <= latest)?
        }
    };
    reader.at = reader.message.len() - rest.len();
    Some(timestamp)
}

/// A date, whose year may be absent.
struct Date {
    year: Option<i64>,
    month: i64,
    day: i64,
}

/// Parses a date and the character after it: `Oct 11 `, `Oct 11 2024 `, `2024 Oct 11 `, `2024-10-11T` or `2024-10-11 `.
fn date(text: &[u8]) -> Option<(Date, &[u8])> {
    let (year, text) = match civil::number(text, 4) {
        None => (None, text),
        Some((year, [b'-', rest @ ..])) => {
            let (month, rest) = civil::number(rest, 2)?;
            let (day, rest) = civil::number(rest.strip_prefix(b"-")?, 2)?;
            let rest = rest.strip_prefix(b"T").or_else(|| rest.strip_prefix(b" "))?;
            return Some((Date { year: Some(year), month, day }, rest));
        }
        Some((year, rest)) => (Some(year), rest.strip_prefix(b" ")?),
    };
    let name = std::str::from_utf8(text.get(..3)?).ok()?;
    let month = MONTHS.iter().position(|month| *month == name)?;
    let month = i64::try_from(month).ok()? + 1;
    let text = text[3..].strip_prefix(b" ")?;
    let (day, text) = match text {
        [b' ', rest @ ..] => civil::number(rest, 1)?,
        [_, b' ', ..] => civil::number(text, 1)?,
        rest => civil::number(rest, 2)?,
    };
    let text = text.strip_prefix(b" ")?;
    let (year, text) = match civil::number(text, 4) {
        Some((after, rest)) if year.is_none() => (Some(after), rest.strip_prefix(b" ")?),
        _ => (year, text),
    };
    Some((Date { year, month, day }, text))
}

/// Parses the year that Juniper devices write after the time: ` 2024`.
fn year_after(text: &[u8]) -> Option<(i64, &[u8])> {
    let (year, rest) = civil::number(text.strip_prefix(b" ")?, 4)?;
    let is_year = (1970..2100).contains(&year) && matches!(rest, [] | [b' ', ..]);
    is_year.then_some((year, rest))
}

/// Parses the abbreviation of a zone as Cisco devices write it: ` UTC:`, or another one before `: %`. Returns whether the
/// zone is UTC, and the text from the colon on. Other abbreviations have several meanings, so such a time is in the zone
/// of the option.
fn abbreviation(text: &[u8]) -> Option<(bool, &[u8])> {
    let text = text.strip_prefix(b" ")?;
    let length = text.iter().take_while(|byte| byte.is_ascii_uppercase()).count();
    let (name, rest) = text.split_at(length);
    let is_utc = matches!(name, b"UTC" | b"GMT" | b"Z");
    let is_zone = (1..=5).contains(&length)
        && (rest.starts_with(b": %") || is_utc && matches!(rest, b":" | [b':', b' ', ..]));
    is_zone.then_some((is_utc, rest))
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
