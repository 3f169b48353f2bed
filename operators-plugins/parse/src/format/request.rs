//! Parts that the access logs of nginx and Apache have in common.

use tremor_pdk::Writer;

use crate::stop::{Cursor, Stop};

/// Writes a field, unless its value is `-` or empty, which stands for a missing value.
pub(super) fn field(out: &mut Writer<'_>, key: &str, value: &str) {
    if !matches!(value, "-" | "") {
        out.key(key);
        out.str(value);
    }
}

/// Writes the parts of a request line, such as `GET /index.html HTTP/1.1`. A request of another form has no parts.
pub(super) fn request_line(out: &mut Writer<'_>, request: &str) {
    let Some((method, rest)) = request.split_once(' ') else { return };
    let Some((path, protocol)) = rest.rsplit_once(' ') else { return };
    let is_method = |c: u8| c.is_ascii_alphanumeric() || matches!(c, b'_' | b'-');
    if method.is_empty() || path.is_empty() || !method.bytes().all(is_method) {
        return;
    }
    if !protocol.starts_with("HTTP/") {
        return;
    }
    for (key, value) in [("method", method), ("path", path), ("protocol", protocol)] {
        out.key(key);
        out.str(value);
    }
}

const MONTHS: &[u8; 36] = b"JanFebMarAprMayJunJulAugSepOctNovDec";

/// Length of `10/Oct/2000:13:55:36 -0700`.
const LEN: usize = 26;

/// Takes the user before the time, which may contain spaces and brackets, because every client may send any name.
///
/// The time ends at the first `]` that a quotation mark follows, because a quotation mark in the name of a user is
/// escaped. A line of another form has a user without spaces.
pub(super) fn user<'t>(cursor: &mut Cursor<'t>) -> Result<&'t str, Stop> {
    let rest = cursor.rest();
    let time_end = memchr::memchr_iter(b'"', rest.as_bytes()).find_map(|quote| {
        let before = rest[..quote].trim_end_matches(' ');
        (before.len() < quote && before.ends_with(']')).then_some(before.len())
    });
    // The time and its brackets.
    let start = time_end.and_then(|end| end.checked_sub(LEN + 2));
    match start.and_then(|start| rest.get(..start)) {
        // The name may consist of spaces.
        Some(user) if rest[user.len()..].starts_with('[') && is_name(user) => {
            let name = user.trim_end_matches(' ');
            cursor.take(user.len());
            Ok(name)
        }
        _ => {
            let user = cursor.word("the user")?;
            cursor.spaces("a space after the user")?;
            Ok(user)
        }
    }
}

/// Returns whether a text before the time is the name of a user: it is empty or ends with a space, and is in one line.
fn is_name(user: &str) -> bool {
    (user.is_empty() || user.ends_with(' ')) && !user.contains(|c: char| c.is_ascii_control())
}

/// Takes the time between brackets, and writes it as the field `timestamp`, in the format of RFC 3339, in UTC.
pub(super) fn time(cursor: &mut Cursor<'_>, out: &mut Writer<'_>) -> Result<(), Stop> {
    cursor.expect(b'[', "`[` before the time")?;
    let start = cursor.at();
    let expected = "a time such as `10/Oct/2000:13:55:36 -0700`";
    let text = cursor.take(LEN).and_then(|text| text.as_bytes().first_chunk());
    let converted = text.and_then(to_rfc3339).ok_or_else(|| Stop::new(start, expected))?;
    cursor.expect(b']', "`]` after the time")?;
    out.key("timestamp");
    // The converted time consists of ASCII characters.
    out.str(std::str::from_utf8(&converted).unwrap_or_default());
    Ok(())
}

/// Returns the number of digits as a number, or `None` if a character is not a digit.
fn number(digits: &[u8]) -> Option<i32> {
    digits.iter().try_fold(0, |number, digit| {
        digit.is_ascii_digit().then(|| number * 10 + i32::from(digit - b'0'))
    })
}

fn is_leap(year: i32) -> bool {
    (year % 4 == 0 && year % 100 != 0) || year % 400 == 0
}

fn days_in(month: i32, year: i32) -> i32 {
    match month {
        2 => 28 + i32::from(is_leap(year)),
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// Converts the time of the common log format to RFC 3339 in UTC. Returns `None` for a text of another form, for a time
/// that does not exist, and for a time whose year in UTC is not from 0 to 9999.
fn to_rfc3339(text: &[u8; LEN]) -> Option<[u8; 20]> {
    let [d0, d1, b'/', m0, m1, m2, b'/', y0, y1, y2, y3, b':', time @ ..] = text else {
        return None;
    };
    let [h0, h1, b':', i0, i1, b':', s0, s1, b' ', sign, z0, z1, z2, z3] = time else {
        return None;
    };
    let (mut day, mut year) = (number(&[*d0, *d1])?, number(&[*y0, *y1, *y2, *y3])?);
    let name = [*m0, *m1, *m2];
    let mut month = (1..).zip(MONTHS.chunks_exact(3)).find(|(_, month)| **month == name)?.0;
    let (hour, minute) = (number(&[*h0, *h1])?, number(&[*i0, *i1])?);
    // A leap second becomes the last second of its minute.
    let second = number(&[*s0, *s1])?;
    let (zone_hours, zone_minutes) = (number(&[*z0, *z1])?, number(&[*z2, *z3])?);
    let is_valid = (1..=days_in(month, year)).contains(&day)
        && hour < 24
        && minute < 60
        && second <= 60
        && zone_hours < 24
        && zone_minutes < 60;
    let offset = match sign {
        _ if !is_valid => return None,
        b'+' => zone_hours * 60 + zone_minutes,
        b'-' => -(zone_hours * 60 + zone_minutes),
        _ => return None,
    };
    // The result is between minus one day and two days.
    let minutes = hour * 60 + minute - offset;
    day += minutes.div_euclid(1_440);
    if day < 1 {
        month -= 1;
        if month < 1 {
            (month, year) = (12, year - 1);
        }
        day = days_in(month, year);
    } else if day > days_in(month, year) {
        day = 1;
        month += 1;
        if month > 12 {
            (month, year) = (1, year + 1);
        }
    }
    if !(0..=9_999).contains(&year) {
        return None;
    }
    let minutes = minutes.rem_euclid(1_440);
    let mut converted = *b"0000-00-00T00:00:00Z";
    for (at, number) in [
        (0, year / 100),
        (2, year % 100),
        (5, month),
        (8, day),
        (11, minutes / 60),
        (14, minutes % 60),
        (17, second.min(59)),
    ] {
        // The number has two digits.
        let [tens, ones] = [number / 10, number % 10].map(|digit| u8::try_from(digit).unwrap_or(0));
        converted[at] = b'0' + tens;
        converted[at + 1] = b'0' + ones;
    }
    Some(converted)
}

#[cfg(test)]
mod tests {
    use super::to_rfc3339;

    fn converted(text: &str) -> Option<String> {
        let text = text.as_bytes().first_chunk()?;
        to_rfc3339(text).map(|converted| String::from_utf8(converted.to_vec()).unwrap())
    }

    #[test]
    fn time_is_converted_to_utc() {
        for (text, expected) in [
            ("10/Oct/2000:13:55:36 -0700", "2000-10-10T20:55:36Z"),
            ("31/Dec/1999:23:30:00 -0100", "2000-01-01T00:30:00Z"),
            ("01/Jan/2000:00:30:00 +0100", "1999-12-31T23:30:00Z"),
            ("01/Mar/2024:00:00:00 +0530", "2024-02-29T18:30:00Z"),
            ("28/Feb/2023:23:59:60 -0001", "2023-03-01T00:00:59Z"),
            ("29/Feb/2024:12:00:00 +0000", "2024-02-29T12:00:00Z"),
        ] {
            assert_eq!(converted(text).as_deref(), Some(expected), "{text}");
        }
    }

    #[test]
    fn time_that_does_not_exist_is_not_converted() {
        for text in [
            "29/Feb/2023:12:00:00 +0000",
            "31/Apr/2023:12:00:00 +0000",
            "00/Apr/2023:12:00:00 +0000",
            "01/apr/2023:12:00:00 +0000",
            "01/Apr/2023:24:00:00 +0000",
            "01/Apr/2023:12:60:00 +0000",
            "01/Apr/2023:12:00:61 +0000",
            "01/Apr/2023:12:00:00 +2400",
            "01/Apr/2023:12:00:00  0000",
            "01/Apr/2023 12:00:00 +0000",
            "01/Apr/20x3:12:00:00 +0000",
            "31/Dec/9999:23:59:59 -0100",
            "01/Jan/0000:00:00:00 +0100",
        ] {
            assert_eq!(converted(text), None, "{text}");
        }
    }
}
