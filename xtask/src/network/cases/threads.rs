//! Threads of a process with all plugins of the network, and of one without.

use std::thread;
use std::time::Duration;

use anyhow::Result;

use super::{Case, OURS};
use crate::network::Bench;
use crate::network::process::free_port;
use crate::network::samples::{Samples, Verdict};

/// All of the network, and what a process without them has.
pub(super) const PLUGINS: [&str; 13] = [
    "connector-exec",
    "connector-http-client",
    "connector-http-server",
    "connector-metronome",
    "connector-null",
    "connector-tcp-client",
    "connector-tcp-server",
    "connector-udp-client",
    "connector-udp-server",
    "connector-unix-client",
    "connector-unix-server",
    "connector-ws-client",
    "connector-ws-server",
];

const THREADS: &str = "threads";
const WITHOUT: &str = "tremor-without";

/// What is only for the start is over after this time.
const REST: Duration = Duration::from_secs(3);

pub(super) fn turn(bench: &Bench<'_>, round: usize, samples: &mut Samples) -> Result<()> {
    let (port, to) = (free_port()?, free_port()?);
    let all = bench.flow("all-plugins.yaml").variable("PORT", port).variable("TO", to);
    let all = all.listen(to)?;
    let without = bench.flow("no-plugins.yaml").start()?;
    thread::sleep(REST);
    for (name, process) in [(OURS, &all), (WITHOUT, &without)] {
        #[allow(clippy::cast_precision_loss)] // a few
        let threads = process.threads()? as f64;
        samples.add(Case::Threads, round, name, &[(THREADS, threads)]);
    }
    Ok(())
}

pub(super) fn verdicts(samples: &Samples) -> Vec<Verdict> {
    let threads = |name| samples.median(Case::Threads, name, THREADS);
    vec![Verdict::at_most("more threads than without", threads(OURS) - threads(WITHOUT), 2.0)]
}
