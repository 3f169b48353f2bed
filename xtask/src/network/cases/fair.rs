//! Connections that send as fast as they can: whose lines come through.

use std::io::Read;
use std::process::Stdio;

use anyhow::{Context, Result};

use super::{Case, OURS};
use crate::network::Bench;
use crate::network::process::{Found, free_port};
use crate::network::samples::{Samples, Verdict};

const LEAST: &str = "of a fair share has the connection with the least";
const TOKIO: &str = "tokio";

pub(super) fn turn(bench: &Bench<'_>, round: usize, samples: &mut Samples) -> Result<()> {
    let connections = bench.arguments.busy;
    for name in [OURS, TOKIO] {
        let port = free_port()?;
        let server = match name {
            OURS => bench.flow("to-pipe.yaml").variable("PORT", port),
            _ => bench.peer("to-file").argument(port).argument("/dev/stdout"),
        };
        let mut server = server.spawn(Stdio::null(), Stdio::piped())?;
        let pipe = server.child.stdout.take().context("a server has an output")?;
        server.until_it_listens(port)?;
        let shares = bench.peer("shares").argument("--connections").argument(connections);
        let shares = shares.argument("--seconds").argument(bench.arguments.seconds);
        let mut shares = shares.spawn(pipe.into(), Stdio::piped())?;
        let mut output = shares.child.stdout.take().context("a client has an output")?;
        let client = bench.peer("busy").argument(port);
        let mut client = client.argument("--connections").argument(connections).client()?;
        client.begin()?;
        let mut text = String::new();
        output.read_to_string(&mut text)?;
        let found = Found::read(&text)?;
        #[allow(clippy::cast_precision_loss)] // far below what a float holds
        let share = found.get("lines")? / connections as f64;
        let figures = [
            (LEAST, found.get("least")? / share),
            ("of a fair share in the median", found.get("median")? / share),
            ("of a fair share has the connection with the most", found.get("most")? / share),
            ("lines/s", found.get("lines")? / found.get("seconds")?),
        ];
        samples.add(Case::Fair, round, name, &figures);
    }
    Ok(())
}

pub(super) fn verdicts(samples: &Samples) -> Vec<Verdict> {
    let least = samples.least(Case::Fair, OURS, LEAST);
    vec![Verdict::at_least("the least of a fair share in any round", least, 0.5)]
}
