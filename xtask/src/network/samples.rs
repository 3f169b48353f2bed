//! What was measured, and what is made of it.

use std::fmt::{self, Write};

use super::case::Case;
use crate::running::spread;

/// A figure of one turn.
struct Sample {
    case: Case,
    round: usize,
    server: &'static str,
    figure: &'static str,
    value: f64,
}

/// All figures of all turns.
#[derive(Default)]
pub(super) struct Samples(Vec<Sample>);

impl Samples {
    pub(super) fn add(
        &mut self,
        case: Case,
        round: usize,
        server: &'static str,
        figures: &[(&'static str, f64)],
    ) {
        let mut said = format!("{case}, round {round}, {server}:");
        for &(figure, value) in figures {
            // A string takes whatever is written.
            let _ = write!(said, " {} {figure};", shown(value));
            self.0.push(Sample { case, round, server, figure, value });
        }
        eprintln!("{said}");
    }

    /// The median of a figure; no number where nothing was measured.
    pub(super) fn median(&self, case: Case, server: &str, figure: &str) -> f64 {
        spread(self.of(case, server, figure))[1]
    }

    /// The smallest of a figure.
    pub(super) fn least(&self, case: Case, server: &str, figure: &str) -> f64 {
        spread(self.of(case, server, figure))[0]
    }

    fn of<'a>(
        &'a self,
        case: Case,
        server: &'a str,
        figure: &'a str,
    ) -> impl Iterator<Item = f64> + 'a {
        let is_it = move |it: &&Sample| (it.case, it.server, it.figure) == (case, server, figure);
        self.0.iter().filter(is_it).map(|sample| sample.value)
    }

    /// A line a figure.
    pub(super) fn csv(&self) -> String {
        let header = String::from("case,round,server,figure,value\n");
        let row = |Sample { case, round, server, figure, value }: &Sample| {
            format!("{case},{round},{server},{figure},{value}\n")
        };
        std::iter::once(header).chain(self.0.iter().map(row)).collect()
    }

    /// The medians of a case, with the smallest and the largest.
    pub(super) fn table_of(&self, case: Case) -> String {
        let mut text = format!("{case}: {}\n", case.what());
        let mut seen = Vec::new();
        for sample in self.0.iter().filter(|sample| sample.case == case) {
            let key = (sample.server, sample.figure);
            if seen.contains(&key) {
                continue;
            }
            seen.push(key);
            let [least, median, most] =
                spread(self.of(case, sample.server, sample.figure)).map(shown);
            let (server, figure) = key;
            // A string takes whatever is written.
            let _ = writeln!(text, "  {server:<16} {median:>11} ({least}, {most}) {figure}");
        }
        text
    }
}

/// With as many digits as say something.
fn shown(value: f64) -> String {
    match value.abs() {
        0.0..10.0 => format!("{value:.2}"),
        10.0..1_000.0 => format!("{value:.1}"),
        _ => format!("{value:.0}"),
    }
}

/// A figure beside what it should be.
pub(super) struct Verdict {
    what: &'static str,
    found: f64,
    wanted: Wanted,
}

enum Wanted {
    AtMost(f64),
    AtLeast(f64),
}

impl Verdict {
    pub(super) fn at_most(what: &'static str, found: f64, most: f64) -> Self {
        Self { what, found, wanted: Wanted::AtMost(most) }
    }

    pub(super) fn at_least(what: &'static str, found: f64, least: f64) -> Self {
        Self { what, found, wanted: Wanted::AtLeast(least) }
    }

    /// What was not measured is no good.
    pub(super) fn is_missed(&self) -> bool {
        match self.wanted {
            Wanted::AtMost(most) => self.found.is_nan() || self.found > most,
            Wanted::AtLeast(least) => self.found.is_nan() || self.found < least,
        }
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (bound, limit) = match self.wanted {
            Wanted::AtMost(most) => ("at most", most),
            Wanted::AtLeast(least) => ("at least", least),
        };
        let (found, limit) = (shown(self.found), shown(limit));
        let missed = if self.is_missed() { "; MISSED" } else { "" };
        write!(f, "{}: {found}, asked: {bound} {limit}{missed}", self.what)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_has_the_median_and_the_limits_are_kept_or_missed() {
        let mut samples = Samples::default();
        for (round, value) in [3.0, 1.0, 2.0].into_iter().enumerate() {
            samples.add(Case::Trickle, round, "tremor", &[("us a line", value)]);
        }
        let table = samples.table_of(Case::Trickle);
        let line = table.lines().nth(1).unwrap_or_default();
        assert_eq!(line, "  tremor                  2.00 (1.00, 3.00) us a line");
        let found = samples.median(Case::Trickle, "tremor", "us a line");
        assert!(!Verdict::at_most("cost", found, 2.0).is_missed());
        assert!(Verdict::at_most("cost", found, 1.9).is_missed());
        assert!(!Verdict::at_least("share", found, 2.0).is_missed());
        assert!(Verdict::at_least("share", found, 2.1).is_missed());
        let nothing = samples.median(Case::Idle, "tremor", "us a line");
        assert!(Verdict::at_most("cost", nothing, 2.0).is_missed());
        assert!(Verdict::at_least("cost", nothing, 2.0).is_missed());
    }
}
