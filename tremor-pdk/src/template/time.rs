//! Times in templates.

use std::ops::Range;

use jiff::{Timestamp, fmt::strtime::BrokenDownTime, tz::TimeZone};

/// A format of strftime, and the time zone in which times are written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct TimeFormat {
    format: Box<str>,
    zone: TimeZone,
    span: Span,
}

/// The longest span of time for which the text of a format is the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Span {
    Day,
    Second,
    /// The format shows parts of a second.
    Instant,
}

/// The last texts of the times in one template.
#[derive(Debug, Default)]
pub struct TimeCache(Vec<Cached>);

#[derive(Debug, Default)]
struct Cached {
    /// Seconds since the Unix epoch in which the text is valid.
    seconds: Range<i64>,
    text: String,
}

/// Times with which a format is checked, in seconds since the Unix epoch.
const SAMPLES: [i64; 2] = [0, 1_700_000_000];

/// Directives of strftime that are the same for a whole day.
const DATES: &str = "YCymdejFDbBhaAUWVGguwQ%nt";

/// Directives of strftime that are the same for a whole second.
const TIMES: &str = "HIklMSTRrXpPczZs:+xv";

impl TimeFormat {
    /// Parses `FORMAT` or `FORMAT|ZONE`.
    ///
    /// # Errors
    /// Returns a description of the problem, and its offset.
    pub(super) fn parse(text: &str) -> Result<Self, (usize, String)> {
        let (format, zone) = text.split_once('|').map_or((text, None), |(f, z)| (f, Some(z)));
        if !format.contains('%') {
            let expected = "expected a format of a time such as `%Y-%m-%d`";
            return Err((0, format!("{expected}, found `{format}`, which has no `%`")));
        }
        let zone = match zone {
            None => TimeZone::UTC,
            Some("local") => TimeZone::try_system().map_err(|error| {
                (format.len() + 1, format!("cannot read the time zone of the system: {error}"))
            })?,
            Some(name) => TimeZone::get(name).map_err(|_| {
                let expected = "expected a time zone such as `Europe/Berlin`, `UTC` or `local`";
                (format.len() + 1, format!("{expected}, found `{name}`"))
            })?,
        };
        let this = Self { format: format.into(), zone, span: Span::of(format) };
        for sample in SAMPLES {
            let time = Timestamp::from_second(sample).map_err(|error| (0, error.to_string()))?;
            let mut shown = String::new();
            this.write(time, &mut shown)
                .map_err(|error| (0, format!("invalid format of a time `{format}`: {error}")))?;
            if shown.is_empty() {
                let expected = "expected a format of a time such as `%Y-%m-%d`";
                return Err((0, format!("{expected}, found one without any text")));
            }
        }
        Ok(this)
    }

    fn write(&self, time: Timestamp, out: &mut String) -> Result<(), jiff::Error> {
        let zoned = time.to_zoned_datetime(self.zone.clone());
        let mut parts = BrokenDownTime::from(&zoned);
        if time.subsec_nanosecond() < 0 {
            // `%s` would be rounded up, although the other directives are rounded down, as the fraction requires.
            parts.set_timestamp(Timestamp::from_second(time.as_second() - 1).ok());
        }
        parts.format(&*self.format, out)
    }

    /// Appends a time in ns since the Unix epoch. Returns `false` if the time is out of range; `out` may then contain a
    /// part of it.
    pub(super) fn append(&self, ns: i128, out: &mut String) -> bool {
        Timestamp::from_nanosecond(ns).is_ok_and(|time| self.write(time, out).is_ok())
    }

    /// Returns the seconds around a time in which the text is the same.
    fn seconds(&self, time: Timestamp) -> Option<Range<i64>> {
        match self.span {
            Span::Instant => None,
            Span::Second => {
                let second = time.as_nanosecond().div_euclid(1_000_000_000);
                let second = i64::try_from(second).ok()?;
                Some(second..second + 1)
            }
            Span::Day => {
                let day = time.to_zoned_datetime(self.zone.clone()).start_of_day().ok()?;
                let next = day.tomorrow().and_then(|next| next.start_of_day()).ok()?;
                let seconds = |time: Timestamp| time.as_second();
                Some(seconds(day.timestamp())..seconds(next.timestamp()))
            }
        }
    }
}

impl Span {
    /// Returns the span of a format. Directives that are not known here count as parts of a second.
    fn of(format: &str) -> Self {
        let mut span = Self::Day;
        let mut rest = format;
        while let Some((_, behind)) = rest.split_once('%') {
            // Flags and widths stand between `%` and the directive.
            let behind =
                behind.trim_start_matches(|it: char| "-_0^#".contains(it) || it.is_ascii_digit());
            let Some(directive) = behind.chars().next() else { return Self::Instant };
            match directive {
                it if DATES.contains(it) => {}
                it if TIMES.contains(it) => span = Self::Second,
                _ => return Self::Instant,
            }
            rest = &behind[directive.len_utf8()..];
        }
        span
    }
}

impl TimeCache {
    /// Appends a time as [`TimeFormat::append`] does. `number` identifies the time in its template.
    pub(super) fn append(
        &mut self,
        number: usize,
        format: &TimeFormat,
        ns: i128,
        out: &mut String,
    ) -> bool {
        if self.0.len() <= number {
            self.0.resize_with(number + 1, Cached::default);
        }
        let cached = &mut self.0[number];
        let second = i64::try_from(ns.div_euclid(1_000_000_000)).unwrap_or(i64::MAX);
        if cached.seconds.contains(&second) {
            out.push_str(&cached.text);
            return true;
        }
        let start = out.len();
        if !format.append(ns, out) {
            return false;
        }
        let seconds = Timestamp::from_nanosecond(ns).ok().and_then(|time| format.seconds(time));
        cached.seconds = seconds.unwrap_or_default();
        cached.text.clear();
        cached.text.push_str(&out[start..]);
        true
    }
}

/// Returns the time of a text in the form of RFC 3339, in ns since the Unix epoch.
pub(super) fn parse(text: &str) -> Option<i128> {
    text.parse::<Timestamp>().ok().map(Timestamp::as_nanosecond)
}
