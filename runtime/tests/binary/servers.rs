//! Tests of the resources that network servers use: descriptors, threads and memory.

use std::{
    fs,
    io::{Read, Write},
    net::TcpStream,
    os::unix::net::UnixStream,
    path::Path,
    process::Command,
};

use crate::{
    peer::{as_frames, free_port, wait_until},
    running::Running,
    support::workspace,
    tremor::Scene,
};

trait Stream: Read + Write {}
impl<S: Read + Write> Stream for S {}

/// A server, and the protocol of its clients.
struct Server {
    running: Running,
    address: String,
    connect: fn(&Path, &str) -> Box<dyn Stream>,
    /// Encodes a line as an event. The second argument is `true` for the first event of its connection.
    says: fn(&str, bool) -> Vec<u8>,
}

impl Server {
    fn start(kind: &str, listen: &str, says: fn(&str, bool) -> Vec<u8>) -> Self {
        let framing = if ["tcp_server", "unix_server"].contains(&kind) {
            "preprocessors: [lines]"
        } else {
            ""
        };
        let flow = format!(
            "connectors:
  input:
    type: {kind}
    {framing}
    codec: string
    config: {{ listen: '{listen}' }}
  output: {{ type: stdio, codec: string, postprocessors: [lines] }}
links: [input -> output]"
        );
        let mut running = Running::of(Scene::new(&flow), &["flow.yaml"], |command| command);
        // Wait for the sink too, because it opens descriptors as well.
        let parts = ["listens on ", "component=output state=running"].map(str::to_owned);
        let lines = running.until_all(parts.into());
        let address = lines.iter().find_map(|line| line.split_once("listens on "));
        let (_, address) = address.unwrap();
        let address = address.split_whitespace().next().unwrap().trim_matches('`').to_owned();
        let connect: fn(&Path, &str) -> Box<dyn Stream> = match kind {
            "unix_server" => {
                |folder, path| Box::new(UnixStream::connect(folder.join(path)).unwrap())
            }
            _ => |_, address| Box::new(TcpStream::connect(address).unwrap()),
        };
        Self { running, address, connect, says }
    }

    fn connect(&self) -> Box<dyn Stream> {
        (self.connect)(self.running.scene.path(), &self.address)
    }

    fn end(self) {
        self.running.signal(&["TERM"]);
        self.running.end().expect(0, &[]);
    }
}

pub(crate) fn as_lines(line: &str, _: bool) -> Vec<u8> {
    format!("{line}\n").into()
}

pub(crate) fn as_requests(line: &str, _: bool) -> Vec<u8> {
    let length = line.len();
    format!("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: {length}\r\n\r\n{line}").into()
}

/// Tests a server with a limit of 64 descriptors and a hundred clients.
#[track_caller]
fn expect_waiting_clients_are_served_later(mut server: Server) {
    let limit = ["--pid", &server.running.pid().to_string(), "--nofile=64:64"];
    assert!(Command::new("prlimit").args(limit).status().unwrap().success());
    let mut clients = Vec::new();
    for number in 0..100 {
        let mut client = server.connect();
        client.write_all(&(server.says)(&format!("line {number}"), true)).unwrap();
        clients.push(Some(client));
    }
    server.running.until("connections wait to be accepted");
    // Established connections are not affected.
    let another = (server.says)("another line", false);
    clients[0].as_mut().unwrap().write_all(&another).unwrap();
    let mut lines = Vec::new();
    while !lines.iter().any(|line| line == "another line") {
        lines.push(server.running.event());
    }
    assert!(lines.len() < 100, "some wait");
    // Whenever a client disconnects, a waiting client is served.
    let mut number = 0;
    while number < lines.len() || lines.len() < 101 {
        if number == lines.len() {
            lines.push(server.running.event());
        }
        if let Some(number) = lines[number].strip_prefix("line ") {
            clients[number.parse::<usize>().unwrap()] = None;
        }
        number += 1;
    }
    lines.sort();
    lines.dedup();
    assert_eq!(lines.len(), 101);
    server.end();
}

#[test]
fn tcp_server_out_of_descriptors_serves_others_later() {
    expect_waiting_clients_are_served_later(Server::start("tcp_server", "127.0.0.1:0", as_lines));
}

#[test]
fn connections_leave_descriptors_to_other_components() {
    let mut server = Server::start("tcp_server", "127.0.0.1:0", as_lines);
    let limit = ["--pid", &server.running.pid().to_string(), "--nofile=64:64"];
    assert!(Command::new("prlimit").args(limit).status().unwrap().success());
    let clients: Vec<_> = (0..100).map(|_| server.connect()).collect();
    server.running.until("connections wait to be accepted");
    let open = fs::read_dir(format!("/proc/{}/fd", server.running.pid())).unwrap().count();
    assert!(open <= 60, "{open} descriptors of 64 are in use");
    drop(clients);
    server.end();
}

#[test]
fn unix_server_out_of_descriptors_serves_others_later() {
    expect_waiting_clients_are_served_later(Server::start("unix_server", "socket", as_lines));
}

#[test]
fn http_server_out_of_descriptors_serves_others_later() {
    let server = Server::start("http_server", "127.0.0.1:0", as_requests);
    expect_waiting_clients_are_served_later(server);
}

#[test]
fn ws_server_out_of_descriptors_serves_others_later() {
    expect_waiting_clients_are_served_later(Server::start("ws_server", "127.0.0.1:0", as_frames));
}

#[test]
fn unix_server_listens_again_after_its_socket_is_deleted() {
    let mut server = Server::start("unix_server", "socket", as_lines);
    let mut before = server.connect();
    before.write_all(b"before\n").unwrap();
    assert_eq!(server.running.event(), "before");
    fs::remove_file(server.running.scene.path().join("socket")).unwrap();
    server.running.until("was deleted or replaced; listening on a new socket there");
    server.connect().write_all(b"after\n").unwrap();
    assert_eq!(server.running.event(), "after");
    before.write_all(b"still open\n").unwrap();
    assert_eq!(server.running.event(), "still open");
    server.end();
}

/// Starts a flow of `bench/network`, which receives no events in this test.
fn resting(file: &str) -> Running {
    let flow = fs::read_to_string(workspace().join("bench/network").join(file)).unwrap();
    let port = || free_port().to_string();
    let (port, to) = (port(), port());
    Running::of(Scene::new(&flow), &["flow.yaml"], |it| it.env("PORT", port).env("TO", to))
}

fn threads(running: &Running) -> usize {
    fs::read_dir(format!("/proc/{}/task", running.pid())).unwrap().count()
}

#[test]
fn network_connectors_use_no_own_threads() {
    let mut without = resting("no-plugins.yaml");
    without.until("component=seldom state=running");
    let mut all = resting("all-plugins.yaml");
    for _ in 0..4 {
        all.until("listens on ");
    }
    // Wait, because threads that are needed only at the start end by themselves.
    wait_until(|| threads(&all) <= threads(&without) + 2);
    for running in [all, without] {
        running.signal(&["TERM"]);
        running.end().expect(0, &[]);
    }
}

/// Returns the memory of a process, in bytes.
fn memory(running: &Running) -> usize {
    let text = fs::read_to_string(format!("/proc/{}/smaps_rollup", running.pid())).unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix("Rss:")).unwrap();
    line.trim().strip_suffix("kB").unwrap().trim().parse::<usize>().unwrap() << 10
}

#[test]
fn idle_connection_has_no_buffer_of_its_own() {
    let server = Server::start("tcp_server", "127.0.0.1:0", as_lines);
    let mut clients = Vec::new();
    let mut add = |count: usize| {
        for _ in 0..count {
            let mut client = server.connect();
            client.write_all(&(server.says)(&"x".repeat(600), true)).unwrap();
            clients.push(client);
        }
        (0..count).for_each(|_| assert_eq!(server.running.event().len(), 600));
        memory(&server.running)
    };
    // After 200 connections, the memory that all connections share is allocated.
    let before = add(200);
    let after = add(400);
    let each = after.saturating_sub(before) / 400;
    // A buffer of the usual size or a task would need more than the limit.
    assert!(each < 8 << 10, "{each} bytes each");
    drop(clients);
    server.end();
}
