//! Times in the forms of AWS: `20130524T000000Z`, and `2013-05-24T00:00:00Z` in responses.

/// Seconds of a day.
const DAY: u64 = 86_400;

/// Days of 400 years, after which the calendar repeats.
const ERA: u64 = 146_097;

/// Days from 0000-03-01 to 1970-01-01.
const EPOCH: u64 = 719_468;

/// Returns a time in ns since the Unix epoch as `YYYYMMDDTHHMMSSZ`.
pub(super) fn stamp(ns: u64) -> String {
    let seconds = ns / 1_000_000_000;
    let (year, month, day) = date(seconds / DAY);
    let second = seconds % DAY;
    let (hour, minute, second) = (second / 3_600, second / 60 % 60, second % 60);
    format!("{year:04}{month:02}{day:02}T{hour:02}{minute:02}{second:02}Z")
}

/// Returns the year, the month and the day that begins `days` days after the Unix epoch.
fn date(days: u64) -> (u64, u64, u64) {
    // Years begin in March here, so that the day that only some years have is their last one.
    let days = days + EPOCH;
    let (era, day) = (days / ERA, days % ERA);
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let is_next = month >= 10;
    let month = if is_next { month - 9 } else { month + 3 };
    (era * 400 + year + u64::from(is_next), month, day)
}

/// Returns the time `YYYY-MM-DDTHH:MM:SSZ` in seconds since the Unix epoch. A fraction of a second is dropped.
/// Returns `None` for another text, and for times before the epoch.
pub(super) fn parse(text: &str) -> Option<u64> {
    let text = text.strip_suffix('Z')?;
    let text = text.split('.').next()?;
    let bytes = text.as_bytes();
    let marks = [(4, b'-'), (7, b'-'), (10, b'T'), (13, b':'), (16, b':')];
    if bytes.len() != 19 || !marks.iter().all(|(at, mark)| bytes[*at] == *mark) {
        return None;
    }
    let number = |from: usize, to: usize| {
        let digits = text.get(from..to)?;
        digits.bytes().all(|it| it.is_ascii_digit()).then(|| digits.parse::<u64>().ok())?
    };
    let (year, month, day) = (number(0, 4)?, number(5, 7)?, number(8, 10)?);
    let (hour, minute, second) = (number(11, 13)?, number(14, 16)?, number(17, 19)?);
    if !(1..=12).contains(&month) || !(1..=31).contains(&day) || hour > 23 || minute > 59 {
        return None;
    }
    let (year, month) =
        if month > 2 { (year, month - 3) } else { (year.checked_sub(1)?, month + 9) };
    let days = year * 365 + year / 4 - year / 100 + year / 400 + (153 * month + 2) / 5 + day - 1;
    Some(days.checked_sub(EPOCH)? * DAY + hour * 3_600 + minute * 60 + second.min(59))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{parse, stamp};

    #[test]
    fn times_have_the_forms_of_aws() {
        for (seconds, stamped, text) in [
            (0, "19700101T000000Z", "1970-01-01T00:00:00Z"),
            (951_782_400, "20000229T000000Z", "2000-02-29T00:00:00Z"),
            (1_369_353_600, "20130524T000000Z", "2013-05-24T00:00:00Z"),
            (1_709_251_199, "20240229T235959Z", "2024-02-29T23:59:59.123Z"),
            (4_107_542_400, "21000301T000000Z", "2100-03-01T00:00:00Z"),
        ] {
            assert_eq!(stamp(seconds * 1_000_000_000), stamped);
            assert_eq!(parse(text), Some(seconds), "{text}");
        }
    }

    #[test]
    fn other_texts_are_no_times() {
        for text in [
            "",
            "2013-05-24",
            "2013-05-24T00:00:00",
            "2013-05-24T00:00:00+00:00",
            "2013-13-24T00:00:00Z",
            "2013-05-24T24:00:00Z",
            "2013-05-24T0a:00:00Z",
            "1969-12-31T23:59:59Z",
            "2013-05-2€T00:00:00Z",
        ] {
            assert_eq!(parse(text), None, "{text}");
        }
    }

    proptest! {
        #[test]
        fn stamped_time_is_parsed_to_the_same_time(seconds in 0_u64..18_000_000_000) {
            let stamp = stamp(seconds * 1_000_000_000);
            let part = |from: usize, to: usize| &stamp[from..to];
            let text = format!(
                "{}-{}-{}T{}:{}:{}Z", part(0, 4), part(4, 6), part(6, 8), part(9, 11), part(11, 13), part(13, 15)
            );
            prop_assert_eq!(parse(&text), Some(seconds));
        }
    }
}
