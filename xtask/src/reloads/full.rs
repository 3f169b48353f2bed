//! The part `full`: a sink is down, its queue is full, and its source waits for it. The sink gets other addresses and
//! codecs, and at last the address of a peer that works.

use std::fmt::Write as _;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};

use super::{PACE, components, reload};
use crate::outage::peer::{Behaviour, Peer};
use crate::outage::received::{Form, Received};
use crate::process::Api;
use crate::scenario::{Judgement, PATIENCE, Stage, counts, spread};

/// Number of events.
const EVENTS: u64 = 20_000;
/// Number of reloads with another address, and of those with another codec.
const RELOADS: usize = 100;
/// Maximum duration of a reload.
const LIMIT: Duration = Duration::from_secs(2);
/// Maximum duration on a busy machine.
const BUSY: Duration = Duration::from_secs(20);

pub(crate) struct Full {
    /// Durations of reloads with another address, and with another codec, in seconds.
    times: [Vec<f64>; 2],
    /// Events in and out.
    counts: (u64, u64),
    /// The events that the two peers did not receive, received again, and received out of order.
    peers: [[u64; 3]; 2],
}

pub(super) fn play(stage: &Stage<'_>) -> Result<Full> {
    let mut lines = String::new();
    for number in 0..EVENTS {
        writeln!(lines, "#{number}#{:.<200}", "")?;
    }
    stage.write("lines", &lines)?;
    let peer = |name: &str, behaviour| {
        let received = Received::new(Form::Lines, 1);
        let mut peer = Peer::new(&stage.folder.join(name), PACE, received);
        peer.turn(behaviour).map(|()| peer)
    };
    // A peer that accepts a connection and reads nothing lets the source begin.
    let (first, mut second) =
        (peer("first", Behaviour::Answers)?, peer("second", Behaviour::Silent)?);
    let flow = |path: &str, codec: &str| {
        let text = include_str!("../flows/reloaded.yaml");
        stage.flow("full.yaml", text, &[("PATH", &path), ("CODEC", &codec)])
    };
    flow("second", "string")?;
    let mut process = stage.start("tremor", &["--api", "127.0.0.1:0", "full.yaml"])?;
    let api = process.api()?;
    process.until("a full queue", PATIENCE, |_| {
        let (_, flow) = api.ask("GET", "/v1/flows/full")?;
        let flow = serde_json::from_str(&flow).unwrap_or_default();
        let queued = components(&flow, "sink").find(|it| it["name"] == "second");
        Ok(queued.and_then(|it| it["queue"]["events"].as_u64()).filter(|it| *it >= 500))
    })?;
    let mut times = [Vec::new(), Vec::new()];
    for number in 0..RELOADS {
        flow(&format!("nobody-{number}"), "string")?;
        times[0].push(timed(&api)?);
    }
    for number in 0..RELOADS {
        flow("nobody", ["json", "string"][number % 2])?;
        times[1].push(timed(&api)?);
    }
    second.turn(Behaviour::Answers)?;
    flow("second", "string")?;
    timed(&api)?;
    // The flow ends by itself when the file has been read and both sinks have all events.
    let status = process.end(PATIENCE)?;
    ensure!(status.success(), "the process has failed: {status}");
    let counts = counts(&process.log()?, "full")?;
    let peers = [first, second].map(|it| {
        it.ask(|received| [received.missing(EVENTS), received.again, received.disordered])
    });
    Ok(Full { times, counts, peers })
}

/// Reloads the flow, and returns the time that this took, in seconds.
fn timed(api: &Api) -> Result<f64> {
    let begun = Instant::now();
    ensure!(reload(api, "changed")? == 1, "the flow was not changed in a reload");
    Ok(begun.elapsed().as_secs_f64())
}

impl Full {
    pub(super) fn judge(&self, judgement: &mut Judgement, busy: bool) {
        let limit = if busy { BUSY } else { LIMIT }.as_secs_f64();
        for (what, times) in ["address", "codec"].iter().zip(&self.times) {
            let [_, median, most] = spread(times.iter().copied());
            let text = format!(
                "{} reloads, {:.0} ms in the median, at most {:.0}; limit {limit:.0} s",
                times.len(),
                median * 1e3,
                most * 1e3
            );
            judgement.add(what, text, most <= limit);
        }
        let (read, out) = self.counts;
        let is_balanced = read == EVENTS && out == 2 * EVENTS;
        judgement.add("counts", format!("{read} events in, {out} out"), is_balanced);
        for (what, [missing, again, disordered]) in ["first", "second"].iter().zip(self.peers) {
            let text = format!(
                "of {EVENTS} events {missing} are missing, {again} were received again, {disordered} out of order"
            );
            judgement.add(what, text, [missing, again, disordered] == [0; 3]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn late_reload_and_lost_event_break_the_guarantee() {
        let found = |change: fn(&mut Full)| {
            let times = [vec![0.1; 3], vec![0.1; 3]];
            let mut found = Full { times, counts: (EVENTS, 2 * EVENTS), peers: [[0; 3]; 2] };
            change(&mut found);
            let mut judgement = Judgement::default();
            found.judge(&mut judgement, false);
            judgement.broken
        };
        assert_eq!(found(|_| {}), 0);
        for change in [
            (|it| it.times[1][2] = 2.1) as fn(&mut Full),
            |it| it.counts.1 -= 1,
            |it| it.peers[1][0] = 1,
            |it| it.peers[0][1] = 1,
        ] {
            assert_eq!(found(change), 1);
        }
    }
}
