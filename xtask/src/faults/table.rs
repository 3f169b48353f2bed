//! What came of each fault.

use std::fmt::{self, Write as _};
use std::time::Duration;

use super::Measured;

pub(super) const HEAD: &str = "  fault                                                process   lost      \
    taken  events/s  without   left    part   MiB    gap";
/// Part of its throughput, for each processor that the fault leaves, that the other flow should keep.
const PART: f64 = 0.9;
/// Longest gap between two events of the metronome that a fault should cause.
const GAP: Duration = Duration::from_millis(100);

/// What came of one fault.
#[derive(Debug)]
pub(super) struct Row {
    fault: String,
    lives: bool,
    taken: u64,
    lost: u64,
    rate: f64,
    without: f64,
    /// Part of its processors that the fault leaves to the other flow.
    left: f64,
    memory: u64,
    gap: Duration,
}

impl Row {
    pub(super) fn new(fault: &str, without: &Measured, with: &Measured, left: f64) -> Self {
        Self {
            fault: fault.to_owned(),
            lives: with.lives,
            taken: with.taken,
            lost: with.taken.saturating_sub(with.delivered),
            rate: with.rate,
            without: without.rate,
            left,
            memory: with.memory,
            gap: with.gap,
        }
    }

    /// Returns the part of its throughput for each processor that the other flow keeps.
    fn part(&self) -> f64 {
        let possible = self.without * self.left;
        if possible > 0.0 { self.rate / possible } else { 0.0 }
    }

    /// Whether the process lives, and the other flow has lost nothing.
    fn holds(&self) -> bool {
        self.lives && self.taken > 0 && self.lost == 0
    }
}

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { fault, lives, taken, lost, rate, without, left, memory, gap } = self;
        let (left, part) = (left * 100.0, self.part() * 100.0);
        let lives = if *lives { "lives" } else { "ENDED" };
        let verdict = match (self.holds(), self.part() >= PART, *gap <= GAP) {
            (false, ..) => "  BROKEN",
            (true, false, true) => "  below 90 %",
            (true, false, false) => "  below 90 %, above 100 ms",
            (true, true, false) => "  above 100 ms",
            (true, true, true) => "",
        };
        let (memory, gap) = (memory >> 20, gap.as_millis());
        write!(
            f,
            "  {fault:52} {lives:7} {lost:6} {taken:10} {rate:9.0} {without:8.0} {left:4.0} % {part:5.1} % \
             {memory:5} {gap:3} ms{verdict}"
        )
    }
}

/// What came of all of them.
pub(super) struct Table {
    pub(super) rows: Vec<Row>,
}

impl Table {
    /// How many faults have ended the process, or have cost events.
    pub(super) fn broken(&self) -> usize {
        self.rows.iter().filter(|row| !row.holds()).count()
    }

    pub(super) fn csv(&self) -> String {
        let mut text =
            "fault,lives,taken,lost,events_per_second,without,left,peak_bytes,gap_ms\n".to_owned();
        for Row { fault, lives, taken, lost, rate, without, left, memory, gap } in &self.rows {
            // Writing to a string does not fail.
            let _ = writeln!(
                text,
                "{fault},{},{taken},{lost},{rate:.0},{without:.0},{left:.3},{memory},{}",
                u8::from(*lives),
                gap.as_millis()
            );
        }
        text
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{HEAD}")?;
        self.rows.iter().try_for_each(|row| writeln!(f, "{row}"))?;
        let slower = self.rows.iter().filter(|row| row.part() < PART).count();
        let late = self.rows.iter().filter(|row| row.gap > GAP).count();
        writeln!(
            f,
            "{} faults: {} end the process or cost events, {slower} leave the other flow less than 90 % of its \
             throughput a processor, {late} stop the metronome for more than 100 ms",
            self.rows.len(),
            self.broken()
        )
    }
}

#[cfg(test)]
mod tests {
    use super::{Duration, Measured, Row, Table};

    fn good() -> Measured {
        let (gap, memory) = (Duration::from_millis(10), 1 << 20);
        Measured { lives: true, taken: 10, delivered: 10, rate: 50.0, processors: 2.0, gap, memory }
    }

    fn row(with: &Measured) -> Table {
        let without = Measured { rate: 100.0, ..good() };
        Table { rows: vec![Row::new("fault", &without, with, 0.8)] }
    }

    #[test]
    fn a_fault_is_judged_by_the_life_of_the_process_and_by_the_events_of_the_other_flow() {
        assert_eq!(row(&good()).broken(), 0);
        assert!(row(&good()).to_string().contains("62.5 %     1  10 ms  below 90 %\n"));
        let late = Measured { gap: Duration::from_millis(101), ..good() };
        assert!(row(&late).to_string().contains("101 ms  below 90 %, above 100 ms\n"));
        for bad in [
            Measured { lives: false, ..good() },
            Measured { delivered: 9, ..good() },
            Measured { taken: 0, delivered: 0, ..good() },
        ] {
            assert_eq!(row(&bad).broken(), 1);
        }
    }
}
