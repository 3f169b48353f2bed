//! A process of a case, which has two: its flow, the peer of its third sink, and its counts.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use super::supply::{Clients, Schedule, Source, Supply};
use super::{Disturbance, Policy};
use crate::outage::peer::{Behaviour, Pace, Peer};
use crate::outage::received::{Form, Received};
use crate::process::{Api, Process, Program, wait};
use crate::scenario::{PATIENCE, Stage, summary};

/// Times of the peer of the third sink.
const PACE: Pace = Pace { usual: Duration::from_millis(1), slow: Duration::from_secs(2) };
/// Value of `--drain-timeout`, in seconds.
const DRAIN: u64 = 2;
/// Maximum time from the end of a drain to the end of the process.
const MARGIN: Duration = Duration::from_secs(5);
/// Name of the flow.
const FLOW: &str = "beside";

/// A process with a flow of one source and three sinks.
pub(super) struct Side {
    process: Process,
    pub(super) api: Api,
    pub(super) peer: Peer,
    clients: Clients,
}

/// Numbers of events that the two other sinks have delivered at a time.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sample {
    at: Instant,
    pub(super) delivered: [u64; 2],
}

impl Sample {
    /// Returns the events per second of the two sinks from this sample to a later one.
    #[allow(clippy::cast_precision_loss)] // far fewer than 2^53
    pub(super) fn rates(&self, later: &Self) -> [f64; 2] {
        let seconds = (later.at - self.at).as_secs_f64();
        [0, 1].map(|at| (later.delivered[at] - self.delivered[at]) as f64 / seconds)
    }
}

/// Numbers of events of a flow at its end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Counts {
    pub(super) taken: u64,
    /// Events that the third sink delivered, dropped, and passed on to `err`.
    pub(super) delivered: u64,
    pub(super) dropped: u64,
    pub(super) passed_on: u64,
    /// Events that the peer of the third sink has received.
    pub(super) received: u64,
}

impl Side {
    /// Starts a process in `folder`, which reads `input`. Its third sink has a peer, unless the sink is down from the
    /// start. Clients send at `rate` events per second, or as fast as they can.
    pub(super) fn start(
        (stage, folder): (&Stage<'_>, &Path),
        (supply, input, rate): (&Supply, &str, Option<u64>),
        (name, policy): (&str, Policy),
        is_down: bool,
    ) -> Result<Self> {
        fs::create_dir_all(folder)?;
        let source = supply.source(name, input)?;
        supply.prepare(folder, input)?;
        let Source { text, codec, .. } = &source;
        let flow = include_str!("../flows/beside.yaml").replace("@SOURCE@", text);
        let flow = flow.replace("@CODEC@", codec).replace("@WHEN_FULL@", policy.name());
        fs::write(folder.join("beside.yaml"), flow)?;
        let mut peer = Peer::new(&folder.join("peer"), PACE, Received::new(Form::Lines, 1));
        if !is_down {
            peer.turn(Behaviour::Answers)?;
        }
        let program =
            Program::tremor(stage.built, "tremor", folder).arguments(["--api", "127.0.0.1:0"]);
        let mut process =
            program.arguments(["--drain-timeout", &format!("{DRAIN}s"), "beside.yaml"]).start()?;
        let api = process.api()?;
        process.until("a source that reads", PATIENCE, |_| {
            // The API answers with an error until the flow has started.
            let (_, input) = api.ask("GET", &format!("/v1/flows/{FLOW}/connectors/input"))?;
            let input: Value = serde_json::from_str(&input).unwrap_or_default();
            Ok((input["state"] == "running").then_some(()))
        })?;
        let clients = Clients::start(&source, rate.map(Schedule::new));
        let mut side = Self { process, api, peer, clients };
        side.until("events at the two other sinks", |side| {
            Ok(side.delivered()?.iter().all(|count| *count > 0).then_some(()))
        })?;
        Ok(side)
    }

    fn until<T>(
        &mut self,
        what: &str,
        mut found: impl FnMut(&mut Self) -> Result<Option<T>>,
    ) -> Result<T> {
        wait(what, PATIENCE, || {
            self.process.expect_alive()?;
            found(self)
        })
    }

    fn flow(&self) -> Result<Value> {
        self.api.json("GET", &format!("/v1/flows/{FLOW}"))
    }

    /// Returns the numbers of events that the two other sinks have delivered.
    pub(super) fn delivered(&self) -> Result<[u64; 2]> {
        let flow = self.flow()?;
        Ok(["one", "two"].map(|name| count(&flow, name, "sink", "delivered")))
    }

    /// Returns the same numbers with their time.
    pub(super) fn sample(&self) -> Result<Sample> {
        let (begun, delivered) = (Instant::now(), self.delivered()?);
        // The counts are those of a moment between the request and its response.
        Ok(Sample { at: begun + begun.elapsed() / 2, delivered })
    }

    /// Sends a request for the third sink.
    pub(super) fn third(&self, request: &str) -> Result<()> {
        self.api.json("POST", &format!("/v1/flows/{FLOW}/connectors/third/{request}")).map(drop)
    }

    /// Ends the disturbance, unless the sink stays down, and waits until each event that was read is accounted for. Then
    /// ends the process, and returns its counts.
    ///
    /// # Errors
    /// The counts do not balance, or the process ends late or fails.
    pub(super) fn end(mut self, disturbance: Option<Disturbance>) -> Result<Counts> {
        let stays_down = disturbance == Some(Disturbance::DownAtStart);
        if !stays_down {
            self.peer.turn(Behaviour::Answers)?;
            if disturbance == Some(Disturbance::Paused) {
                self.third("resume")?;
            }
        }
        let acknowledged = self.clients.end()?;
        let input = format!("/v1/flows/{FLOW}/connectors/input");
        self.api.json("POST", &format!("{input}/pause"))?;
        self.until("a paused source", |side| {
            Ok((side.api.json("GET", &input)?["state"] == "paused").then_some(()))
        })?;
        let mut last = String::new();
        let balanced = self.until("balanced counts", |side| {
            let flow = side.flow()?;
            last = imbalance(&flow, stays_down);
            Ok(last.is_empty().then_some(flow))
        });
        let flow = balanced.with_context(|| last.clone())?;
        let of = |name: &str| count(&flow, "third", "sink", name);
        let taken = count(&flow, "input", "source", "taken");
        if let Some(acknowledged) = acknowledged {
            ensure!(acknowledged == taken, "{acknowledged} lines acknowledged, {taken} read");
        }
        let begun = Instant::now();
        let log = self.process.stop(Duration::from_secs(DRAIN) + MARGIN)?;
        let took = begun.elapsed();
        let (line, (read, out)) = summary(&log, FLOW).context("no summary of the flow")?;
        let dropped = dropped(line);
        ensure!(!line.contains("failed"), "events have failed: {line}");
        // Each event has three ends: a delivery, one at `rest` instead of `third`, or a drop.
        ensure!(read == taken && out + dropped == 3 * read, "after {took:?}: {line}");
        let (missing, torn) = self.peer.ask(|it| (it.missing(taken), it.torn));
        ensure!(torn == 0, "the peer has received {torn} torn lines");
        let received = taken - missing;
        let (delivered, passed_on) = (of("delivered"), of("dead_lettered"));
        ensure!(
            received >= delivered,
            "the peer has received {received} events, and {delivered} count as delivered"
        );
        let dropped = if stays_down { dropped } else { of("dropped") };
        Ok(Counts { taken, delivered, dropped, passed_on, received })
    }
}

/// Returns a count of a component.
fn count(flow: &Value, name: &str, role: &str, count: &str) -> u64 {
    component(flow, name, role)["events"][count].as_u64().unwrap_or(0)
}

fn component<'f>(flow: &'f Value, name: &str, role: &str) -> &'f Value {
    let mut all = flow["components"].as_array().into_iter().flatten();
    all.find(|it| it["name"] == name && it["role"] == role).unwrap_or(&Value::Null)
}

/// Describes the first count of a flow with a paused source that does not balance. If the third sink is down, its queue
/// and the sink may have events.
fn imbalance(flow: &Value, is_third_down: bool) -> String {
    let read = count(flow, "input", "source", "taken");
    for name in ["one", "two"] {
        let delivered = count(flow, name, "sink", "delivered");
        if delivered != read {
            return format!("`{name}` has delivered {delivered} of {read} events");
        }
    }
    let third = component(flow, "third", "sink");
    let queued = third["queue"]["events"].as_u64().unwrap_or(0);
    let of = |name: &str| count(flow, "third", "sink", name);
    let in_flight = third["events"]["in_flight"].as_i64().unwrap_or(-1);
    let mut connectors = flow["connectors"].as_array().into_iter().flatten();
    let shown = connectors
        .find(|it| it["name"] == "third")
        .map_or(-1, |it| it["in_flight"].as_i64().unwrap_or(-1));
    let ended = of("delivered") + of("dropped") + of("dead_lettered");
    let passed_on = count(flow, "rest", "sink", "delivered");
    if of("taken") + queued != read {
        format!("`third` has taken {} and has {queued} of {read} events in its queue", of("taken"))
    } else if i64::try_from(ended).ok().and_then(|it| it.checked_add(in_flight))
        != i64::try_from(of("taken")).ok()
    {
        format!("`third` has taken {} events: {ended} ended, {in_flight} in flight", of("taken"))
    } else if in_flight != shown {
        format!("the component `third` has {in_flight} events in flight, the connector {shown}")
    } else if passed_on != of("dead_lettered") {
        format!("`third` has passed on {} events, and `rest` has {passed_on}", of("dead_lettered"))
    } else if !is_third_down && (in_flight > 0 || queued > 0) {
        format!("`third` still has {in_flight} events in flight and {queued} in its queue")
    } else {
        String::new()
    }
}

/// Returns the number before the word `dropped` in the summary of a flow, or 0.
fn dropped(line: &str) -> u64 {
    let words: Vec<_> = line.split([' ', ',']).filter(|word| !word.is_empty()).collect();
    let at = words.iter().position(|word| *word == "dropped");
    at.and_then(|at| words.get(at.checked_sub(1)?)?.parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn flow(change: fn(&mut Value)) -> Value {
        let sink =
            |name: &str, events: Value| json!({ "name": name, "role": "sink", "events": events });
        let mut third = sink(
            "third",
            json!({ "taken": 8, "delivered": 2, "dropped": 1, "dead_lettered": 3, "in_flight": 2 }),
        );
        third["queue"] = json!({ "events": 1 });
        let mut flow = json!({
            "components": [
                { "name": "input", "role": "source", "events": { "taken": 9 } },
                sink("one", json!({ "delivered": 9 })),
                sink("two", json!({ "delivered": 9 })),
                third,
                sink("rest", json!({ "delivered": 3 })),
            ],
            "connectors": [{ "name": "third", "in_flight": 2 }],
        });
        change(&mut flow);
        flow
    }

    #[test]
    fn each_imbalance_is_found() {
        assert_eq!(imbalance(&flow(|_| {}), true), "");
        for (change, expected) in [
            (
                (|it| it["components"][1]["events"]["delivered"] = 8.into()) as fn(&mut Value),
                "`one`",
            ),
            (|it| it["components"][3]["queue"]["events"] = 0.into(), "in its queue"),
            (|it| it["components"][3]["events"]["dropped"] = 0.into(), "ended"),
            (|it| it["connectors"][0]["in_flight"] = 1.into(), "the connector"),
            (|it| it["components"][4]["events"]["delivered"] = 2.into(), "`rest`"),
        ] {
            let found = imbalance(&flow(change), true);
            assert!(found.contains(expected), "{found}");
        }
        assert!(imbalance(&flow(|_| {}), false).contains("still has"));
    }

    #[test]
    fn dropped_events_are_read_from_the_summary() {
        assert_eq!(dropped("flow `a`: 9 events in, 12 out, 0 dead-lettered, 3 dropped, 1.2 s"), 3);
        assert_eq!(dropped("flow `a`: 9 events in, 12 out, 0 dead-lettered, 1.2 s"), 0);
    }
}
