//! Tests of queues on disk with little memory, on a full disk, and with plugins that lose events.

use std::{
    fmt::Write as _,
    fs,
    io::{BufRead, BufReader, Write as _},
    net::{TcpListener, TcpStream},
    path::Path,
    process::{Command, Stdio},
};

use hostile_peers::{PATIENCE, acceptor::accept_within};
use serde_json::Value;

use crate::{
    api::{Asked, start, start_with},
    http::post,
    memory::{append, expect_within_limit, memory, read_all, start_limited},
    peer::free_address,
    tremor::Scene,
};

/// Length of a line, in bytes.
const LINE: usize = 64 << 10;

/// Returns a source that reads a file as it grows.
fn follows(path: &str) -> String {
    format!(
        "type: file, codec: string, preprocessors: [lines], \
         config: {{ path: {path}, mode: read, follow: true, poll_interval: 10ms }}"
    )
}

/// Returns the number of stored events, and the state of the queue of the sink `output`.
fn stored(flow: &Value) -> (u64, &str) {
    let component = |it: &&Value| it["name"] == "output" && it["role"] == "sink";
    let output = flow["components"].as_array().unwrap().iter().find(component).unwrap();
    let connectors = flow["connectors"].as_array().unwrap();
    let queue = connectors.iter().find(|it| it["name"] == "output/queue").unwrap();
    (output["stored"]["now"].as_u64().unwrap(), queue["state"].as_str().unwrap())
}

/// The queue is larger than the memory limit. It is full when the sink returns, and another sink has used up the memory,
/// so only the source of the queue can continue.
#[test]
fn full_queue_is_emptied_while_memory_is_short() {
    const LINES: usize = 1_200;
    let busy = TcpListener::bind("127.0.0.1:0").unwrap();
    let (address, busy_address) = (free_address(), busy.local_addr().unwrap());
    let [input, other] = ["in", "other"].map(follows);
    let asked = start_limited(
        Scene::new(&format!(
            "name: flow
connectors:
  input: {{ {input} }}
  output:
    type: tcp_client
    codec: string
    postprocessors: [lines]
    queue: {{ disk: {{ path: queue, max_bytes: 64MiB }} }}
    reconnect: {{ backoff: 10ms, max_backoff: 100ms }}
    config: {{ address: '{address}' }}
  other: {{ {other} }}
  busy:
    type: tcp_client
    codec: string
    postprocessors: [lines]
    queue: {{ max_events: 100000000, max_bytes: 1GiB }}
    config: {{ address: '{busy_address}' }}
links: [input -> output, other -> busy]"
        ))
        .write("in", b"")
        .write("other", b""),
    );
    let busy = accept_within(&busy, PATIENCE).unwrap();
    let idle = memory(&asked, "VmRSS");
    append(&asked.path().join("in"), LINES, LINE);
    asked.until("/v1/flows/flow", |it| stored(it).1 == "retrying");
    append(&asked.path().join("other"), LINES, LINE);
    let flow = asked.until("/v1/flows/flow", |it| it["memory"]["is_short"] == true);
    let full = usize::try_from(stored(&flow).0).unwrap();
    assert!(full * LINE > 32 << 20 && full < LINES, "{full}");

    let output = TcpListener::bind(&address).unwrap();
    let mut output = BufReader::new(accept_within(&output, PATIENCE).unwrap());
    read_lines(&mut output, full);
    let flow = asked.json("GET", "/v1/flows/flow");
    assert_eq!(flow["memory"]["is_short"], true, "{flow}");

    read_all(busy, LINES * LINE);
    read_lines(&mut output, LINES - full);
    asked.until("/v1/flows/flow", |it| stored(it).0 == 0);
    expect_within_limit(&asked, idle);
    asked.end();
}

fn read_lines(peer: &mut BufReader<TcpStream>, count: usize) -> Vec<String> {
    peer.get_ref().set_read_timeout(Some(PATIENCE)).unwrap();
    let lines = (0..count).map(|_| {
        let mut line = String::new();
        assert!(peer.read_line(&mut line).unwrap() > 0, "the connection has ended");
        line
    });
    lines.collect()
}

/// Makes a command run with a file system of `bytes` bytes in a folder, which no other process sees.
fn with_file_system<'c>(command: &'c mut Command, folder: &Path, bytes: u64) -> &'c mut Command {
    let mount = format!("mount -t tmpfs -o size={bytes} tmpfs \"$0\" && exec \"$@\"");
    let mut outer = Command::new("unshare");
    outer.args(["-rm", "sh", "-c", &mount]).arg(folder);
    outer.arg(command.get_program()).args(command.get_args());
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => outer.env(name, value),
            None => outer.env_remove(name),
        };
    }
    outer.current_dir(command.get_current_dir().unwrap());
    outer.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    *command = outer;
    command
}

/// Starts a flow whose queue has eight segments, of which three fit on its file system, and returns its lines. The sink
/// `output` has this policy, and is down at `address`. Returns `None` where no file system can be mounted.
fn start_on_full_disk(
    folder: &Path,
    address: &str,
    when_full: &str,
    rest: &str,
) -> Option<(Asked, String)> {
    const LINES: usize = 20_000;
    let mut probe = Command::new("true");
    probe.current_dir("/");
    if !with_file_system(&mut probe, folder, 1 << 20).status().is_ok_and(|it| it.success()) {
        eprintln!("SKIPPED: `unshare -rm` cannot mount a file system, so no full one is tested");
        return None;
    }
    let path = folder.display();
    let input = follows("in");
    let scene = Scene::new(&format!(
        "name: flow
connectors:
  input: {{ {input} }}
  output:
    type: tcp_client
    codec: string
    postprocessors: [lines]
    queue: {{ disk: {{ path: '{path}/queue', max_bytes: 16MiB }}, when_full: {when_full} }}
    reconnect: {{ backoff: 10ms, max_backoff: 100ms }}
    config: {{ address: '{address}' }}
{rest}"
    ));
    let scene = scene.write("in", b"");
    let asked =
        start_with(scene, &["flow.yaml"], 1, |command| with_file_system(command, folder, 13 << 19));
    let line = |number| format!("{number} {}\n", "x".repeat(1_000));
    let mut file = fs::OpenOptions::new().append(true).open(asked.path().join("in")).unwrap();
    let mut lines = String::new();
    (0..LINES).for_each(|number| lines.write_str(&line(number)).unwrap());
    file.write_all(lines.as_bytes()).unwrap();
    Some((asked, lines))
}

#[test]
fn full_file_system_stops_sources_until_the_sink_delivers() {
    let (folder, address) = (tempfile::tempdir().unwrap(), free_address());
    let links = "links: [input -> output]";
    let started = start_on_full_disk(folder.path(), &address, "block", links);
    let Some((mut asked, lines)) = started else { return };
    let flow = asked.until("/v1/flows/flow", |it| stored(it).1 == "retrying");
    let logged = asked.until_log("the queue on disk has a problem");
    assert!(logged.contains("WARN") && logged.contains("No space left on device"), "{logged}");
    let connectors = flow["connectors"].as_array().unwrap();
    let queue = connectors.iter().find(|it| it["name"] == "output/queue").unwrap();
    let error = queue["error"].as_str().unwrap();
    let path = folder.path().display();
    for part in [&format!("{path}/queue/"), "No space left on device", "check the disk"] {
        assert!(error.contains(part), "`{part}` is not in: {error}");
    }
    let output = TcpListener::bind(&address).unwrap();
    let mut output = BufReader::new(accept_within(&output, PATIENCE).unwrap());
    let delivered = read_lines(&mut output, lines.lines().count()).concat();
    assert!(delivered == lines, "each line once and in order");
    asked.until("/v1/flows/flow", |it| stored(it) == (0, "running"));
    asked.until_log("the queue on disk works again");
    asked.end();
}

#[test]
fn full_file_system_makes_new_events_dead_letters() {
    let (folder, address) = (tempfile::tempdir().unwrap(), free_address());
    let rest = "  letters: { type: file, codec: string, postprocessors: [lines], \
                config: { path: letters, mode: append } }
links: [input -> output, output/err -> letters]";
    let started = start_on_full_disk(folder.path(), &address, "dead_letter", rest);
    let Some((asked, lines)) = started else { return };
    let count = lines.lines().count();
    let letters = || fs::read_to_string(asked.path().join("letters")).unwrap_or_default();
    let flow = asked.until("/v1/flows/flow", |it| {
        usize::try_from(stored(it).0).unwrap() + letters().lines().count() == count
    });
    let kept = usize::try_from(stored(&flow).0).unwrap();
    assert!(kept > 1_000 && kept < count / 2, "{kept}");
    let output = TcpListener::bind(&address).unwrap();
    let mut output = BufReader::new(accept_within(&output, PATIENCE).unwrap());
    let delivered = read_lines(&mut output, kept).concat();
    asked.until("/v1/flows/flow", |it| stored(it) == (0, "running"));
    let numbers = |text: &str| -> Vec<usize> {
        text.lines().map(|it| it.split(' ').next().unwrap().parse().unwrap()).collect()
    };
    let delivered = numbers(&delivered);
    assert!(delivered.is_sorted(), "{delivered:?}");
    // Refused deliveries overlap, so dead letters have no order.
    let mut all = [delivered, numbers(&letters())].concat();
    all.sort_unstable();
    assert!(all.into_iter().eq(0..count), "each line once");
    asked.end();
}

/// The sink refuses the event once. The operator behind its port `err` panics while it buffers the event.
#[test]
fn event_that_a_plugin_loses_is_delivered_again_in_the_same_run() {
    let scene = Scene::new(
        "name: flow
connectors:
  input: { type: http_server, codec: json, config: { listen: '127.0.0.1:0', respond: delivered } }
  output:
    type: hostile
    codec: json
    queue: { disk: { path: queue, max_bytes: 1MiB } }
    config: { fault: deliver_reject, times: 1 }
  letters: { type: file, codec: json, postprocessors: [lines], config: { path: letters, mode: append } }
pipelines:
  loses: { operators: [hostile_operator: { fault: due_panics }] }
links: [input -> output, output/err -> loses, loses -> letters]",
    );
    let mut asked: Asked = start(scene, &["flow.yaml"]);
    let address = asked.listens();
    assert_eq!(post(&address, "{\"n\":1}").unwrap().0, 200);
    asked.until("/v1/flows/flow", |it| stored(it).0 == 0);
    let run = asked.stop("TERM");
    // The lost event counts as failed.
    run.expect(0, &["1 events in, 1 out, 1 dead-lettered, 1 failed, "]);
    assert_eq!(run.stderr.matches("DEBUG hostile: DeliverReject").count(), 1, "{}", run.stderr);
}
