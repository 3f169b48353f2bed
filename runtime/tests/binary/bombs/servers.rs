//! Tests of servers with hostile clients.

use hostile_peers::Reserved;
use rustix::process::{Resource, getrlimit};

use super::{
    GOOD, INPUT, MOST,
    client::{Client, Server},
    compressed,
    pairs::many,
    row::{self, Target},
    sample, tls,
};
use crate::{peer::as_frames, servers::as_requests, tls::certificate};

/// An attack by clients of a server connector.
struct Attack<'a> {
    name: &'a str,
    /// Keys of the connector. `ADDRESS` stands for the address of the server.
    input: &'a str,
    /// Bytes that are sent first on each connection.
    opening: Vec<u8>,
    /// Bytes that are sent on each connection, or in each datagram.
    bombs: Vec<Vec<u8>>,
    /// `true` if the client performs the TLS handshake, and then sends half of a TLS record that contains the bomb.
    halves: bool,
    /// Returns the bytes with which a client sends the valid event with a number. Such an event has to arrive after
    /// each attack.
    good: fn(usize) -> Vec<u8>,
}

/// Runs the attacks in `always` and a sample of the others, or all of them with `TREMOR_BOMBS=all`.
fn run<'a>(attacks: impl IntoIterator<Item = Attack<'a>>, always: &[&str]) {
    let rows = attacks.into_iter().map(|attack| (attack.name.to_owned(), attack));
    sample::run(rows, always, 1, |_, attack| attack.run_within(MOST));
}

impl Attack<'_> {
    /// Runs the attack on a process that may use `most` bytes of memory.
    fn run_within(self, most: u64) {
        let Self { name, input, opening, bombs, halves, good } = self;
        let is_udp = input.contains("udp_server");
        let port = if is_udp { Reserved::udp() } else { Reserved::tcp() }.unwrap();
        let (certificate, key) = certificate();
        let target = Target::source(&input.replace("ADDRESS", &port.address()))
            .write("cert.pem", certificate.as_bytes())
            .write("key.pem", key.as_bytes());
        let bytes = bombs.iter().map(Vec::len).sum();
        row::survives_within(most, name, target, bytes, |asked| {
            let server = if input.contains("unix_server") {
                Server::Unix(asked.path().join("socket"))
            } else if is_udp {
                Server::Udp(port)
            } else if input.contains("cert.pem") {
                Server::Tls(port, certificate)
            } else {
                Server::Tcp(port)
            };
            let open = Vec::new();
            let good = Box::new(good);
            Box::new(Client { server, opening, bombs, halves, good, ends: false, open })
        });
    }
}

fn line(number: usize) -> Vec<u8> {
    format!("{GOOD} {number}\n").into()
}

fn datagram(number: usize) -> Vec<u8> {
    format!("{GOOD} {number}").into()
}

fn request(number: usize) -> Vec<u8> {
    as_requests(&format!("{GOOD} {number}"), true)
}

fn frame(number: usize) -> Vec<u8> {
    as_frames(&format!("{GOOD} {number}"), false)
}

/// Returns the WebSocket handshake.
fn upgrade() -> Vec<u8> {
    let (both, frame) = (as_frames("", true), as_frames("", false));
    both[..both.len() - frame.len()].to_vec()
}

/// Returns an HTTP request with these further headers.
fn post(headers: &str, body: &[u8]) -> Vec<u8> {
    [format!("POST / HTTP/1.1\r\nHost: a\r\n{headers}\r\n").as_bytes(), body].concat()
}

const TCP: &str =
    "type: tcp_server, preprocessors: [lines], codec: string, config: { listen: 'ADDRESS' }";
const TCP_DECOMPRESS: &str = "type: tcp_server, preprocessors: [decompress, lines], codec: string, \
    config: { listen: 'ADDRESS' }";
const OCTET_COUNTING: &str = "type: tcp_server, preprocessors: [{ length-prefixed: { prefix: decimal } }], \
    codec: string, config: { listen: 'ADDRESS' }";
const UNIX: &str = "type: unix_server, preprocessors: [decompress, lines], codec: string, \
    config: { listen: socket }";
const UDP: &str =
    "type: udp_server, codec: string, config: { listen: 'ADDRESS', reuse_port: true }";
const UDP_DECOMPRESS: &str = "type: udp_server, preprocessors: [decompress], codec: string, \
    config: { listen: 'ADDRESS', reuse_port: true }";
const HTTP: &str = "type: http_server, preprocessors: [lines], codec: string, \
    config: { listen: 'ADDRESS', headers: [large] }";
const TLS: &str = ", tls: { cert_file: cert.pem, key_file: key.pem }";
const WS: &str = "type: ws_server, codec: string, config: { listen: 'ADDRESS' }";

#[test]
fn servers_of_streams_stay_within_bounds() {
    let expands = compressed("zstd", &many("lines", 32 << 20), 1, b"");
    let attack = |name, input, bombs, good| Attack {
        name,
        input,
        opening: Vec::new(),
        bombs,
        halves: false,
        good,
    };
    let octets = |number| {
        let text = format!("{GOOD} {number}");
        format!("{} {text}", text.len()).into_bytes()
    };
    let attacks = [
        attack("tcp, long lines of many", TCP, vec![vec![b'x'; INPUT / 100]; 100], line),
        attack("tcp, empty lines", TCP, vec![vec![b'\n'; INPUT]], line),
        attack("tcp, zstd", TCP_DECOMPRESS, vec![expands.clone(); 2], line),
        attack("tcp, starts of zstd", TCP_DECOMPRESS, vec![expands[..20].to_vec(); 300], line),
        attack("syslog, empty", OCTET_COUNTING, vec![b"1 x".repeat(INPUT / 3)], octets),
        attack("syslog, too long", OCTET_COUNTING, vec![b"999999999 x".to_vec(); 300], octets),
        attack("unix, zstd", UNIX, vec![expands.clone(); 2], line),
    ];
    run(attacks, &[]);
}

#[test]
fn server_of_datagrams_stays_within_bounds() {
    let expands = compressed("zstd", &b"x".repeat(1 << 20), 4, b"");
    let rows = [
        ("udp, empty", UDP, vec![Vec::new(); 20_000]),
        ("udp, large", UDP, vec![vec![b'x'; 65_507]; 15]),
        ("udp, zstd", UDP_DECOMPRESS, vec![expands; 100]),
    ];
    let attacks = rows.map(|(name, input, bombs)| {
        let (opening, halves) = (Vec::new(), false);
        Attack { name, input, opening, bombs, halves, good: datagram }
    });
    run(attacks, &[]);
}

#[test]
fn http_server_stays_within_bounds() {
    let expands = compressed("gzip", &many("lines", 7 << 20), 1, b"");
    let length = format!("Content-Encoding: gzip\r\nContent-Length: {}\r\n", expands.len());
    let large = format!("Large: {}\r\nContent-Length: 0\r\n", "x".repeat(9_000));
    let chunks = b"1\r\n\n\r\n".repeat(150_000);
    let rows = [
        ("http, gzip", vec![post(&length, &expands); 5]),
        ("http, chunks of a byte", vec![post("Transfer-Encoding: chunked\r\n", &chunks)]),
        ("http, large headers", vec![post(&large, b"").repeat(10); 10]),
        ("http, many headers", vec![post(&"a:\r\n".repeat(240_000), b"")]),
        ("http, empty requests", vec![post("Content-Length: 0\r\n", b"").repeat(5_000); 3]),
        ("http, starts of bodies", vec![post("Content-Length: 8000000\r\n", &[b'x'; 2_000]); 300]),
    ];
    let attacks = rows.map(|(name, bombs)| {
        let (opening, halves) = (Vec::new(), false);
        Attack { name, input: HTTP, opening, bombs, halves, good: request }
    });
    run(attacks, &[]);
}

#[test]
fn ws_server_stays_within_bounds() {
    // Frames of a client are masked, here with zeros.
    let half = [&[0x82, 0xff, 0, 0, 0, 0, 0, 0x3f, 0, 0, 0, 0, 0, 0][..], &[b'x'; 9_000]].concat();
    let fragments = [&[0x01, 0x80, 0, 0, 0, 0][..], &[0x00, 0x80, 0, 0, 0, 0].repeat(150_000)];
    let ping = [&[0x89, 0xfd, 0, 0, 0, 0][..], &[0; 125]].concat();
    let rows = [
        ("ws, empty messages", vec![[0x81, 0x80, 0, 0, 0, 0].repeat(160_000)]),
        ("ws, starts of messages", vec![half; 100]),
        ("ws, empty fragments", vec![fragments.concat()]),
        ("ws, pings", vec![ping.repeat(7_000)]),
    ];
    let attacks = rows.map(|(name, bombs)| {
        let (opening, halves) = (upgrade(), false);
        Attack { name, input: WS, opening, bombs, halves, good: frame }
    });
    let large = Attack {
        name: "ws, large handshake",
        input: WS,
        opening: Vec::new(),
        bombs: vec![vec![b'x'; INPUT]],
        halves: false,
        good: |number| [upgrade(), frame(number)].concat(),
    };
    run(attacks.into_iter().chain([large]), &["ws, starts of messages"]);
}

/// Memory of a process without connections, in bytes.
const IDLE: u64 = 40 << 20;

/// Function that returns the valid event with a number.
type Good = fn(usize) -> Vec<u8>;

/// The attack opens a fraction of the connections that a server accepts by default. The process may use the same
/// fraction of the memory limit, in addition to the memory without connections.
#[test]
fn memory_of_slow_connections_is_bounded() {
    let first = |number| [upgrade(), frame(number)].concat();
    // The beginning of a handshake, of which only a part of the first record is sent.
    let hello = [&[22, 3, 1, 0x3f, 0xff, 1, 0, 0x3f, 0xfb, 3, 3][..], &[0; 100]].concat();
    let attacks: [(_, _, _, Vec<u8>, Good); 8] = [
        ("tcp_server, half lines", "tcp_server", "", vec![b'x'; 100], line),
        ("http_server, half heads", "http_server", "", post("", b"")[..20].to_vec(), request),
        ("http_server, idle", "http_server", "", post("Content-Length: 0\r\n", b""), request),
        ("ws_server, half handshakes", "ws_server", "", upgrade()[..100].to_vec(), first),
        ("ws_server, idle", "ws_server", "", upgrade(), first),
        ("tcp_server with TLS, half hellos", "tcp_server", TLS, hello.clone(), line),
        ("http_server with TLS, half hellos", "http_server", TLS, hello.clone(), request),
        ("ws_server with TLS, half hellos", "ws_server", TLS, hello, first),
    ];
    // The test and the tested process need a descriptor for each connection.
    let limit = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    let most_connections = usize::try_from(limit / 2).unwrap_or(usize::MAX);
    let rows = attacks
        .map(|(name, connector, tls, bomb, good)| (name.to_owned(), (connector, tls, bomb, good)));
    // Run these always, because hyper's buffers and the future of a connection once took more memory than permitted.
    let always = ["http_server, idle", "ws_server, half handshakes"];
    sample::run(rows, &always, 1, |name, (connector, tls, bomb, good)| {
        let default = if connector == "http_server" { 5_000 } else { 10_000 };
        let count = most_connections.min(default / 5);
        let most = IDLE + (MOST - IDLE) * count as u64 / default as u64;
        let preprocessors = if connector == "tcp_server" { "lines" } else { "" };
        let input = &format!(
            "type: {connector}, preprocessors: [{preprocessors}], codec: string,
    config: {{ listen: 'ADDRESS', max_connections: {count}{tls} }}"
        );
        let (opening, halves, bombs) = (Vec::new(), false, vec![bomb; count]);
        Attack { name, input, opening, bombs, halves, good }.run_within(most);
    });
}

#[test]
fn half_records_stay_within_bounds() {
    let rows: [(_, _, Good); 3] = [
        ("tcp_server", Vec::new(), line),
        ("http_server", Vec::new(), request),
        ("ws_server", upgrade(), frame),
    ];
    let rows = rows.map(|row| (format!("{}, half records", row.0), row));
    sample::run(rows, &[], 1, |name, (connector, opening, good)| {
        let preprocessors = if connector == "tcp_server" { "lines" } else { "" };
        let input = &format!(
            "type: {connector}, preprocessors: [{preprocessors}], codec: string,
    config: {{ listen: 'ADDRESS'{TLS} }}"
        );
        let bombs = vec![vec![b'x'; tls::RECORD]; INPUT / tls::RECORD];
        Attack { name, input, opening, bombs, halves: true, good }.run_within(MOST);
    });
}
