//! Tests of peers that violate the protocol of a server. Each peer gets a response with the reason or loses its
//! connection, and is counted. Well-behaved peers are served without interruption.
//!
//! The tests of each connector have more cases. Exhausted descriptors are tested in `servers`, TLS in `tls`.

use std::{
    io::{Read, Write},
    net::{TcpStream, UdpSocket},
    thread,
};

use hostile_peers::connection::reset;

use crate::{
    peer::as_frames,
    running::Running,
    servers::{as_lines, as_requests},
    tremor::Scene,
};

const SERVERS: &str = "connectors:
  lines:
    type: tcp_server
    preprocessors: [lines]
    codec: string
    config: { listen: '127.0.0.1:0' }
  requests: { type: http_server, codec: string, config: { listen: '127.0.0.1:0' } }
  frames: { type: ws_server, codec: string, config: { listen: '127.0.0.1:0', max_message_bytes: 1000 } }
  datagrams: { type: udp_server, codec: string, config: { listen: '127.0.0.1:0' } }
  # The peers of these two servers are slow on purpose, and none of them is served.
  slow-lines: { type: tcp_server, codec: string, config: { listen: '127.0.0.1:0', idle_timeout: 200ms } }
  slow-requests:
    type: http_server
    codec: string
    config: { listen: '127.0.0.1:0', header_timeout: 200ms, body_timeout: 200ms, idle_timeout: 3s }
  output: { type: stdio, codec: string, postprocessors: [lines] }
  dead: { type: file, codec: json, postprocessors: [lines], config: { path: dead, mode: write } }
links: [lines -> output, requests -> output, frames -> output, datagrams -> output,
  slow-lines -> output, slow-requests -> output,
  lines/err -> dead, requests/err -> dead, frames/err -> dead, datagrams/err -> dead, slow-lines/err -> dead]";

const NAMES: [&str; 6] =
    ["lines", "requests", "frames", "datagrams", "slow-lines", "slow-requests"];

/// The servers, with a well-behaved peer for each of three of them.
struct Servers {
    run: Running,
    api: String,
    addresses: [String; 6],
    good: [TcpStream; 3],
    /// Number of messages that each of the well-behaved peers has sent.
    spoken: usize,
}

impl Servers {
    fn start() -> Self {
        let arguments = ["--api", "127.0.0.1:0", "flow.yaml"];
        let mut run = Running::of(Scene::new(SERVERS), &arguments, |command| command);
        let line = run.until("the admin API listens address=");
        let api = line.rsplit_once('=').unwrap().1.to_owned();
        let mut addresses = [const { String::new() }; 6];
        for _ in NAMES {
            let (address, fields) = run.listens();
            let component = fields.split("component=").nth(1).unwrap();
            let component = component.split_whitespace().next().unwrap().trim_matches('"');
            let index = NAMES.iter().position(|name| *name == component).unwrap();
            addresses[index] = address;
        }
        let good = [0, 1, 2].map(|index: usize| TcpStream::connect(&addresses[index]).unwrap());
        let mut servers = Self { run, api, addresses, good, spoken: 0 };
        servers.expect_service();
        servers
    }

    fn address(&self, name: &str) -> &str {
        &self.addresses[NAMES.iter().position(|it| *it == name).unwrap()]
    }

    /// Connects a peer and sends `bytes`. The server may reject the peer meanwhile.
    fn peer(&self, name: &str, bytes: &[u8]) -> TcpStream {
        let mut peer = TcpStream::connect(self.address(name)).unwrap();
        let _ = peer.write_all(bytes);
        peer
    }

    /// Sends `bytes` from a new peer, and returns everything that it receives until its connection ends.
    fn answer(&self, name: &str, bytes: &[u8]) -> Vec<u8> {
        let mut peer = TcpStream::connect(self.address(name)).unwrap();
        let mut reader = peer.try_clone().unwrap();
        let reads = thread::spawn(move || {
            let mut answer = Vec::new();
            // A reset ends the connection too.
            let _ = reader.read_to_end(&mut answer);
            answer
        });
        let _ = peer.write_all(bytes);
        let _ = peer.shutdown(std::net::Shutdown::Write);
        reads.join().unwrap()
    }

    /// Checks that the well-behaved peers are still served on their connections, and that other peers have caused no
    /// events.
    #[track_caller]
    fn expect_service(&mut self) {
        let is_first = self.spoken == 0;
        self.spoken += 1;
        for (index, says) in [as_lines, as_requests, as_frames].into_iter().enumerate() {
            let line = format!("good {} of {}", self.spoken, NAMES[index]);
            self.good[index].write_all(&says(&line, is_first)).unwrap();
            assert_eq!(self.run.event(), line);
        }
    }

    /// Returns the value of a component's counter.
    fn count(&self, component: &str, name: &str) -> u64 {
        let mut api = TcpStream::connect(&self.api).unwrap();
        let head =
            format!("GET /metrics HTTP/1.1\r\nhost: {}\r\nconnection: close\r\n\r\n", self.api);
        api.write_all(head.as_bytes()).unwrap();
        let mut text = String::new();
        api.read_to_string(&mut text).unwrap();
        let label = format!("component=\"{component}\"");
        let is_it = |line: &&str| line.contains(name) && line.contains(&label);
        let lines = text.lines().filter(|line| !line.starts_with('#')).filter(is_it);
        let values = lines.map(|line| line.rsplit(' ').next().unwrap().parse::<u64>().unwrap());
        values.sum()
    }

    /// Waits until a component's counter has reached `count`.
    fn until(&self, component: &str, name: &str, count: u64) {
        crate::peer::wait_until(|| self.count(component, name) >= count);
    }

    fn end(mut self) {
        self.expect_service();
        self.run.signal(&["TERM"]);
        let run = self.run.end();
        run.expect(0, &[]);
        assert_eq!(run.stdout, "", "there are no other events");
    }
}

#[test]
fn reset_at_any_byte_of_a_message_leaves_no_event() {
    let mut servers = Servers::start();
    let says: [fn(&str, bool) -> Vec<u8>; 3] = [as_lines, as_requests, as_frames];
    for (name, says) in NAMES.into_iter().zip(says) {
        let whole = says("never whole", true);
        for count in 0..whole.len() {
            let peer = servers.peer(name, &whole[..count]);
            reset(&peer).unwrap();
        }
        servers.expect_service();
        // Wait until only the well-behaved peer is connected.
        crate::peer::wait_until(|| servers.count(name, "_connections{") == 1);
    }
    assert!(servers.count("lines", "connections_aborted") > 0);
    servers.end();
}

#[test]
fn silent_peers_are_probed_with_keep_alive() {
    let servers = Servers::start();
    for good in &servers.good {
        let port = |address: std::net::SocketAddr| format!("{:04X}", address.port());
        let (ours, theirs) = (port(good.local_addr().unwrap()), port(good.peer_addr().unwrap()));
        // Search for a socket of the server whose timer is 2: a keep-alive timer, and not a retransmission timer.
        let is_asked = |line: &str| {
            let fields: Vec<_> = line.split_whitespace().collect();
            fields.len() > 5
                && fields[1].ends_with(&format!(":{theirs}"))
                && fields[2].ends_with(&format!(":{ours}"))
                && fields[5].starts_with("02:")
        };
        crate::peer::wait_until(|| {
            std::fs::read_to_string("/proc/net/tcp").unwrap().lines().any(is_asked)
        });
    }
    servers.end();
}

#[test]
fn silent_and_stalled_peers_are_closed_and_counted() {
    let mut servers = Servers::start();
    let silent = |name: &str, begins: &[u8]| servers.peer(name, begins);
    let halves = [
        silent("slow-lines", b""),
        silent("slow-lines", b"half a line"),
        silent("slow-requests", b""),
        silent("slow-requests", b"POST / HTTP/1.1\r\nHost: a\r\nX-Slow"),
        silent("slow-requests", b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\nhalf"),
    ];
    let answers = halves.map(|mut peer| {
        let mut answer = String::new();
        let _ = peer.read_to_string(&mut answer);
        answer
    });
    for (answer, status) in answers.iter().zip(["", "", "", "HTTP/1.1 408 ", "HTTP/1.1 408 "]) {
        assert!(
            answer.starts_with(status) && answer.is_empty() == status.is_empty(),
            "{answers:?}"
        );
    }
    servers.until("slow-lines", "connections_idle", 2);
    servers.until("slow-requests", "requests_408", 2);
    servers.expect_service();
    servers.end();
}

#[test]
fn slow_loris_is_rejected_in_time() {
    let mut servers = Servers::start();
    let mut peers: Vec<_> =
        (0..20).map(|_| servers.peer("slow-requests", b"POST / HTTP/1.1\r\nHost: a\r\n")).collect();
    // Each peer sends a request head one byte at a time, until it is rejected.
    let dripping = thread::spawn(move || {
        let mut answers = Vec::new();
        while let Some(mut peer) = peers.pop() {
            peer.set_read_timeout(Some(std::time::Duration::from_millis(5))).unwrap();
            let mut answer = Vec::new();
            loop {
                let mut space = [0; 1024];
                match peer.read(&mut space) {
                    Ok(0) => break,
                    Ok(count) => answer.extend_from_slice(&space[..count]),
                    Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {
                        let _ = peer.write_all(b"a");
                    }
                    Err(_) => break,
                }
            }
            answers.push(String::from_utf8_lossy(&answer).into_owned());
        }
        answers
    });
    servers.expect_service();
    let answers = dripping.join().unwrap();
    assert!(
        answers.iter().all(|it| it.is_empty() || it.starts_with("HTTP/1.1 408 ")),
        "{answers:?}"
    );
    servers.until("slow-requests", "requests_408", 20);
    servers.end();
}

#[test]
fn head_of_100_mib_is_rejected_unread() {
    let mut servers = Servers::start();
    let long = vec![b'a'; 100 << 20];
    for (name, begins) in [
        ("requests", "POST / HTTP/1.1\r\nHost: a\r\nA: "),
        ("requests", "POST /"),
        ("frames", "GET / HTTP/1.1\r\nHost: a\r\nA: "),
    ] {
        let answer = servers.answer(name, &[begins.as_bytes(), &long].concat());
        // The connection may be reset before the response is read, because the server has not read all input.
        let is_refused =
            [&b"HTTP/1.1 431 "[..], b"HTTP/1.1 414 "].iter().any(|it| answer.starts_with(it));
        assert!(answer.is_empty() || is_refused, "{}", String::from_utf8_lossy(&answer));
        servers.expect_service();
    }
    servers.until("requests", "requests_4", 2);
    servers.until("frames", "handshakes_failed", 1);
    servers.end();
}

#[test]
fn ambiguous_request_smuggles_nothing() {
    let mut servers = Servers::start();
    let smuggled = "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 8\r\n\r\nsmuggled";
    let chunked = "Transfer-Encoding: chunked";
    let cases = [
        ("two lengths", format!("Content-Length: 3\r\nContent-Length: 4\r\n\r\nabc{smuggled}")),
        ("a list of lengths", format!("Content-Length: 3, 4\r\n\r\nabc{smuggled}")),
        ("a length with a sign", format!("Content-Length: +3\r\n\r\nabc{smuggled}")),
        ("a space before the colon", format!("Content-Length : 3\r\n\r\nabc{smuggled}")),
        ("a coding after `chunked`", format!("{chunked}, identity\r\n\r\n0\r\n\r\n{smuggled}")),
        ("another coding", format!("Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n{smuggled}")),
        (
            "a line that is folded",
            format!("A: b\r\n {chunked}\r\nContent-Length: 99\r\n\r\n{smuggled}"),
        ),
        (
            "a chunk that is longer than its length",
            format!("{chunked}\r\n\r\n3\r\nabcdef\r\n0\r\n\r\n{smuggled}"),
        ),
        ("a chunk without end", format!("{chunked}\r\n\r\nffff\r\nabc\r\n0\r\n\r\n{smuggled}")),
        (
            "a length that is not a number",
            format!("{chunked}\r\n\r\nx\r\nabc\r\n0\r\n\r\n{smuggled}"),
        ),
        (
            "a length of 72 bits",
            format!("{chunked}\r\n\r\nffffffffffffffffff\r\nabc\r\n0\r\n\r\n{smuggled}"),
        ),
        ("a body that is cut off", "Content-Length: 10\r\n\r\nabc".to_owned()),
        ("a header without a name", format!(": b\r\n\r\n{smuggled}")),
    ];
    for (what, rest) in cases {
        let request = format!("POST / HTTP/1.1\r\nHost: a\r\n{rest}");
        let answer = servers.answer("requests", request.as_bytes());
        let answer = String::from_utf8_lossy(&answer);
        let is_refused = answer.starts_with("HTTP/1.1 400 ") || answer.is_empty();
        assert!(is_refused && answer.matches("HTTP/1.1 ").count() <= 1, "{what}: {answer}");
        servers.expect_service();
    }
    assert!(servers.count("requests", "requests_400") > 0);
    servers.end();
}

#[test]
fn client_of_another_protocol_is_rejected() {
    let mut servers = Servers::start();
    // The beginning of a TLS handshake.
    let hello = b"\x16\x03\x01\x00\xc8\x01\x00\x00\xc4\x03\x03\xff\xfe\xfd\r\n\r\n";
    for name in ["requests", "frames"] {
        for bytes in [&hello[..], b"SSH-2.0-OpenSSH_9.2\r\n\r\n", b"\x81\x05hello\r\n\r\n"] {
            let answer = servers.answer(name, bytes);
            let answer = String::from_utf8_lossy(&answer);
            assert!(answer.starts_with("HTTP/1.1 400 ") || answer.is_empty(), "{name}: {answer}");
        }
        servers.expect_service();
    }
    // The server `lines` splits these bytes into lines. A line that is not UTF-8 text goes to `err`.
    assert_eq!(servers.answer("lines", b"\xff\xfe\n"), b"");
    crate::peer::wait_until(|| servers.run.scene.read("dead").contains("UTF-8"));
    servers.expect_service();
    servers.until("frames", "handshakes_failed", 3);
    servers.end();
}

#[test]
fn invalid_frame_ends_only_its_connection() {
    let mut servers = Servers::start();
    let handshake = as_frames("", true);
    let handshake = &handshake[..handshake.len() - 6];
    let long = [&[0x82, 0xfe, 0x03, 0xe9, 0, 0, 0, 0][..], &[b'x'; 1001]].concat();
    let cases: [(&str, &[u8], u16); 5] = [
        ("text that is not UTF-8", b"\x81\x82\0\0\0\0\xff\xfe", 1007),
        (
            "a character whose second byte, in the next frame, is invalid",
            b"\x01\x81\0\0\0\0\xc3\x80\x81\0\0\0\0x",
            1007,
        ),
        ("a message that is too long", &long, 1009),
        ("a frame without a mask", b"\x81\x01x", 1002),
        ("an undefined opcode", b"\x83\x81\0\0\0\0x", 1002),
    ];
    let count = cases.len() as u64;
    for (what, frame, code) in cases {
        let answer = servers.answer("frames", &[handshake, frame].concat());
        let end = answer.windows(4).position(|it| it == b"\r\n\r\n").unwrap() + 4;
        let close = &answer[end..];
        assert_eq!(close[..1], [0x88], "{what}");
        assert_eq!(u16::from_be_bytes([close[2], close[3]]), code, "{what}");
        servers.expect_service();
    }
    servers.until("frames", "connections_refused", count);
    servers.end();
}

#[test]
fn empty_and_largest_datagrams_are_events() {
    let servers = Servers::start();
    let client = UdpSocket::bind("127.0.0.1:0").unwrap();
    for length in [0, 65_507, 0, 1] {
        client.send_to(&vec![b'x'; length], servers.address("datagrams")).unwrap();
        assert_eq!(servers.run.event(), "x".repeat(length));
    }
    servers.end();
}
