//! Time zones.

use jiff::{Timestamp, civil::DateTime, tz::TimeZone};
use tremor_pdk::{Error, Result};

/// The zone of times that do not name their zone.
#[derive(Clone, Debug)]
pub(crate) struct Zone(TimeZone);

impl Zone {
    /// Returns the zone with a name of the IANA database, the zone of the machine for `local`, and UTC for no name.
    ///
    /// # Errors
    /// The database has no such zone.
    pub(crate) fn new(name: Option<&str>) -> Result<Self> {
        let zone = match name {
            None => TimeZone::UTC,
            Some("local") => TimeZone::system(),
            Some(name) => TimeZone::get(name).map_err(|_| {
                Error::configuration(format_args!(
                    "invalid `timezone` `{name}`: expected a time zone, such as `Europe/Berlin`, `UTC` or `local`"
                ))
            })?,
        };
        Ok(Self(zone))
    }

    #[cfg(test)]
    pub(crate) fn utc() -> Self {
        Self(TimeZone::UTC)
    }

    pub(crate) fn zone(&self) -> &TimeZone {
        &self.0
    }

    /// Returns the time of a date and time in this zone. A local time that occurs twice, because
    /// clocks are set back, is the earlier one. A local time that does not occur, because clocks
    /// are set forward, becomes later by the skipped time.
    pub(crate) fn timestamp(&self, civil: DateTime) -> Option<Timestamp> {
        Some(civil.to_zoned_datetime(self.0.clone()).ok()?.timestamp())
    }

    /// Converts a time such as `2021/04/01 13:02:31` to RFC 3339 in UTC.
    pub(crate) fn of_civil(&self, text: &str) -> Option<String> {
        let [y0, y1, y2, y3, b'/', m0, m1, b'/', d0, d1, b' ', time @ ..] = text.as_bytes() else {
            return None;
        };
        let [h0, h1, b':', i0, i1, b':', s0, s1] = time else { return None };
        let number = |digits: &[u8]| {
            digits.iter().try_fold(0_i16, |number, digit| {
                digit.is_ascii_digit().then(|| number * 10 + i16::from(digit - b'0'))
            })
        };
        let two = |tens: &u8, ones: &u8| i8::try_from(number(&[*tens, *ones])?).ok();
        let year = number(&[*y0, *y1, *y2, *y3])?;
        let (month, day) = (two(m0, m1)?, two(d0, d1)?);
        let (hour, minute, second) = (two(h0, h1)?, two(i0, i1)?, two(s0, s1)?);
        let civil = DateTime::new(year, month, day, hour, minute, second.min(59), 0).ok()?;
        Some(self.timestamp(civil)?.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::Zone;

    #[test]
    fn civil_time_is_converted_with_the_rules_of_its_zone() {
        let berlin = Zone::new(Some("Europe/Berlin")).unwrap();
        for (text, expected) in [
            ("2021/01/31 13:02:31", Some("2021-01-31T12:02:31Z")),
            ("2021/07/31 13:02:31", Some("2021-07-31T11:02:31Z")),
            ("2021/10/31 02:30:00", Some("2021-10-31T00:30:00Z")),
            ("2021/03/28 02:30:00", Some("2021-03-28T01:30:00Z")),
            ("2021/02/29 00:00:00", None),
            ("2021-02-28 00:00:00", None),
            ("2021/02/28 24:00:00", None),
        ] {
            assert_eq!(berlin.of_civil(text).as_deref(), expected, "{text}");
        }
    }

    #[test]
    fn unknown_zone_is_an_error() {
        let error = Zone::new(Some("Europe/Atlantis")).unwrap_err().to_string();
        assert!(error.contains("`Europe/Atlantis`: expected a time zone"), "{error}");
        assert!(Zone::new(Some("local")).is_ok() && Zone::new(None).is_ok());
    }
}
