//! Tests of clients with hostile servers, and of child processes with hostile output.

use std::{
    fs,
    path::{Path, PathBuf},
};

use tungstenite::handshake::derive_accept_key;

use super::{
    GOOD, INPUT, compressed,
    pairs::many,
    row::{self, Peer, Target, Then},
    sample,
    server::{Behaviour, Form, Greet, Server},
    tls,
};
use crate::{peer::wait_until, tls::certificate};

/// An attack by the server of a client connector.
struct Attack<'n> {
    name: &'n str,
    /// Keys of the connector. `ADDRESS` stands for the address of the server.
    input: &'static str,
    greet: Greet,
    bomb: Vec<u8>,
    good: fn(usize) -> Vec<u8>,
}

/// Runs a sample of these attacks, or all of them with `TREMOR_BOMBS=all`.
fn run<const N: usize>(attacks: [Attack<'_>; N]) {
    let rows = attacks.map(|attack| (attack.name.to_owned(), attack));
    sample::run(rows, &[], 1, |_, attack| attack.run());
}

impl Attack<'_> {
    fn run(self) {
        let Self { name, input, greet, bomb, good } = self;
        let behaviour = Behaviour { greet, tls: None, form: Form::Whole };
        let server = Server::start(behaviour, bomb.clone(), good);
        let target = Target::source(&input.replace("ADDRESS", server.address()));
        row::survives(name, target, bomb.len(), |_| Box::new(server));
    }

    /// Attacks the connector through TLS.
    fn run_with_tls(self, form: Form) {
        let Self { name, input, greet, bomb, good } = self;
        let (certificate, key) = certificate();
        let tls = Some(tls::server(&certificate, &key));
        let server = Server::start(Behaviour { greet, tls, form }, bomb.clone(), good);
        let target = Target::source(&input.replace("ADDRESS", server.address()))
            .write("cert.pem", certificate.as_bytes());
        row::survives(name, target, bomb.len(), |_| Box::new(server));
    }
}

const TCP: &str = "type: tcp_client, preprocessors: [decompress, lines], codec: string, \
    reconnect: { backoff: 1ms, max_backoff: 1ms }, config: { address: 'ADDRESS' }";
const HTTP: &str =
    "type: http_client, codec: string, config: { url: 'http://ADDRESS/', interval: 10ms }";
const WS: &str = "type: ws_client, codec: string, reconnect: { backoff: 1ms, max_backoff: 1ms }, \
    config: { url: 'ws://ADDRESS/' }";

const TCP_TLS: &str = "type: tcp_client, preprocessors: [lines], codec: string, \
    reconnect: { backoff: 1ms, max_backoff: 1ms }, \
    config: { address: 'ADDRESS', tls: { ca_file: cert.pem, server_name: localhost } }";
const HTTP_TLS: &str = "type: http_client, codec: string, \
    config: { url: 'https://ADDRESS/', interval: 10ms, tls: { ca_file: cert.pem } }";
const WS_TLS: &str = "type: ws_client, codec: string, \
    reconnect: { backoff: 1ms, max_backoff: 1ms }, \
    config: { url: 'wss://ADDRESS/', tls: { ca_file: cert.pem } }";

/// Returns the bytes with which a server of byte streams sends the valid event `number`.
fn line(number: usize) -> Vec<u8> {
    format!("{GOOD} {number}\n").into_bytes()
}

/// Returns the response with which an HTTP server sends the valid event `number`.
fn response(number: usize) -> Vec<u8> {
    let body = format!("{GOOD} {number}");
    format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}", body.len()).into_bytes()
}

/// Returns the frame with which a WebSocket server sends the valid event `number`.
fn frame(number: usize) -> Vec<u8> {
    let text = format!("{GOOD} {number}");
    [&[0x81, u8::try_from(text.len()).unwrap()], text.as_bytes()].concat()
}

/// Returns the response that accepts a WebSocket handshake.
fn agree(request: &str) -> Vec<u8> {
    let key = request.lines().find_map(|line| line.strip_prefix("Sec-WebSocket-Key: "));
    let accept = derive_accept_key(key.unwrap().as_bytes());
    format!(
        "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
         Sec-WebSocket-Accept: {accept}\r\n\r\n"
    )
    .into()
}

#[test]
fn tcp_client_stays_within_bounds() {
    let rows = [
        ("tcp_client, endless line", vec![b'x'; INPUT]),
        ("tcp_client, empty lines", vec![b'\n'; INPUT]),
        ("tcp_client, zstd", compressed("zstd", &many("lines", 32 << 20), 1, b"")),
    ];
    run(rows.map(|(name, bomb)| Attack { name, input: TCP, greet: None, bomb, good: line }));
}

#[test]
fn http_client_stays_within_bounds() {
    let greet: Greet = Some(|_| Vec::new());
    let answer = |headers: &str, body: &[u8]| {
        [format!("HTTP/1.1 200 OK\r\n{headers}\r\n").as_bytes(), body].concat()
    };
    let gzip = compressed("gzip", &b"x".repeat(1 << 20), 512, b"");
    let length = format!("Content-Encoding: gzip\r\nContent-Length: {}\r\n", gzip.len());
    let chunks = b"1\r\nx\r\n".repeat(160_000);
    let extension = [&b"1;"[..], &vec![b'x'; INPUT - 100]].concat();
    let rows = [
        ("http_client, body", answer("", &vec![b'x'; INPUT - 100])),
        ("http_client, gzip", answer(&length, &gzip)),
        ("http_client, chunks of a byte", answer("Transfer-Encoding: chunked\r\n", &chunks)),
        ("http_client, chunk extension", answer("Transfer-Encoding: chunked\r\n", &extension)),
        ("http_client, large header", answer(&format!("A: {}", "x".repeat(INPUT - 100)), b"")),
        ("http_client, many headers", answer(&"a:\r\n".repeat(240_000), b"")),
        ("http_client, answers without end", b"HTTP/1.1 103 E\r\n\r\n".repeat(55_000)),
        ("http_client, status without end", vec![b'x'; INPUT]),
    ];
    run(rows.map(|(name, bomb)| Attack { name, input: HTTP, greet, bomb, good: response }));
}

#[test]
fn ws_client_stays_within_bounds() {
    let greet: Greet = Some(agree);
    // Frames of a server are not masked.
    let half = [&[0x82, 127, 0, 0, 0, 0, 0, 0x3f, 0, 0][..], &vec![b'x'; INPUT - 100]].concat();
    let fragments = [&[0x01, 0][..], &[0x00, 0].repeat(490_000)].concat();
    let ping = [&[0x89, 125][..], &[0; 125]].concat();
    let handshake = [&b"HTTP/1.1 101 OK\r\nA: "[..], &vec![b'x'; INPUT - 100]].concat();
    let rows = [
        ("ws_client, empty messages", [0x81, 0].repeat(490_000)),
        ("ws_client, start of a message", half),
        ("ws_client, empty fragments", fragments),
        ("ws_client, pings", ping.repeat(7_000)),
        ("ws_client, handshake", handshake),
    ];
    run(rows.map(|(name, bomb)| Attack { name, input: WS, greet, bomb, good: frame }));
}

/// A client connector: its type, its configuration, the greeting that it expects from the server, and the function that
/// returns the valid event with a given number.
type Client = (&'static str, &'static str, Greet, fn(usize) -> Vec<u8>);

#[test]
fn clients_stay_within_bounds_of_hostile_tls_servers() {
    // A handshake message that is longer than its record. Only a part of the record is sent.
    let start = [&[22, 3, 3, 0x3f, 0xff, 2, 0, 0x7f, 0xff][..], &[0; 9_000]].concat();
    let record = [&[22, 3, 3, 0x40, 0][..], &[0; 16 << 10]].concat();
    let mut endless = record.repeat(INPUT / record.len());
    endless[5..9].copy_from_slice(&[2, 0xff, 0xff, 0xff]);
    let clients: [Client; 3] = [
        ("tcp_client", TCP_TLS, None, line),
        ("http_client", HTTP_TLS, Some(|_| Vec::new()), response),
        ("ws_client", WS_TLS, Some(agree), frame),
    ];
    let bombs = [
        ("no handshake", Vec::new(), Form::Handshake),
        ("start of a handshake", start, Form::Handshake),
        ("endless handshake", endless, Form::Handshake),
        ("half a record", vec![b'x'; tls::RECORD], Form::HalfRecord),
    ];
    let rows = clients.iter().flat_map(|(client, input, greet, good)| {
        bombs.iter().map(move |(what, bomb, form)| {
            let attack = Attack { name: "", input, greet: *greet, bomb: bomb.clone(), good: *good };
            (format!("{client} with TLS, {what}"), (attack, *form))
        })
    });
    sample::run(rows, &[], 1, |name, (attack, form)| {
        Attack { name, ..attack }.run_with_tls(form);
    });
}

/// A child process that repeatedly runs a script.
pub(super) struct Child {
    folder: PathBuf,
    /// Command that writes the bomb. `COUNT` stands for the number of bytes.
    bomb: &'static str,
    /// Script that writes a valid event. `NUMBER` stands for the number of the event.
    good: &'static str,
}

impl Child {
    pub(super) fn start(folder: &Path, bomb: &'static str, good: &'static str) -> Self {
        let child = Self { folder: folder.to_owned(), bomb, good };
        child.set_script("sleep 0.05");
        child
    }

    /// Replaces the script that the child process runs.
    fn set_script(&self, script: &str) {
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
        // Ignore the error: the file does not exist before the first bomb.
        let _ = fs::remove_file(&begun);
        self.set_script(&match then {
            Then::Closes => bomb(INPUT),
            Then::Breaks => bomb(INPUT / 2) + "; kill -9 $$",
            Then::Stays => bomb(INPUT) + "; sleep 0.2",
        });
        wait_until(|| begun.exists());
    }

    fn send_good(&mut self, number: usize) {
        self.set_script(&self.good.replace("NUMBER", &number.to_string()));
    }
}

/// Names of bombs, and the commands with which a child process writes them. `COUNT` stands for the number of bytes.
pub(super) const WRITTEN: [(&str, &str); 5] = [
    ("endless line", "head -c COUNT /dev/zero"),
    ("empty lines", "head -c COUNT /dev/zero | tr '\\0' '\\n'"),
    ("endless line on stderr", "head -c COUNT /dev/zero >&2"),
    ("empty lines on stderr", "head -c COUNT /dev/zero | tr '\\0' '\\n' >&2"),
    ("lines on stderr", "yes | head -c COUNT >&2"),
];

#[test]
fn exec_stays_within_bounds() {
    let input = "type: exec, preprocessors: [lines], codec: string, \
        reconnect: { backoff: 1ms, max_backoff: 1ms }, \
        config: { command: sh, args: [-c, '. ./script'], restart: always }";
    let rows = WRITTEN.map(|(what, bomb)| (format!("exec, {what}"), bomb));
    sample::run(rows, &[], 1, |name, bomb| {
        row::survives(name, Target::source(input), INPUT, |asked| {
            Box::new(Child::start(asked.path(), bomb, "echo a good event NUMBER; sleep 0.05"))
        });
    });
}
