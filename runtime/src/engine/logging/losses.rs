//! Log lines about events that were lost: events that failed without a linked `err` port, with at most one line a second
//! for each component, and events that a queue dropped, with at most one line in 10 s for each sink.
//!
//! A line contains the number of events since the last line, and the error of the first of these events or the reason of
//! the drops. What is not logged at once is logged when the interval is over, or at the end of the flow.

use std::time::{Duration, Instant};

use tremor_pdk::Error;

use crate::{clock::Clock, engine::sync::watch::Watch, executor};

/// Events of a flow that were lost and not logged yet.
#[derive(Debug)]
pub(crate) struct Losses {
    losses: Watch<Vec<Loss>>,
    clock: Clock,
}

/// Word for [`OverflowReason::QueueFull`] in metrics and metadata.
pub(crate) const QUEUE_FULL: &str = "queue_full";

/// Word for [`OverflowReason::FlowEnded`] in metrics and metadata.
pub(crate) const FLOW_ENDED: &str = "flow_ended";
/// Reason of events that a sink dropped or passed on because a reload has removed it.
const SINK_REMOVED: &str = "sink_removed";

/// Reason why events left a sink without a delivery, as `queue.when_full` of the sink sets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OverflowReason {
    /// The queue was full.
    QueueFull,
    /// The flow ended, and the sink had not delivered the events in time.
    FlowEnded,
    /// A reload has removed the sink, which had not delivered the events in time.
    SinkRemoved,
}

impl OverflowReason {
    /// Returns the word that metrics and metadata use.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::QueueFull => QUEUE_FULL,
            Self::FlowEnded => FLOW_ENDED,
            Self::SinkRemoved => SINK_REMOVED,
        }
    }
}

/// Lost events of one component.
#[derive(Debug)]
struct Loss {
    component: Box<str>,
    /// `true` if the events were dropped, and `false` if they failed.
    is_drop: bool,
    /// Time of the last line.
    logged_at: Instant,
    /// Losses since the last line.
    pending: Option<Line>,
}

/// Content of a log line.
#[derive(Clone, Debug)]
struct Line {
    /// Number of lost events.
    events: usize,
    cause: Cause,
}

#[derive(Clone, Debug)]
enum Cause {
    /// The first of the events failed with this error.
    Failed(Error),
    /// The events were dropped, and this number of them because the flow ended.
    Dropped { at_end: usize },
}

impl Losses {
    pub(crate) fn new(clock: Clock) -> Self {
        Self { losses: Watch::default(), clock }
    }

    /// Adds `events` failed events of a component. Logs a line at once if the component's last line is long enough ago.
    /// `first` returns the error of the first event, and is called only if the error is needed.
    pub(crate) fn add(&self, component: &str, events: usize, first: impl FnOnce() -> Error) {
        self.add_now(component, false, events, || Cause::Failed(first()));
    }

    /// Adds `events` events that a sink dropped. Logs a line at once if the sink's last line is long enough ago.
    pub(crate) fn dropped(&self, sink: &str, events: usize, why: OverflowReason) {
        let at_end = if why == OverflowReason::FlowEnded { events } else { 0 };
        self.add_now(sink, true, events, || Cause::Dropped { at_end });
    }

    fn add_now(
        &self,
        component: &str,
        is_drop: bool,
        events: usize,
        cause: impl FnOnce() -> Cause,
    ) {
        let now = self.clock.now();
        if let Some(line) = self.add_at((component, is_drop), events, cause, now) {
            line.log(component);
        }
    }

    /// Adds events that were lost at `now`. Returns the line that is to be logged now, if any.
    fn add_at(
        &self,
        (component, is_drop): (&str, bool),
        events: usize,
        cause: impl FnOnce() -> Cause,
        now: Instant,
    ) -> Option<Line> {
        self.losses.update(|losses| {
            let is_same = |it: &&mut Loss| *it.component == *component && it.is_drop == is_drop;
            let Some(loss) = losses.iter_mut().find(is_same) else {
                let (component, pending) = (component.into(), None);
                losses.push(Loss { component, is_drop, logged_at: now, pending });
                return Some(Line { events, cause: cause() });
            };
            match &mut loss.pending {
                Some(line) => {
                    line.events += events;
                    if let Cause::Dropped { at_end } = &mut line.cause
                        && let Cause::Dropped { at_end: more } = cause()
                    {
                        *at_end += more;
                    }
                }
                pending => *pending = Some(Line { events, cause: cause() }),
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
    /// Returns the shortest time between two lines.
    fn interval(&self) -> Duration {
        Duration::from_secs(if self.is_drop { 10 } else { 1 })
    }

    /// Returns the time at which the pending line may be logged, if there is one.
    fn due(&self) -> Option<Instant> {
        self.pending.as_ref().map(|_| self.logged_at + self.interval())
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
        let events = self.events;
        match &self.cause {
            Cause::Failed(first) => tracing::error!(%component, events, %first, "events failed"),
            Cause::Dropped { at_end } => tracing::warn!(
                %component,
                events,
                queue_full = events - at_end,
                flow_ended = at_end,
                "events were dropped, as `queue.when_full` of the sink sets"
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use tremor_pdk::Error;

    use super::{Cause, Clock, Duration, Losses};

    /// Shortest time between two lines about failed events.
    const INTERVAL: Duration = Duration::from_secs(1);

    #[test]
    fn losses_are_logged_once_a_second_with_first_cause() {
        let (losses, start) = (Losses::new(Clock::default()), Instant::now());
        let add = |component, events, cause, at| {
            let cause = || Cause::Failed(Error::bad_data(cause));
            let line = losses.add_at((component, false), events, cause, at)?;
            let Cause::Failed(first) = line.cause else { unreachable!("nothing was dropped") };
            Some((line.events, first.to_string()))
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

    #[test]
    fn drops_are_logged_once_in_10_seconds() {
        let (losses, start) = (Losses::new(Clock::default()), Instant::now());
        let drop = |seconds| {
            let at = start + Duration::from_secs(seconds);
            let line = losses.add_at(("sink", true), 5, || Cause::Dropped { at_end: 1 }, at)?;
            let Cause::Dropped { at_end } = line.cause else { unreachable!("nothing failed") };
            Some((line.events, at_end))
        };
        assert_eq!(
            [0, 1, 9, 10, 11, 20].map(drop),
            [Some((5, 1)), None, None, Some((15, 3)), None, Some((10, 2))]
        );
    }
}
