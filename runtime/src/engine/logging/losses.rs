//! Log lines about events that failed without a linked `err` port: at most one line a second for each component.
//!
//! A line contains the number of events that failed since the last line, and the error of the first of these events.
//! Failures that are not logged at once are logged when the second is over, or at the end of the flow.

use std::time::{Duration, Instant};

use tremor_pdk::Error;

use crate::{clock::Clock, engine::sync::watch::Watch, executor};

/// Shortest time between two lines of a component.
const INTERVAL: Duration = Duration::from_secs(1);

/// Events of a flow that failed and were not logged yet.
#[derive(Debug)]
pub(crate) struct Losses {
    losses: Watch<Vec<Loss>>,
    clock: Clock,
}

/// Failed events of one component.
#[derive(Debug)]
struct Loss {
    component: Box<str>,
    /// Time of the last line.
    logged_at: Instant,
    /// Failures since the last line.
    pending: Option<Line>,
}

/// Content of a log line.
#[derive(Clone, Debug)]
struct Line {
    /// Number of events that failed.
    events: usize,
    /// Error of the first of these events.
    first: Error,
}

impl Losses {
    pub(crate) fn new(clock: Clock) -> Self {
        Self { losses: Watch::default(), clock }
    }

    /// Adds `events` failed events of a component. Logs a line at once if the component's last line is at least
    /// [`INTERVAL`] ago. `first` returns the error of the first event, and is called only if the error is needed.
    pub(crate) fn add(&self, component: &str, events: usize, first: impl FnOnce() -> Error) {
        if let Some(line) = self.add_at(component, events, first, self.clock.now()) {
            line.log(component);
        }
    }

    /// Adds events that failed at `now`. Returns the line that is to be logged now, if any.
    fn add_at(
        &self,
        component: &str,
        events: usize,
        first: impl FnOnce() -> Error,
        now: Instant,
    ) -> Option<Line> {
        self.losses.update(|losses| {
            let Some(loss) = losses.iter_mut().find(|it| *it.component == *component) else {
                losses.push(Loss { component: component.into(), logged_at: now, pending: None });
                return Some(Line { events, first: first() });
            };
            match &mut loss.pending {
                Some(line) => line.events += events,
                pending => *pending = Some(Line { events, first: first() }),
            }
            loss.take_line(now)
        })
    }

    /// Runs `work` and returns its result. Meanwhile logs pending lines when they are due. Logs the remaining lines at
    /// the end.
    pub(crate) async fn during<T>(&self, work: impl Future<Output = T>) -> T {
        let logging = async {
            loop {
                let due =
                    self.losses.wait(|losses| losses.iter().filter_map(Loss::due).min()).await;
                self.clock.sleep(due.saturating_duration_since(self.clock.now())).await;
                self.log_pending(Some(self.clock.now()));
            }
        };
        let result = executor::first(work, logging).await;
        self.log_pending(None);
        result
    }

    /// Logs the pending lines that are due at `now`, or all of them if `now` is `None`.
    fn log_pending(&self, now: Option<Instant>) {
        let lines: Vec<_> = self.losses.update(|losses| {
            let line = |loss: &mut Loss| {
                let line = match now {
                    Some(now) => loss.take_line(now),
                    None => loss.pending.take(),
                };
                Some((loss.component.clone(), line?))
            };
            losses.iter_mut().filter_map(line).collect()
        });
        lines.into_iter().for_each(|(component, line)| line.log(&component));
    }
}

impl Drop for Losses {
    fn drop(&mut self) {
        self.log_pending(None);
    }
}

impl Loss {
    /// Returns the time at which the pending line may be logged, if there is one.
    fn due(&self) -> Option<Instant> {
        self.pending.as_ref().map(|_| self.logged_at + INTERVAL)
    }

    /// Removes and returns the pending line if it is due at `now`.
    fn take_line(&mut self, now: Instant) -> Option<Line> {
        self.due().filter(|due| *due <= now)?;
        self.logged_at = now;
        self.pending.take()
    }
}

impl Line {
    fn log(&self, component: &str) {
        let Self { events, first } = self;
        tracing::error!(%component, events, %first, "events failed");
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use tremor_pdk::Error;

    use super::{Clock, INTERVAL, Losses};

    #[test]
    fn losses_are_logged_once_a_second_with_first_cause() {
        let (losses, start) = (Losses::new(Clock::default()), Instant::now());
        let add = |component, events, cause, at| {
            let line = losses.add_at(component, events, || Error::bad_data(cause), at)?;
            Some((line.events, line.first.to_string()))
        };
        assert_eq!(add("one", 3, "first", start), Some((3, "first".to_owned())));
        assert_eq!(add("other", 1, "its own", start), Some((1, "its own".to_owned())));
        assert_eq!(add("one", 2, "second", start), None);
        assert_eq!(add("one", 2, "third", start + INTERVAL / 2), None);
        let line = add("one", 1, "fourth", start + INTERVAL);
        assert_eq!(line, Some((5, "second".to_owned())));
        assert_eq!(add("one", 1, "fifth", start + INTERVAL), None, "the interval begins again");
    }

    #[test]
    fn pending_lines_are_logged_at_the_end() {
        let losses = Losses::new(Clock::default());
        let add = || losses.add("one", 1, || Error::bad_data("no"));
        crate::executor::block_on(losses.during(async { (0..10).for_each(|_| add()) }));
        losses.losses.read(|losses| assert!(losses[0].pending.is_none()));
    }
}
