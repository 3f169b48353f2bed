//! Tests of network connectors against each other, with real sockets.

use std::{
    fs,
    io::Write,
    net::{Shutdown, TcpStream, UdpSocket},
    time::Instant,
};

use crate::{
    api::{Asked, LONG, start},
    peer::{free_address, wait_until},
    running::Running,
    support::workspace,
    tremor::Scene,
};

/// Returns a flow of the folder `examples` with the plugin folder of these tests.
pub(crate) fn example_flow(name: &str) -> String {
    let text = fs::read_to_string(workspace().join("examples").join(name)).unwrap();
    text.lines().filter(|line| !line.starts_with("plugins:")).flat_map(|it| [it, "\n"]).collect()
}

/// Runs a flow of the folder `examples` to its end, with a free address instead of `address`, and returns the lines of
/// its output.
pub(crate) fn example(name: &str, address: &str, files: &[&str]) -> Vec<String> {
    let folder = workspace().join("examples");
    let mut scene = Scene::new(&example_flow(name));
    for file in files {
        scene = scene.write(file, &fs::read(folder.join(file)).unwrap());
    }
    let run = Running::of(scene, &["flow.yaml"], |command| command.env("ADDRESS", address)).end();
    run.expect(0, &[]);
    run.stdout.lines().map(str::to_owned).collect()
}

/// Checks that `lines` are the events of `examples/logs.json`, each once and in order.
#[track_caller]
pub(crate) fn are_the_logs(received: &[String]) {
    let sent = fs::read_to_string(workspace().join("examples/logs.json")).unwrap();
    assert_eq!(received.len(), sent.lines().count());
    let guid = |line: &str| {
        let value: serde_json::Value = serde_json::from_str(line).unwrap();
        value["guid"].clone()
    };
    assert!(received.iter().map(|it| guid(it)).eq(sent.lines().map(guid)));
}

#[test]
fn tcp_example_delivers_every_event_once_in_order() {
    let free = free_address();
    let received = example("tcp.yaml", &free, &["logs.json"]);
    are_the_logs(&received);
}

#[test]
fn udp_example_delivers_datagrams() {
    let free = free_address();
    let received = example("udp.yaml", &free, &[]);
    assert!(received.len() >= 5, "{received:?}");
    assert!(received.iter().all(|line| line.contains("\"metronome\":\"ticks\"")), "{received:?}");
}

#[test]
fn websocket_example_delivers_every_event_once_in_order() {
    let free = free_address();
    let received = example("websocket.yaml", &free, &["logs.json"]);
    are_the_logs(&received);
}

const SERVER: &str = "connectors:
  input:
    type: tcp_server
    preprocessors: [lines]
    codec: string
    config: { listen: '127.0.0.1:0' }
  output: { type: stdio, codec: string, postprocessors: [lines] }
  dead: { type: file, codec: json, postprocessors: [lines], config: { path: dead, mode: write } }
links: [input -> output, input/err -> dead]";

/// Starts a server, and returns its address.
fn server() -> (Running, String) {
    let mut server = Running::of(Scene::new(SERVER), &["flow.yaml"], |command| command);
    let (address, _) = server.listens();
    (server, address)
}

#[test]
fn many_clients_are_served_and_reset_leaves_no_event() {
    let (server, address) = server();
    let mut clients: Vec<_> = (0..50).map(|_| TcpStream::connect(&address).unwrap()).collect();
    for (number, client) in clients.iter_mut().enumerate() {
        write!(client, "whole {number}\nhalf").unwrap();
    }
    let mut lines: Vec<_> = (0..50).map(|_| server.event()).collect();
    // The first client closes its connection regularly, so its incomplete line counts as a line.
    clients[0].shutdown(Shutdown::Write).unwrap();
    lines.push(server.event());
    assert_eq!(lines.iter().filter(|line| line.starts_with("whole ")).count(), 50);
    assert_eq!(lines.last().map(String::as_str), Some("half"));
    server.signal(&["TERM"]);
    let run = server.end();
    run.expect(0, &[]);
    assert_eq!(run.stdout, "", "half a line is not an event");
}

#[test]
fn datagrams_dropped_during_a_pause_are_counted_and_reported() {
    // More than the buffer of the socket holds, and less than the queue of the network before it.
    const SENT: u64 = 640;
    let scene = Scene::new(
        "connectors:
  input:
    type: udp_server
    codec: string
    config: { listen: '127.0.0.1:0', receive_buffer: 64KiB }
  output: { type: stdio, codec: string, postprocessors: [lines] }
links: [input -> output]",
    );
    let mut asked = start(scene, &["flow.yaml"]);
    let address = asked.listens();
    let path = "/v1/flows/flow/connectors/input";
    asked.json("POST", &format!("{path}/pause"));
    asked.until(path, |it| it["state"] == "paused");
    let sender = UdpSocket::bind("127.0.0.1:0").unwrap();
    for _ in 0..SENT {
        sender.send_to(&[b'x'; 1_000], &address).unwrap();
    }
    let name =
        "tremor_plugin_udp_server_datagrams_dropped_total{flow=\"flow\",component=\"input\"} ";
    let dropped = |asked: &Asked| {
        let (_, metrics) = asked.request("GET", "/metrics");
        let count = metrics.lines().find_map(|line| line.strip_prefix(name));
        count.unwrap().parse::<u64>().unwrap()
    };
    let line = asked.until_log("the system dropped ");
    assert!(line.contains(&format!(" datagrams for {address}")), "{line}");
    wait_until(|| dropped(&asked) > SENT / 2);
    asked.json("POST", &format!("{path}/resume"));
    let mut received = 0;
    while received + dropped(&asked) < SENT {
        asked.event_until(Instant::now() + LONG).unwrap();
        received += 1;
    }
    asked.end();
}
