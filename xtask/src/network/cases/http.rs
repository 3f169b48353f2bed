//! Requests with one event each, on one processor.

use std::thread;

use anyhow::Result;

use super::{Case, OURS, SETTLE};
use crate::network::Bench;
use crate::network::process::free_port;
use crate::network::samples::{Samples, Verdict};

const RATE: &str = "requests/s";
const COST: &str = "us of processor a request";
const HYPER: &str = "hyper";

pub(super) fn turn(bench: &Bench<'_>, round: usize, samples: &mut Samples) -> Result<()> {
    for name in [OURS, HYPER] {
        let port = free_port()?;
        let server = match name {
            OURS => bench.flow("requests.yaml").variable("PORT", port),
            _ => bench.peer("hello").argument(port),
        };
        let server = server.on_processor(0).listen(port)?;
        let client = bench.peer("requests").argument(port);
        let client = client.argument("--seconds").argument(bench.arguments.seconds);
        let mut client = client.on_processor(1).client()?;
        thread::sleep(SETTLE);
        let before = server.processor_time()?;
        client.begin()?;
        let found = client.found()?;
        let took = server.processor_time()?.saturating_sub(before).as_secs_f64();
        let (requests, seconds) = (found.get("requests")?, found.get("seconds")?);
        let figures = [
            (RATE, requests / seconds),
            (COST, took * 1e6 / requests),
            ("% of its processor", took / seconds * 100.0),
        ];
        samples.add(Case::Http, round, name, &figures);
    }
    Ok(())
}

pub(super) fn verdicts(samples: &Samples) -> Vec<Verdict> {
    let median = |name, figure| samples.median(Case::Http, name, figure);
    let rate = median(OURS, RATE) / median(HYPER, RATE);
    // What counts where the client is what limits the servers.
    let by_cost = median(HYPER, COST) / median(OURS, COST);
    vec![
        Verdict::at_least("of hyper's requests a second", rate, 0.7),
        Verdict::at_least("of hyper's requests for each second of a processor", by_cost, 0.7),
    ]
}
