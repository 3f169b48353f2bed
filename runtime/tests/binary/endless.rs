//! Tests that input which expands almost without end delays only its own flow.

use std::{
    io::{Read, Write},
    net::TcpStream,
};

use serde_json::Value;

use crate::{running::Running, tremor::Scene};

/// Returns zeros that are compressed twice: a few KiB, which expand to a single line of 128 GiB.
fn bomb() -> Vec<u8> {
    let frame = zstd::bulk::compress(&vec![0; 32 << 20], 1).unwrap();
    let bomb = zstd::stream::encode_all(&*frame.repeat(4096), 3).unwrap();
    assert!(bomb.len() < 64 << 10, "{}", bomb.len());
    bomb
}

/// A process with two flows and one thread. One of the flows expands a bomb, and the other one is not affected.
struct Bombed {
    run: Running,
    api: String,
    _peer: TcpStream,
}

impl Bombed {
    fn start() -> Self {
        let scene = Scene::new(
            "name: bombed
connectors:
  input:
    type: tcp_server
    preprocessors: [decompress, decompress, lines]
    codec: string
    config: { listen: '127.0.0.1:0' }
  nothing: { type: 'null' }
links: [input -> nothing]",
        );
        let scene = scene.write(
            "beside.yaml",
            b"name: beside
connectors:
  ticks: { type: metronome, config: { interval_ms: 10 } }
  output: { type: stdio, codec: json, postprocessors: [lines] }
links: [ticks -> output]",
        );
        let arguments =
            ["--api", "127.0.0.1:0", "--drain-timeout", "1", "flow.yaml", "beside.yaml"];
        let mut run = Running::of(scene, &arguments, |it| it.env("TREMOR_THREADS", "1"));
        let line = run.until("the admin API listens address=");
        let api = line.rsplit_once('=').unwrap().1.to_owned();
        let (server, _) = run.listens();
        let mut peer = TcpStream::connect(server).unwrap();
        peer.write_all(&bomb()).unwrap();
        Self { run, api, _peer: peer }
    }

    fn request(&self, method: &str, path: &str) -> (u16, String) {
        let mut connection = TcpStream::connect(&self.api).unwrap();
        let head = format!("{method} {path} HTTP/1.1\r\nhost: {}\r\n", self.api);
        write!(connection, "{head}connection: close\r\n\r\n").unwrap();
        let mut answer = String::new();
        connection.read_to_string(&mut answer).unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        (head.split(' ').nth(1).unwrap().parse().unwrap(), body.to_owned())
    }

    /// Reads events of the other flow, and checks after each event that the admin API answers.
    fn other_flow_continues(&self) {
        for _ in 0..100 {
            self.run.event();
            assert_eq!(self.request("GET", "/healthz").0, 200);
        }
    }
}

#[test]
fn endless_line_blocks_neither_other_flow_nor_signal() {
    let bombed = Bombed::start();
    bombed.other_flow_continues();
    bombed.run.signal(&["TERM"]);
    let ended = bombed.run.end();
    // The flow was stopped within the line, so the line failed.
    ended.expect(4, &["flow `bombed`", "the remainder is discarded"]);
}

#[test]
fn restart_of_connector_discards_endless_line() {
    let mut bombed = Bombed::start();
    bombed.other_flow_continues();
    let (status, body) = bombed.request("POST", "/v1/flows/bombed/connectors/input/restart");
    assert!(status < 300, "{body}");
    let (server, _) = bombed.run.listens();
    let line = zstd::bulk::compress(&zstd::bulk::compress(b"a line\n", 1).unwrap(), 1).unwrap();
    TcpStream::connect(&server).unwrap().write_all(&line).unwrap();
    let delivered = || {
        let flow = bombed.request("GET", "/v1/flows/bombed").1;
        let flow: Value = serde_json::from_str(&flow).unwrap();
        let components = flow["components"].as_array().unwrap();
        let input = components.iter().find(|it| it["name"] == "input").unwrap();
        input["events"]["delivered"].as_u64().unwrap()
    };
    let arrives = (0..3_000).any(|_| {
        bombed.run.event();
        delivered() == 1
    });
    assert!(arrives, "the line did not arrive");
}
