//! What TLS 1.3 adds.

use std::thread;

use anyhow::Result;

use super::{Case, OURS, SETTLE};
use crate::network::Bench;
use crate::network::process::free_port;
use crate::network::samples::{Samples, Verdict};

const COST: &str = "us of processor a line";
const OURS_TLS: &str = "tremor-tls";
/// A loop that reads and writes, and nothing else.
const BARE: &str = "bare-loop";
const BARE_TLS: &str = "bare-loop-tls";

pub(super) fn turn(bench: &Bench<'_>, round: usize, samples: &mut Samples) -> Result<()> {
    for name in [BARE, OURS, BARE_TLS, OURS_TLS] {
        let (port, output) = (free_port()?, bench.in_memory(name));
        let (path, folder) = (&output.path().display(), &bench.folder.display());
        let flow = |file| bench.flow(file).variable("PORT", port).variable("OUTPUT", path);
        let bytes = bench.peer("bytes").argument(port).argument(path);
        let send = bench.peer("send").argument(port);
        let (server, client) = match name {
            OURS => (flow("forward.yaml"), send),
            BARE => (bytes, send),
            _ => {
                let is_ours = name == OURS_TLS;
                let bytes = bytes.argument("--tls").argument(folder);
                let server = if is_ours { flow("forward-tls.yaml") } else { bytes };
                (server, send.argument("--tls").argument(folder))
            }
        };
        let mut server = server.listen(port)?;
        let mut client = client.client()?;
        thread::sleep(SETTLE);
        let before = server.processor_time()?;
        client.begin()?;
        let found = client.found()?;
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // less than a gigabyte
        output.until(found.get("bytes")? as u64, &mut server)?;
        let took = server.processor_time()?.saturating_sub(before);
        let figures = [
            (COST, took.as_secs_f64() * 1e6 / found.get("lines")?),
            ("lines/s", found.get("lines")? / found.get("seconds")?),
        ];
        samples.add(Case::Tls, round, name, &figures);
    }
    Ok(())
}

pub(super) fn verdicts(samples: &Samples) -> Vec<Verdict> {
    let cost = |name| samples.median(Case::Tls, name, COST);
    let added = (cost(OURS_TLS) - cost(OURS)) / (cost(BARE_TLS) - cost(BARE));
    vec![Verdict::at_most("what TLS adds, beside what it adds to the bare loop", added, 1.3)]
}
