//! `tremor top`: components, states, rates, queues and errors, again every second.

use std::{
    collections::HashMap,
    io::{self, Write},
    sync::mpsc::{self, RecvTimeoutError, Sender},
    thread,
    time::{Duration, Instant},
};

use clap::Args;
use serde::Deserialize;
use signal_hook::{
    consts::{SIGINT, SIGTERM},
    iterator::Signals,
};
use tremor_runtime::api::client::{Client, Error};

use super::{
    Failure,
    remote::Remote,
    terminal::{self, Line, Look, Screen},
};

/// How often it looks.
const AGAIN: Duration = Duration::from_secs(1);

#[derive(Args)]
pub(super) struct Arguments {
    #[command(flatten)]
    remote: Remote,
}

/// What the API says, as far as it is shown.
#[derive(Deserialize)]
struct Flows {
    flows: Vec<Flow>,
}

#[derive(Deserialize)]
struct Flow {
    name: String,
    state: String,
    failure: Option<Failed>,
    connectors: Vec<Connector>,
    components: Vec<Component>,
    memory: Option<Memory>,
}

/// The memory of a flow, in bytes.
#[derive(Deserialize)]
struct Memory {
    limit: Option<u64>,
    taken: u64,
    is_short: bool,
}

#[derive(Deserialize)]
struct Failed {
    component: String,
    error: String,
}

#[derive(Deserialize)]
struct Connector {
    name: String,
    state: String,
    error: Option<String>,
    restarts: u64,
    /// Sinks because of which the source is not pulled.
    #[serde(default)]
    waits_for: Vec<Awaited>,
}

#[derive(Deserialize)]
struct Awaited {
    sink: String,
}

#[derive(Deserialize)]
struct Component {
    name: String,
    role: String,
    events: Events,
    queue: Option<Queue>,
}

#[derive(Deserialize)]
struct Events {
    taken: u64,
    delivered: u64,
    dead_lettered: u64,
    discarded: u64,
    failed: u64,
    in_flight: i64,
}

#[derive(Deserialize)]
struct Queue {
    events: u64,
}

impl Memory {
    fn look(&self) -> Look {
        if self.is_short { Look::Waits } else { Look::Plain }
    }

    fn text(&self, flow: &str) -> String {
        let mebibytes = |bytes: u64| bytes >> 20;
        let limit = self.limit.map_or_else(String::new, |it| format!(" of {} MiB", mebibytes(it)));
        let short = if self.is_short { "; sources wait for memory" } else { "" };
        format!("{flow}: memory {} MiB{limit}{short}", mebibytes(self.taken))
    }
}

/// Shows them until it is told to quit; as lines where stdout is no terminal, until the process is gone.
pub(super) fn execute(arguments: &Arguments) -> Result<(), Failure> {
    let client = arguments.remote.client()?;
    let failed = |error: Error| Failure::of_flow(format_args!("error: {error}"));
    let mut rates = Rates::default();
    let mut flows = ask(&client).map_err(failed)?;
    let (quit, quits) = mpsc::channel();
    let screen = Screen::enter();
    if screen.is_some() {
        listen(quit.clone())
            .map_err(|error| Failure::of_flow(format_args!("error: no signals: {error}")))?;
    }
    loop {
        let rows = rates.of(&flows, Instant::now());
        match &screen {
            Some(screen) => screen.show(&lines(&client, &rows, &flows, None)),
            // The reader has gone.
            None if print(&rows).is_err() => return Ok(()),
            None => {}
        }
        loop {
            match quits.recv_timeout(AGAIN) {
                Ok(()) | Err(RecvTimeoutError::Disconnected) => return Ok(()),
                Err(RecvTimeoutError::Timeout) => {}
            }
            match (ask(&client), &screen) {
                (Ok(new), _) => {
                    flows = new;
                    break;
                }
                (Err(error), None) => return Err(failed(error)),
                // It may come back.
                (Err(error), Some(screen)) => {
                    rates = Rates::default();
                    screen.show(&lines(&client, &rows, &flows, Some(&error)));
                }
            }
        }
    }
}

fn ask(client: &Client) -> Result<Flows, Error> {
    let flows = client.get("/v1/flows")?;
    serde_json::from_value(flows).map_err(|error| Error::Refused(error.to_string()))
}

/// Quits at a key, and at signals.
fn listen(quit: Sender<()>) -> io::Result<()> {
    let mut signals = Signals::new([SIGINT, SIGTERM])?;
    let also = quit.clone();
    // One that has quit hears nothing more.
    thread::spawn(move || signals.forever().next().map(|_| also.send(())));
    thread::spawn(move || terminal::until_quit() && quit.send(()).is_ok());
    Ok(())
}

/// The counts of the last time, to make rates of.
#[derive(Default)]
struct Rates {
    at: Option<Instant>,
    counts: HashMap<(String, String, String), (u64, u64)>,
}

/// A component as it is shown.
struct Row {
    name: String,
    role: String,
    state: String,
    /// Events a second; none before there was a second.
    rates: Option<(f64, f64)>,
    events: Events,
    queue: Option<u64>,
}

impl Connector {
    /// Returns the state of the connector's side `role`, with the sink that a source waits for.
    fn shown(&self, role: &str) -> String {
        match self.waits_for.first() {
            Some(Awaited { sink }) if role == "source" && self.state == "running" => {
                format!("waits for {sink}")
            }
            _ => self.state.clone(),
        }
    }
}

impl Rates {
    fn of(&mut self, flows: &Flows, now: Instant) -> Vec<Row> {
        let seconds = self.at.map(|at| now.saturating_duration_since(at).as_secs_f64());
        let before = std::mem::take(&mut self.counts);
        self.at = Some(now);
        let mut rows = Vec::new();
        for flow in &flows.flows {
            for component in &flow.components {
                let Component { name, role, events, queue } = component;
                let key = (flow.name.clone(), name.clone(), role.clone());
                let rates = seconds.zip(before.get(&key)).map(|(seconds, (taken, delivered))| {
                    #[expect(clippy::cast_precision_loss, reason = "it is shown with four digits")]
                    let rate =
                        |now: u64, before: &u64| now.saturating_sub(*before) as f64 / seconds;
                    (rate(events.taken, taken), rate(events.delivered, delivered))
                });
                self.counts.insert(key, (events.taken, events.delivered));
                let connector =
                    flow.connectors.iter().find(|it| role != "pipeline" && it.name == *name);
                rows.push(Row {
                    name: format!("{}/{name}", flow.name),
                    role: role.clone(),
                    state: connector.map_or_else(|| flow.state.clone(), |it| it.shown(role)),
                    rates,
                    events: Events { ..*events },
                    queue: queue.as_ref().map(|queue| queue.events),
                });
            }
        }
        rows
    }
}

/// A line for each component.
fn print(rows: &[Row]) -> io::Result<()> {
    let mut out = io::stdout().lock();
    for row in rows {
        let Row { name, role, state, rates, events, queue } = row;
        write!(out, "{name} {role} {state}")?;
        if let Some((taken, delivered)) = rates {
            write!(out, " in={taken:.0}/s out={delivered:.0}/s")?;
        }
        if let Some(queue) = queue {
            write!(out, " queued={queue}")?;
        }
        let Events { in_flight, dead_lettered, discarded, failed, .. } = events;
        writeln!(
            out,
            " in_flight={in_flight} dead_lettered={dead_lettered} discarded={discarded} failed={failed}"
        )?;
    }
    out.flush()
}

/// The screen.
fn lines(client: &Client, rows: &[Row], flows: &Flows, error: Option<&Error>) -> Vec<Line> {
    let line = |look, text| Line { look, text };
    let mut lines = vec![line(Look::Plain, format!("tremor at {}; q quits", client.host()))];
    if let Some(error) = error {
        let text = error.to_string();
        let first = text.lines().next().unwrap_or_default();
        lines.push(line(Look::Failed, first.to_owned()));
    }
    lines.push(line(
        Look::Heading,
        format!(
            "{:<15} {:<8} {:<13} {:>6} {:>6} {:>6} {:>6} {:>6} {:>6}",
            "COMPONENT", "ROLE", "STATE", "IN/s", "OUT/s", "QUEUED", "FLIGHT", "DEAD", "FAILED"
        ),
    ));
    for row in rows {
        let Row { name, role, state, rates, events, queue } = row;
        let rate = |rate: Option<f64>| rate.map_or_else(String::new, short);
        #[expect(clippy::cast_precision_loss, reason = "it is shown with four digits")]
        let count = |n: u64| if n < 10_000 { n.to_string() } else { short(n as f64) };
        let queue = queue.map_or_else(String::new, count);
        let (name, shown) = (terminal::fitted(name, 15), terminal::fitted(state, 13));
        let text = format!(
            "{name:<15} {role:<8} {shown:<13} {:>6} {:>6} {queue:>6} {:>6} {:>6} {:>6}",
            rate(rates.map(|it| it.0)),
            rate(rates.map(|it| it.1)),
            count(u64::try_from(events.in_flight).unwrap_or_default()),
            count(events.dead_lettered),
            count(events.failed),
        );
        lines.push(line(look(state), text));
    }
    for flow in &flows.flows {
        lines.extend(
            flow.memory.as_ref().map(|memory| line(memory.look(), memory.text(&flow.name))),
        );
        if let Some(Failed { component, error }) = &flow.failure {
            lines.push(line(Look::Failed, format!("{}/{component} failed: {error}", flow.name)));
        }
        for connector in &flow.connectors {
            let Connector { name, state, error, restarts, .. } = connector;
            if let Some(error) = error.as_ref().filter(|_| state != "failed") {
                let again =
                    if *restarts > 0 { format!(", {restarts} restarts") } else { String::new() };
                let text = format!("{}/{name}: last error{again}: {error}", flow.name);
                lines.push(line(look(state), text));
            }
        }
    }
    lines
}

fn look(state: &str) -> Look {
    match state {
        "running" | "stopped" => Look::Plain,
        "failed" => Look::Failed,
        _ => Look::Waits,
    }
}

/// A number in at most six characters.
pub(super) fn short(number: f64) -> String {
    match number {
        n if n >= 1e9 => format!("{:.2}G", n / 1e9),
        n if n >= 1e6 => format!("{:.2}M", n / 1e6),
        n if n >= 1e4 => format!("{:.1}k", n / 1e3),
        n if n >= 100.0 || n == 0.0 => format!("{n:.0}"),
        n => format!("{n:.1}"),
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use serde_json::json;

    use super::{Flows, Rates, short};

    fn flows(taken: u64, delivered: u64) -> Flows {
        let events = json!({
            "taken": taken, "created": 0, "delivered": delivered, "dead_lettered": 0, "discarded": 0,
            "merged": 0, "failed": 0, "in_flight": 0,
        });
        let component = json!({ "name": "c", "role": "sink", "events": events, "bytes": 1 });
        let connector = json!({ "name": "c", "state": "paused", "restarts": 0 });
        let flow = json!({
            "name": "f", "state": "running", "connectors": [connector], "components": [component],
        });
        serde_json::from_value(json!({ "flows": [flow] })).unwrap()
    }

    #[test]
    fn rates_are_the_difference_of_two_looks_and_the_first_has_none() {
        let (mut rates, now) = (Rates::default(), Instant::now());
        let first = rates.of(&flows(10, 10), now);
        assert!(first[0].rates.is_none() && first[0].name == "f/c" && first[0].state == "paused");
        let later = rates.of(&flows(110, 60), now + Duration::from_secs(2));
        assert_eq!(later[0].rates, Some((50.0, 25.0)));
    }

    #[test]
    fn numbers_are_short() {
        let numbers = [0.0, 0.5, 99.0, 123.4, 9_999.0, 12_345.0, 1_234_567.0, 2e9];
        let expected = ["0", "0.5", "99.0", "123", "9999", "12.3k", "1.23M", "2.00G"];
        assert_eq!(numbers.map(short), expected);
    }
}
