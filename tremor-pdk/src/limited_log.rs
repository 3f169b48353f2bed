//! Logging with a limit on the number of lines in a time window.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use crate::{Host, LogLevel, lock};

/// A log that writes a limited number of lines in a time window, for conditions that may occur once per event or
/// connection.
///
/// The macros `error!` … `trace!` take a limited log instead of a host. A line beyond the limit is written with the
/// level debug, and the next line within the limit reports how many were suppressed. Clones share the limit.
///
/// ```
/// # use std::time::Duration;
/// # use tremor_pdk::{testing::TestHost, warn};
/// # let test = TestHost::new();
/// let refusals = test.host().limited_log(1, Duration::from_secs(60));
/// for peer in ["a", "b", "c"] {
///     warn!(refusals, "refused {peer}"); // "a" is logged as a warning
/// }
/// test.advance(Duration::from_secs(60));
/// warn!(refusals, "refused d"); // refused d (2 similar lines were suppressed)
/// # assert!(test.log()[3].1.ends_with("refused d (2 similar lines were suppressed)"));
/// ```
#[derive(Clone)]
pub struct LimitedLog {
    host: Host,
    lines: u32,
    window_ns: u64,
    window: Arc<Mutex<Window>>,
}

/// Lines of the current window.
#[derive(Default)]
struct Window {
    /// Time of the first line in the window; `None` if no line was logged yet.
    start_ns: Option<u64>,
    written: u32,
    /// Number of lines that were suppressed and not reported yet.
    suppressed: u64,
}

impl Host {
    /// Returns a log that writes at most `lines` lines within `window`. A window begins with its first line.
    pub fn limited_log(&self, lines: u32, window: Duration) -> LimitedLog {
        LimitedLog {
            host: self.clone(),
            lines,
            window_ns: u64::try_from(window.as_nanos()).unwrap_or(u64::MAX),
            window: Arc::default(),
        }
    }
}

impl LimitedLog {
    /// Returns whether the host would write a line of this level, regardless of the limit.
    pub fn log_enabled(&self, level: LogLevel) -> bool {
        self.host.log_enabled(level)
    }

    /// Writes a line within the limit, with the number of lines that were suppressed before it. A line beyond the
    /// limit is written with the level debug instead.
    pub fn log(&self, level: LogLevel, message: &str) {
        match self.admit() {
            Some(0) => self.host.log(level, message),
            Some(1) => self.host.log(level, &format!("{message} (1 similar line was suppressed)")),
            Some(suppressed) => {
                let message = format!("{message} ({suppressed} similar lines were suppressed)");
                self.host.log(level, &message);
            }
            None if level.0 < LogLevel::DEBUG.0 => debug!(self.host, "{message}"),
            None => {}
        }
    }

    /// Counts a line that the caller writes itself. Returns `None` if the line is beyond the limit, and otherwise the
    /// number of lines that were suppressed and not reported yet.
    pub fn admit(&self) -> Option<u64> {
        let now_ns = self.host.monotonic_ns();
        let window = &mut *lock(&self.window);
        if window.start_ns.is_none_or(|start_ns| now_ns.abs_diff(start_ns) >= self.window_ns) {
            (window.start_ns, window.written) = (Some(now_ns), 0);
        }
        if window.written >= self.lines {
            window.suppressed += 1;
            return None;
        }
        window.written += 1;
        Some(std::mem::take(&mut window.suppressed))
    }

    /// Returns the number of lines that were suppressed and not reported yet, and counts them as reported. Call this
    /// method at the end of a component, because no later line reports the number.
    pub fn take_suppressed(&self) -> u64 {
        std::mem::take(&mut lock(&self.window).suppressed)
    }
}

shows!(LimitedLog);

#[cfg(all(test, feature = "testing"))]
mod tests {
    use std::time::Duration;

    use crate::{LogLevel, testing::TestHost};

    const WINDOW: Duration = Duration::from_secs(10);

    #[test]
    fn lines_beyond_limit_are_debug_and_counted() {
        let test = TestHost::new();
        let log = test.host().limited_log(2, WINDOW);
        for number in 0..5 {
            warn!(log, "line {number}");
        }
        test.advance(WINDOW);
        warn!(log.clone(), "later");
        warn!(log, "again");
        let lines: Vec<_> = test.log();
        let lines: Vec<_> = lines.iter().map(|(level, line)| (level.0, line.as_str())).collect();
        let (warn, debug) = (LogLevel::WARN.0, LogLevel::DEBUG.0);
        let expected = [
            (warn, "line 0"),
            (warn, "line 1"),
            (debug, "line 2"),
            (debug, "line 3"),
            (debug, "line 4"),
            (warn, "later (3 similar lines were suppressed)"),
            (warn, "again"),
        ];
        assert_eq!(lines, expected);
    }

    #[test]
    fn window_begins_with_its_first_line() {
        let test = TestHost::new();
        let log = test.host().limited_log(1, WINDOW);
        test.advance(WINDOW / 2);
        assert_eq!(log.admit(), Some(0), "the first line");
        test.advance(Duration::from_nanos(9_999_999_999));
        assert_eq!(log.admit(), None, "in the window of the first line");
        test.advance(Duration::from_nanos(1));
        assert_eq!(log.admit(), Some(1), "in a window of its own");
    }

    #[test]
    fn setting_the_wall_clock_does_not_end_a_window() {
        let test = TestHost::new();
        let log = test.host().limited_log(1, WINDOW);
        assert_eq!(log.admit(), Some(0));
        test.set_now_ns(u64::MAX / 2);
        assert_eq!(log.admit(), None);
    }

    #[test]
    fn suppressed_lines_are_reported_once() {
        let test = TestHost::new();
        let log = test.host().limited_log(1, WINDOW);
        assert_eq!([log.admit(), log.admit(), log.admit()], [Some(0), None, None]);
        assert_eq!(log.take_suppressed(), 2);
        assert_eq!(log.take_suppressed(), 0);
        test.advance(WINDOW);
        assert_eq!(log.admit(), Some(0));
    }
}
