//! Whether the figures are what they should be.

use super::Found;
use crate::scenario::{Judgement, mebibytes, spread};

/// Seconds until all flows are ready.
const READY: f64 = 1.0;
/// The part of a processor while nothing happens.
const IDLE: f64 = 0.01;
const MEMORY: u64 = 100 << 20;
/// p99 of the other flows, in milliseconds,
const STEADY: f64 = 5.0;
/// and in the second in which a thread is replaced.
const REPLACED: f64 = 150.0;

pub(super) fn of(found: &Found) -> Judgement {
    let mut judgement = Judgement::default();
    let [_, ready, slowest] = spread(found.ready.iter().copied());
    let text =
        format!("{ready:.2} s in the median start, {slowest:.2} s in the slowest; below {READY} s");
    judgement.add("ready", text, ready < READY);
    let text = format!("{:.2} % of a processor; below {} %", found.idle * 100.0, IDLE * 100.0);
    judgement.add("idle", text, found.idle < IDLE);
    let text = format!(
        "{:.1} MiB, {} threads; below {} MiB",
        mebibytes(found.memory),
        found.threads,
        MEMORY >> 20
    );
    judgement.add("memory", text, found.memory < MEMORY);
    let latencies = [("p99", &found.steady, STEADY), ("p99 replaced", &found.replaced, REPLACED)];
    for (what, values, limit) in latencies {
        let [_, median, most] = spread(values.iter().copied());
        let text = format!(
            "{median:.2} ms in the median flow of {}, {most:.2} ms in the worst; below {limit} ms",
            values.len()
        );
        judgement.add(what, text, most < limit);
    }
    judgement
}

#[cfg(test)]
mod tests {
    use super::{Found, of};

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
        assert_eq!(of(&good()).broken, 0);
        for bad in [
            Found { ready: vec![0.5, 1.1, 1.2], ..good() },
            Found { idle: 0.02, ..good() },
            Found { memory: 101 << 20, ..good() },
            Found { steady: vec![1.0, 5.1], ..good() },
            Found { replaced: vec![151.0], ..good() },
            Found { steady: vec![], ..good() },
        ] {
            assert_eq!(of(&bad).broken, 1);
        }
    }
}
