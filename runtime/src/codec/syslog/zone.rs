//! The zone of times that have no offset.

use jiff::{
    Timestamp,
    fmt::temporal::DateTimeParser,
    tz::{Offset, TimeZone},
};
use serde::{Deserialize, Deserializer, de::Error};

use super::civil::NS;

/// Options of the codec.
#[tremor_pdk::config]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// Zone of times that have no offset: `local` for the zone of the machine, a name such as `Europe/Berlin` or `UTC`,
    /// or an offset such as `+02:00`.
    #[serde(default = "local", deserialize_with = "timezone")]
    #[schemars(with = "String")]
    timezone: TimeZone,
}

impl Default for Options {
    fn default() -> Self {
        Self { timezone: local() }
    }
}

/// Returns the zone of the machine, or UTC if the machine has none.
fn local() -> TimeZone {
    TimeZone::system()
}

fn timezone<'de, D: Deserializer<'de>>(deserializer: D) -> Result<TimeZone, D::Error> {
    let name = String::deserialize(deserializer)?;
    if name == "local" {
        return Ok(local());
    }
    DateTimeParser::new().parse_time_zone(&name).map_err(|_| {
        D::Error::custom(format_args!(
            "invalid time zone {name:?}: expected `local`, a name such as `Europe/Berlin` or `UTC`, or an offset such \
             as `+02:00`"
        ))
    })
}

/// A time zone, and the offsets that were used last. Most messages have the same minute as the previous one, and offsets
/// change only between minutes.
#[derive(Clone, Debug)]
pub struct Zone {
    rules: TimeZone,
    is_utc: bool,
    read: Offsets,
    written: Offsets,
}

/// The offset of a minute.
#[derive(Clone, Debug)]
struct Offsets {
    minute: i64,
    /// Seconds east of UTC.
    offset: i64,
}

impl Offsets {
    const NONE: Self = Self { minute: i64::MIN, offset: 0 };

    fn get(&mut self, ns: i64, offset: impl FnOnce(Timestamp) -> Option<i64>) -> Option<i64> {
        const SECONDS: i64 = 60;
        let minute = ns.div_euclid(SECONDS * NS);
        if minute != self.minute {
            self.offset = offset(Timestamp::from_second(minute * SECONDS).ok()?)?;
            self.minute = minute;
        }
        Some(self.offset)
    }
}

impl From<&Options> for Zone {
    fn from(Options { timezone }: &Options) -> Self {
        let is_utc = *timezone == TimeZone::UTC;
        Self { rules: timezone.clone(), is_utc, read: Offsets::NONE, written: Offsets::NONE }
    }
}

impl Zone {
    /// Returns the timestamp of a local time. Both are in ns, and `local` counts from the midnight of 1970-01-01 in this
    /// zone. Returns `None` if the timestamp does not fit 64 bits.
    pub(super) fn timestamp(&mut self, local: i64) -> Option<i64> {
        if self.is_utc {
            return Some(local);
        }
        let offset = self.read.get(local, |minute| {
            let civil = Offset::UTC.to_datetime(minute);
            let timestamp = self.rules.to_ambiguous_timestamp(civil).compatible().ok()?;
            Some(minute.as_second() - timestamp.as_second())
        })?;
        local.checked_sub(offset.checked_mul(NS)?)
    }

    /// Returns the local time of a timestamp. Inverse of [`timestamp`](Self::timestamp), unless clocks are set back or
    /// forward.
    pub(super) fn local(&mut self, timestamp: i64) -> Option<i64> {
        if self.is_utc {
            return Some(timestamp);
        }
        let offset = self
            .written
            .get(timestamp, |minute| Some(i64::from(self.rules.to_offset(minute).seconds())))?;
        timestamp.checked_add(offset.checked_mul(NS)?)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{NS, Options, Zone};

    fn zone(name: &str) -> Zone {
        let options: Options = serde_json::from_value(json!({ "timezone": name })).unwrap();
        Zone::from(&options)
    }

    #[test]
    fn local_times_follow_the_rules_of_their_zone() {
        for (name, local, expected) in [
            ("UTC", 1_704_110_400, 1_704_110_400),
            ("Europe/Berlin", 1_704_110_400, 1_704_106_800),
            ("Europe/Berlin", 1_720_000_000, 1_719_992_800),
            // 2024-03-31 02:30 does not exist in Berlin, and becomes 03:30 CEST.
            ("Europe/Berlin", 1_711_852_200, 1_711_848_600),
            // 2024-10-27 02:30 occurs twice in Berlin. The first time is in CEST.
            ("Europe/Berlin", 1_729_996_200, 1_729_989_000),
            ("-03:30", 1_704_110_400, 1_704_123_000),
        ] {
            let mut zone = zone(name);
            for second in [0, 1, 59] {
                let timestamp = zone.timestamp((local + second) * NS + 5);
                assert_eq!(timestamp, Some((expected + second) * NS + 5), "{name} {local}");
            }
        }
    }

    #[test]
    fn written_times_are_read_in_any_zone() {
        for name in ["UTC", "Asia/Kathmandu", "America/Phoenix", "+14:00"] {
            let mut zone = zone(name);
            for timestamp in (0..400).map(|day| (1_700_000_000 + day * 86_000) * NS) {
                let local = zone.local(timestamp).unwrap();
                assert_eq!(zone.timestamp(local), Some(timestamp), "{name}");
            }
        }
    }

    #[test]
    fn times_beyond_the_range_have_no_timestamp() {
        assert_eq!(zone("+10:00").timestamp(i64::MIN), None);
        assert_eq!(zone("+10:00").local(i64::MAX), None);
    }

    #[test]
    fn unknown_zone_is_an_error() {
        let read = |name: &str| serde_json::from_value::<Options>(json!({ "timezone": name }));
        assert!(read("local").is_ok());
        for name in ["", "Europe/Atlantis", "+26:00", "local time"] {
            let error = read(name).expect_err(name).to_string();
            assert!(error.contains(&format!("invalid time zone {name:?}")), "{error}");
        }
    }
}
