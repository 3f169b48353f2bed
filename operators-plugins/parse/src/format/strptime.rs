//! Formats of `strptime`, such as `%d/%b/%Y:%H:%M:%S %z`.

use std::{fmt::Display, ops::Range};

use jiff::{Error as JiffError, Timestamp as Time, fmt::strtime::BrokenDownTime, tz::Offset};
use tremor_pdk::{Error, Result};

use super::zone::Zone;

/// Maximum time in ns by which a time without a year may be ahead of the event. If it is ahead by more, it belongs to
/// an earlier year.
const AHEAD: i128 = 24 * 3_600 * 1_000_000_000;

/// A time with which a format is checked, in seconds since the Unix epoch.
const SAMPLE: i64 = 1_700_000_000;

/// Character that replaces the offset in a text and in its format.
const MARK: char = '\0';

/// A format of `strptime`.
#[derive(Debug)]
pub(super) struct Strptime {
    format: String,
    has_year: bool,
    /// The formats before and after the offset.
    around_offset: Option<[String; 2]>,
    /// The format before the seconds since the Unix epoch.
    before_epoch: Option<String>,
}

impl Strptime {
    /// Checks a format: it has to accept a time that was written in it.
    ///
    /// # Errors
    /// The format is invalid, or has no date.
    pub(super) fn new(configured: &str, zone: &Zone) -> Result<Self> {
        let invalid = |reason: &dyn Display| {
            Error::configuration(format_args!(
                "invalid `time_format` `{configured}`: {reason}; expected a format such as `%d/%b/%Y:%H:%M:%S %z`, or \
                 `rfc3339`, `rfc2822`, `unix`, `unix_ms`, `unix_us` or `unix_ns`"
            ))
        };
        if !configured.contains('%') {
            return Err(invalid(&"it has no `%`"));
        }
        let format = expand(configured);
        let sample = Time::from_second(SAMPLE).map_err(|error| invalid(&error))?;
        let sample = sample.to_zoned_datetime(zone.zone().clone());
        let written =
            BrokenDownTime::from(&sample).to_string(&format).map_err(|error| invalid(&error))?;
        let find = |letters: &[u8]| specifiers(&format).find(|(_, it)| letters.contains(it));
        let around_offset = find(b"zQ")
            .map(|(range, _)| [&format[..range.start], &format[range.end..]].map(str::to_owned));
        let before_epoch = find(b"s").map(|(range, _)| format[..range.start].to_owned());
        let mut checked = Self { format, has_year: true, around_offset, before_epoch };
        let mut read = checked.parse(&written).map_err(|error| invalid(&error))?;
        if read.timestamp().is_none() && read.to_date().is_err() {
            checked.has_year = false;
            read.set_year(Some(sample.year())).map_err(|error| invalid(&error))?;
            read.to_date().map_err(|_| invalid(&"it has no month and day"))?;
        }
        Ok(checked)
    }

    /// Returns the format in which specifiers for several parts are replaced.
    pub(super) fn format(&self) -> &str {
        &self.format
    }

    /// Reads a time. `zone` is the zone of a time that does not name its zone. A time without a year gets the latest
    /// year with which it is at most a day after `now`, in ns since the Unix epoch. Returns `None` if the time exists in
    /// none of the years before.
    pub(super) fn time(
        &self,
        text: &str,
        zone: &Zone,
        now: u64,
    ) -> Result<Option<Time>, JiffError> {
        let mut parsed = self.parse(text)?;
        if self.has_year {
            return self.resolve(&parsed, text, zone).map(Some);
        }
        let now = Time::from_nanosecond(now.into())?;
        let year = now.to_zoned_datetime(zone.zone().clone()).year();
        // Leap years are four years apart, and eight years around most turns of a century.
        Ok((year - 8..=year + 1).rev().find_map(|year| {
            parsed.set_year(Some(year)).ok()?;
            let time = self.resolve(&parsed, text, zone).ok()?;
            (time.as_nanosecond() <= now.as_nanosecond() + AHEAD).then_some(time)
        }))
    }

    /// Reads the parts of a time. An offset may have any form that [`offset`] reads, because a program may write `Z`
    /// for UTC and `+02:00` otherwise.
    fn parse(&self, text: &str) -> Result<BrokenDownTime, JiffError> {
        let with_offset = self.around_offset.as_ref().and_then(|[before, after]| {
            let (mut parsed, at) = BrokenDownTime::parse_prefix(before, text).ok()?;
            let (start, rest) = text.split_at_checked(at)?;
            let (offset, rest) = offset(rest)?;
            if !after.is_empty() || !rest.is_empty() {
                let [format, text] =
                    [[before.as_str(), after], [start, rest]].map(|[a, b]| format!("{a}{MARK}{b}"));
                parsed = BrokenDownTime::parse(format, text).ok()?;
            }
            parsed.set_offset(Some(offset));
            Some(parsed)
        });
        with_offset.map_or_else(|| BrokenDownTime::parse(&self.format, text), Ok)
    }

    fn resolve(&self, parsed: &BrokenDownTime, text: &str, zone: &Zone) -> Result<Time, JiffError> {
        if let Some(time) = parsed.timestamp() {
            let fraction = i128::from(parsed.subsec_nanosecond().unwrap_or(0));
            let is_negative = fraction > 0
                && (time < Time::UNIX_EPOCH || time == Time::UNIX_EPOCH && self.has_minus(text));
            let fraction = if is_negative { -fraction } else { fraction };
            return Time::from_nanosecond(time.as_nanosecond() + fraction);
        }
        if parsed.offset().is_some() || parsed.iana_time_zone().is_some() {
            return Ok(parsed.to_zoned_datetime()?.timestamp());
        }
        Ok(parsed.to_datetime()?.to_zoned_datetime(zone.zone().clone())?.timestamp())
    }

    /// Returns whether the seconds since the Unix epoch begin with a minus sign, as in `-0.5`.
    fn has_minus(&self, text: &str) -> bool {
        let before = self.before_epoch.as_deref().unwrap_or_default();
        BrokenDownTime::parse_prefix(before, text)
            .is_ok_and(|(_, at)| text.as_bytes().get(at) == Some(&b'-'))
    }
}

/// Returns the position and the letter of each specifier of a format.
fn specifiers(format: &str) -> impl Iterator<Item = (Range<usize>, u8)> {
    let bytes = format.as_bytes();
    let mut at = 0;
    std::iter::from_fn(move || {
        let start = at + memchr::memchr(b'%', &bytes[at..])?;
        let is_option = |byte: &u8| byte.is_ascii_digit() || b"_-^#:.".contains(byte);
        let end = start + 1 + bytes[start + 1..].iter().take_while(|byte| is_option(byte)).count();
        let letter = *bytes.get(end)?;
        at = end + 1;
        Some((start..at, letter))
    })
}

/// Replaces specifiers that stand for several parts and that jiff does not read, as POSIX defines them.
fn expand(format: &str) -> String {
    let (mut expanded, mut at) = (String::new(), 0);
    for (Range { start, mut end }, letter) in specifiers(format) {
        let parts = match letter {
            _ if start < at => continue,
            b'c' => "%a %b %e %H:%M:%S %Y",
            b'r' => "%I:%M:%S %p",
            b'x' => "%m/%d/%y",
            b'X' => "%H:%M:%S",
            // Jiff reads `%y` without the century before it.
            b'C' if format[end..].starts_with("%y") => {
                end += "%y".len();
                "%Y"
            }
            _ => continue,
        };
        expanded.push_str(&format[at..start]);
        expanded.push_str(parts);
        at = end;
    }
    expanded + &format[at..]
}

/// Reads an offset at the start of a text: `Z`, `+02`, `+0200` or `+02:00`, with seconds or without. Returns the
/// remaining text as well.
fn offset(text: &str) -> Option<(Offset, &str)> {
    let is_negative = match *text.as_bytes() {
        [b'Z' | b'z', next, ..] if next.is_ascii_alphanumeric() || b"/_+-".contains(&next) => {
            return None;
        }
        [b'Z' | b'z', ..] => return Some((Offset::UTC, &text[1..])),
        [sign @ (b'+' | b'-'), ..] => sign == b'-',
        _ => return None,
    };
    let two = |text: &str| {
        text.get(..2)?.bytes().try_fold(0, |sum, digit| {
            digit.is_ascii_digit().then(|| sum * 10 + i32::from(digit - b'0'))
        })
    };
    let mut rest = &text[1..];
    let mut seconds = two(rest)? * 3_600;
    rest = &rest[2..];
    for unit in [60, 1] {
        let next = rest.strip_prefix(':').unwrap_or(rest);
        let Some(number) = two(next).filter(|number| *number < 60) else { break };
        (seconds, rest) = (seconds + number * unit, &next[2..]);
    }
    Some((Offset::from_seconds(if is_negative { -seconds } else { seconds }).ok()?, rest))
}
