//! Tests of the memory limit, which applies to all flows of a process together.

use std::{
    collections::BTreeMap,
    fmt::Write as _,
    fs,
    io::{self, Read, Write},
    net::{SocketAddr, TcpListener, TcpStream},
    path::Path,
    process::{self, Command},
    thread,
    time::Duration,
};

use hostile_peers::{PATIENCE, acceptor::accept_within};

use crate::{
    api::{Asked, start_with},
    tremor::Scene,
};

/// Memory limit, in bytes.
const LIMIT: u64 = 32 << 20;

/// Bytes that the process may use in addition to the limit and the memory of an idle process.
const BEYOND: u64 = 64 << 20;

/// Returns a field of `/proc/PID/status`, in bytes.
pub(crate) fn memory(asked: &Asked, field: &str) -> u64 {
    let status = fs::read_to_string(format!("/proc/{}/status", asked.pid())).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix(field)).unwrap();
    line.trim_matches([':', ' ', '\t', 'k', 'B']).parse::<u64>().unwrap() << 10
}

/// Checks that the maximum memory of the process was within the limit. `idle` is the memory of the idle process, in
/// bytes.
#[track_caller]
pub(crate) fn expect_within_limit(asked: &Asked, idle: u64) {
    let (peak, most) = (memory(asked, "VmHWM"), LIMIT + idle + BEYOND);
    assert!(peak <= most, "{peak} bytes of {most}, {idle} of them when idle");
}

/// Starts a flow with the memory limit [`LIMIT`].
pub(crate) fn start_limited(scene: Scene) -> Asked {
    start_with(scene, &["--memory-limit", &format!("{LIMIT}B"), "flow.yaml"], 1, |command| command)
}

/// Appends `count` lines of `length` bytes to a file.
pub(crate) fn append(file: &Path, count: usize, length: usize) {
    let mut line = vec![b'x'; length];
    line[length - 1] = b'\n';
    let mut file = fs::OpenOptions::new().append(true).open(file).unwrap();
    (0..count).for_each(|_| file.write_all(&line).unwrap());
}

/// Reads `bytes` bytes from a peer.
pub(crate) fn read_all(mut peer: TcpStream, bytes: usize) {
    peer.set_read_timeout(Some(Duration::from_mins(2))).unwrap();
    let (mut buffer, mut left) = (vec![0; 1 << 20], bytes);
    while left > 0 {
        let most = left.min(buffer.len());
        // With a timeout, the system does not continue a read that a signal has interrupted.
        let count = match peer.read(&mut buffer[..most]) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            read => read.unwrap(),
        };
        assert!(count > 0, "{left} bytes are missing");
        left -= count;
    }
}

/// The peer of the sink reads nothing until the source waits for memory, and then reads everything.
#[test]
fn memory_limit_stops_sources_until_sinks_deliver() {
    const LINES: usize = 2_000;
    const LINE: usize = 64 << 10;
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let scene = Scene::new(&format!(
        "name: flood
connectors:
  input: {{ type: file, codec: string, preprocessors: [lines], config: {{ path: in, mode: read, follow: true, poll_interval: 10ms }} }}
  alive: {{ type: metronome, config: {{ interval_ms: 3600000 }} }}
  nothing: {{ type: 'null' }}
  output:
    type: tcp_client
    codec: string
    postprocessors: [lines]
    queue: {{ max_events: 100000000, max_bytes: 1GiB }}
    config: {{ address: '127.0.0.1:{port}' }}
links: [input -> output, alive -> nothing]"
    ));
    let scene = scene.write("in", b"");
    let asked = start_limited(scene);
    let peer = accept_within(&listener, PATIENCE).unwrap();
    let idle = memory(&asked, "VmRSS");
    append(&asked.path().join("in"), LINES, LINE);

    let flows = asked.until("/v1/flows", |it| it["flows"][0]["memory"]["is_short"] == true);
    let memory_of = &flows["flows"][0]["memory"];
    assert_eq!(memory_of["limit"], LIMIT);
    assert!(memory_of["components"]["output"].as_u64().unwrap() > LIMIT / 2, "{memory_of}");
    let (_, metrics) = asked.request("GET", "/metrics");
    assert!(metrics.contains("tremor_memory_short{flow=\"flood\"} 1"), "{metrics}");

    read_all(peer, LINES * LINE);
    asked.until("/v1/flows", |it| it["flows"][0]["memory"]["is_short"] == false);
    expect_within_limit(&asked, idle);
    asked.end();
}

/// The operator buffers all events until no event has arrived for a while. Without a limit, the operator would buffer
/// the whole input.
#[test]
fn operator_that_buffers_events_stays_within_memory_limit() {
    const LINES: usize = 2_500;
    const LINE: usize = 64 << 10;
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let scene = Scene::new(&format!(
        "name: hoard
connectors:
  input: {{ type: file, codec: string, preprocessors: [lines], config: {{ path: in, mode: read, follow: true, poll_interval: 10ms }} }}
  output: {{ type: tcp_client, codec: string, postprocessors: [lines], config: {{ address: '127.0.0.1:{port}' }} }}
pipelines: {{ main: {{ operators: [hoard] }} }}
links: [input -> main, main -> output]"
    ));
    let asked = start_limited(scene.write("in", b""));
    let peer = accept_within(&listener, PATIENCE).unwrap();
    let idle = memory(&asked, "VmRSS");
    append(&asked.path().join("in"), LINES, LINE);
    read_all(peer, LINES * LINE);
    expect_within_limit(&asked, idle);
    asked.end();
}

/// Each connection sends half of a line. The other halves follow after all connections have sent the first half.
#[test]
fn half_lines_of_2000_connections_stay_within_memory_limit() {
    const SERVERS: usize = 8;
    const CONNECTIONS: usize = 2_000;
    const HALF: usize = 128 << 10;
    let descriptors = ["--pid", &process::id().to_string(), "--nofile=4096:"];
    assert!(Command::new("prlimit").args(descriptors).status().unwrap().success());
    let (mut connectors, mut links) = (String::new(), String::new());
    for server in 0..SERVERS {
        writeln!(
            connectors,
            "  in{server}: {{ type: tcp_server, codec: string, preprocessors: [lines], config: {{ listen: '127.0.0.1:0' }} }}"
        )
        .unwrap();
        write!(links, "in{server} -> out, in{server}/err -> letters, ").unwrap();
    }
    let mut asked = start_limited(Scene::new(&format!(
        "name: halves
connectors:
{connectors}  out: {{ type: 'null' }}
  letters: {{ type: file, codec: json, postprocessors: [lines], config: {{ path: letters, mode: append }} }}
links: [{links}]"
    )));
    let addresses: Vec<SocketAddr> =
        (0..SERVERS).map(|_| asked.listens().parse().unwrap()).collect();
    let idle = memory(&asked, "VmRSS");
    let half = vec![b'x'; HALF];
    let connect = |number: usize| {
        let mut connection = TcpStream::connect(addresses[number % SERVERS]).unwrap();
        connection.write_all(&half).unwrap();
        connection
    };
    let mut connections: Vec<TcpStream> = (0..CONNECTIONS).map(connect).collect();
    connections.iter_mut().for_each(|it| it.write_all(b"x\n").unwrap());
    let counts = |flows: &serde_json::Value| -> BTreeMap<String, u64> {
        let components = flows["flows"][0]["components"].as_array().unwrap();
        let sinks = components.iter().filter(|it| it["role"] == "sink");
        let count = |it: &serde_json::Value| it["events"]["delivered"].as_u64().unwrap();
        sinks.map(|it| (it["name"].as_str().unwrap().to_owned(), count(it))).collect()
    };
    let flows = asked.until("/v1/flows", |it| {
        counts(it).values().sum::<u64>() == u64::try_from(CONNECTIONS).unwrap()
    });
    expect_within_limit(&asked, idle);
    let counts = counts(&flows);
    assert!(counts["out"] > 0 && counts["letters"] > 0, "{counts:?}");
    let letters = fs::read_to_string(asked.path().join("letters")).unwrap();
    let first = letters.lines().next().unwrap();
    assert!(first.contains("cannot complete a message of ") && first.contains("memory limit"));
    asked.end();
}

/// Each sink has one delivery in flight, which its peer does not read.
#[test]
fn deliveries_in_flight_without_batch_stay_within_memory_limit() {
    const PAIRS: usize = 10;
    const LINE: usize = 8 << 20;
    let (mut connectors, mut links, mut listeners) = (String::new(), String::new(), Vec::new());
    for pair in 0..PAIRS {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        listeners.push(listener);
        writeln!(
            connectors,
            "  in{pair}: {{ type: file, codec: string, preprocessors: [{{ lines: {{ max_length: 16777216 }} }}], config: {{ path: in{pair}, mode: read, follow: true, poll_interval: 10ms }} }}
  out{pair}: {{ type: tcp_client, codec: string, postprocessors: [lines], config: {{ address: '{address}' }} }}"
        )
        .unwrap();
        write!(links, "in{pair} -> out{pair}, ").unwrap();
    }
    let scene = Scene::new(&format!("name: slow\nconnectors:\n{connectors}links: [{links}]"));
    let scene = (0..PAIRS).fold(scene, |scene, pair| scene.write(&format!("in{pair}"), b""));
    let asked = start_limited(scene);
    let peers: Vec<TcpStream> =
        listeners.iter().map(|it| accept_within(it, PATIENCE).unwrap()).collect();
    let idle = memory(&asked, "VmRSS");
    for pair in 0..PAIRS {
        append(&asked.path().join(format!("in{pair}")), 1, LINE);
        asked.until("/v1/flows", |it| {
            let flow = &it["flows"][0];
            let mut connectors = flow["connectors"].as_array().unwrap().iter();
            let own = connectors.find(|it| it["name"] == format!("out{pair}")).unwrap();
            own["in_flight"] == 1 || flow["memory"]["is_short"] == true
        });
    }
    expect_within_limit(&asked, idle);
    let flows = asked.json("GET", "/v1/flows");
    assert_eq!(flows["flows"][0]["memory"]["is_short"], true, "{flows}");
    let read = |peer| thread::spawn(move || read_all(peer, LINE));
    let reads: Vec<_> = peers.into_iter().map(read).collect();
    reads.into_iter().for_each(|read| read.join().unwrap());
    asked.end();
}

/// The sink is configured to wait an hour for a delivery that is larger than the memory limit.
#[test]
fn sink_delivers_at_once_when_its_backlog_takes_all_memory() {
    const LINES: usize = 800;
    const LINE: usize = 64 << 10;
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    // Start other components, which use shares of the memory, so that little memory remains for the sink.
    let (mut others, mut links) = (String::new(), String::new());
    for other in 0..5 {
        writeln!(
            others,
            "  tick{other}: {{ type: metronome, config: {{ interval_ms: 3600000 }} }}"
        )
        .unwrap();
        writeln!(others, "  none{other}: {{ type: 'null' }}").unwrap();
        write!(links, ", tick{other} -> none{other}").unwrap();
    }
    let scene = Scene::new(&format!(
        "name: lingers
connectors:
{others}  input: {{ type: file, codec: string, preprocessors: [lines], config: {{ path: in, mode: read, follow: true, poll_interval: 10ms }} }}
  output:
    type: tcp_client
    codec: string
    postprocessors: [lines]
    batch: {{ max_events: 1000000, max_bytes: 1GiB, linger: 1h }}
    config: {{ address: '127.0.0.1:{port}' }}
links: [input -> output{links}]"
    ));
    let arguments = ["--memory-limit", "16MiB", "flow.yaml"];
    let asked = start_with(scene.write("in", b""), &arguments, 1, |command| command);
    let mut peer = accept_within(&listener, PATIENCE).unwrap();
    append(&asked.path().join("in"), LINES, LINE);
    // The last lines wait until the flow ends, because the sink waits for more lines.
    read_all(peer.try_clone().unwrap(), LINES * LINE / 2);
    let rest = thread::spawn(move || io::copy(&mut peer, &mut io::sink()));
    asked.end();
    rest.join().unwrap().unwrap();
}

#[test]
fn invalid_memory_limit_is_rejected() {
    let scene = Scene::new("");
    for limit in ["many", "1KiB", "-1"] {
        let argument = format!("--memory-limit={limit}");
        let run = scene.tremor(&["run", "flow.yaml", &argument]);
        run.expect(2, &["expected a size of at least `16MiB`"]);
    }
}
