//! What the log says of connectors: a line for each change of state, as long as these are few.
//!
//! A peer that comes and goes, or takes thousands of connectors with it, changes much and says
//! little. So a connector writes at most [`OWN`] lines a minute, and all connectors of a flow
//! together at most [`ALL`]; what was left out is counted, and the count is a line of its own.

use std::{
    future::poll_fn,
    pin::pin,
    sync::{Arc, Mutex},
    task::{Context, Poll, Waker},
    time::{Duration, Instant},
};

use crate::{
    engine::{retry::backoff::Budget, sync::alarm::Alarm},
    lock::lock,
};

/// The time that lines are counted in.
const WINDOW: Duration = Duration::from_mins(1);
/// Lines of one connector within a minute, at most.
const OWN: u64 = 10;
/// Lines of all connectors of a flow within a minute, at most.
const ALL: u64 = 40;

/// So many lines a minute, and a count of those beyond.
#[derive(Debug)]
struct Lines<const MOST: u64> {
    budget: Budget,
    left_out: u64,
    /// When to say how many.
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

    /// Whether there may be a line that stands for so many.
    fn admits_count_of(&mut self, lines: u64, now: Instant) -> bool {
        let admits = self.budget.take(now);
        if !admits {
            self.left_out += lines;
            self.due = self.due.or(self.budget.renewed());
        }
        admits
    }

    /// How many lines were left out, where it is time to say so. `None`: it is, in any case.
    fn take_left_out(&mut self, now: Option<Instant>) -> Option<u64> {
        self.due.take_if(|due| now.is_none_or(|now| now >= *due))?;
        Some(std::mem::take(&mut self.left_out))
    }
}

/// What all connectors of a flow may write.
#[derive(Debug, Default)]
pub(crate) struct FlowNotices(Mutex<Lines<ALL>>);

/// What one connector may write.
#[derive(Debug)]
pub(crate) struct Notices {
    component: Arc<str>,
    own: Mutex<Own>,
    all: Arc<FlowNotices>,
}

#[derive(Debug, Default)]
struct Own {
    lines: Lines<OWN>,
    /// What the last line that was left out would have said.
    last: &'static str,
    /// The task that says how many were left out.
    teller: Option<Waker>,
}

impl Notices {
    pub(crate) fn new(component: Arc<str>, all: Arc<FlowNotices>) -> Self {
        Self { component, own: Mutex::default(), all }
    }

    /// The connector's name.
    pub(crate) fn component(&self) -> &str {
        &self.component
    }

    /// Whether there may be a line now about the connector being in this state. Counts it where
    /// there may not.
    pub(crate) fn admits(&self, state: &'static str) -> bool {
        self.admits_at(state, Instant::now())
    }

    fn admits_at(&self, state: &'static str, now: Instant) -> bool {
        let mut own = lock(&self.own);
        if !own.lines.admits(now) {
            own.last = state;
        } else if lock(&self.all.0).admits(now) {
            return true;
        }
        let teller = own.teller.take();
        drop(own);
        teller.into_iter().for_each(Waker::wake);
        false
    }

    /// Whether there may be a line about the end of the connector, which is its last.
    pub(crate) fn admits_last(&self) -> bool {
        lock(&self.all.0).admits(Instant::now())
    }

    /// Does the connector's work, and meanwhile says now and then how much was left out.
    pub(crate) async fn during<T>(&self, work: impl Future<Output = T>) -> T {
        let mut work = pin!(work);
        let mut alarm = Alarm::default();
        let result = poll_fn(|context| {
            if let Poll::Ready(result) = work.as_mut().poll(context) {
                return Poll::Ready(result);
            }
            while alarm.poll(context, [(self.due(context), ())]).is_ready() {
                let now = Some(Instant::now());
                self.tell(now);
                self.all.tell(now);
            }
            Poll::Pending
        });
        let result = result.await;
        self.tell(None);
        result
    }

    /// When there is something to tell. The task that asks is woken when there is.
    fn due(&self, context: &Context<'_>) -> Option<Instant> {
        let mut own = lock(&self.own);
        own.teller = Some(context.waker().clone());
        let all = lock(&self.all.0).due;
        own.lines.due.into_iter().chain(all).min()
    }

    /// Says how many lines of this connector were left out, if it is time to.
    fn tell(&self, now: Option<Instant>) {
        let (left_out, last) = {
            let mut own = lock(&self.own);
            (own.lines.take_left_out(now), own.last)
        };
        let Some(left_out) = left_out else { return };
        if lock(&self.all.0).admits_count_of(left_out, Instant::now()) {
            tracing::warn!(
                component = %self.component,
                left_out,
                last,
                "more than {OWN} changes within {} s", WINDOW.as_secs()
            );
        }
    }
}

impl FlowNotices {
    /// Says how many lines of all connectors were left out, if it is time to.
    fn tell(&self, now: Option<Instant>) {
        let left_out = lock(&self.0).take_left_out(now);
        if let Some(left_out) = left_out {
            tracing::warn!(
                left_out,
                "more than {ALL} changes of the flow's connectors within {} s",
                WINDOW.as_secs()
            );
        }
    }
}

impl Drop for FlowNotices {
    fn drop(&mut self) {
        self.tell(None);
    }
}

#[cfg(test)]
mod tests {
    use std::{sync::Arc, time::Instant};

    use super::{ALL, FlowNotices, Notices, OWN, WINDOW, lock};

    #[test]
    fn a_connector_has_so_many_lines_a_minute_and_the_others_are_counted() {
        let notices = Notices::new("input".into(), Arc::default());
        let start = Instant::now();
        let lines = (0..10_000).filter(|_| notices.admits_at("lost", start)).count();
        assert_eq!(lines as u64, OWN);
        let left_out = |now| lock(&notices.own).lines.take_left_out(Some(now));
        assert_eq!(left_out(start), None, "not before the minute is over");
        assert_eq!(left_out(start + WINDOW), Some(10_000 - OWN));
        assert_eq!(left_out(start + WINDOW), None, "once");
        assert!(notices.admits_at("lost", start + 2 * WINDOW));
    }

    #[test]
    fn all_connectors_of_a_flow_have_so_many_lines_together() {
        let all = Arc::<FlowNotices>::default();
        let start = Instant::now();
        let each = |_| Notices::new("input".into(), all.clone());
        let connectors: Vec<_> = (0..10_000).map(each).collect();
        let lines = connectors.iter().filter(|it| it.admits_at("lost", start)).count();
        assert_eq!(lines as u64, ALL);
        assert_eq!(lock(&all.0).take_left_out(Some(start + WINDOW)), Some(10_000 - ALL));
    }

    #[test]
    fn a_count_that_is_due_is_told_though_lines_go_on() {
        let notices = Notices::new("input".into(), Arc::default());
        let start = Instant::now();
        (0..100).for_each(|_| _ = notices.admits_at("lost", start));
        let later = start + 2 * WINDOW;
        (0..100).for_each(|_| _ = notices.admits_at("lost", later));
        assert_eq!(lock(&notices.own).lines.take_left_out(Some(later)), Some(2 * 90));
    }
}
