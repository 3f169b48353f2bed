//! Clients and child processes, each with a hostile peer.

use std::{fs, path::PathBuf};

use tungstenite::handshake::derive_accept_key;

use super::{
    GOOD, INPUT, compressed,
    pairs::many,
    row::{self, Peer, Then},
    server::{Greet, Server},
};
use crate::peer::wait_until;

/// A hostile server of a client.
struct Attack {
    name: &'static str,
    /// Keys of the connector. `ADDRESS` stands for the address of the server.
    input: &'static str,
    greet: Greet,
    bomb: Vec<u8>,
    good: fn(usize) -> Vec<u8>,
}

impl Attack {
    fn run(self) {
        let Self { name, input, greet, bomb, good } = self;
        let address = row::free_address();
        let scene = row::scene(&input.replace("ADDRESS", &address));
        let server = Server::start(&address, greet, bomb.clone(), good);
        row::survives(name, scene, bomb.len(), |_| Box::new(server));
    }
}

const TCP: &str = "type: tcp_client, preprocessors: [decompress, lines], codec: string, \
    reconnect: { backoff: 1ms, max_backoff: 1ms }, config: { address: 'ADDRESS' }";
const HTTP: &str =
    "type: http_client, codec: string, config: { url: 'http://ADDRESS/', interval: 10ms }";
const WS: &str = "type: ws_client, codec: string, reconnect: { backoff: 1ms, max_backoff: 1ms }, \
    config: { url: 'ws://ADDRESS/' }";

#[test]
fn tcp_client_stays_within_bounds() {
    let good = |number| format!("{GOOD} {number}\n").into_bytes();
    for (name, bomb) in [
        ("tcp_client, endless line", vec![b'x'; INPUT]),
        ("tcp_client, empty lines", vec![b'\n'; INPUT]),
        ("tcp_client, zstd", compressed("zstd", &many("lines", 32 << 20), 1, b"")),
    ] {
        Attack { name, input: TCP, greet: None, bomb, good }.run();
    }
}

#[test]
fn http_client_stays_within_bounds() {
    let greet: Greet = Some(|_| Vec::new());
    let good = |number| {
        let body = format!("{GOOD} {number}");
        format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}", body.len()).into_bytes()
    };
    let answer = |headers: &str, body: &[u8]| {
        [format!("HTTP/1.1 200 OK\r\n{headers}\r\n").as_bytes(), body].concat()
    };
    let gzip = compressed("gzip", &b"x".repeat(1 << 20), 512, b"");
    let length = format!("Content-Encoding: gzip\r\nContent-Length: {}\r\n", gzip.len());
    let chunks = b"1\r\nx\r\n".repeat(160_000);
    let extension = [&b"1;"[..], &vec![b'x'; INPUT - 100]].concat();
    for (name, bomb) in [
        ("http_client, body", answer("", &vec![b'x'; INPUT - 100])),
        ("http_client, gzip", answer(&length, &gzip)),
        ("http_client, chunks of a byte", answer("Transfer-Encoding: chunked\r\n", &chunks)),
        ("http_client, chunk extension", answer("Transfer-Encoding: chunked\r\n", &extension)),
        ("http_client, large header", answer(&format!("A: {}", "x".repeat(INPUT - 100)), b"")),
        ("http_client, many headers", answer(&"a:\r\n".repeat(240_000), b"")),
        ("http_client, answers without end", b"HTTP/1.1 103 E\r\n\r\n".repeat(55_000)),
        ("http_client, status without end", vec![b'x'; INPUT]),
    ] {
        Attack { name, input: HTTP, greet, bomb, good }.run();
    }
}

#[test]
fn ws_client_stays_within_bounds() {
    let agree: Greet = Some(|request| {
        let key = request.lines().find_map(|line| line.strip_prefix("Sec-WebSocket-Key: "));
        let accept = derive_accept_key(key.unwrap().as_bytes());
        format!(
            "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
             Sec-WebSocket-Accept: {accept}\r\n\r\n"
        )
        .into()
    });
    let good = |number| {
        let text = format!("{GOOD} {number}");
        [&[0x81, u8::try_from(text.len()).unwrap()], text.as_bytes()].concat()
    };
    // Frames of a server are not masked.
    let half = [&[0x82, 127, 0, 0, 0, 0, 0, 0x3f, 0, 0][..], &vec![b'x'; INPUT - 100]].concat();
    let fragments = [&[0x01, 0][..], &[0x00, 0].repeat(490_000)].concat();
    let ping = [&[0x89, 125][..], &[0; 125]].concat();
    for (name, bomb) in [
        ("ws_client, empty messages", [0x81, 0].repeat(490_000)),
        ("ws_client, start of a message", half),
        ("ws_client, empty fragments", fragments),
        ("ws_client, pings", ping.repeat(7_000)),
    ] {
        Attack { name, input: WS, greet: agree, bomb, good }.run();
    }
    let bomb = [&b"HTTP/1.1 101 OK\r\nA: "[..], &vec![b'x'; INPUT - 100]].concat();
    Attack { name: "ws_client, handshake", input: WS, greet: agree, bomb, good }.run();
}

/// A child process, which runs a script again and again.
struct Child {
    folder: PathBuf,
    /// Command that writes the bomb, with `COUNT` for its bytes.
    bomb: &'static str,
}

impl Child {
    /// Replaces the script.
    fn say(&self, script: &str) {
        let new = self.folder.join("script.new");
        fs::write(&new, script).unwrap();
        fs::rename(new, self.folder.join("script")).unwrap();
    }
}

impl Peer for Child {
    fn attack(&mut self, then: Then) {
        let bomb = |bytes: usize| {
            format!("touch begun; {}", self.bomb.replace("COUNT", &bytes.to_string()))
        };
        let begun = self.folder.join("begun");
        // The first bomb has no file to remove.
        let _ = fs::remove_file(&begun);
        self.say(&match then {
            Then::Closes => bomb(INPUT),
            Then::Breaks => bomb(INPUT / 2) + "; kill -9 $$",
            Then::Stays => bomb(INPUT) + "; sleep 0.2",
        });
        wait_until(|| begun.exists());
    }

    fn send_good(&mut self, number: usize) {
        self.say(&format!("echo {GOOD} {number}; sleep 0.05"));
    }
}

#[test]
fn exec_stays_within_bounds() {
    let input = "type: exec, preprocessors: [lines], codec: string, \
        reconnect: { backoff: 1ms, max_backoff: 1ms }, \
        config: { command: sh, args: [-c, '. ./script'], restart: always }";
    for (name, bomb) in [
        ("exec, endless line", "head -c COUNT /dev/zero"),
        ("exec, empty lines", "head -c COUNT /dev/zero | tr '\\0' '\\n'"),
        ("exec, endless line on stderr", "head -c COUNT /dev/zero >&2"),
        ("exec, empty lines on stderr", "head -c COUNT /dev/zero | tr '\\0' '\\n' >&2"),
        ("exec, lines on stderr", "yes | head -c COUNT >&2"),
    ] {
        row::survives(name, row::scene(input), INPUT, |asked| {
            let child = Child { folder: asked.path().to_owned(), bomb };
            child.say("sleep 0.05");
            Box::new(child)
        });
    }
}
