//! Log lines about sources that wait for sinks, pipelines or memory for a long time, and about components whose plugins
//! get no memory or no thread.

use std::time::{Duration, Instant};

use tremor_pdk::InFlight;

use super::{
    FlowHandle,
    handle::status::{Awaited, MEMORY, PULL_LIMIT},
    retry::backoff::Budget,
};
use crate::{clock::Clock, log};

/// Time between two checks of the flows of a run.
const PERIOD: Duration = Duration::from_secs(1);
/// Duration from which a wait is logged.
pub(crate) const LONG: Duration = Duration::from_secs(5);
/// Duration from which a wait is logged if the source has reached its limit of events or bytes in flight. The duration
/// is longer than [`LONG`], because an operator such as a window may release its events by itself.
const STALLED: Duration = Duration::from_secs(30);
/// Number of checks with refused requests for memory after which they are logged.
const REFUSED: u32 = 5;
/// Maximum number of waits of a flow that are logged within a minute. Each wait has two lines, one for its start and
/// one for its end.
const WAITS: u64 = 20;

/// Logs long waits of the sources of the flows that `running` returns, and their ends. Never completes.
pub(crate) async fn report<T>(running: impl Fn() -> Vec<FlowHandle>, clock: &Clock) -> T {
    let mut flows: Vec<(FlowHandle, Waits)> = Vec::new();
    loop {
        clock.sleep(PERIOD).await;
        let running = running();
        flows.retain(|(known, _)| running.iter().any(|flow| flow.is_same_as(known)));
        for flow in running {
            if !flows.iter().any(|(known, _)| known.is_same_as(&flow)) {
                flows.push((flow, Waits::default()));
            }
        }
        for (flow, waits) in &mut flows {
            let now = clock.now();
            let mut lines = waits.lines(flow.control.waits(), now);
            lines.extend(waits.drain(flow.control.undelivered_in_drain(), now));
            lines.extend(waits.blocked(flow.control.calls().blocking(), now));
            let memory = flow.control.memory();
            lines.extend(waits.refused(memory.refusals(), || memory.holders(), now));
            if !lines.is_empty() {
                log::within(flow.control.calls().flow(), || lines.iter().for_each(Line::log));
            }
        }
    }
}

/// The waits of a flow's sources, and the components whose plugins got no memory, at the last check.
pub(super) struct Waits {
    known: Vec<Known>,
    refused: Vec<Refused>,
    blocked: Vec<Blocked>,
    budget: Budget,
    /// Time since which every check during the drain has found unanswered deliveries.
    undelivered: Option<Instant>,
    /// `true` once unanswered deliveries were logged.
    is_drain_logged: bool,
}

/// A wait that the last check found.
struct Known {
    source: String,
    sink: String,
    since: Instant,
    is_logged: bool,
}

/// A component whose plugin got no memory in the last check.
struct Refused {
    component: String,
    /// Number of refusals at the last check.
    refusals: usize,
    /// Number of checks with further refusals.
    checks: u32,
    is_logged: bool,
}

/// A component whose blocking functions waited for a thread in the last check.
struct Blocked {
    /// Number of the functions in the flow.
    number: usize,
    /// Number of functions that had returned at the last check.
    ended: u64,
    /// Time since which no function has returned.
    since: Instant,
    is_logged: bool,
}

#[derive(Debug, PartialEq)]
pub(super) enum Line {
    Blocked { component: String, waiting: usize },
    Refused { component: String, holders: Vec<(String, usize)> },
    Waits { source: String, awaited: Awaited },
    Ended { source: String, sink: String, duration: Duration },
    Undelivered { sink: String, events: usize },
}

impl Default for Waits {
    fn default() -> Self {
        let budget = Budget::new(WAITS, Duration::from_mins(1));
        let (known, refused, blocked) = (Vec::new(), Vec::new(), Vec::new());
        Self { known, refused, blocked, budget, undelivered: None, is_drain_logged: false }
    }
}

impl Waits {
    /// Returns a line for each component of which blocking functions wait for a thread, once, if none has returned for
    /// [`LONG`]. `blocking` is the result of [`Calls::blocking`](crate::watchdog::Calls::blocking).
    fn blocked(&mut self, blocking: Vec<(usize, Box<str>, usize, u64)>, now: Instant) -> Vec<Line> {
        let mut before = std::mem::take(&mut self.blocked);
        let mut lines = Vec::new();
        for (number, component, waiting, ended) in blocking {
            let same = before.iter().position(|it| it.number == number);
            let same = same.map(|at| before.swap_remove(at));
            let same = same.filter(|it| it.ended == ended);
            let (since, mut is_logged) = same.map_or((now, false), |it| (it.since, it.is_logged));
            let is_long = now.saturating_duration_since(since) >= LONG;
            if is_long && !is_logged && self.budget.take(now) {
                is_logged = true;
                lines.push(Line::Blocked { component: component.into(), waiting });
            }
            self.blocked.push(Blocked { number, ended, since, is_logged });
        }
        lines
    }

    /// Returns a line for each component that was refused memory in [`REFUSED`] checks without getting any, once until
    /// it gets memory. `refusals` lists the components whose last request was refused, each with the number of refusals
    /// since a request was granted.
    fn refused(
        &mut self,
        refusals: Vec<(String, usize)>,
        holders: impl Fn() -> Vec<(String, usize)>,
        now: Instant,
    ) -> Vec<Line> {
        let mut before = std::mem::take(&mut self.refused);
        let mut lines = Vec::new();
        for (component, refusals) in refusals {
            let same = before.iter().position(|it| it.component == component);
            // If the number has decreased, a request was granted in the meantime.
            let same = same.map(|at| before.swap_remove(at)).filter(|it| refusals >= it.refusals);
            let (last, mut checks, mut is_logged) =
                same.map_or((0, 0, false), |it| (it.refusals, it.checks, it.is_logged));
            checks += u32::from(refusals > last);
            if checks >= REFUSED && !is_logged && self.budget.take(now) {
                is_logged = true;
                let component = component.clone();
                lines.push(Line::Refused { component, holders: holders() });
            }
            self.refused.push(Refused { component, refusals, checks, is_logged });
        }
        lines
    }

    /// Returns a line for each sink with unanswered deliveries, once, if there have been such sinks for [`LONG`].
    /// `sinks` lists the sinks that have unanswered deliveries while their flow drains, each with the number of events.
    fn drain(&mut self, sinks: Vec<(String, usize)>, now: Instant) -> Vec<Line> {
        if sinks.is_empty() {
            self.undelivered = None;
            return Vec::new();
        }
        let since = *self.undelivered.get_or_insert(now);
        if self.is_drain_logged || now.saturating_duration_since(since) < LONG {
            return Vec::new();
        }
        self.is_drain_logged = true;
        sinks.into_iter().map(|(sink, events)| Line::Undelivered { sink, events }).collect()
    }

    /// Returns the lines that are due at `now`. `waits` contains all current waits, each after the name of the source.
    pub(super) fn lines(&mut self, waits: Vec<(String, Awaited)>, now: Instant) -> Vec<Line> {
        let mut before = std::mem::take(&mut self.known);
        let mut lines = Vec::new();
        for (source, awaited) in waits {
            let Awaited { sink, reason, since, .. } = awaited.clone();
            let same = |it: &Known| it.source == source && it.sink == sink;
            let known = before.iter().position(same).map(|at| before.swap_remove(at));
            let is_full = matches!(reason, "queue full" | "paused" | PULL_LIMIT | MEMORY);
            // During an outage, a wait continues although the state of the sink changes. A wait for a full queue ends
            // when the sink takes a batch from its queue; a later wait has another `since`.
            let continues = |it: &Known| !is_full || it.since == since;
            let (since, mut is_logged) = match known {
                Some(it) if continues(&it) => (it.since.min(since), it.is_logged),
                ended => {
                    before.extend(ended);
                    (since, false)
                }
            };
            let long = if reason == PULL_LIMIT { STALLED } else { LONG };
            let is_long = now.saturating_duration_since(since) >= long;
            if is_long && !is_logged && self.budget.take(now) {
                is_logged = true;
                lines.push(Line::Waits { source: source.clone(), awaited });
            }
            self.known.push(Known { source, sink, since, is_logged });
        }
        let ended = before.into_iter().filter(|it| it.is_logged);
        lines.extend(ended.map(|Known { source, sink, since, .. }| {
            let duration = now.saturating_duration_since(since);
            Line::Ended { source, sink, duration }
        }));
        lines
    }
}

impl Line {
    fn log(&self) {
        match self {
            Self::Waits { source: component, awaited } => {
                let Awaited { sink, reason, error, limit, bytes, .. } = awaited;
                let error = error.as_deref();
                match limit {
                    None if *reason == MEMORY => tracing::warn!(
                        %component,
                        "for" = %sink,
                        reason,
                        bytes,
                        "the source waits, because the flow may use no more memory; the component `for` uses \
                         more than its share, in its queue, its deliveries, or its plugin"
                    ),
                    None => {
                        tracing::warn!(%component, "for" = %sink, reason, error, "the source waits");
                    }
                    Some(InFlight { events, bytes, key }) => tracing::warn!(
                        %component,
                        "for" = %sink,
                        reason,
                        events = limited(*events),
                        bytes = limited(*bytes),
                        key = (!key.is_empty()).then_some(*key),
                        "the source waits, because it has reached its limit of events or bytes in \
                         flight; raise the limit above what operators buffer"
                    ),
                }
            }
            Self::Blocked { component, waiting } => tracing::warn!(
                %component,
                waiting,
                "blocking functions of the plugin have not returned, and use all threads that the component may use, \
                 so that further ones wait; check the system that they wait for"
            ),
            Self::Refused { component, holders } => {
                let uses = |(name, bytes): &(String, usize)| format!("`{name}`: {bytes} B");
                let used = holders.iter().map(uses).collect::<Vec<_>>().join(", ");
                tracing::warn!(
                    %component,
                    used,
                    "the plugin has requested memory for {REFUSED} s and got none, because the flow may use no more; \
                     `used` lists the components that use most"
                );
            }
            Self::Undelivered { sink: component, events } => {
                tracing::warn!(
                    %component,
                    events,
                    "the sink has not answered its deliveries while the flow drains"
                );
            }
            Self::Ended { source: component, sink, duration } => {
                tracing::info!(%component, "for" = %sink, ?duration, "the source no longer waits");
            }
        }
    }
}

/// Returns `None` if `limit` means that the number is unlimited, so that the log line omits it.
fn limited(limit: usize) -> Option<usize> {
    Some(limit).filter(|limit| *limit < usize::MAX)
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::{Awaited, LONG, Line, PULL_LIMIT, WAITS, Waits};

    fn wait(sink: &str, reason: &'static str, since: Instant) -> (String, Awaited) {
        let error = Some("refused".to_owned());
        (
            "in".to_owned(),
            Awaited { sink: sink.to_owned(), reason, since, error, limit: None, bytes: None },
        )
    }

    #[test]
    fn long_wait_has_a_line_at_its_start_and_end() {
        let (mut waits, start) = (Waits::default(), Instant::now());
        let connecting = || vec![wait("out", "connecting", start)];
        assert_eq!(waits.lines(connecting(), start + LONG / 2), []);
        let (source, sink) = ("in".to_owned(), "out".to_owned());
        let (_, awaited) = wait("out", "connecting", start);
        let line = Line::Waits { source: source.clone(), awaited };
        assert_eq!(waits.lines(connecting(), start + LONG), [line]);
        let restarting = vec![wait("out", "restarting", start + LONG)];
        assert_eq!(waits.lines(restarting, start + 2 * LONG), [], "the wait continues");
        let ended = Line::Ended { source, sink, duration: 3 * LONG };
        assert_eq!(waits.lines(Vec::new(), start + 3 * LONG), [ended]);
        assert_eq!(waits.lines(Vec::new(), start + 4 * LONG), []);
    }

    #[test]
    fn source_at_its_pull_limit_is_logged_after_30_seconds() {
        let (mut waits, start) = (Waits::default(), Instant::now());
        let mut at = |seconds| {
            let limit = vec![wait("window", PULL_LIMIT, start)];
            waits.lines(limit, start + Duration::from_secs(seconds)).len()
        };
        assert_eq!([at(6), at(29), at(30), at(31)], [0, 0, 1, 0]);
    }

    #[test]
    fn blocking_functions_that_use_all_threads_are_logged_once() {
        let (mut waits, start) = (Waits::default(), Instant::now());
        let mut at = |seconds, ended: u64| {
            let now = start + Duration::from_secs(seconds);
            waits.blocked(vec![(3, "in".into(), 2, ended)], now).len()
        };
        assert_eq!([at(0, 7), at(4, 8), at(8, 8), at(9, 8), at(20, 8)], [0, 0, 0, 1, 0]);
        assert_eq!([at(21, 9), at(26, 9)], [0, 1], "one function has returned meanwhile");
        assert_eq!(waits.blocked(Vec::new(), start + Duration::from_mins(1)), []);
    }

    #[test]
    fn memory_that_is_refused_for_5_checks_is_logged_once() {
        let (mut waits, now) = (Waits::default(), Instant::now());
        let holders = || vec![("greedy".to_owned(), 1 << 20)];
        let mut at = |refusals: usize| {
            let refusals = (refusals > 0).then(|| ("in".to_owned(), refusals));
            waits.refused(refusals.into_iter().collect(), holders, now).len()
        };
        assert_eq!([1, 1, 2, 3, 4, 5, 6].map(&mut at), [0, 0, 0, 0, 0, 1, 0]);
        assert_eq!([2, 3, 0, 4, 5, 6, 7, 8].map(&mut at), [0, 0, 0, 0, 0, 0, 0, 1]);
    }

    #[test]
    fn sink_without_an_answer_in_a_drain_is_logged_once() {
        let (mut waits, start) = (Waits::default(), Instant::now());
        let mut at = |seconds, sinks: &[(String, usize)]| {
            waits.drain(sinks.to_vec(), start + Duration::from_secs(seconds))
        };
        let unanswered = [("out".to_owned(), 5)];
        assert_eq!(at(0, &unanswered), []);
        assert_eq!(at(1, &[]), [], "the sink has answered");
        assert_eq!(at(2, &unanswered), []);
        let line = Line::Undelivered { sink: "out".to_owned(), events: 5 };
        assert_eq!(at(7, &unanswered), [line]);
        assert_eq!(at(8, &unanswered), []);
    }

    #[test]
    fn slow_sink_that_takes_events_is_not_logged() {
        let (mut waits, start) = (Waits::default(), Instant::now());
        for second in 0..60 {
            let since = start + Duration::from_secs(second);
            let full = vec![wait("out", "queue full", since)];
            assert_eq!(waits.lines(full, since + Duration::from_secs(1)), []);
        }
    }

    #[test]
    fn lines_of_a_flow_within_a_minute_are_limited() {
        let (mut waits, start) = (Waits::default(), Instant::now());
        let all: Vec<_> =
            (0..2 * WAITS).map(|at| wait(&at.to_string(), "connecting", start)).collect();
        let count = waits.lines(all, start + LONG).len();
        assert_eq!(count as u64, WAITS);
        assert_eq!(waits.lines(Vec::new(), start + LONG).len() as u64, WAITS);
    }
}
