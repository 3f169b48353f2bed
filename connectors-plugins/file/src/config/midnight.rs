//! The times of day at which files are rotated.

use jiff::{Timestamp, tz::TimeZone};
use tremor_pdk::{Error, Result};

use super::TimeOfDay;

/// Longest time from one midnight to the next one, in ns, with some margin: a day of 25 hours, at the end of daylight
/// saving time, and a day that a zone skips when it moves across the date line.
const LONGEST_DAY_NS: u64 = 50 * 3_600_000_000_000;

/// The midnights of a time zone.
#[derive(Clone, Debug)]
pub(crate) struct Midnights(TimeZone);

impl Midnights {
    /// Returns the midnights of a time zone: `local`, the name of a zone, or an offset.
    pub(crate) fn new(at: TimeOfDay, timezone: &str) -> Result<Self> {
        let TimeOfDay::Midnight = at;
        let zone = match timezone {
            "local" => TimeZone::system(),
            name => parse(name)?,
        };
        Ok(Self(zone))
    }

    /// Returns the first midnight after a time. Both are in ns since the Unix epoch. If the zone has no midnight on a
    /// day, because its clock is set forward then, the day begins with its first instant.
    pub(crate) fn after(&self, ns: u64) -> u64 {
        let next = || {
            let time = Timestamp::from_nanosecond(ns.into()).ok()?;
            let today = time.to_zoned_datetime(self.0.clone());
            let day = today.tomorrow().ok()?.start_of_day().ok()?;
            u64::try_from(day.timestamp().as_nanosecond()).ok()
        };
        next().unwrap_or(u64::MAX)
    }

    /// Returns whether a midnight that [`Midnights::after`] returned is so late that the clock was ahead then and has
    /// been set back since.
    pub(crate) fn is_from_wrong_clock(midnight_ns: u64, now_ns: u64) -> bool {
        midnight_ns > now_ns.saturating_add(LONGEST_DAY_NS)
    }
}

fn parse(name: &str) -> Result<TimeZone> {
    jiff::fmt::temporal::DateTimeParser::new().parse_time_zone(name).map_err(|_| {
        Error::configuration(format!(
            "invalid `rotate.timezone` {name:?}: expected `local`, a name such as `Europe/Berlin` or `UTC`, or an \
             offset such as `+02:00`"
        ))
    })
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;

    use super::{Midnights, TimeOfDay};

    fn ns(time: &str) -> u64 {
        time.parse::<Timestamp>().unwrap().as_nanosecond().try_into().unwrap()
    }

    #[test]
    fn midnight_follows_zone_and_daylight_saving_time() {
        for (zone, time, midnight) in [
            ("UTC", "2026-11-29T00:00:00Z", "2026-11-30T00:00:00Z"),
            ("UTC", "2026-11-29T23:59:59.999999999Z", "2026-11-30T00:00:00Z"),
            ("+02:00", "2026-11-29T21:59:59Z", "2026-11-29T22:00:00Z"),
            ("Europe/Berlin", "2026-11-29T22:59:59Z", "2026-11-29T23:00:00Z"),
            // A day of 23 hours and one of 25 hours.
            ("Europe/Berlin", "2026-03-28T23:00:00Z", "2026-03-29T22:00:00Z"),
            ("Europe/Berlin", "2026-10-24T22:00:00Z", "2026-10-25T23:00:00Z"),
            // The clock is set from 0:00 to 1:00.
            ("Africa/Cairo", "2026-04-23T12:00:00Z", "2026-04-23T22:00:00Z"),
            // The zone skipped the 30th of December.
            ("Pacific/Apia", "2011-12-30T09:59:59Z", "2011-12-30T10:00:00Z"),
        ] {
            let midnights = Midnights::new(TimeOfDay::Midnight, zone).unwrap();
            assert_eq!(midnights.after(ns(time)), ns(midnight), "{zone}, {time}");
        }
    }

    #[test]
    fn unknown_zone_is_an_error_that_names_it() {
        let error = Midnights::new(TimeOfDay::Midnight, "Mars/Olympus").unwrap_err().to_string();
        assert!(error.contains("\"Mars/Olympus\": expected `local`"), "{error}");
    }
}
