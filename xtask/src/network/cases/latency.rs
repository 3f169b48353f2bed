//! How long lines take from socket to socket, at half of the load that there can be.

use anyhow::Result;

use super::{Case, OURS};
use crate::network::Bench;
use crate::network::process::{Found, free_port};
use crate::network::samples::{Samples, Verdict};

const P99: &str = "us p99";
/// A loop that reads and writes, and nothing else.
const BARE: &str = "bare-loop";

pub(super) fn turn(bench: &Bench<'_>, round: usize, samples: &mut Samples) -> Result<()> {
    let most = measure(bench, OURS, None)?.get("rate")?;
    samples.add(Case::Latency, round, OURS, &[("lines/s at full load", most)]);
    // The loop has the same load, of which it could bear more.
    for name in [OURS, BARE] {
        let found = measure(bench, name, Some(most / 2.0))?;
        let figures = [
            ("lines/s", found.get("rate")?),
            ("us p50", found.get("p50_us")?),
            (P99, found.get("p99_us")?),
            ("us p99.9", found.get("p999_us")?),
            ("us at most", found.get("most_us")?),
            ("us p99 of the sender's delay", found.get("late_p99_us")?),
        ];
        samples.add(Case::Latency, round, name, &figures);
    }
    Ok(())
}

fn measure(bench: &Bench<'_>, name: &str, rate: Option<f64>) -> Result<Found> {
    let (port, to) = (free_port()?, free_port()?);
    let client = bench.peer("latency").argument(port).argument(to);
    let mut client = client.argument("--seconds").argument(bench.arguments.seconds);
    if let Some(rate) = rate {
        client = client.argument("--rate").argument(rate.round());
    }
    // It listens by now: the server that is measured has where to send to.
    let mut client = client.client()?;
    let server = match name {
        OURS => bench.flow("to-socket.yaml").variable("PORT", port).variable("TO", to),
        _ => bench.peer("forward").argument(port).argument(to),
    };
    let _server = server.listen(port)?;
    client.begin()?;
    client.found()
}

pub(super) fn verdicts(samples: &Samples) -> Vec<Verdict> {
    vec![Verdict::at_most("us p99", samples.median(Case::Latency, OURS, P99), 200.0)]
}
