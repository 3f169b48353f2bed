//! Behind the priority, as RFC 3164 has it, and as it is found.

use std::net::IpAddr;

use tremor_abi::document::Writer;

use super::{
    Reader,
    civil::{self, Civil},
    msg,
    names::MONTHS,
    optional,
};

/// How far a time may be ahead of the clock before it is one of last year. ns.
const AHEAD: i64 = 86_400 * 1_000_000_000;

/// Writes the parts that are there. Everything after them is the text, so that no message is wrong (RFC 3164, 4.3).
pub(super) fn decode(mut reader: Reader<'_>, now: u64, writer: &mut Writer<'_>) {
    let now = i64::try_from(now).unwrap_or(i64::MAX);
    let Some(timestamp) = timestamp(&mut reader, now) else {
        return msg(reader.rest(), writer);
    };
    writer.key("timestamp");
    writer.i64(timestamp);
    // Cisco's devices put a colon there, and no host after it.
    let has_host = !reader.take(b':');
    reader.take(b' ');
    let mut ahead = reader;
    if ahead.take(b' ') {
        reader = ahead;
    } else if let Some(host) = host(ahead.word()).filter(|_| has_host) {
        optional("hostname", Some(host).filter(|host| *host != "-"), writer);
        reader = ahead;
        // Cisco's devices separate the host from the text by ` : `.
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

/// Returns the host that a word after the time names. It is none if the word is the program.
pub(super) fn host(word: &[u8]) -> Option<&str> {
    let word = std::str::from_utf8(word).ok().filter(|word| !word.is_empty())?;
    let is_program = word.ends_with(':') || word.contains('[');
    if is_program { address(word) } else { Some(word) }
}

/// Returns the IP address that a word consists of. It may have brackets around it and a colon after it.
fn address(word: &str) -> Option<&str> {
    fn bare(word: &str) -> Option<&str> {
        let inner = word.strip_prefix('[').and_then(|word| word.strip_suffix(']')).unwrap_or(word);
        // An address of IPv6 may name an interface: `fe80::1%eth0`.
        let (number, zone) = inner.split_once('%').unwrap_or((inner, ""));
        (number.parse::<IpAddr>().is_ok() && !zone.contains(':')).then_some(inner)
    }
    bare(word).or_else(|| bare(word.strip_suffix(':')?))
}

/// Reads a time, if there is one. A space, a colon or nothing comes after it.
fn timestamp(reader: &mut Reader<'_>, now: i64) -> Option<i64> {
    let mut ahead = *reader;
    let word = ahead.word();
    let word = word.strip_suffix(b":").unwrap_or(word);
    if let Some(timestamp) = civil::rfc3339(word) {
        reader.at += word.len();
        return Some(timestamp);
    }
    // Cisco's devices mark a clock that is not synchronised.
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
    // Anything else at its end means something that is not known here, and may make it another time.
    if !matches!(rest, [] | [b' ', ..] | [b':'] | [b':', b' ', ..]) {
        return None;
    }
    let month = i64::try_from(month).ok()? + 1;
    let this_year = Civil::of(now).year;
    let at = |year| Civil { year, month, day, seconds, nanoseconds }.timestamp();
    let timestamp = match year {
        Some(year) => at(year)?,
        // The 29th of February is there every fourth year, or after eight where a century is none.
        None => (this_year - 8..=this_year + 1)
            .rev()
            .filter_map(at)
            .find(|timestamp| *timestamp <= now.saturating_add(AHEAD))?,
    };
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
