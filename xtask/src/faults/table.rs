//! The table of faults with their effects, and the verdict on them.

use std::fmt;

use serde::Serialize;

use super::Measured;
use crate::scenario::Judgement;

pub(super) const HEAD: &str = "  fault                                                process   lost      \
    taken  events/s  without   left    part   MiB    gap";
/// Minimum throughput of the loaded flow, as a share of its throughput without the fault on the
/// processors that the fault leaves. Rows with a lower value are marked.
const PART: f64 = 0.9;
/// Maximum gap between two events of the metronome, in ms. Rows with a higher value are marked.
const GAP: u128 = 100;

/// Figures of one fault.
#[derive(Debug, Serialize)]
pub(crate) struct Row {
    fault: String,
    lives: bool,
    taken: u64,
    lost: u64,
    events_per_second: f64,
    without: f64,
    /// Processors that the fault leaves to the loaded flow, as a share of those that the flow can use.
    left: f64,
    peak_bytes: u64,
    gap_ms: u128,
}

impl Row {
    pub(super) fn new(fault: &str, without: &Measured, with: &Measured, left: f64) -> Self {
        Self {
            fault: fault.to_owned(),
            lives: with.lives,
            taken: with.taken,
            lost: with.taken.saturating_sub(with.delivered),
            events_per_second: with.rate.round(),
            without: without.rate.round(),
            left,
            peak_bytes: with.memory,
            gap_ms: with.gap.as_millis(),
        }
    }

    /// Returns the throughput of the loaded flow, as a share of its throughput without the fault on the processors that
    /// the fault leaves.
    fn part(&self) -> f64 {
        let possible = self.without * self.left;
        if possible > 0.0 { self.events_per_second / possible } else { 0.0 }
    }

    /// Returns whether the process survived, and the loaded flow read events and lost none.
    fn holds(&self) -> bool {
        self.lives && self.taken > 0 && self.lost == 0
    }
}

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { fault, taken, lost, events_per_second: rate, without, left, gap_ms, .. } = self;
        let (left, part) = (left * 100.0, self.part() * 100.0);
        let lives = if self.lives { "lives" } else { "ENDED" };
        let verdict = match (self.holds(), self.part() >= PART, *gap_ms <= GAP) {
            (false, ..) => "  BROKEN",
            (true, false, true) => "  below 90 %",
            (true, false, false) => "  below 90 %, above 100 ms",
            (true, true, false) => "  above 100 ms",
            (true, true, true) => "",
        };
        let memory = self.peak_bytes >> 20;
        write!(
            f,
            "  {fault:52} {lives:7} {lost:6} {taken:10} {rate:9.0} {without:8.0} {left:4.0} % {part:5.1} % \
             {memory:5} {gap_ms:3} ms{verdict}"
        )
    }
}

/// Adds the rows to a judgement. A fault that ends the process, or loses events of the loaded flow,
/// breaks a guarantee.
pub(super) fn judge(judgement: &mut Judgement, rows: &[Row]) {
    judgement.line(HEAD);
    rows.iter().for_each(|row| judgement.line(row));
    let broken = rows.iter().filter(|row| !row.holds()).count();
    judgement.broken += broken;
    let slower = rows.iter().filter(|row| row.part() < PART).count();
    let late = rows.iter().filter(|row| row.gap_ms > GAP).count();
    judgement.line(format_args!(
        "{} faults: {broken} end the process or lose events, {slower} leave the loaded flow less than 90 % of its throughput on \
         the processors that are left, {late} stop the metronome for more than 100 ms",
        rows.len()
    ));
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{Judgement, Measured, Row, judge};

    fn good() -> Measured {
        let (gap, memory) = (Duration::from_millis(10), 1 << 20);
        Measured { lives: true, taken: 10, delivered: 10, rate: 50.0, processors: 2.0, gap, memory }
    }

    fn judged(with: &Measured) -> Judgement {
        let without = Measured { rate: 100.0, ..good() };
        let mut judgement = Judgement::default();
        judge(&mut judgement, &[Row::new("fault", &without, with, 0.8)]);
        judgement
    }

    #[test]
    fn ended_process_and_lost_events_break_the_guarantee() {
        assert_eq!(judged(&good()).broken, 0);
        assert!(judged(&good()).text.contains("62.5 %     1  10 ms  below 90 %\n"));
        let late = Measured { gap: Duration::from_millis(101), ..good() };
        assert!(judged(&late).text.contains("101 ms  below 90 %, above 100 ms\n"));
        for bad in [
            Measured { lives: false, ..good() },
            Measured { delivered: 9, ..good() },
            Measured { taken: 0, delivered: 0, ..good() },
        ] {
            assert_eq!(judged(&bad).broken, 1);
        }
    }
}
