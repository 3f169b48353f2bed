//! `tremor top`: components, states, rates, queues and errors, again every second.

use std::{
    borrow::Cow,
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
    #[serde(default)]
    state_seconds: f64,
    error: Option<String>,
    restarts: u64,
    /// Sinks because of which the source is not pulled.
    #[serde(default)]
    waits_for: Vec<Awaited>,
}

#[derive(Deserialize)]
struct Awaited {
    sink: String,
    reason: String,
    seconds: f64,
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
            Some(screen) => {
                screen.show(&lines(client.host(), &rows, &flows, None, screen.columns()));
            }
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
                    let columns = screen.columns();
                    screen.show(&lines(client.host(), &rows, &flows, Some(&error), columns));
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
    /// One word.
    state: String,
    /// Sink that a source waits for.
    waits_for: Option<String>,
    /// Events a second; none before there was a second.
    rates: Option<(f64, f64)>,
    events: Events,
    queue: Option<u64>,
}

impl Connector {
    /// Returns the sink that the connector's side `role` waits for.
    fn awaited(&self, role: &str) -> Option<&str> {
        let waits = role == "source" && self.state == "running";
        self.waits_for.first().filter(|_| waits).map(|it| it.sink.as_str())
    }
}

impl Row {
    fn shown_state(&self) -> Cow<'_, str> {
        match &self.waits_for {
            Some(sink) => format!("waits for {sink}").into(),
            None => self.state.as_str().into(),
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
                let awaited = connector.and_then(|it| it.awaited(role));
                rows.push(Row {
                    name: format!("{}/{name}", flow.name),
                    role: role.clone(),
                    state: match (connector, awaited) {
                        (_, Some(_)) => "waiting".to_owned(),
                        (Some(connector), None) => connector.state.clone(),
                        (None, None) => flow.state.clone(),
                    },
                    waits_for: awaited.map(str::to_owned),
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
        let Row { name, role, state, rates, events, queue, .. } = row;
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

/// Returns the lines of a screen with this number of columns.
fn lines(
    host: &str,
    rows: &[Row],
    flows: &Flows,
    error: Option<&Error>,
    columns: usize,
) -> Vec<Line> {
    let line = |look, text| Line { look, text };
    let mut lines = vec![line(Look::Plain, format!("tremor at {host}; q quits"))];
    if let Some(error) = error {
        let text = error.to_string();
        let first = text.lines().next().unwrap_or_default();
        lines.push(line(Look::Failed, first.to_owned()));
    }
    let (named, stated) = widths(rows, columns);
    lines.push(line(
        Look::Heading,
        format!(
            "{:<named$} {:<8} {:<stated$} {:>6} {:>6} {:>6} {:>6} {:>6} {:>6}",
            "COMPONENT", "ROLE", "STATE", "IN/s", "OUT/s", "QUEUED", "FLIGHT", "DEAD", "FAILED"
        ),
    ));
    for row in rows {
        let Row { name, role, state, rates, events, queue, .. } = row;
        let rate = |rate: Option<f64>| rate.map_or_else(String::new, short);
        #[expect(clippy::cast_precision_loss, reason = "it is shown with four digits")]
        let count = |n: u64| if n < 10_000 { n.to_string() } else { short(n as f64) };
        let queue = queue.map_or_else(String::new, count);
        let name = terminal::shortened(name, named);
        let shown = terminal::shortened(&row.shown_state(), stated);
        let text = format!(
            "{name:<named$} {role:<8} {shown:<stated$} {:>6} {:>6} {queue:>6} {:>6} {:>6} {:>6}",
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
            let Connector { name, state, state_seconds, error, restarts, waits_for } = connector;
            for Awaited { sink, reason, seconds } in waits_for {
                let text =
                    format!("{}/{name}: waits for {sink}, {reason} for {seconds:.0} s", flow.name);
                lines.push(line(Look::Waits, text));
            }
            if let Some(error) = error.as_ref().filter(|_| state != "failed") {
                let again =
                    if *restarts > 0 { format!(", {restarts} restarts") } else { String::new() };
                let since = match state.as_str() {
                    "retrying" | "connecting" => format!("{state} for {state_seconds:.0} s, "),
                    _ => String::new(),
                };
                let text = format!("{}/{name}: {since}last error{again}: {error}", flow.name);
                lines.push(line(look(state), text));
            }
        }
    }
    lines
}

/// Returns the widths of the columns of names and states. Columns beyond 80 widen them as far as `rows` need.
fn widths(rows: &[Row], columns: usize) -> (usize, usize) {
    let longest = |of: &dyn Fn(&Row) -> usize| rows.iter().map(of).max().unwrap_or_default();
    let more = columns.saturating_sub(80);
    let named = longest(&|it| it.name.chars().count()).clamp(15, 15 + more);
    let stated = longest(&|it| it.shown_state().chars().count()).clamp(13, 28 + more - named);
    (named, stated)
}

fn look(state: &str) -> Look {
    match state {
        "running" | "stopped" => Look::Plain,
        "failed" => Look::Failed,
        _ => Look::Waits,
    }
}

/// Formats a number below 10^21 in at most six characters.
pub(super) fn short(number: f64) -> String {
    match number {
        n if n >= 1e4 => {
            let (mut value, mut unit) = (n / 1e3, 0);
            // Otherwise rounding would add a digit.
            while value >= 999.95 && unit + 1 < UNITS.len() {
                (value, unit) = (value / 1e3, unit + 1);
            }
            let digits = if unit > 0 && value < 99.995 { 2 } else { 1 };
            format!("{value:.digits$}{}", UNITS[unit])
        }
        n if n >= 100.0 || n == 0.0 => format!("{n:.0}"),
        n => format!("{n:.1}"),
    }
}

/// Units of a thousand, a million and so on.
const UNITS: [char; 6] = ['k', 'M', 'G', 'T', 'P', 'E'];

#[cfg(test)]
mod tests;
