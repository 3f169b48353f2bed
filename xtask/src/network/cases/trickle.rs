//! Lines that come one by one.

use std::thread;

use anyhow::Result;

use super::{Case, OURS, SETTLE};
use crate::network::Bench;
use crate::network::process::free_port;
use crate::network::samples::{Samples, Verdict};

const COST: &str = "us of processor a line";
/// Plain tokio, on all processors and on one thread.
const TOKIO: &str = "tokio";
const TOKIO_ONE: &str = "tokio-one-thread";

pub(super) fn turn(bench: &Bench<'_>, round: usize, samples: &mut Samples) -> Result<()> {
    for name in [OURS, TOKIO, TOKIO_ONE] {
        let (port, output) = (free_port()?, bench.in_memory(name));
        let path = &output.path().display();
        let server = match name {
            OURS => bench.flow("forward.yaml").variable("PORT", port).variable("OUTPUT", path),
            TOKIO => bench.peer("to-file").argument(port).argument(path),
            _ => bench.peer("to-file").argument(port).argument(path).argument("--one-thread"),
        };
        let mut server = server.listen(port)?;
        let client = bench.peer("trickle").argument(port);
        let mut client = client.argument("--seconds").argument(bench.arguments.seconds).client()?;
        thread::sleep(SETTLE);
        let before = server.processor_time()?;
        client.begin()?;
        let found = client.found()?;
        let lines = found.get("lines")?;
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // far below
        output.until(lines as u64 * 630, &mut server)?;
        let took = server.processor_time()?.saturating_sub(before);
        let figures = [
            (COST, took.as_secs_f64() * 1e6 / lines),
            ("lines/s", lines / found.get("seconds")?),
            ("ms late at most", found.get("late_ms")?),
        ];
        samples.add(Case::Trickle, round, name, &figures);
    }
    Ok(())
}

pub(super) fn verdicts(samples: &Samples) -> Vec<Verdict> {
    let cost = |name| samples.median(Case::Trickle, name, COST);
    vec![Verdict::at_most("a line beside tokio's", cost(OURS) / cost(TOKIO), 1.0)]
}
