//! The cases that are measured.

use std::time::{Duration, Instant};
use std::{io::Read, process::Stdio, thread};

use anyhow::{Context, Result};
use hostile_peers::Reserved;

use super::client::{Client, Found};
use super::{BARE, Bench, COST, GO, InMemory, KAFKA, KCAT, NATS, NATS_JSON, OURS, RATE, SETTLE};
use super::{brokers, syslog};
use crate::process::Program;
use crate::samples::{Figures, Samples, within};
use crate::scenario::Judgement;

/// A comparison of `tremor` with other programs, with limits for the figures.
pub(super) struct Case {
    pub(super) name: &'static str,
    /// Description for the summary.
    pub(super) what: &'static str,
    pub(super) servers: &'static [&'static str],
    /// Measures one server once.
    pub(super) turn: fn(&Bench<'_>, &'static str, &Samples) -> Result<Figures>,
    pub(super) judge: fn(&Samples, &mut Judgement),
}

const OURS_TLS: &str = "tremor-tls";
const OURS_HTTP: &str = "tremor-http";
/// `tremor` with connections that never send a byte.
const OURS_SILENT: &str = "tremor-silent";
const OURS_WITHOUT: &str = "tremor-without";
/// Server with plain tokio on all processors.
const TOKIO: &str = "tokio";
/// Server with plain tokio on one thread.
const TOKIO_ONE: &str = "tokio-one-thread";
const HYPER: &str = "hyper";
const BARE_TLS: &str = "bare-loop-tls";

const REQUESTS: &str = "requests/s";
const REQUEST: &str = "us of processor time per request";
const MEMORY: &str = "bytes per connection";
const PROCESSOR: &str = "% of a processor";
const LEAST: &str = "slowest connection, lines / mean of all connections";
const FULL: &str = "lines/s at full load";
const P99: &str = "us p99";
const THREADS: &str = "threads";

/// Time after which threads that are only used for the start have ended.
const SETTLED: Duration = Duration::from_secs(3);
/// Length of a line, in bytes.
const LINE: u64 = 630;
/// Number of idle connections.
const IDLE: u64 = 10_000;
/// Number of busy connections.
const BUSY: u32 = 1_000;
/// Number of connections that are opened and closed before the measurement, because the first ones set up state that
/// all connections share.
const FIRST: u64 = 100;

pub(super) static CASES: [Case; 10] = [
    Case {
        name: "kafka",
        what: "1,000,000 records of some 600 bytes from topic to topic, 4 partitions",
        servers: &[KCAT, KAFKA],
        turn: brokers::kafka,
        judge: |samples, judgement| samples.compare(judgement, "MB/s", KCAT),
    },
    Case {
        name: "nats",
        what: "300,000 messages of some 600 bytes of a stream",
        servers: &[GO, NATS, NATS_JSON],
        turn: brokers::nats,
        judge: |samples, judgement| samples.compare(judgement, "messages/s", GO),
    },
    Case {
        name: "syslog",
        what: "1,000,000 lines of syslog of 630 bytes over one connection, to a file",
        servers: &syslog::SERVERS,
        turn: syslog::turn,
        judge: |_, _| {},
    },
    Case {
        name: "trickle",
        what: "200 connections, 100 lines of 630 bytes per second each, to a file",
        servers: &[OURS, TOKIO, TOKIO_ONE],
        turn: trickle,
        judge: |samples, judgement| {
            let part = samples.median(OURS, COST) / samples.median(TOKIO, COST);
            within(judgement, "processor time of a line / that with tokio", part, ..=1.0);
        },
    },
    Case {
        name: "idle",
        what: "connections that fall silent",
        servers: &[OURS_SILENT, OURS, OURS_TLS, OURS_HTTP, TOKIO, HYPER],
        turn: idle,
        judge: |samples, judgement| {
            let memory = samples.median(OURS, MEMORY);
            within(judgement, "bytes per plain connection", memory, ..=4_096.0);
            within(judgement, PROCESSOR, samples.median(OURS, PROCESSOR), ..=1.0);
        },
    },
    Case {
        name: "fair",
        what: "connections that send lines of 630 bytes as fast as they can, to a pipe",
        servers: &[OURS, TOKIO],
        turn: fair,
        judge: |samples, judgement| {
            let what = "slowest connection / mean of all connections, in any round";
            within(judgement, what, samples.least(OURS, LEAST), 0.5..);
        },
    },
    Case {
        name: "http",
        what: "64 connections, bodies of 622 bytes, the server on one processor",
        servers: &[OURS, HYPER],
        turn: http,
        judge: |samples, judgement| {
            let rate = samples.median(OURS, REQUESTS) / samples.median(HYPER, REQUESTS);
            within(judgement, "requests per second / those of hyper", rate, 0.7..);
            // If the client is the bottleneck, both servers have the same number of requests per second. Therefore the
            // processor time is judged as well.
            let by_cost = samples.median(HYPER, REQUEST) / samples.median(OURS, REQUEST);
            let what = "requests per second of processor time / those of hyper";
            within(judgement, what, by_cost, 0.7..);
        },
    },
    Case {
        name: "tls",
        what: "1,000,000 lines of 630 bytes over one connection, to a file, with TLS 1.3 and without",
        servers: &[BARE, OURS, BARE_TLS, OURS_TLS],
        turn: tls,
        judge: |samples, judgement| {
            let cost = |name| samples.median(name, COST);
            let added = (cost(OURS_TLS) - cost(OURS)) / (cost(BARE_TLS) - cost(BARE));
            within(
                judgement,
                "processor time that TLS adds / that in the bare loop",
                added,
                ..=1.3,
            );
        },
    },
    Case {
        name: "latency",
        what: "lines of 630 bytes from a socket to a socket at half load, sent each 100 us",
        servers: &[OURS, BARE],
        turn: latency,
        judge: |samples, judgement| {
            within(judgement, P99, samples.median(OURS, P99), ..=200.0);
        },
    },
    Case {
        name: "threads",
        what: "a process that has nothing to do, with all plugins of the network and without",
        servers: &[OURS, OURS_WITHOUT],
        turn: threads,
        judge: |samples, judgement| {
            let threads = |name| samples.median(name, THREADS);
            let more = threads(OURS) - threads(OURS_WITHOUT);
            within(judgement, "additional threads with the connectors", more, ..=2.0);
        },
    },
];

impl Bench<'_> {
    /// Returns a client or server of `bench/network` for a port.
    pub(super) fn at(&self, role: &str, port: u16) -> Program {
        self.peer(role).argument(port)
    }

    /// Returns a client of `bench/network` that measures for the duration of a turn.
    fn timed(&self, role: &str, port: u16) -> Program {
        self.at(role, port).argument("--seconds").argument(self.arguments.seconds)
    }

    /// Adds the options for TLS to a program of `bench/network`.
    fn with_tls(&self, program: Program) -> Program {
        program.argument("--tls").argument(self.stage.folder.display())
    }
}

/// Runs a client against a server. Returns the figures of the client, and the processor time of the server in seconds,
/// up to the end of the client. If the server writes to `output`, the time ends when that file has all lines.
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
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // far fewer than 2^53
        output.until(found.get("lines")? as u64 * LINE, &mut server)?;
    }
    let took = server.processor_time()?.saturating_sub(before);
    Ok((found, took.as_secs_f64()))
}

/// Measures lines that arrive one by one.
fn trickle(bench: &Bench<'_>, name: &'static str, _: &Samples) -> Result<Figures> {
    let (reserved, output) = (Reserved::tcp()?, InMemory::new()?);
    let port = reserved.port();
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
    let (reserved, output) = (Reserved::tcp()?, InMemory::new()?);
    let port = reserved.port();
    let mut server = match name {
        OURS_TLS => bench.flow("forward-tls.yaml", port).variable("OUTPUT", output.shown()),
        OURS_HTTP => bench.flow("requests.yaml", port),
        TOKIO => bench.at("to-file", port).argument(output.shown()),
        HYPER => bench.at("hello", port),
        _ => bench.flow("forward.yaml", port).variable("OUTPUT", output.shown()),
    };
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
    let _clients = connected(IDLE)?;
    thread::sleep(SETTLE);
    let after = server.memory()?;
    let (taken, begun) = (server.processor_time()?, Instant::now());
    thread::sleep(Duration::from_secs(bench.arguments.seconds));
    let taken = server.processor_time()?.saturating_sub(taken);
    #[allow(clippy::cast_precision_loss)] // far fewer than 2^53
    Ok(vec![
        (MEMORY, after.saturating_sub(before) as f64 / IDLE as f64),
        (PROCESSOR, taken.as_secs_f64() / begun.elapsed().as_secs_f64() * 100.0),
    ])
}

/// Measures the shares of connections that send as fast as they can.
fn fair(bench: &Bench<'_>, name: &'static str, _: &Samples) -> Result<Figures> {
    let reserved = Reserved::tcp()?;
    let port = reserved.port();
    let mut server = match name {
        OURS => bench.flow("to-pipe.yaml", port),
        _ => bench.at("to-file", port).argument("/dev/stdout"),
    };
    let mut server = server.spawn(Stdio::null(), Some(Stdio::piped()))?;
    let pipe = server.child.stdout.take().context("the server has no output")?;
    server.until_it_listens(port)?;
    let connections = format!("--connections={BUSY}");
    let shares = bench.peer("shares").argument(&connections);
    let mut shares = shares.argument(format_args!("--seconds={}", bench.arguments.seconds));
    let mut shares = shares.spawn(pipe.into(), Some(Stdio::piped()))?;
    let mut output = shares.child.stdout.take().context("the client has no output")?;
    let mut client = bench.at("busy", port).argument(&connections);
    let mut client = Client::start(&mut client)?;
    client.begin()?;
    let mut text = String::new();
    output.read_to_string(&mut text)?;
    let found = Found::read(&text)?;
    let share = found.get("lines")? / f64::from(BUSY);
    Ok(vec![
        (LEAST, found.get("least")? / share),
        ("median connection, lines / mean of all connections", found.get("median")? / share),
        ("fastest connection, lines / mean of all connections", found.get("most")? / share),
        (RATE, found.get("lines")? / found.get("seconds")?),
    ])
}

/// Measures requests with one event each, with the server on one processor.
fn http(bench: &Bench<'_>, name: &'static str, _: &Samples) -> Result<Figures> {
    let reserved = Reserved::tcp()?;
    let port = reserved.port();
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
    let (reserved, output) = (Reserved::tcp()?, InMemory::new()?);
    let port = reserved.port();
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

/// Measures the latency of lines from socket to socket, at half of the maximum load of `tremor`. The bare loop has the
/// same load, although its own maximum is higher.
fn latency(bench: &Bench<'_>, name: &'static str, samples: &Samples) -> Result<Figures> {
    let measure = |rate: Option<f64>| -> Result<Found> {
        let reserved = [Reserved::tcp()?, Reserved::tcp()?];
        let [port, to] = reserved.each_ref().map(Reserved::port);
        let client = bench.timed("latency", port).argument(to);
        let rate = rate.map(|rate| format!("--rate={}", rate.round()));
        let mut client = client.arguments(rate);
        // The client is ready and listens, so the measured server can connect to it.
        let mut client = Client::start(&mut client)?;
        let mut server = match name {
            OURS => bench.flow("to-socket.yaml", port).variable("TO", to),
            _ => bench.at("forward", port).argument(to),
        };
        let _server = server.listen(port)?;
        client.found()
    };
    let last = samples.of(OURS, FULL).next_back();
    let full = match name {
        OURS => measure(None)?.get("rate")?,
        _ => last.context("the full load of tremor was not measured")?,
    };
    let found = measure(Some(full / 2.0))?;
    let names = [
        (RATE, "rate"),
        ("us p50", "p50_us"),
        (P99, "p99_us"),
        ("us p99.9", "p999_us"),
        ("us at most", "most_us"),
        ("us p99 of the sender's delay", "late_p99_us"),
    ];
    let figures = names.map(|(figure, name)| Ok((figure, found.get(name)?))).into_iter();
    figures.chain((name == OURS).then_some(Ok((FULL, full)))).collect()
}

fn threads(bench: &Bench<'_>, name: &'static str, _: &Samples) -> Result<Figures> {
    let reserved = [Reserved::tcp()?, Reserved::tcp()?];
    let [port, to] = reserved.each_ref().map(Reserved::port);
    let process = match name {
        OURS => bench.flow("all-plugins.yaml", port).variable("TO", to).listen(to)?,
        _ => bench.flow("no-plugins.yaml", port).start()?,
    };
    thread::sleep(SETTLED);
    #[allow(clippy::cast_precision_loss)] // few threads
    Ok(vec![(THREADS, process.count("task")? as f64)])
}
