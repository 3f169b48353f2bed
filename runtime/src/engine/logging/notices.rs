//! Limits for the number of log lines about changes of the state of connectors.
//!
//! A peer that is lost again and again, or whose loss affects thousands of connectors, would fill the log with lines of
//! the same content. A connector therefore logs at most [`OWN`] changes a minute, and all connectors of a flow together
//! log at most [`ALL`]. Further changes are counted, and a separate line reports their number.

use std::{
    future::poll_fn,
    pin::pin,
    sync::{Arc, Mutex},
    task::{Context, Poll, Waker},
    time::{Duration, Instant},
};

use tremor_pdk::lock;

use crate::{clock::Clock, engine::retry::backoff::Budget};

/// Duration of the window to which the limits apply.
const WINDOW: Duration = Duration::from_mins(1);
/// Maximum number of lines of one connector within [`WINDOW`].
const OWN: u64 = 10;
/// Maximum number of lines of all connectors of a flow within [`WINDOW`].
const ALL: u64 = 40;

/// A limit of `MOST` lines within [`WINDOW`], with the number of lines that were left out because of it.
#[derive(Debug)]
struct Lines<const MOST: u64> {
    budget: Budget,
    /// Lines left out since the count was last reported.
    left_out: u64,
    /// Time at which the number is to be reported. `None` if no line was left out.
    due: Option<Instant>,
}

impl<const MOST: u64> Default for Lines<MOST> {
    fn default() -> Self {
        Self { budget: Budget::new(MOST, WINDOW), left_out: 0, due: None }
    }
}

impl<const MOST: u64> Lines<MOST> {
    fn admits(&mut self, now: Instant) -> bool {
        self.admits_count_of(1, now)
    }

    /// Returns whether a line that reports `lines` lines left out by another limit may be logged. If not, adds `lines`
    /// to the number of lines that this limit has left out.
    fn admits_count_of(&mut self, lines: u64, now: Instant) -> bool {
        let admits = self.budget.take(now);
        if !admits {
            self.left_out += lines;
            self.due = self.due.or(self.budget.renewed());
        }
        admits
    }

    /// Resets and returns the number of lines that were left out, if it is not zero and the report is due at `now`. If
    /// `now` is `None`, the report is due in any case.
    fn take_left_out(&mut self, now: Option<Instant>) -> Option<u64> {
        self.due.take_if(|due| now.is_none_or(|now| now >= *due))?;
        Some(std::mem::take(&mut self.left_out))
    }
}

/// The limit that all connectors of a flow share.
#[derive(Debug, Default)]
pub(crate) struct FlowNotices(Mutex<Lines<ALL>>);

/// The limits for the lines of one connector.
#[derive(Debug)]
pub(crate) struct Notices {
    component: Arc<str>,
    clock: Clock,
    own: Mutex<Own>,
    all: Arc<FlowNotices>,
}

#[derive(Debug, Default)]
struct Own {
    lines: Lines<OWN>,
    /// State in the last line that was left out because of [`OWN`].
    last: &'static str,
    /// Waker of the task that reports the lines that were left out.
    reporter: Option<Waker>,
}

impl Notices {
    pub(crate) fn new(component: Arc<str>, all: Arc<FlowNotices>, clock: Clock) -> Self {
        Self { component, clock, own: Mutex::default(), all }
    }

    /// Returns the name of the connector.
    pub(crate) fn component(&self) -> &str {
        &self.component
    }

    /// Returns whether a line about `state`, which is a state or an activity of the connector, may be logged now. If
    /// not, counts the line as left out.
    pub(crate) fn admits(&self, state: &'static str) -> bool {
        self.admits_at(state, self.clock.now())
    }

    fn admits_at(&self, state: &'static str, now: Instant) -> bool {
        let mut own = lock(&self.own);
        if !own.lines.admits(now) {
            own.last = state;
        } else if lock(&self.all.0).admits(now) {
            return true;
        }
        let reporter = own.reporter.take();
        drop(own);
        reporter.into_iter().for_each(Waker::wake);
        false
    }

    /// Returns whether the permanent failure of the connector may be logged. Only the limit of the flow applies,
    /// because the failure is the last line of the connector.
    pub(crate) fn admits_last(&self) -> bool {
        lock(&self.all.0).admits(self.clock.now())
    }

    /// Runs the `work` of the connector and returns its result. Meanwhile reports lines that were left out.
    pub(crate) async fn during<T>(&self, work: impl Future<Output = T>) -> T {
        let mut work = pin!(work);
        let mut alarm = self.clock.alarm();
        let result = poll_fn(|context| {
            if let Poll::Ready(result) = work.as_mut().poll(context) {
                return Poll::Ready(result);
            }
            while alarm.poll_earliest(context, [(self.due(context), ())]).is_ready() {
                let now = Some(self.clock.now());
                self.report(now);
                self.all.report(now);
            }
            Poll::Pending
        });
        let result = result.await;
        self.report(None);
        result
    }

    /// Returns the time of the next report, if one is pending. The calling task is woken when another line is left out.
    fn due(&self, context: &Context<'_>) -> Option<Instant> {
        let mut own = lock(&self.own);
        own.reporter = Some(context.waker().clone());
        let all = lock(&self.all.0).due;
        own.lines.due.into_iter().chain(all).min()
    }

    /// Logs the number of this connector's lines that were left out: see [`Lines::take_left_out`].
    fn report(&self, now: Option<Instant>) {
        let (left_out, last) = {
            let mut own = lock(&self.own);
            (own.lines.take_left_out(now), own.last)
        };
        let Some(left_out) = left_out else { return };
        if lock(&self.all.0).admits_count_of(left_out, self.clock.now()) {
            tracing::warn!(
                component = %self.component,
                left_out,
                last,
                "more than {OWN} changes of the connector within {} s; further lines were left out",
                WINDOW.as_secs()
            );
        }
    }
}

impl FlowNotices {
    /// Logs the number of lines of all connectors that were left out: see [`Lines::take_left_out`].
    fn report(&self, now: Option<Instant>) {
        let left_out = lock(&self.0).take_left_out(now);
        if let Some(left_out) = left_out {
            tracing::warn!(
                left_out,
                "more than {ALL} changes of the flow's connectors within {} s; further lines were left out",
                WINDOW.as_secs()
            );
        }
    }
}

impl Drop for FlowNotices {
    fn drop(&mut self) {
        self.report(None);
    }
}

#[cfg(test)]
mod tests {
    use std::{sync::Arc, time::Instant};

    use super::{ALL, Clock, FlowNotices, Notices, OWN, WINDOW, lock};

    #[test]
    fn lines_of_a_connector_are_limited_and_left_out_ones_counted() {
        let notices = Notices::new("input".into(), Arc::default(), Clock::default());
        let start = Instant::now();
        let lines = (0..10_000).filter(|_| notices.admits_at("lost", start)).count();
        assert_eq!(lines as u64, OWN);
        let left_out = |now| lock(&notices.own).lines.take_left_out(Some(now));
        assert_eq!(left_out(start), None, "the window is not over");
        assert_eq!(left_out(start + WINDOW), Some(10_000 - OWN));
        assert_eq!(left_out(start + WINDOW), None, "the count was reported");
        assert!(notices.admits_at("lost", start + 2 * WINDOW));
    }

    #[test]
    fn lines_of_all_connectors_of_a_flow_are_limited_together() {
        let all = Arc::<FlowNotices>::default();
        let start = Instant::now();
        let each = |_| Notices::new("input".into(), all.clone(), Clock::default());
        let connectors: Vec<_> = (0..10_000).map(each).collect();
        let lines = connectors.iter().filter(|it| it.admits_at("lost", start)).count();
        assert_eq!(lines as u64, ALL);
        assert_eq!(lock(&all.0).take_left_out(Some(start + WINDOW)), Some(10_000 - ALL));
    }

    #[test]
    fn due_count_is_reported_while_lines_continue() {
        let notices = Notices::new("input".into(), Arc::default(), Clock::default());
        let start = Instant::now();
        (0..100).for_each(|_| _ = notices.admits_at("lost", start));
        let later = start + 2 * WINDOW;
        (0..100).for_each(|_| _ = notices.admits_at("lost", later));
        assert_eq!(lock(&notices.own).lines.take_left_out(Some(later)), Some(2 * 90));
    }
}
