//! Whether the promises hold.

use serde::Serialize;

use super::Found;
use crate::scenario::Judgement;

/// Maximum time until the first new event after a restart, in ms.
const FIRST_EVENT: u128 = 1_000;

/// Figures of one start and one kill.
#[derive(Debug, Default, Serialize)]
pub(super) struct Round {
    #[serde(rename = "round")]
    pub(super) number: u64,
    pub(super) killed_after_ms: u128,
    /// From the start of the process to the first line that was not there before.
    pub(super) first_event_ms: Option<u128>,
    /// Time that the process had waited for a processor by then.
    pub(super) waited_ms: u128,
    pub(super) events: u64,
    /// Bytes of lines that were there before.
    pub(super) again_bytes: u64,
    /// Lines that are acknowledged, as the checkpoint says, and missing.
    pub(super) lost: usize,
    /// `true` if a part of a line was left for the next start.
    pub(super) torn: bool,
}

/// Judges the rounds with a setup.
pub(super) fn of(found: &Found, is_busy: bool) -> Judgement {
    let Found { window, rounds, torn, cut_off } = found;
    let lost: usize = rounds.iter().map(|round| round.lost).sum();
    let events: u64 = rounds.iter().map(|round| round.events).sum();
    let again = rounds.iter().map(|round| round.again_bytes).max().unwrap_or(0);
    let tears = rounds.iter().filter(|round| round.torn).count();
    let mut first: Vec<_> = rounds.iter().filter_map(|round| round.first_event_ms).collect();
    first.sort_unstable();
    let at = |part: usize| first.get(first.len() * part / 100).or(first.last()).copied();
    let [half, most, all] = [50, 99, 100].map(at);
    let late = first.iter().filter(|&&time| time > FIRST_EVENT).count();
    let (judged, by) = if is_busy { (half, "by the median") } else { (all, "by the latest") };
    let [half, most, all] = [half, most, all].map(|time| time.unwrap_or(0));
    let mut judgement = Judgement::default();
    judgement.line(format_args!("  rounds       {}", rounds.len()));
    let text = format!("{lost} acknowledged events of {events}, 0 allowed");
    judgement.add("lost", text, lost == 0);
    // A process that is killed before it has opened its output leaves the part to the next.
    let text = format!(
        "{torn} lines, 0 allowed; {cut_off} starts have cut off a part of one, which the test has left {tears} times"
    );
    judgement.add("torn", text, *torn == 0);
    let text = format!("{again} bytes in a round at most, {window} allowed");
    judgement.add("again", text, again <= *window);
    let text = format!(
        "{all} ms after the start at most, {most} ms in 99 of 100 and {half} ms in 50 of 100 of the {} rounds that \
         had one; {late} were later than {FIRST_EVENT} ms, which is judged {by}",
        first.len()
    );
    judgement.add("first event", text, judged.is_some_and(|time| time <= FIRST_EVENT));
    judgement
}

#[cfg(test)]
mod tests {
    use super::{Found, Round, of};

    const WINDOW: u64 = 64 << 10;

    fn broken(change: fn(&mut Round, &mut u64)) -> usize {
        let mut torn = 0;
        let mut round =
            Round { first_event_ms: Some(300), again_bytes: WINDOW, ..Round::default() };
        change(&mut round, &mut torn);
        of(&Found { window: WINDOW, rounds: vec![round], torn, cut_off: 1 }, false).broken
    }

    #[test]
    fn each_promise_is_broken_by_what_it_is_for() {
        for (name, change, expected) in [
            ("nothing", (|_, _| {}) as fn(&mut Round, &mut u64), 0),
            ("a lost event", |round, _| round.lost = 1, 1),
            ("a torn line", |_, torn| *torn = 1, 1),
            ("more than the window", |round, _| round.again_bytes += 1, 1),
            ("a late event", |round, _| round.first_event_ms = Some(2_000), 1),
            ("no event at all", |round, _| round.first_event_ms = None, 1),
        ] {
            assert_eq!(broken(change), expected, "{name}");
        }
    }
}
