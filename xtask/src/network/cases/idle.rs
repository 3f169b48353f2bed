//! Connections that fall silent.

use std::thread;
use std::time::{Duration, Instant};

use anyhow::Result;

use super::{Case, OURS, SETTLE};
use crate::network::Bench;
use crate::network::process::{Command, free_port};
use crate::network::samples::{Samples, Verdict};

const MEMORY: &str = "bytes a connection";
const PROCESSOR: &str = "% of a processor";
/// This program, with connections that have said nothing,
const SILENT: &str = "tremor-silent";
/// with TLS,
const TLS: &str = "tremor-tls";
/// and with requests of HTTP.
const HTTP: &str = "tremor-http";
const TOKIO: &str = "tokio";
const HYPER: &str = "hyper";

/// How many come and go before anything is measured: the first of them have the program set up what all share.
const FIRST: usize = 100;

pub(super) fn turn(bench: &Bench<'_>, round: usize, samples: &mut Samples) -> Result<()> {
    for name in [SILENT, OURS, TLS, HTTP, TOKIO, HYPER] {
        let (port, output) = (free_port()?, bench.in_memory(name));
        let path = &output.path().display();
        let flow = |file| bench.flow(file).variable("PORT", port).variable("OUTPUT", path);
        let server = match name {
            TLS => flow("forward-tls.yaml"),
            HTTP => flow("requests.yaml"),
            TOKIO => bench.peer("to-file").argument(port).argument(path),
            HYPER => bench.peer("hello").argument(port),
            _ => flow("forward.yaml"),
        };
        // The server needs a descriptor a connection as well.
        let server = server.listen(port)?;
        let clients = |count: usize| -> Command {
            let client = bench.peer("idle").argument(port);
            let client = client.argument("--connections").argument(count);
            match name {
                SILENT => client.argument("--first").argument("nothing"),
                HTTP | HYPER => client.argument("--first").argument("request"),
                TLS => client.argument("--tls").argument(bench.folder.display()),
                _ => client,
            }
        };
        let mut first = clients(FIRST).client()?;
        first.begin()?;
        first.found()?;
        drop(first);
        thread::sleep(SETTLE);
        let before = server.memory()?;
        let count = usize::try_from(bench.arguments.idle)?;
        let mut client = clients(count).client()?;
        client.begin()?;
        client.found()?;
        thread::sleep(SETTLE);
        let after = server.memory()?;
        let (taken, begun) = (server.processor_time()?, Instant::now());
        thread::sleep(Duration::from_secs(bench.arguments.seconds));
        let taken = server.processor_time()?.saturating_sub(taken);
        #[allow(clippy::cast_precision_loss)] // far below what a float holds
        let figures = [
            (MEMORY, after.saturating_sub(before) as f64 / count as f64),
            (PROCESSOR, taken.as_secs_f64() / begun.elapsed().as_secs_f64() * 100.0),
        ];
        samples.add(Case::Idle, round, name, &figures);
    }
    Ok(())
}

pub(super) fn verdicts(samples: &Samples) -> Vec<Verdict> {
    let median = |figure| samples.median(Case::Idle, OURS, figure);
    vec![
        Verdict::at_most("bytes a plain connection", median(MEMORY), 4_096.0),
        Verdict::at_most("% of a processor", median(PROCESSOR), 1.0),
    ]
}
