//! Connectors of the network, at both ends of a real socket.

use std::{
    fs,
    io::Write,
    net::{Shutdown, TcpListener, TcpStream, UdpSocket},
};

use crate::{running::Running, support::workspace, tremor::Scene};

/// A flow of the folder `examples`, with plugins from where the test has them.
pub(crate) fn example_flow(name: &str) -> String {
    let text = fs::read_to_string(workspace().join("examples").join(name)).unwrap();
    text.lines().filter(|line| !line.starts_with("plugins:")).flat_map(|it| [it, "\n"]).collect()
}

/// A flow of the folder `examples`, with an address that is free, run to its end.
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

/// Whether these are the events of `examples/logs.json`, each once and in order.
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
fn the_example_of_tcp_brings_every_event_once_and_in_order() {
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
    let received = example("tcp.yaml", &free, &["logs.json"]);
    are_the_logs(&received);
}

#[test]
fn the_example_of_udp_brings_datagrams() {
    let free = UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
    let received = example("udp.yaml", &free, &[]);
    assert!(received.len() >= 5, "{received:?}");
    assert!(received.iter().all(|line| line.contains("\"metronome\":\"ticks\"")), "{received:?}");
}

#[test]
fn the_example_of_a_websocket_brings_every_event_once_and_in_order() {
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
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

/// A server that runs, and its address.
fn server() -> (Running, String) {
    let mut server = Running::of(Scene::new(SERVER), &["flow.yaml"], |command| command);
    let (address, _) = server.listens();
    (server, address)
}

#[test]
fn many_clients_are_served_and_a_reset_leaves_no_half_line() {
    let (server, address) = server();
    let mut clients: Vec<_> = (0..50).map(|_| TcpStream::connect(&address).unwrap()).collect();
    for (number, client) in clients.iter_mut().enumerate() {
        write!(client, "whole {number}\nhalf").unwrap();
    }
    let mut lines: Vec<_> = (0..50).map(|_| server.event()).collect();
    // One of them ends as it should: what is left is a line.
    clients[0].shutdown(Shutdown::Write).unwrap();
    lines.push(server.event());
    assert_eq!(lines.iter().filter(|line| line.starts_with("whole ")).count(), 50);
    assert_eq!(lines.last().map(String::as_str), Some("half"));
    server.signal(&["TERM"]);
    let run = server.end();
    run.expect(0, &[]);
    assert_eq!(run.stdout, "", "half a line is no event");
}
