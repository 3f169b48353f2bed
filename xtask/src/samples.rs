//! Figures of several programs that do the same work, measured alternately, with their medians and
//! limits. A *turn* is one measurement of one program.

use std::{fmt::Debug, ops::RangeBounds};

use anyhow::{Context, Result};
use serde::Serialize;

use crate::process::load;
use crate::scenario::{Judgement, csv, spread};

/// Figures of a turn, each with its name, which contains the unit.
pub(crate) type Figures = Vec<(&'static str, f64)>;

/// A figure of one turn. `server` is the measured program.
#[derive(Debug, Serialize)]
struct Sample {
    case: &'static str,
    round: usize,
    server: &'static str,
    figure: &'static str,
    value: f64,
}

/// The figures of all turns of a case.
#[derive(Debug)]
pub(crate) struct Samples(Vec<Sample>);

impl Samples {
    /// Calls `turn` once for each server in each round, and collects the figures that it returns. A turn can read the
    /// samples of earlier turns.
    pub(crate) fn by_turns(
        case: &'static str,
        rounds: usize,
        servers: &[&'static str],
        turn: impl Fn(&'static str, &Self) -> Result<Figures>,
    ) -> Result<Self> {
        let mut samples = Self(Vec::new());
        for (round, &server) in (0..rounds).flat_map(|it| servers.iter().map(move |to| (it, to))) {
            let figures = turn(server, &samples).with_context(|| format!("{case}, {server}"))?;
            let line =
                figures.iter().map(|(figure, value)| format!(" {} {figure};", shown(*value)));
            let line: String = line.collect();
            eprintln!("{case}, round {round}, {server}:{line} load average {}", load());
            let sample = |(figure, value)| Sample { case, round, server, figure, value };
            samples.0.extend(figures.into_iter().map(sample));
        }
        Ok(samples)
    }

    /// Returns the median of a figure, or NaN if it was not measured.
    pub(crate) fn median(&self, server: &str, figure: &str) -> f64 {
        spread(self.of(server, figure))[1]
    }

    /// Returns the minimum of a figure, or NaN if it was not measured.
    pub(crate) fn least(&self, server: &str, figure: &str) -> f64 {
        spread(self.of(server, figure))[0]
    }

    /// Returns the values of a figure in the order of the turns.
    pub(crate) fn of(&self, server: &str, figure: &str) -> impl DoubleEndedIterator<Item = f64> {
        self.0
            .iter()
            .filter(move |it| (it.server, it.figure) == (server, figure))
            .map(|it| it.value)
    }

    /// Returns the pairs of server and figure, without repetitions.
    fn keys(&self) -> Vec<(&'static str, &'static str)> {
        let mut keys = Vec::new();
        for &Sample { server, figure, .. } in &self.0 {
            if !keys.contains(&(server, figure)) {
                keys.push((server, figure));
            }
        }
        keys
    }

    /// Adds a table to a judgement: the median, minimum and maximum of each figure.
    pub(crate) fn show(&self, judgement: &mut Judgement) {
        for (server, figure) in self.keys() {
            let [least, median, most] = spread(self.of(server, figure)).map(shown);
            judgement.line(format_args!("  {server:<16} {median:>11} ({least}, {most}) {figure}"));
        }
    }

    /// Adds the medians of a figure as percentages of the median of the server `of`.
    pub(crate) fn compare(&self, judgement: &mut Judgement, figure: &str, of: &str) {
        for (server, _) in self.keys().into_iter().filter(|key| key.1 == figure && key.0 != of) {
            let part = self.median(server, figure) / self.median(of, figure) * 100.0;
            judgement.line(format_args!("  {server}: {part:.0} % of the {figure} of {of}"));
        }
    }

    /// Returns the file samples.csv, with a line for each figure of each turn of all cases.
    pub(crate) fn csv(all: &[Self]) -> Result<(&'static str, String)> {
        Ok(("samples.csv", csv(all.iter().flat_map(|samples| &samples.0))?))
    }
}

/// Formats a number with about three significant digits.
fn shown(value: f64) -> String {
    match value.abs() {
        0.0..10.0 => format!("{value:.2}"),
        10.0..1_000.0 => format!("{value:.1}"),
        _ => format!("{value:.0}"),
    }
}

/// Judges a figure by the range of its permitted values. A figure that was not measured is outside of every range.
pub(crate) fn within(
    judgement: &mut Judgement,
    what: &str,
    found: f64,
    range: impl RangeBounds<f64> + Debug,
) {
    let text = format!("{}, required: {range:?}", shown(found));
    judgement.add(&format!("{what}:"), text, range.contains(&found));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn samples() -> Samples {
        let turn = |server: &str, before: &Samples| {
            let part = if server == "tremor" { 1.0 } else { 2.0 };
            let value = [3.0, 1.0, 2.0][before.of(server, "us per line").count()];
            Ok(vec![("us per line", value / part)])
        };
        Samples::by_turns("trickle", 3, &["tremor", "tokio"], turn).expect("turns")
    }

    #[test]
    fn table_has_the_median_with_the_extremes() {
        let mut judgement = Judgement::default();
        samples().show(&mut judgement);
        samples().compare(&mut judgement, "us per line", "tokio");
        let lines: Vec<_> = judgement.text.lines().collect();
        assert_eq!(lines[0], "  tremor                  2.00 (1.00, 3.00) us per line");
        assert_eq!(lines[2], "  tremor: 200 % of the us per line of tokio");
    }

    #[test]
    fn figure_beyond_its_limit_breaks_it() {
        fn broken(found: f64, range: impl RangeBounds<f64> + Debug) -> bool {
            let mut judgement = Judgement::default();
            within(&mut judgement, "cost", found, range);
            judgement.broken == 1
        }
        let found = samples().median("tremor", "us per line");
        assert!(!broken(found, ..=2.0) && broken(found, ..=1.9));
        assert!(!broken(found, 2.0..) && broken(found, 2.1..));
        let nothing = samples().median("hyper", "us per line");
        assert!(broken(nothing, ..=2.0) && broken(nothing, 2.0..));
    }
}
