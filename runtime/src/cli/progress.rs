//! Progress of `tremor run`: a status line on stderr, if that is a terminal.

use std::{
    collections::HashMap,
    io::{self, IsTerminal},
    time::{Duration, Instant},
};

use tremor_runtime::{
    engine::{Component, FlowStatus, Kind},
    run::{InputSize, RunHandle},
};

use super::{background::Background, terminal, top::short};

/// Interval at which the line is updated.
const INTERVAL: Duration = Duration::from_millis(500);
/// Width of the bar, in columns.
const BAR: usize = 24;

/// Shows the progress of a run, if stderr is a terminal.
pub(super) fn start(run: &RunHandle) -> Option<Background> {
    if !io::stderr().is_terminal() {
        return None;
    }
    let run = run.clone();
    Background::start("progress", move |continues| {
        let (start, mut before) = (Instant::now(), Moment::default());
        let mut sizes = Sizes::default();
        while continues(INTERVAL) {
            sizes.learn(run.input_sizes());
            let now = Moment::of(&run.flows(), &sizes, start.elapsed());
            terminal::show_line(&now.line(&before));
            before = now;
        }
        terminal::clear_line();
    })
}

/// Sizes of the inputs of sources, by flow and component. A size is kept after its source has ended, because a source
/// that has ended no longer reports it.
#[derive(Debug, Default)]
struct Sizes(HashMap<(String, String), u64>);

impl Sizes {
    fn learn(&mut self, sizes: Vec<InputSize>) {
        let known = |it: InputSize| ((it.flow, it.component), it.bytes);
        self.0.extend(sizes.into_iter().map(known));
    }

    /// Returns the size of the input of a source, in bytes. If the source has ended without reporting a size, returns
    /// the number of bytes that it read.
    fn of(&self, flow: &FlowStatus, source: &Component) -> Option<u64> {
        let known = self.0.get(&(flow.name.clone(), source.name.clone())).copied();
        let has_ended = || {
            let mut connectors = flow.connectors.iter();
            connectors.any(|it| it.connector == source.name && it.state.is_over())
        };
        known.or_else(|| has_ended().then_some(source.counts.bytes))
    }
}

/// Progress of a run at one point in time.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Moment {
    /// Time since the start of the run.
    at: Duration,
    /// Events and bytes that sources have read.
    events: u64,
    bytes: u64,
    /// Events that sinks have delivered.
    out: u64,
    /// Number of bytes that sources will have read at the end of the run; `None` if the size of any source is not
    /// known.
    size: Option<u64>,
}

impl Moment {
    fn of(flows: &[FlowStatus], sizes: &Sizes, at: Duration) -> Self {
        let mut moment = Self { at, size: Some(0), ..Self::default() };
        for flow in flows {
            for component in &flow.components {
                let counts = component.counts;
                match component.kind {
                    Kind::Source => {
                        moment.events += counts.taken;
                        moment.bytes += counts.bytes;
                        let known = sizes.of(flow, component);
                        moment.size = moment.size.zip(known).map(|(sum, bytes)| sum + bytes);
                    }
                    Kind::Sink => moment.out += counts.delivered,
                    Kind::Pipeline => {}
                }
            }
        }
        moment.size = moment.size.filter(|size| *size > 0);
        moment
    }

    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "it is shown with a few digits"
    )]
    fn line(&self, before: &Self) -> String {
        let seconds = self.at.saturating_sub(before.at).as_secs_f64().max(f64::EPSILON);
        let rate = |now: u64, before: u64| short(now.saturating_sub(before) as f64 / seconds);
        let (events, bytes) = (rate(self.events, before.events), rate(self.bytes, before.bytes));
        let counts = format!(
            "{} events in, {} out, {events}/s, {bytes}B/s",
            short(self.events as f64),
            short(self.out as f64)
        );
        let Some(size) = self.size else { return format!("{}  {counts}", clock(self.at)) };
        let done = (self.bytes as f64 / size as f64).min(1.0);
        let full = (done * BAR as f64) as usize;
        let bar = "#".repeat(full) + &"-".repeat(BAR - full);
        // The estimate assumes that the average speed so far continues.
        let left = self.at.as_secs_f64() * (1.0 / done.max(1e-6) - 1.0);
        let left = match done {
            done if done >= 1.0 => "all read".to_owned(),
            done if done > 0.0 => format!("{} left", clock(Duration::from_secs_f64(left.min(1e9)))),
            _ => String::new(),
        };
        format!("[{bar}] {:.0} %  {left}  {counts}", done * 100.0)
    }
}

/// Formats a time as minutes and seconds, with hours if there are any.
fn clock(time: Duration) -> String {
    let seconds = time.as_secs();
    let (hours, minutes, seconds) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    if hours > 0 {
        return format!("{hours}:{minutes:02}:{seconds:02}");
    }
    format!("{minutes}:{seconds:02}")
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use std::time::Instant;

    use tremor_runtime::{
        engine::{Component, ComponentCounts, FlowState, FlowStatus, Kind, State, Status},
        memory::MemoryStatus,
        run::InputSize,
    };

    use super::{Moment, Sizes, clock};

    /// Returns a flow with these sources and the bytes that they have read.
    fn flow(sources: &[(&str, State, u64)]) -> FlowStatus {
        let status = |(name, state, _): &(&str, State, u64)| Status {
            connector: (*name).to_owned(),
            state: *state,
            since: Instant::now(),
            error: None,
            restarts: 0,
            errors: [].into(),
            retries: [].into(),
            is_tried: true,
            queued: 0,
            in_flight: 0,
            waits_for: Vec::new(),
        };
        let component = |(name, _, bytes): &(&str, State, u64)| Component {
            name: (*name).to_owned(),
            kind: Kind::Source,
            counts: ComponentCounts { bytes: *bytes, ..ComponentCounts::default() },
            queue: None,
            latencies: None,
            replays_failed: None,
            stored: None,
        };
        FlowStatus {
            given_up: Vec::new(),
            name: "f".to_owned(),
            state: FlowState::Running,
            connectors: sources.iter().map(status).collect(),
            components: sources.iter().map(component).collect(),
            failure: None,
            long_turns: std::collections::BTreeMap::new(),
            memory: MemoryStatus::default(),
        }
    }

    #[test]
    fn size_is_kept_when_a_source_has_ended() {
        let size = |component: &str, bytes| InputSize {
            flow: "f".to_owned(),
            component: component.to_owned(),
            bytes,
        };
        let mut sizes = Sizes::default();
        let moment =
            |sizes: &Sizes, sources: &[_]| Moment::of(&[flow(sources)], sizes, Duration::ZERO).size;
        let running = [("a", State::Running, 10), ("b", State::Running, 10)];
        sizes.learn(vec![size("a", 100)]);
        assert_eq!(moment(&sizes, &running), None, "the size of a source is not known");
        sizes.learn(vec![size("a", 100), size("b", 50)]);
        assert_eq!(moment(&sizes, &running), Some(150));
        sizes.learn(vec![size("a", 120)]);
        let ended = [("a", State::Running, 20), ("b", State::Stopped, 50)];
        assert_eq!(moment(&sizes, &ended), Some(170));
        let soon = [("a", State::Running, 20), ("c", State::Stopped, 7)];
        assert_eq!(moment(&sizes, &soon), Some(127), "the source ended before its size was read");
    }

    #[test]
    fn known_input_size_shows_bar_and_remaining_time() {
        let at = |at, bytes| Moment {
            at: Duration::from_secs(at),
            events: bytes / 100,
            bytes,
            out: bytes / 200,
            size: Some(1_000_000),
        };
        let line = at(20, 250_000).line(&at(18, 200_000));
        let bar = format!("[{}{}] 25 %  1:00 left  ", "#".repeat(6), "-".repeat(18));
        assert_eq!(line, bar + "2500 events in, 1250 out, 250/s, 25.0kB/s");
        // The sources have read more bytes than their sizes at the start of the run.
        assert!(at(60, 1_100_000).line(&at(59, 0)).contains("] 100 %  all read  "));
        assert!(at(1, 0).line(&Moment::default()).contains("] 0 %    0 events in"));
    }

    #[test]
    fn unknown_input_size_shows_rates() {
        let moment =
            Moment { at: Duration::from_secs(10), events: 20, bytes: 500, ..Moment::default() };
        assert_eq!(moment.line(&Moment::default()), "0:10  20.0 events in, 0 out, 2.0/s, 50.0B/s");
    }

    #[test]
    fn times_are_formatted_as_clock() {
        assert_eq!(
            [59, 61, 3_661].map(|s| clock(Duration::from_secs(s))),
            ["0:59", "1:01", "1:01:01"]
        );
    }
}
