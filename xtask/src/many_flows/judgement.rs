//! Whether the figures are what they should be.

use std::fmt;

use super::Found;

/// Seconds until all flows are ready.
const READY: f64 = 1.0;
/// The part of a processor while nothing happens.
const IDLE: f64 = 0.01;
const MEMORY: u64 = 100 << 20;
/// p99 of the other flows, in milliseconds,
const STEADY: f64 = 5.0;
/// and in the second in which a thread is replaced.
const REPLACED: f64 = 150.0;

pub(super) struct Judgement(Vec<(&'static str, String, bool)>);

fn sorted(values: &[f64]) -> Vec<f64> {
    let mut values = values.to_vec();
    values.sort_by(f64::total_cmp);
    values
}

/// The median and the largest.
fn spread(values: &[f64]) -> (f64, f64) {
    let values = sorted(values);
    let median = values.get(values.len() / 2).copied().unwrap_or(f64::NAN);
    (median, values.last().copied().unwrap_or(f64::NAN))
}

impl Judgement {
    pub(super) fn of(found: &Found) -> Self {
        let (ready, slowest) = spread(&found.ready);
        let latency = |values: &[f64], limit: f64| {
            let (median, most) = spread(values);
            let text = format!(
                "{median:.2} ms in the median flow of {}, {most:.2} ms in the worst; below {limit} ms",
                values.len()
            );
            (text, most < limit)
        };
        let (steady, is_steady) = latency(&found.steady, STEADY);
        let (replaced, is_replaced) = latency(&found.replaced, REPLACED);
        #[allow(clippy::cast_precision_loss)] // not 2^53 bytes
        let mebibytes = found.memory as f64 / f64::from(1 << 20);
        Self(vec![
            (
                "ready",
                format!(
                    "{ready:.2} s in the median start, {slowest:.2} s in the slowest; below {READY} s"
                ),
                ready < READY,
            ),
            (
                "idle",
                format!("{:.2} % of a processor; below {} %", found.idle * 100.0, IDLE * 100.0),
                found.idle < IDLE,
            ),
            (
                "memory",
                format!(
                    "{mebibytes:.1} MiB, {} threads; below {} MiB",
                    found.threads,
                    MEMORY >> 20
                ),
                found.memory < MEMORY,
            ),
            ("p99", steady, is_steady),
            ("p99 replaced", replaced, is_replaced),
        ])
    }

    pub(super) fn missed(&self) -> usize {
        self.0.iter().filter(|(.., holds)| !holds).count()
    }
}

impl fmt::Display for Judgement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|(what, found, holds)| {
            let verdict = if *holds { "" } else { "; MISSED" };
            writeln!(f, "  {what:13} {found}{verdict}")
        })
    }
}

#[cfg(test)]
mod tests {
    use super::{Found, Judgement};

    #[test]
    fn each_figure_is_judged_by_its_own_limit() {
        let good = || Found {
            ready: vec![0.5, 0.6, 2.0],
            idle: 0.005,
            memory: 50 << 20,
            threads: 9,
            steady: vec![1.0, 4.9],
            replaced: vec![1.0, 149.0],
        };
        assert_eq!(Judgement::of(&good()).missed(), 0);
        for bad in [
            Found { ready: vec![0.5, 1.1, 1.2], ..good() },
            Found { idle: 0.02, ..good() },
            Found { memory: 101 << 20, ..good() },
            Found { steady: vec![1.0, 5.1], ..good() },
            Found { replaced: vec![151.0], ..good() },
            Found { steady: vec![], ..good() },
        ] {
            assert_eq!(Judgement::of(&bad).missed(), 1);
        }
    }
}
