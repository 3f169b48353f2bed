//! Times in many formats, with time zones.

use jiff::{
    Timestamp as Time,
    fmt::{rfc2822, temporal::DateTimeParser},
};
use tremor_pdk::{Exact, Result, Writer, scaled};

use super::{strptime::Strptime, zone::Zone};
use crate::{
    config::{Config, TimeOutput},
    stop::Stop,
};

/// A parser of times.
#[derive(Debug)]
pub(crate) struct Timestamp {
    format: TimeFormat,
    zone: Zone,
    output: TimeOutput,
}

#[derive(Debug)]
enum TimeFormat {
    Rfc3339,
    Rfc2822,
    /// Time since the Unix epoch in a unit of 10^-N seconds.
    Unix(u32),
    Strptime(Strptime),
}

impl Timestamp {
    /// Creates a parser.
    ///
    /// # Errors
    /// The format or the zone is invalid.
    pub(crate) fn new(config: &Config) -> Result<Self> {
        let zone = Zone::new(config.timezone.as_deref())?;
        let format = match config.time_format.as_deref() {
            None | Some("rfc3339" | "iso8601") => TimeFormat::Rfc3339,
            Some("rfc2822") => TimeFormat::Rfc2822,
            Some("unix") => TimeFormat::Unix(0),
            Some("unix_ms") => TimeFormat::Unix(3),
            Some("unix_us") => TimeFormat::Unix(6),
            Some("unix_ns") => TimeFormat::Unix(9),
            Some(format) => TimeFormat::Strptime(Strptime::new(format, &zone)?),
        };
        Ok(Self { format, zone, output: config.output.unwrap_or_default() })
    }

    /// Writes the time. `now` is the time of the event, in ns since the Unix epoch, by which the year of a time without a
    /// year is chosen.
    pub(crate) fn value(&self, text: &str, now: u64, out: &mut Writer<'_>) -> Result<(), Stop> {
        let trimmed = text.trim_ascii();
        let start = text.len() - text.trim_ascii_start().len();
        let time = self.time(trimmed, now).map_err(|stop| stop.moved_by(start))?;
        let unit = match self.output {
            TimeOutput::Rfc3339 => {
                out.str(&time.to_string());
                return Ok(());
            }
            TimeOutput::Unix => 1_000_000_000,
            TimeOutput::UnixMs => 1_000_000,
            TimeOutput::UnixUs => 1_000,
            TimeOutput::UnixNs => 1,
        };
        let ns = time.as_nanosecond();
        let units = match i64::try_from(ns) {
            Ok(ns) => Ok(ns.div_euclid(unit)),
            Err(_) => i64::try_from(ns.div_euclid(unit.into())),
        };
        out.i64(units.map_err(|_| Stop::new(start, "a time from 1677-09-21 to 2262-04-11"))?);
        Ok(())
    }

    fn time(&self, text: &str, now: u64) -> Result<Time, Stop> {
        let stop = |expected: &str, error: jiff::Error| {
            Stop::new(0, format!("a time in the format {expected} ({error})"))
        };
        match &self.format {
            TimeFormat::Rfc3339 => {
                static PARSER: DateTimeParser = DateTimeParser::new();
                if let Ok(time) = PARSER.parse_timestamp(text) {
                    return Ok(time);
                }
                let named = |error| stop("`rfc3339`, such as `2024-07-15T16:24:59Z`", error);
                let civil = PARSER.parse_datetime(text).map_err(named)?;
                self.zone.timestamp(civil).ok_or_else(out_of_range)
            }
            TimeFormat::Rfc2822 => {
                let named =
                    |error| stop("`rfc2822`, such as `Mon, 15 Jul 2024 16:24:59 -0400`", error);
                rfc2822::parse(text).map(|time| time.timestamp()).map_err(named)
            }
            TimeFormat::Unix(power) => unix(text, *power),
            TimeFormat::Strptime(format) => format
                .time(text, &self.zone, now)
                .map_err(|error| stop(&format!("`{}`", format.format()), error))?
                .ok_or_else(|| Stop::new(0, "a date that exists in one of the last 8 years")),
        }
    }
}

fn out_of_range() -> Stop {
    Stop::new(0, "a time within the years from -9999 to 9999")
}

/// Reads the time since the Unix epoch in a unit of 10^-`power` seconds. The number may have a fraction, of which
/// digits beyond nanoseconds are ignored, and an exponent.
fn unix(text: &str, power: u32) -> Result<Time, Stop> {
    if Exact::float(text).is_none() {
        return Err(Stop::new(0, "a number, which is a time since 1970"));
    }
    let nanoseconds = scaled(text, 9 - power).ok_or_else(out_of_range)?;
    Time::from_nanosecond(nanoseconds).map_err(|_| out_of_range())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::{
        format::Parser,
        stop::Stop,
        testing::{try_parser, written},
    };

    /// 2024-01-02T00:00:00Z.
    const NOW: u64 = 1_704_153_600_000_000_000;

    fn parser(mut config: serde_json::Value) -> Result<Parser, String> {
        config["format"] = "timestamp".into();
        try_parser(config)
    }

    fn time(config: serde_json::Value, text: &str) -> Result<String, Stop> {
        let mut parser = parser(config).unwrap();
        written(|out| parser.write(text, NOW, out))
    }

    #[test]
    fn times_are_converted_to_utc() {
        for (format, zone, text, expected) in [
            ("rfc3339", None, "2024-07-15T16:24:59.5+02:00", "2024-07-15T14:24:59.5Z"),
            ("rfc3339", Some("Europe/Berlin"), "2024-07-15 16:24:59", "2024-07-15T14:24:59Z"),
            ("rfc2822", None, "Mon, 15 Jul 2024 16:24:59 -0400", "2024-07-15T20:24:59Z"),
            ("%d/%b/%Y:%H:%M:%S %z", None, "10/Oct/2000:13:55:36 -0700", "2000-10-10T20:55:36Z"),
            (
                "%Y-%m-%d %H:%M:%S%.f",
                Some("America/New_York"),
                " 2024-07-15 16:24:59.25\n",
                "2024-07-15T20:24:59.25Z",
            ),
            ("%F", None, "2024-07-15", "2024-07-15T00:00:00Z"),
            ("%F %T %Q", None, "2024-07-15 12:00:00 Asia/Tokyo", "2024-07-15T03:00:00Z"),
            ("%s", Some("Europe/Berlin"), "1700000000", "2023-11-14T22:13:20Z"),
            ("%b %e %H:%M:%S", None, "Jan  3 00:00:00", "2024-01-03T00:00:00Z"),
            ("%b %e %H:%M:%S", None, "Dec 31 23:59:59", "2023-12-31T23:59:59Z"),
            ("%b %e %H:%M:%S", None, "Jan  3 00:00:01", "2023-01-03T00:00:01Z"),
            ("%b %e %H:%M:%S %z", None, "Jan  3 00:00:01 +0100", "2024-01-02T23:00:01Z"),
            ("%b %e %T", Some("Asia/Tokyo"), "Jan  4 00:00:00", "2023-01-03T15:00:00Z"),
            ("%b %e", None, "Jul  4", "2023-07-04T00:00:00Z"),
            ("%b %e", None, "Feb 29", "2020-02-29T00:00:00Z"),
            ("%a %b %e", None, "Thu Jan  5", "2023-01-05T00:00:00Z"),
            ("unix", None, "-1.5", "1969-12-31T23:59:58.5Z"),
            ("unix_ms", None, "1700000000123", "2023-11-14T22:13:20.123Z"),
            ("unix_us", None, "1700000000123456.7899", "2023-11-14T22:13:20.123456789Z"),
            ("unix_ns", None, "1700000000000000001", "2023-11-14T22:13:20.000000001Z"),
            ("unix_ns", None, "1.49e18", "2017-03-20T08:53:20Z"),
            ("unix_ms", None, "1.7000000000015e+12", "2023-11-14T22:13:20.0015Z"),
            ("unix", None, "17e8", "2023-11-14T22:13:20Z"),
        ] {
            let mut config = json!({ "time_format": format });
            if let Some(zone) = zone {
                config["timezone"] = zone.into();
            }
            assert_eq!(time(config, text), Ok(format!("\"{expected}\"")), "{format} {text}");
        }
    }

    #[test]
    fn offset_has_any_usual_form() {
        let expected = Ok("\"2024-07-15T14:24:59Z\"".to_owned());
        let read = |format: &str, text: &str| {
            time(json!({ "time_format": format, "timezone": "Asia/Tokyo" }), text)
        };
        for format in ["%z", "%:z", "%::z", "%:::z", "%#z", "%Q", "%:Q"] {
            for (time, offset) in [
                ("14:24:59", "Z"),
                ("14:24:59", "z"),
                ("14:24:59", "+00"),
                ("16:24:59", "+02"),
                ("16:24:59", "+0200"),
                ("16:24:59", "+02:00"),
                ("16:24:59", "+02:00:00"),
                ("08:54:59", "-05:30"),
                ("08:54:59", "-0530"),
            ] {
                let text = format!("2024-07-15T{time}{offset}");
                assert_eq!(read(&format!("%FT%T{format}"), &text), expected, "{format} {text}");
                let text = format!("Mon Jul 15 {time} {offset} 2024 x");
                let format = format!("%a %b %d %T {format} %Y x");
                assert_eq!(read(&format, &text), expected, "{format} {text}");
            }
            for text in ["2024-07-15T16:24:59", "2024-07-15T16:24:59+2", "2024-07-15T16:24:59Zulu1"]
            {
                assert!(read(&format!("%FT%T{format}"), text).is_err(), "{format} {text}");
            }
            let text = "2024-07-15T16:24:59+02:00 x";
            assert!(read(&format!("%FT%T{format}"), text).is_err(), "{format} {text}");
        }
        let both = "%FT%T%z[%Q]";
        assert_eq!(read(both, "2024-07-15T16:24:59+02:00[Europe/Berlin]"), expected);
        assert!(read(both, "2024-07-15T16:24:59+01:00[Europe/Berlin]").is_err());
    }

    #[test]
    fn fraction_follows_every_specifier_of_seconds() {
        for (format, text, expected) in [
            ("%s%.f", "1364481363.243", "2013-03-28T14:36:03.243Z"),
            ("%s.%f", "1364481363.243", "2013-03-28T14:36:03.243Z"),
            ("%s.%3f", "1364481363.243", "2013-03-28T14:36:03.243Z"),
            ("%s,%N", "1364481363,243000001", "2013-03-28T14:36:03.243000001Z"),
            ("%s%.f %z", "1364481363.243 +0200", "2013-03-28T14:36:03.243Z"),
            ("%s%.f", "1364481363", "2013-03-28T14:36:03Z"),
            ("%s%.f", "-1.5", "1969-12-31T23:59:58.5Z"),
            ("%s%.f", "-0.5", "1969-12-31T23:59:59.5Z"),
            ("audit(%s%.f)", "audit(-0.5)", "1969-12-31T23:59:59.5Z"),
            ("%s%.f", "0.5", "1970-01-01T00:00:00.5Z"),
            ("%F %T%.f", "2013-03-28 14:36:03.243", "2013-03-28T14:36:03.243Z"),
            ("%F %T,%f", "2013-03-28 14:36:03,243", "2013-03-28T14:36:03.243Z"),
            ("%F %H:%M:%S:%3f", "2013-03-28 14:36:03:243", "2013-03-28T14:36:03.243Z"),
            ("%F %X%.f", "2013-03-28 14:36:03.243", "2013-03-28T14:36:03.243Z"),
            ("%F %I:%M:%S%.f %p", "2013-03-28 02:36:03.243 PM", "2013-03-28T14:36:03.243Z"),
        ] {
            let found = time(json!({ "time_format": format, "timezone": "UTC" }), text);
            assert_eq!(found, Ok(format!("\"{expected}\"")), "{format} {text}");
        }
    }

    #[test]
    fn specifiers_of_posix_stand_for_their_parts() {
        for (format, text, expected) in [
            ("%c", "Mon Jul  8 00:34:59 2024", "2024-07-08T00:34:59Z"),
            ("%x %r", "07/08/24 12:34:59 AM", "2024-07-08T00:34:59Z"),
            ("%D %X", "07/08/24 00:34:59", "2024-07-08T00:34:59Z"),
            ("%C%y-%m-%d", "1950-07-08", "1950-07-08T00:00:00Z"),
            ("%%C%y-%m-%d", "%C50-07-08", "2050-07-08T00:00:00Z"),
            ("%h %e %Y, %R", "Jul 8 2024, 00:34", "2024-07-08T00:34:00Z"),
            ("%Y-%j", "2024-190", "2024-07-08T00:00:00Z"),
            ("%G-W%V-%u", "2024-W28-1", "2024-07-08T00:00:00Z"),
            ("%n%Y%t%m %d", "2024 07 08", "2024-07-08T00:00:00Z"),
        ] {
            let found = time(json!({ "time_format": format }), text);
            assert_eq!(found, Ok(format!("\"{expected}\"")), "{format} {text}");
        }
    }

    #[test]
    fn output_is_text_or_a_number() {
        let text = "2024-07-15T16:24:59.123456789Z";
        for (output, expected) in [
            ("rfc3339", "\"2024-07-15T16:24:59.123456789Z\""),
            ("unix", "1721060699"),
            ("unix_ms", "1721060699123"),
            ("unix_us", "1721060699123456"),
            ("unix_ns", "1721060699123456789"),
        ] {
            assert_eq!(time(json!({ "output": output }), text).as_deref(), Ok(expected));
        }
        for (output, expected) in [
            ("unix", "-2"),
            ("unix_ms", "-1001"),
            ("unix_us", "-1000001"),
            ("unix_ns", "-1000000001"),
        ] {
            let found = time(json!({ "output": output }), "1969-12-31T23:59:58.999999999Z");
            assert_eq!(found.as_deref(), Ok(expected));
        }
        assert_eq!(
            time(json!({ "output": "unix_us" }), "2500-01-01T00:00:00Z").as_deref(),
            Ok("16725225600000000")
        );
        let stop = time(json!({ "output": "unix_ns" }), "2500-01-01T00:00:00Z").unwrap_err();
        assert!(stop.describe("").contains("1677"), "{stop:?}");
    }

    #[test]
    fn other_texts_are_errors() {
        for (format, text) in [
            ("rfc3339", "yesterday"),
            ("rfc3339", "2024-02-30T00:00:00Z"),
            ("rfc2822", "2024-07-15"),
            ("%F", "2024-07-15 x"),
            ("%F %z", "2024-07-15"),
            ("%b %e", "Feb 30"),
            ("unix", "1e"),
            ("unix", "1e300"),
            ("unix", "1.2.3"),
            ("unix", ""),
            ("unix", "99999999999999999999999999999999999999999999"),
            ("unix", "99999999999999"),
            ("unix_ms", "--1"),
        ] {
            assert!(time(json!({ "time_format": format }), text).is_err(), "{format} {text}");
        }
    }

    #[test]
    fn invalid_formats_are_rejected() {
        for (config, expected) in [
            (json!({ "time_format": "iso" }), "it has no `%`; expected a format such as"),
            (json!({ "time_format": "%Y-%m-%d %!" }), "invalid `time_format`"),
            (json!({ "time_format": "%H:%M" }), "it has no month and day"),
            (json!({ "timezone": "Berlin" }), "invalid `timezone` `Berlin`"),
        ] {
            let error = parser(config).unwrap_err();
            assert!(error.contains(expected), "{error}");
        }
    }
}
