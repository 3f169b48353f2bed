//! The cases that are measured.

use std::io::Read;
use std::process::Stdio;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use super::client::{Client, Found};
use super::{Bench, InMemory};
use crate::process::{Program, free_port};
use crate::samples::{Figures, Samples, at_least, at_most};
use crate::scenario::Judgement;

/// A comparison of this program with others.
pub(super) struct Case {
    pub(super) name: &'static str,
    pub(super) what: &'static str,
    pub(super) servers: &'static [&'static str],
    /// Measures a server.
    pub(super) turn: fn(&Bench<'_>, &'static str, &Samples) -> Result<Figures>,
    pub(super) judge: fn(&Samples, &mut Judgement),
}

/// Name of this program among servers, and with other protocols.
const OURS: &str = "tremor";
const OURS_TLS: &str = "tremor-tls";
const OURS_HTTP: &str = "tremor-http";
/// This program with connections that have never sent a byte.
const OURS_SILENT: &str = "tremor-silent";
const OURS_WITHOUT: &str = "tremor-without";
/// Plain tokio, on all processors and on one thread.
const TOKIO: &str = "tokio";
const TOKIO_ONE: &str = "tokio-one-thread";
const HYPER: &str = "hyper";
/// A loop that reads and writes, and nothing else.
const BARE: &str = "bare-loop";
const BARE_TLS: &str = "bare-loop-tls";

const COST: &str = "us of processor a line";
const RATE: &str = "lines/s";
const REQUESTS: &str = "requests/s";
const REQUEST: &str = "us of processor a request";
const MEMORY: &str = "bytes a connection";
const PROCESSOR: &str = "% of a processor";
const LEAST: &str = "of a fair share has the connection with the least";
const FULL: &str = "lines/s at full load";
const P99: &str = "us p99";
const THREADS: &str = "threads";

/// Time for what a server has left to do after its start, or after clients have come.
const SETTLE: Duration = Duration::from_millis(500);
/// After this time, what is only for the start is over.
const REST: Duration = Duration::from_secs(3);
/// Bytes of a line.
const LINE: u64 = 630;
/// Connections that come and go before anything is measured: the first of them have the program set up what all share.
const FIRST: u64 = 100;

pub(super) static CASES: [Case; 7] = [
    Case {
        name: "trickle",
        what: "200 connections, 100 lines of 630 bytes a second each, to a file",
        servers: &[OURS, TOKIO, TOKIO_ONE],
        turn: trickle,
        judge: |samples, judgement| {
            let cost = |name| samples.median("trickle", name, COST);
            at_most(judgement, "a line beside tokio's", cost(OURS) / cost(TOKIO), 1.0);
        },
    },
    Case {
        name: "idle",
        what: "connections that fall silent",
        servers: &[OURS_SILENT, OURS, OURS_TLS, OURS_HTTP, TOKIO, HYPER],
        turn: idle,
        judge: |samples, judgement| {
            let median = |figure| samples.median("idle", OURS, figure);
            at_most(judgement, "bytes a plain connection", median(MEMORY), 4_096.0);
            at_most(judgement, PROCESSOR, median(PROCESSOR), 1.0);
        },
    },
    Case {
        name: "fair",
        what: "connections that send lines of 630 bytes as fast as they can, to a pipe",
        servers: &[OURS, TOKIO],
        turn: fair,
        judge: |samples, judgement| {
            let least = samples.least("fair", OURS, LEAST);
            at_least(judgement, "the least of a fair share in any round", least, 0.5);
        },
    },
    Case {
        name: "http",
        what: "64 connections, bodies of 622 bytes, the server on one processor",
        servers: &[OURS, HYPER],
        turn: http,
        judge: |samples, judgement| {
            let median = |name, figure| samples.median("http", name, figure);
            let rate = median(OURS, REQUESTS) / median(HYPER, REQUESTS);
            at_least(judgement, "of hyper's requests a second", rate, 0.7);
            // This counts where the client is what limits the servers.
            let by_cost = median(HYPER, REQUEST) / median(OURS, REQUEST);
            let what = "of hyper's requests for each second of a processor";
            at_least(judgement, what, by_cost, 0.7);
        },
    },
    Case {
        name: "tls",
        what: "1,000,000 lines of 630 bytes over one connection, to a file, with TLS 1.3 and without",
        servers: &[BARE, OURS, BARE_TLS, OURS_TLS],
        turn: tls,
        judge: |samples, judgement| {
            let cost = |name| samples.median("tls", name, COST);
            let added = (cost(OURS_TLS) - cost(OURS)) / (cost(BARE_TLS) - cost(BARE));
            at_most(judgement, "what TLS adds, beside what it adds to the bare loop", added, 1.3);
        },
    },
    Case {
        name: "latency",
        what: "lines of 630 bytes from a socket to a socket at half load, sent each 100 us",
        servers: &[OURS, BARE],
        turn: latency,
        judge: |samples, judgement| {
            at_most(judgement, P99, samples.median("latency", OURS, P99), 200.0);
        },
    },
    Case {
        name: "threads",
        what: "a process that has nothing to do, with all plugins of the network and without",
        servers: &[OURS, OURS_WITHOUT],
        turn: threads,
        judge: |samples, judgement| {
            let threads = |name| samples.median("threads", name, THREADS);
            let more = threads(OURS) - threads(OURS_WITHOUT);
            at_most(judgement, "more threads than without", more, 2.0);
        },
    },
];

impl Bench<'_> {
    /// A client or server of `bench/network` for a port.
    fn at(&self, role: &str, port: u16) -> Program {
        self.peer(role).argument(port)
    }

    /// A client of `bench/network` that counts for as long as each turn.
    fn timed(&self, role: &str, port: u16) -> Program {
        self.at(role, port).argument("--seconds").argument(self.arguments.seconds)
    }

    /// A program of `bench/network` with TLS.
    fn with_tls(&self, program: Program) -> Program {
        program.argument("--tls").argument(self.stage.folder.display())
    }

    fn in_memory(&self, name: &str) -> InMemory {
        InMemory::new(&self.arguments.memory, name)
    }
}

/// Lets a client load a server. Returns what the client found, and the processor time that the server took, in seconds,
/// until all lines are in its file if it writes one.
fn loaded(
    mut server: Program,
    port: u16,
    mut client: Program,
    output: Option<&InMemory>,
) -> Result<(Found, f64)> {
    let mut server = server.listen(port)?;
    let mut client = Client::start(&mut client)?;
    thread::sleep(SETTLE);
    let before = server.processor_time()?;
    let found = client.found()?;
    if let Some(output) = output {
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // some millions
        output.until(found.get("lines")? as u64 * LINE, &mut server)?;
    }
    let took = server.processor_time()?.saturating_sub(before);
    Ok((found, took.as_secs_f64()))
}

/// Lines that come one by one.
fn trickle(bench: &Bench<'_>, name: &'static str, _: &Samples) -> Result<Figures> {
    let (port, output) = (free_port()?, bench.in_memory(name));
    let server = match name {
        OURS => bench.flow("forward.yaml", port).variable("OUTPUT", output.shown()),
        TOKIO => bench.at("to-file", port).argument(output.shown()),
        _ => bench.at("to-file", port).argument(output.shown()).argument("--one-thread"),
    };
    let (found, took) = loaded(server, port, bench.timed("trickle", port), Some(&output))?;
    let (lines, seconds) = (found.get("lines")?, found.get("seconds")?);
    Ok(vec![
        (COST, took * 1e6 / lines),
        (RATE, lines / seconds),
        ("ms late at most", found.get("late_ms")?),
    ])
}

fn idle(bench: &Bench<'_>, name: &'static str, _: &Samples) -> Result<Figures> {
    let (port, output) = (free_port()?, bench.in_memory(name));
    let mut server = match name {
        OURS_TLS => bench.flow("forward-tls.yaml", port).variable("OUTPUT", output.shown()),
        OURS_HTTP => bench.flow("requests.yaml", port),
        TOKIO => bench.at("to-file", port).argument(output.shown()),
        HYPER => bench.at("hello", port),
        _ => bench.flow("forward.yaml", port).variable("OUTPUT", output.shown()),
    };
    // The server needs a descriptor a connection as well.
    let server = server.listen(port)?;
    let connected = |count: u64| -> Result<Client> {
        let client = bench.at("idle", port).argument("--connections").argument(count);
        let mut client = match name {
            OURS_SILENT => client.argument("--first").argument("nothing"),
            OURS_HTTP | HYPER => client.argument("--first").argument("request"),
            OURS_TLS => bench.with_tls(client),
            _ => client,
        };
        let mut client = Client::start(&mut client)?;
        client.found()?;
        Ok(client)
    };
    drop(connected(FIRST)?);
    thread::sleep(SETTLE);
    let before = server.memory()?;
    let count = bench.arguments.idle;
    let _clients = connected(count)?;
    thread::sleep(SETTLE);
    let after = server.memory()?;
    let (taken, begun) = (server.processor_time()?, Instant::now());
    thread::sleep(Duration::from_secs(bench.arguments.seconds));
    let taken = server.processor_time()?.saturating_sub(taken);
    #[allow(clippy::cast_precision_loss)] // far below what a float holds
    Ok(vec![
        (MEMORY, after.saturating_sub(before) as f64 / count as f64),
        (PROCESSOR, taken.as_secs_f64() / begun.elapsed().as_secs_f64() * 100.0),
    ])
}

/// Connections that send as fast as they can: whose lines come through.
fn fair(bench: &Bench<'_>, name: &'static str, _: &Samples) -> Result<Figures> {
    let (port, connections) = (free_port()?, bench.arguments.busy);
    let mut server = match name {
        OURS => bench.flow("to-pipe.yaml", port),
        _ => bench.at("to-file", port).argument("/dev/stdout"),
    };
    let mut server = server.spawn(Stdio::null(), Some(Stdio::piped()))?;
    let pipe = server.child.stdout.take().context("a server has an output")?;
    server.until_it_listens(port)?;
    let shares = bench.peer("shares").argument("--connections").argument(connections);
    let mut shares = shares.argument("--seconds").argument(bench.arguments.seconds);
    let mut shares = shares.spawn(pipe.into(), Some(Stdio::piped()))?;
    let mut output = shares.child.stdout.take().context("a client has an output")?;
    let mut client = bench.at("busy", port).argument("--connections").argument(connections);
    let mut client = Client::start(&mut client)?;
    client.begin()?;
    let mut text = String::new();
    output.read_to_string(&mut text)?;
    let found = Found::read(&text)?;
    #[allow(clippy::cast_precision_loss)] // far below what a float holds
    let share = found.get("lines")? / connections as f64;
    Ok(vec![
        (LEAST, found.get("least")? / share),
        ("of a fair share in the median", found.get("median")? / share),
        ("of a fair share has the connection with the most", found.get("most")? / share),
        (RATE, found.get("lines")? / found.get("seconds")?),
    ])
}

/// Requests with one event each, on one processor.
fn http(bench: &Bench<'_>, name: &'static str, _: &Samples) -> Result<Figures> {
    let port = free_port()?;
    let server = match name {
        OURS => bench.flow("requests.yaml", port),
        _ => bench.at("hello", port),
    };
    let client = bench.timed("requests", port).on_processor(1);
    let (found, took) = loaded(server.on_processor(0), port, client, None)?;
    let (requests, seconds) = (found.get("requests")?, found.get("seconds")?);
    Ok(vec![
        (REQUESTS, requests / seconds),
        (REQUEST, took * 1e6 / requests),
        ("% of its processor", took / seconds * 100.0),
    ])
}

fn tls(bench: &Bench<'_>, name: &'static str, _: &Samples) -> Result<Figures> {
    let (port, output) = (free_port()?, bench.in_memory(name));
    let flow = |file| bench.flow(file, port).variable("OUTPUT", output.shown());
    let bytes = || bench.at("bytes", port).argument(output.shown());
    let server = match name {
        OURS => flow("forward.yaml"),
        OURS_TLS => flow("forward-tls.yaml"),
        BARE => bytes(),
        _ => bench.with_tls(bytes()),
    };
    let client = bench.at("send", port);
    let is_plain = [OURS, BARE].contains(&name);
    let client = if is_plain { client } else { bench.with_tls(client) };
    let (found, took) = loaded(server, port, client, Some(&output))?;
    let lines = found.get("lines")?;
    Ok(vec![(COST, took * 1e6 / lines), (RATE, lines / found.get("seconds")?)])
}

/// How long lines take from socket to socket, at half of the load that this program can have. The bare loop has the same
/// load, of which it could bear more.
fn latency(bench: &Bench<'_>, name: &'static str, samples: &Samples) -> Result<Figures> {
    let measure = |rate: Option<f64>| -> Result<Found> {
        let (port, to) = (free_port()?, free_port()?);
        let client = bench.at("latency", port).argument(to);
        let client = client.argument("--seconds").argument(bench.arguments.seconds);
        let mut client = match rate {
            Some(rate) => client.argument("--rate").argument(rate.round()),
            None => client,
        };
        // It listens by now: the server that is measured can connect to it.
        let mut client = Client::start(&mut client)?;
        let mut server = match name {
            OURS => bench.flow("to-socket.yaml", port).variable("TO", to),
            _ => bench.at("forward", port).argument(to),
        };
        let _server = server.listen(port)?;
        client.found()
    };
    let full = match name {
        OURS => measure(None)?.get("rate")?,
        _ => samples.of("latency", OURS, FULL).next_back().context("no full load")?,
    };
    let found = measure(Some(full / 2.0))?;
    let mut figures = vec![
        (RATE, found.get("rate")?),
        ("us p50", found.get("p50_us")?),
        (P99, found.get("p99_us")?),
        ("us p99.9", found.get("p999_us")?),
        ("us at most", found.get("most_us")?),
        ("us p99 of the sender's delay", found.get("late_p99_us")?),
    ];
    figures.extend((name == OURS).then_some((FULL, full)));
    Ok(figures)
}

fn threads(bench: &Bench<'_>, name: &'static str, _: &Samples) -> Result<Figures> {
    let (port, to) = (free_port()?, free_port()?);
    let process = match name {
        OURS => bench.flow("all-plugins.yaml", port).variable("TO", to).listen(to)?,
        _ => bench.flow("no-plugins.yaml", port).start()?,
    };
    thread::sleep(REST);
    #[allow(clippy::cast_precision_loss)] // a few
    Ok(vec![(THREADS, process.count("task")? as f64)])
}
