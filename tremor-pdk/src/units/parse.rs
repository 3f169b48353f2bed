//! Parsing of numbers with units.

use std::time::Duration;

/// Parses a whole number with a unit of time: `250ms`, `5s`, `2m`, `1h`.
pub fn parse_time(text: &str) -> Option<Duration> {
    let units = [("ms", 1), ("s", 1_000), ("m", 60_000), ("h", 3_600_000)];
    parse(text, &units).map(Duration::from_millis)
}

/// Parses a whole number with a unit of size: `64KiB`, `4MiB`, `1GiB`, `500kB`, `10MB`, `512B`.
pub fn parse_size(text: &str) -> Option<u64> {
    let units = [
        ("B", 1),
        ("KiB", 1 << 10),
        ("MiB", 1 << 20),
        ("GiB", 1 << 30),
        ("kB", 1_000),
        ("MB", 1_000_000),
        ("GB", 1_000_000_000),
    ];
    parse(text, &units)
}

/// Parses a whole number with one of `units`. Returns the number in the smallest unit.
fn parse(text: &str, units: &[(&str, u64)]) -> Option<u64> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at(digits);
    let (_, factor) = units.iter().find(|(name, _)| *name == unit.trim_start())?;
    number.parse::<u64>().ok()?.checked_mul(*factor)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{parse_size, parse_time};

    #[test]
    fn time_without_known_unit_is_rejected() {
        assert_eq!(parse_time("250ms"), Some(Duration::from_millis(250)));
        assert_eq!(parse_time("5 s"), Some(Duration::from_secs(5)));
        assert_eq!(parse_time("2m"), Some(Duration::from_mins(2)));
        assert_eq!(parse_time("1h"), Some(Duration::from_hours(1)));
        for text in ["", "5", "s", "-1s", "1.5s", "5 days", "99999999999999999999s"] {
            assert_eq!(parse_time(text), None, "{text}");
        }
        assert_eq!(parse_time("18446744073709551615h"), None);
    }

    #[test]
    fn size_without_known_unit_is_rejected() {
        assert_eq!(parse_size("64KiB"), Some(65_536));
        assert_eq!(parse_size("4 MiB"), Some(4 << 20));
        assert_eq!(parse_size("1GB"), Some(1_000_000_000));
        assert_eq!(parse_size("512B"), Some(512));
        for text in ["", "5", "KiB", "-1KiB", "1.5MiB", "5 mb", "18446744073709551615KiB"] {
            assert_eq!(parse_size(text), None, "{text}");
        }
    }
}
