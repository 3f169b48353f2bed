//! Dates of the Gregorian calendar, and times in UTC.

/// Nanoseconds of a second.
pub(super) const NS: i64 = 1_000_000_000;
const DAY: i64 = 86_400;

/// A date and a time of day in UTC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Civil {
    pub(super) year: i64,
    /// Month from 1.
    pub(super) month: i64,
    /// Day of the month from 1.
    pub(super) day: i64,
    /// Seconds since the start of the day.
    pub(super) seconds: i64,
    /// Nanoseconds since the start of the second.
    pub(super) nanoseconds: i64,
}

impl Civil {
    /// Returns the time in ns since the Unix epoch, or `None` if the day does not exist or the time does not fit 64
    /// bits.
    ///
    /// The number of days is computed as in <https://howardhinnant.github.io/date_algorithms.html>.
    pub(super) fn timestamp(self) -> Option<i64> {
        let Self { year, month, day, seconds, nanoseconds } = self;
        let lengths = [31, 28 + i64::from(is_leap(year)), 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
        let length = *lengths.get(usize::try_from(month - 1).ok()?)?;
        if !(1..=length).contains(&day) {
            return None;
        }
        let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
        let era = year.div_euclid(400);
        let of_era = year.rem_euclid(400);
        let of_year = (153 * month + 2) / 5 + day - 1;
        let days = era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468;
        (days * DAY + seconds).checked_mul(NS)?.checked_add(nanoseconds)
    }

    /// Returns the date and time of a timestamp in ns since the Unix epoch.
    pub(super) fn of(timestamp: i64) -> Self {
        let seconds = timestamp.div_euclid(NS);
        let days = seconds.div_euclid(DAY) + 719_468;
        let era = days.div_euclid(146_097);
        let of_era = days.rem_euclid(146_097);
        let year = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
        let of_year = of_era - (365 * year + year / 4 - year / 100);
        let month = (5 * of_year + 2) / 153;
        let day = of_year - (153 * month + 2) / 5 + 1;
        let year = year + era * 400;
        let (year, month) = if month < 10 { (year, month + 3) } else { (year + 1, month - 9) };
        Self {
            year,
            month,
            day,
            seconds: seconds.rem_euclid(DAY),
            nanoseconds: timestamp.rem_euclid(NS),
        }
    }
}

/// Appends a time in ns since the Unix epoch in the form of RFC 3339, in UTC and with nine digits after the point.
pub(crate) fn append_rfc3339(timestamp: u64, out: &mut String) {
    let civil = Civil::of(i64::try_from(timestamp).unwrap_or(i64::MAX));
    let Civil { year, month, day, seconds, nanoseconds } = civil;
    for (number, digits, end) in [
        (year, 4, '-'),
        (month, 2, '-'),
        (day, 2, 'T'),
        (seconds / 3_600, 2, ':'),
        (seconds / 60 % 60, 2, ':'),
        (seconds % 60, 2, '.'),
        (nanoseconds, 9, 'Z'),
    ] {
        let mut text = [b'0'; 9];
        let mut left = number;
        for digit in text[..digits].iter_mut().rev() {
            *digit = b'0' + u8::try_from(left % 10).unwrap_or_default();
            left /= 10;
        }
        out.extend(text[..digits].iter().map(|digit| char::from(*digit)));
        out.push(end);
    }
}

fn is_leap(year: i64) -> bool {
    year.rem_euclid(4) == 0 && (year.rem_euclid(100) != 0 || year.rem_euclid(400) == 0)
}

/// Parses `hh:mm:ss`. Returns the seconds since the start of the day, and the remaining text.
pub(super) fn time_of_day(text: &[u8]) -> Option<(i64, &[u8])> {
    let (hours, text) = number(text, 2)?;
    let (minutes, text) = number(text.strip_prefix(b":")?, 2)?;
    let (seconds, text) = number(text.strip_prefix(b":")?, 2)?;
    (hours < 24 && minutes < 60 && seconds < 60)
        .then_some((hours * 3_600 + minutes * 60 + seconds, text))
}

/// Parses `digits` digits. Returns the number, and the remaining text.
pub(super) fn number(text: &[u8], digits: usize) -> Option<(i64, &[u8])> {
    let (number, rest) = text.split_at_checked(digits)?;
    let mut sum = 0;
    for byte in number {
        sum = sum * 10 + i64::from(byte.is_ascii_digit().then(|| byte - b'0')?);
    }
    Some((sum, rest))
}

/// Parses a point and up to nine digits. Returns the fraction in ns, and the remaining text.
pub(super) fn fraction(text: &[u8]) -> Option<(i64, &[u8])> {
    let text = text.strip_prefix(b".")?;
    let digits = text.iter().take_while(|byte| byte.is_ascii_digit()).count();
    if !(1..=9).contains(&digits) {
        return None;
    }
    let (number, rest) = number(text, digits)?;
    Some((number * 10_i64.pow(9 - u32::try_from(digits).ok()?), rest))
}

/// Parses a time of RFC 3339 in the form that RFC 5424 allows, with up to nine digits after the point.
pub(super) fn rfc3339(text: &[u8]) -> Option<i64> {
    let (year, text) = number(text, 4)?;
    let (month, text) = number(text.strip_prefix(b"-")?, 2)?;
    let (day, text) = number(text.strip_prefix(b"-")?, 2)?;
    let (seconds, mut text) = time_of_day(text.strip_prefix(b"T")?)?;
    let mut nanoseconds = 0;
    if text.starts_with(b".") {
        (nanoseconds, text) = fraction(text)?;
    }
    let offset = match text {
        b"Z" => 0,
        [sign @ (b'+' | b'-'), rest @ ..] => {
            let (hours, rest) = number(rest, 2)?;
            let (minutes, rest) = number(rest.strip_prefix(b":")?, 2)?;
            if !rest.is_empty() || hours > 23 || minutes > 59 {
                return None;
            }
            let offset = hours * 3_600 + minutes * 60;
            if *sign == b'-' { -offset } else { offset }
        }
        _ => return None,
    };
    Civil { year, month, day, seconds: seconds - offset, nanoseconds }.timestamp()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{Civil, append_rfc3339, rfc3339};

    #[test]
    fn times_are_read_only_with_an_offset() {
        for (text, expected) in [
            ("1970-01-01T00:00:00Z", Some(0)),
            ("1985-04-12T23:20:50.52Z", Some(482_196_050_520_000_000)),
            ("1985-04-12T19:20:50.52-04:00", Some(482_196_050_520_000_000)),
            ("2003-08-24T05:14:15.000003-07:00", Some(1_061_727_255_000_003_000)),
            ("2000-02-29T00:00:00+00:30", Some(951_780_600_000_000_000)),
            ("1969-12-31T23:59:59.999999999Z", Some(-1)),
            ("1900-02-29T00:00:00Z", None),
            ("2001-13-01T00:00:00Z", None),
            ("2001-04-31T00:00:00Z", None),
            ("2001-04-30T24:00:00Z", None),
            ("2001-04-30T23:59:60Z", None),
            ("2001-04-30T23:59:59", None),
            ("2001-04-30T23:59:59.Z", None),
            ("2001-04-30 23:59:59Z", None),
            ("2001-04-30T23:59:59+1:00", None),
            ("9999-12-31T23:59:59Z", None),
        ] {
            assert_eq!(rfc3339(text.as_bytes()), expected, "{text}");
        }
    }

    proptest! {
        #[test]
        fn written_time_is_read_unchanged(timestamp in 0..=i64::MAX) {
            let mut text = String::new();
            append_rfc3339(timestamp.cast_unsigned(), &mut text);
            prop_assert_eq!(rfc3339(text.as_bytes()), Some(timestamp), "{}", text);
        }

        #[test]
        fn date_of_a_timestamp_has_the_same_timestamp(timestamp in any::<i64>()) {
            prop_assert_eq!(Civil::of(timestamp).timestamp(), Some(timestamp));
        }
    }
}
