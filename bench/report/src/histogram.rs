//! Distributions of latency, as `HdrHistogram`'s plotter reads them.
//!
//! The format is that of `outputPercentileDistribution` of
//! [HdrHistogram](https://hdrhistogram.github.io/HdrHistogram/): a line a step with value, percentile
//! as a share of 1, the number of values up to there, and 1/(1 - percentile); comments start with `#`.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, ensure};

/// How often each value came, by value.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Histogram {
    /// Value (in the unit of the file, µs for `tremor bench`) and how often it came, sorted.
    steps: Vec<(f64, f64)>,
}

impl Histogram {
    pub(crate) fn read(path: &Path) -> Result<Self> {
        let name = path.display();
        let text = fs::read_to_string(path).with_context(|| format!("cannot read {name}"))?;
        Self::parse(&text).with_context(|| format!("{name} is no distribution of HdrHistogram"))
    }

    /// A value stands for all that came since the step before it, so it is their upper end.
    fn parse(text: &str) -> Result<Self> {
        let mut steps = Vec::new();
        let mut before = 0.0;
        for (number, line) in (1..).zip(text.lines()) {
            let mut fields = line.split_whitespace();
            let Some(first) = fields.next().filter(|first| !first.starts_with('#')) else {
                continue;
            };
            if first == "Value" {
                continue;
            }
            let field = |text: Option<&str>| text.and_then(|text| text.parse::<f64>().ok());
            let value = field(Some(first));
            let total = field(fields.nth(1));
            let (value, total) = value
                .zip(total)
                .with_context(|| format!("line {number}: expected value, percentile, count"))?;
            ensure!(total >= before, "line {number}: the count falls from {before} to {total}");
            if total > before {
                steps.push((value, total - before));
            }
            before = total;
        }
        ensure!(!steps.is_empty(), "it has no values");
        Ok(Self { steps })
    }

    /// All values of all of them.
    pub(crate) fn merge(histograms: impl IntoIterator<Item = Self>) -> Self {
        let mut steps: Vec<_> = histograms.into_iter().flat_map(|one| one.steps).collect();
        steps.sort_unstable_by(|a, b| a.0.total_cmp(&b.0));
        Self { steps }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.steps.is_empty()
    }

    /// The curve: 1/(1 - percentile) and value of each step up to the largest one that one value
    /// of all of them decides, from 1 on.
    pub(crate) fn curve(&self) -> Vec<(f64, f64)> {
        let total: f64 = self.steps.iter().map(|step| step.1).sum();
        let mut below = 0.0;
        let mut curve = Vec::with_capacity(self.steps.len());
        for (value, count) in &self.steps {
            curve.push((total / (total - below), *value));
            below += count;
        }
        if let Some((value, _)) = self.steps.last() {
            curve.push((total.max(1.0), *value));
        }
        curve
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "       Value     Percentile TotalCount 1/(1-Percentile)

           1.000 0.000000000000         50           1.00
           2.000 0.500000000000         50           2.00
           3.000 0.900000000000         90          10.00
           9.000 1.000000000000        100
#[Mean    =        2.600, StdDeviation   =        2.3]
";

    #[test]
    fn a_step_counts_what_came_since_the_one_before() {
        let histogram = Histogram::parse(TEXT).unwrap();
        assert_eq!(histogram.steps, [(1.0, 50.0), (3.0, 40.0), (9.0, 10.0)]);
    }

    #[test]
    fn the_curve_goes_from_all_values_to_a_single_one() {
        let curve = Histogram::parse(TEXT).unwrap().curve();
        assert_eq!(curve, [(1.0, 1.0), (2.0, 3.0), (10.0, 9.0), (100.0, 9.0)]);
    }

    #[test]
    fn merged_with_itself_a_distribution_keeps_its_shape() {
        let one = Histogram::parse(TEXT).unwrap();
        let two = Histogram::merge([one.clone(), one.clone()]);
        let counts: f64 = two.steps.iter().map(|step| step.1).sum();
        assert!((counts - 200.0).abs() < 1e-9 && two.steps.is_sorted_by(|a, b| a.0 <= b.0));
        let at = |curve: &[(f64, f64)], x: f64| {
            curve.iter().filter(|p| p.0 <= x).map(|p| p.1).next_back()
        };
        [1.5, 4.0, 50.0]
            .iter()
            .for_each(|x| assert_eq!(at(&one.curve(), *x), at(&two.curve(), *x)));
    }

    #[test]
    fn what_is_no_distribution_is_refused_with_the_line() {
        let table = [
            ("hello world", "line 1: expected value"),
            ("1 0.5 10 2\n2 0.6 9 3", "line 2: the count falls"),
            ("", "it has no values"),
        ];
        for (text, expected) in table {
            let error = Histogram::parse(text).unwrap_err().to_string();
            assert!(error.starts_with(expected), "{error}");
        }
    }
}
