//! Whether the promises hold.

use std::fmt::{self, Write as _};
use std::time::Duration;

use super::output::Output;

/// How long the first new event may take after a restart.
const FIRST_EVENT: Duration = Duration::from_secs(1);

/// What one start and one kill came to.
#[derive(Debug, Default)]
pub(super) struct Round {
    pub(super) number: u64,
    pub(super) killed_after: Duration,
    /// From the start of the process to the first line that was not there before.
    pub(super) first_event: Option<Duration>,
    /// How long the process had waited for a processor by then.
    pub(super) waited: Duration,
    pub(super) events: u64,
    /// Of lines that were there before, in bytes.
    pub(super) again_bytes: u64,
    /// Lines that the checkpoint says are acknowledged and that are not there.
    pub(super) lost: usize,
    /// Whether a part of a line was left for the next start.
    pub(super) is_torn: bool,
}

pub(super) struct Judgement {
    promises: Vec<(&'static str, String, bool)>,
    rounds: usize,
}

impl Judgement {
    /// Judges rounds in which at most `window` bytes may come twice.
    pub(super) fn of(
        rounds: &[Round],
        output: &Output,
        cut_off: usize,
        window: u64,
        is_busy: bool,
    ) -> Self {
        let lost: usize = rounds.iter().map(|round| round.lost).sum();
        let events: u64 = rounds.iter().map(|round| round.events).sum();
        let again = rounds.iter().map(|round| round.again_bytes).max().unwrap_or(0);
        let tears = rounds.iter().filter(|round| round.is_torn).count();
        let mut first: Vec<_> = rounds.iter().filter_map(|round| round.first_event).collect();
        first.sort();
        let at = |part: usize| first.get(first.len() * part / 100).or(first.last()).copied();
        let shown = |time: Option<Duration>| time.map_or(0, |time| time.as_millis());
        let late = first.iter().filter(|&&time| time > FIRST_EVENT).count();
        let judged = if is_busy { at(50) } else { first.last().copied() };
        let promises = vec![
            ("lost", format!("{lost} acknowledged events of {events}, 0 allowed"), lost == 0),
            (
                "torn",
                format!(
                    "{} lines, 0 allowed; {cut_off} starts have cut off a part of one, which the test \
                     has left {tears} times",
                    output.torn
                ),
                // One that is killed before it has opened its output leaves that to the next.
                output.torn == 0,
            ),
            (
                "again",
                format!("{again} bytes in a round at most, {window} allowed"),
                again <= window,
            ),
            (
                "first event",
                format!(
                    "{} ms after the start at most, {} ms in 99 of 100 and {} ms in 50 of 100 of the {} \
                     rounds that had one; {late} were later than {} ms, which is judged {}",
                    shown(first.last().copied()),
                    shown(at(99)),
                    shown(at(50)),
                    first.len(),
                    FIRST_EVENT.as_millis(),
                    if is_busy { "by the median" } else { "by the latest" }
                ),
                judged.is_some_and(|time| time <= FIRST_EVENT),
            ),
        ];
        Self { promises, rounds: rounds.len() }
    }

    pub(super) fn broken(&self) -> usize {
        self.promises.iter().filter(|(.., holds)| !holds).count()
    }
}

impl fmt::Display for Judgement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "  rounds       {}", self.rounds)?;
        self.promises.iter().try_for_each(|(what, found, holds)| {
            let verdict = if *holds { "" } else { "; BROKEN" };
            writeln!(f, "  {what:12} {found}{verdict}")
        })
    }
}

/// The rounds, as CSV.
pub(super) fn table(rounds: &[Round]) -> String {
    let mut text =
        "round,killed_after_ms,first_event_ms,waited_ms,events,again_bytes,lost,torn\n".to_owned();
    for Round { number, killed_after, first_event, waited, events, again_bytes, lost, is_torn } in
        rounds
    {
        let first = first_event.map_or_else(String::new, |time| time.as_millis().to_string());
        let waited = waited.as_millis();
        let killed = killed_after.as_millis();
        // Writing to a string does not fail.
        let _ = writeln!(
            text,
            "{number},{killed},{first},{waited},{events},{again_bytes},{lost},{}",
            u8::from(*is_torn)
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::{Duration, Judgement, Output, Round};

    const WINDOW: u64 = 64 << 10;

    fn judged(change: fn(&mut Round, &mut Output)) -> Judgement {
        let mut output = Output::new(Path::new("out"));
        let first_event = Some(Duration::from_millis(300));
        let mut round = Round { first_event, again_bytes: WINDOW, ..Round::default() };
        change(&mut round, &mut output);
        Judgement::of(&[round], &output, 1, WINDOW, false)
    }

    #[test]
    fn each_promise_is_broken_by_what_it_is_for() {
        for (name, change, expected) in [
            ("nothing", (|_, _| {}) as fn(&mut Round, &mut Output), 0),
            ("a lost event", |round, _| round.lost = 1, 1),
            ("a torn line", |_, output| output.torn = 1, 1),
            ("more than the window", |round, _| round.again_bytes += 1, 1),
            ("a late event", |round, _| round.first_event = Some(Duration::from_secs(2)), 1),
            ("no event at all", |round, _| round.first_event = None, 1),
        ] {
            assert_eq!(judged(change).broken(), expected, "{name}");
        }
    }
}
