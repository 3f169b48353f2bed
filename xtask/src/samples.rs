//! Figures of programs that do the same work by turns, and what is made of them.

use std::fmt::Write as _;

use anyhow::{Context, Result};
use serde::Serialize;

use crate::process::load;
use crate::scenario::{Judgement, csv, spread};

/// Figures of a turn, each with its unit.
pub(crate) type Figures = Vec<(&'static str, f64)>;

/// A figure of one turn.
#[derive(Debug, Serialize)]
struct Sample {
    case: &'static str,
    round: usize,
    server: &'static str,
    figure: &'static str,
    value: f64,
}

/// All figures of all turns.
#[derive(Debug, Default)]
pub(crate) struct Samples(Vec<Sample>);

impl Samples {
    /// Gives each server its turn in each round. A turn sees the samples of the earlier ones.
    pub(crate) fn by_turns(
        &mut self,
        case: &'static str,
        rounds: usize,
        servers: &[&'static str],
        mut turn: impl FnMut(&Self, usize, &'static str) -> Result<Figures>,
    ) -> Result<()> {
        for round in 0..rounds {
            for &server in servers {
                let figures =
                    turn(self, round, server).with_context(|| format!("{case}, {server}"))?;
                self.add(case, round, server, &figures);
            }
        }
        Ok(())
    }

    fn add(
        &mut self,
        case: &'static str,
        round: usize,
        server: &'static str,
        figures: &[(&'static str, f64)],
    ) {
        let mut said = format!("{case}, round {round}, {server}:");
        for &(figure, value) in figures {
            // Writing to a string does not fail.
            let _ = write!(said, " {} {figure};", shown(value));
            self.0.push(Sample { case, round, server, figure, value });
        }
        eprintln!("{said} load {}", load());
    }

    /// Returns the median of a figure; no number where nothing was measured.
    pub(crate) fn median(&self, case: &str, server: &str, figure: &str) -> f64 {
        spread(self.of(case, server, figure))[1]
    }

    /// Returns the minimum of a figure.
    pub(crate) fn least(&self, case: &str, server: &str, figure: &str) -> f64 {
        spread(self.of(case, server, figure))[0]
    }

    /// Returns the values of a figure, the latest last.
    pub(crate) fn of<'a>(
        &'a self,
        case: &'a str,
        server: &'a str,
        figure: &'a str,
    ) -> impl DoubleEndedIterator<Item = f64> + 'a {
        let is_it = move |it: &&Sample| (it.case, it.server, it.figure) == (case, server, figure);
        self.0.iter().filter(is_it).map(|sample| sample.value)
    }

    /// Returns the servers and figures of a case, each once.
    fn keys(&self, case: &str) -> Vec<(&'static str, &'static str)> {
        let mut keys = Vec::new();
        for &Sample { server, figure, .. } in self.0.iter().filter(|sample| sample.case == case) {
            if !keys.contains(&(server, figure)) {
                keys.push((server, figure));
            }
        }
        keys
    }

    /// Adds the medians of a case, with the minimum and the maximum, to a judgement.
    pub(crate) fn show(&self, judgement: &mut Judgement, case: &str, what: &str) {
        judgement.line(format_args!("{case}: {what}"));
        for (server, figure) in self.keys(case) {
            let [least, median, most] = spread(self.of(case, server, figure)).map(shown);
            judgement.line(format_args!("  {server:<16} {median:>11} ({least}, {most}) {figure}"));
        }
    }

    /// Adds the medians of a figure as parts of the median of the server `of`.
    pub(crate) fn compare(&self, judgement: &mut Judgement, case: &str, figure: &str, of: &str) {
        let other = self.median(case, of, figure);
        for (server, _) in self.keys(case).into_iter().filter(|key| key.1 == figure && key.0 != of)
        {
            let part = self.median(case, server, figure) / other * 100.0;
            judgement.line(format_args!("  {server}: {part:.0} % of the {figure} of {of}"));
        }
    }

    /// Adds a line for each figure of each turn as samples.csv.
    pub(crate) fn keep(&self, judgement: &mut Judgement) -> Result<()> {
        judgement.files.push(("samples.csv", csv(&self.0)?));
        Ok(())
    }
}

/// Returns a number with as many digits as say something.
fn shown(value: f64) -> String {
    match value.abs() {
        0.0..10.0 => format!("{value:.2}"),
        10.0..1_000.0 => format!("{value:.1}"),
        _ => format!("{value:.0}"),
    }
}

/// Judges a figure by its maximum. What was not measured is broken.
pub(crate) fn at_most(judgement: &mut Judgement, what: &str, found: f64, most: f64) {
    asked(judgement, what, found, ("at most", most), found <= most);
}

/// Judges a figure by its minimum. What was not measured is broken.
pub(crate) fn at_least(judgement: &mut Judgement, what: &str, found: f64, least: f64) {
    asked(judgement, what, found, ("at least", least), found >= least);
}

fn asked(judgement: &mut Judgement, what: &str, found: f64, asked: (&str, f64), holds: bool) {
    let (bound, limit) = (asked.0, shown(asked.1));
    judgement.add(&format!("{what}:"), format!("{}, asked: {bound} {limit}", shown(found)), holds);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn samples() -> Samples {
        let mut samples = Samples::default();
        let values = [3.0, 1.0, 2.0];
        let turn = |_: &Samples, round: usize, server: &str| {
            let part = if server == "tremor" { 1.0 } else { 2.0 };
            Ok(vec![("us a line", values[round] / part)])
        };
        samples.by_turns("trickle", 3, &["tremor", "tokio"], turn).expect("turns");
        samples
    }

    #[test]
    fn table_has_the_median_with_the_extremes() {
        let mut judgement = Judgement::default();
        samples().show(&mut judgement, "trickle", "lines");
        samples().compare(&mut judgement, "trickle", "us a line", "tokio");
        let lines: Vec<_> = judgement.text.lines().collect();
        assert_eq!(lines[1], "  tremor                  2.00 (1.00, 3.00) us a line");
        assert_eq!(lines[3], "  tremor: 200 % of the us a line of tokio");
    }

    #[test]
    fn limits_hold_or_are_broken() {
        let broken = |judge: fn(&mut Judgement, &str, f64, f64), found, limit| {
            let mut judgement = Judgement::default();
            judge(&mut judgement, "cost", found, limit);
            judgement.broken == 1
        };
        let found = samples().median("trickle", "tremor", "us a line");
        assert!(!broken(at_most, found, 2.0) && broken(at_most, found, 1.9));
        assert!(!broken(at_least, found, 2.0) && broken(at_least, found, 2.1));
        let nothing = samples().median("idle", "tremor", "us a line");
        assert!(broken(at_most, nothing, 2.0) && broken(at_least, nothing, 2.0));
    }
}
