//! `tremor top`: shows components, states, rates, queues, errors and reloads, updated every second.

mod reload;

use std::{
    borrow::Cow,
    collections::HashMap,
    fmt::Write as _,
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

use self::reload::Reload;
use super::{
    Failure,
    remote::Remote,
    terminal::{self, Line, Screen, Style},
};

/// Interval at which the API is queried.
const INTERVAL: Duration = Duration::from_secs(1);

/// Maximum number of lines of one problem on the screen.
const MOST_LINES: usize = 4;

#[derive(Args)]
pub(super) struct Arguments {
    #[command(flatten)]
    remote: Remote,
}

/// The parts of the API's response that are shown.
#[derive(Deserialize)]
struct Flows {
    flows: Vec<Flow>,
    reload: Option<Reload>,
}

#[derive(Deserialize)]
struct Flow {
    name: String,
    state: String,
    failure: Option<Failed>,
    #[serde(default)]
    given_up: Vec<GivenUp>,
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
struct GivenUp {
    component: String,
    part: String,
    error: String,
}

#[derive(Debug, Deserialize)]
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
    /// Sinks and pipelines because of which the source is not pulled.
    #[serde(default)]
    waits_for: Vec<Awaited>,
}

#[derive(Deserialize)]
struct Awaited {
    sink: String,
    reason: String,
    seconds: f64,
    bytes: Option<u64>,
}

#[derive(Deserialize)]
struct Component {
    name: String,
    role: String,
    events: Events,
    queue: Option<Queue>,
    stored: Option<Stored>,
}

/// The queue on disk of a sink.
#[derive(Clone, Copy, Deserialize)]
struct Stored {
    now: u64,
    redelivered: u64,
    bytes: u64,
    oldest_seconds: Option<f64>,
    damaged_parts: u64,
}

#[derive(Deserialize)]
struct Events {
    taken: u64,
    delivered: u64,
    dead_lettered: u64,
    discarded: u64,
    failed: u64,
    dropped: u64,
    in_flight: i64,
}

#[derive(Deserialize)]
struct Queue {
    events: u64,
}

impl Memory {
    fn style(&self) -> Style {
        if self.is_short { Style::Waiting } else { Style::Plain }
    }

    fn text(&self, flow: &str) -> String {
        let limit = self.limit.map_or_else(String::new, |it| format!(" of {} MiB", mebibytes(it)));
        let short = if self.is_short { "; sources wait for memory" } else { "" };
        format!("{flow}: memory {} MiB{limit}{short}", mebibytes(self.taken))
    }
}

/// Returns a number of bytes in MiB, rounded down.
fn mebibytes(bytes: u64) -> u64 {
    bytes >> 20
}

/// Shows the flows until the user quits. Without a terminal, prints lines until the process ends.
pub(super) fn execute(arguments: &Arguments) -> Result<(), Failure> {
    let client = arguments.remote.client()?;
    let failed = |error: Error| Failure::of_flow(format_args!("error: {error}"));
    let mut rates = Rates::default();
    let mut flows = ask(&client).map_err(failed)?;
    let (quit, quits) = mpsc::channel();
    let screen = Screen::enter();
    if screen.is_some() {
        listen(quit.clone()).map_err(|error| {
            Failure::of_flow(format_args!("error: cannot listen for signals: {error}"))
        })?;
    }
    loop {
        let rows = rates.of(&flows, Instant::now());
        match &screen {
            Some(screen) => {
                screen.show(&lines(client.host(), &rows, &flows, None, screen.columns()));
            }
            // The reader of the output has exited.
            None if print(&rows, &flows).is_err() => return Ok(()),
            None => {}
        }
        loop {
            match quits.recv_timeout(INTERVAL) {
                Ok(()) | Err(RecvTimeoutError::Disconnected) => return Ok(()),
                Err(RecvTimeoutError::Timeout) => {}
            }
            match (ask(&client), &screen) {
                (Ok(new), _) => {
                    flows = new;
                    break;
                }
                (Err(error), None) => return Err(failed(error)),
                // The screen stays, because the API may become available again.
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

/// Sends to `quit` when a key or a signal ends the command.
fn listen(quit: Sender<()>) -> io::Result<()> {
    let mut signals = Signals::new([SIGINT, SIGTERM])?;
    let also = quit.clone();
    // Sending fails if the command has already quit.
    thread::spawn(move || signals.forever().next().map(|_| also.send(())));
    thread::spawn(move || terminal::until_quit() && quit.send(()).is_ok());
    Ok(())
}

/// Counts of the previous query. Rates are computed from the difference.
#[derive(Default)]
struct Rates {
    at: Option<Instant>,
    counts: HashMap<(String, String, String), (u64, u64)>,
}

/// The row of one component on the screen.
struct Row {
    name: String,
    role: String,
    /// State as a single word.
    state: String,
    /// Sink or pipeline for which a source waits.
    waits_for: Option<String>,
    /// Events per second that were received and delivered; `None` after the first query.
    rates: Option<(f64, f64)>,
    events: Events,
    queue: Option<u64>,
    stored: Option<Stored>,
}

impl Connector {
    /// Returns the sink or pipeline for which the side `role` of the connector waits.
    fn awaited(&self, role: &str) -> Option<&str> {
        let waits = role == "source" && self.state == "running";
        self.waits_for.first().filter(|_| waits).map(|it| it.sink.as_str())
    }
}

impl Stored {
    fn text(self) -> String {
        let Self { now, redelivered, bytes, oldest_seconds, damaged_parts } = self;
        #[expect(clippy::cast_precision_loss, reason = "it is shown with one digit")]
        let mut text = format!("has {now} events on disk, {:.1} MiB", bytes as f64 / 1_048_576.0);
        // Writing to a string cannot fail.
        if let Some(seconds) = oldest_seconds {
            _ = write!(text, ", the oldest for {seconds:.0} s");
        }
        if redelivered > 0 {
            _ = write!(text, ", {redelivered} redelivered");
        }
        if damaged_parts > 0 {
            _ = write!(text, ", {damaged_parts} damaged parts");
        }
        text
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
                let Component { name, role, events, queue, stored } = component;
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
                    stored: *stored,
                });
            }
        }
        rows
    }
}

/// Prints a line for each component and for each problem, and one about reloads if there were any.
fn print(rows: &[Row], flows: &Flows) -> io::Result<()> {
    let mut out = io::stdout().lock();
    for row in rows {
        let Row { name, role, state, rates, events, queue, stored, .. } = row;
        write!(out, "{name} {role} {state}")?;
        if let Some((taken, delivered)) = rates {
            write!(out, " in={taken:.0}/s out={delivered:.0}/s")?;
        }
        if let Some(queue) = queue {
            write!(out, " queued={queue}")?;
        }
        if let Some(Stored { now, bytes, .. }) = stored {
            write!(out, " stored={now} stored_bytes={bytes}")?;
        }
        let Events { in_flight, dead_lettered, discarded, failed, dropped, .. } = events;
        writeln!(
            out,
            " in_flight={in_flight} dead_lettered={dead_lettered} discarded={discarded} failed={failed} \
             dropped={dropped}"
        )?;
    }
    for Line { text, .. } in problems(flows) {
        writeln!(out, "{}", terminal::fitted(&text, usize::MAX))?;
    }
    if let Some(text) = flows.reload.as_ref().and_then(Reload::plain) {
        writeln!(out, "{text}")?;
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
    let line = |style, text| Line { style, text };
    let generation = flows.reload.as_ref().map_or_else(String::new, Reload::title);
    let mut lines = vec![line(Style::Plain, format!("tremor at {host}{generation}; q quits"))];
    lines.extend(flows.reload.iter().flat_map(Reload::lines));
    if let Some(error) = error {
        let text = error.to_string();
        let first = text.lines().next().unwrap_or_default();
        lines.push(line(Style::Failed, first.to_owned()));
    }
    let (named, stated) = widths(rows, columns);
    lines.push(line(
        Style::Heading,
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
        lines.push(line(style(state), text));
    }
    for Row { name, events, .. } in rows.iter().filter(|row| row.events.dropped > 0) {
        let text = format!("{name} dropped {} events", events.dropped);
        lines.push(line(Style::Waiting, text));
    }
    for (name, stored) in rows.iter().filter_map(|row| Some((&row.name, row.stored?))) {
        let is_damaged = stored.damaged_parts > 0;
        let style = if is_damaged { Style::Failed } else { Style::Plain };
        lines.push(line(style, format!("{name} {}", stored.text())));
    }
    for flow in &flows.flows {
        lines.extend(
            flow.memory.as_ref().map(|memory| line(memory.style(), memory.text(&flow.name))),
        );
    }
    for Line { style, text } in problems(flows) {
        let texts = terminal::wrapped(&text, columns, MOST_LINES).into_iter();
        lines.extend(texts.map(|text| line(style, text)));
    }
    lines
}

/// Returns a line for each failure, error and wait of the flows.
fn problems(flows: &Flows) -> Vec<Line> {
    let line = |style, text| Line { style, text };
    let mut lines = Vec::new();
    for flow in &flows.flows {
        if let Some(Failed { component, error }) = &flow.failure {
            lines.push(line(Style::Failed, format!("{}/{component} failed: {error}", flow.name)));
        }
        for GivenUp { component, part, error } in &flow.given_up {
            let text = format!("{}/{component}: {part} is not called again: {error}", flow.name);
            lines.push(line(Style::Failed, text));
        }
        for connector in &flow.connectors {
            let Connector { name, state, state_seconds, error, restarts, waits_for } = connector;
            for Awaited { sink, reason, seconds, bytes } in waits_for {
                let uses = bytes
                    .map_or_else(String::new, |it| format!(" (it uses {} MiB)", mebibytes(it)));
                let text = format!(
                    "{}/{name}: waits for {sink}{uses}, {reason} for {seconds:.0} s",
                    flow.name
                );
                lines.push(line(Style::Waiting, text));
            }
            if let Some(error) = error.as_ref().filter(|_| state != "failed") {
                let restart_count =
                    if *restarts > 0 { format!(", {restarts} restarts") } else { String::new() };
                let since = match state.as_str() {
                    "retrying" | "connecting" => format!("{state} for {state_seconds:.0} s, "),
                    _ => String::new(),
                };
                let text =
                    format!("{}/{name}: {since}last error{restart_count}: {error}", flow.name);
                lines.push(line(style(state), text));
            }
        }
    }
    lines
}

/// Returns the widths of the columns of names and states. On a terminal with more than 80 columns, they are wider if
/// `rows` need it.
fn widths(rows: &[Row], columns: usize) -> (usize, usize) {
    let longest = |of: &dyn Fn(&Row) -> usize| rows.iter().map(of).max().unwrap_or_default();
    let more = columns.saturating_sub(80);
    let named = longest(&|it| it.name.chars().count()).clamp(15, 15 + more);
    let stated = longest(&|it| it.shown_state().chars().count()).clamp(13, 28 + more - named);
    (named, stated)
}

fn style(state: &str) -> Style {
    match state {
        "running" | "stopped" => Style::Plain,
        "failed" => Style::Failed,
        _ => Style::Waiting,
    }
}

/// Formats a number below 10^21 in at most six characters.
pub(super) fn short(number: f64) -> String {
    match number {
        n if n >= 1e4 => {
            let (mut value, mut unit) = (n / 1e3, 0);
            // Numbers from 999.95 on would be rounded to 1000.0, which has one more digit.
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

/// Suffixes for powers of 1,000, beginning with 10^3.
const UNITS: [char; 6] = ['k', 'M', 'G', 'T', 'P', 'E'];

#[cfg(test)]
mod tests;
