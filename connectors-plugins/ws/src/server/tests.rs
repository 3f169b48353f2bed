mod autobahn;
mod buffered;
mod sending;
mod unread;

use std::{
    io::{Read, Write},
    net::{Shutdown, TcpStream},
    time::Duration,
};

use tremor_pdk::{
    Connector, Descriptors, Error, ErrorKind, Pull, Result,
    net::{
        self, Address,
        tls::{Tls, TlsConnector},
    },
    testing::{Connection, TestHost, certificates::Authority, conformance},
};
use tungstenite::{Message, WebSocket};

use super::WsServer;
use crate::session::{read_head, write_all};

/// A server with additional keys. Pings are disabled, because in tests time passes without waiting.
struct Scene {
    host: TestHost,
    server: Connection,
    address: String,
    /// Time that passes in each step in which all tasks are idle.
    tick: Duration,
}

impl Scene {
    fn new(keys: &str) -> Self {
        Self::with(&format!(r#""ping_interval": null {keys}"#))
    }

    fn with(keys: &str) -> Self {
        let host = TestHost::new();
        host.set_patience(Duration::ZERO);
        let config = format!(r#"{{ "listen": "127.0.0.1:0", {keys} }}"#);
        let server = host.connect::<WsServer>(&config).unwrap();
        let (_, line) = host.log().last().cloned().unwrap();
        let address = line.trim_start_matches("listens on ").to_owned();
        Self { host, server, address, tick: Duration::from_nanos(1) }
    }

    /// Opens a connection and sends `request`.
    fn raw(&mut self, request: &[u8]) -> TcpStream {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        stream.write_all(request).unwrap();
        stream
    }

    /// Opens a connection and performs the handshake. Returns the connection and the client's
    /// address.
    fn client(&mut self) -> (TcpStream, String) {
        let mut stream = self.raw(&request("/"));
        let head = self.head(&mut stream);
        assert!(head.starts_with("HTTP/1.1 101 "), "{head}");
        assert!(head.contains("s3pPLMBiTxaQ9kYGzzhZRbK+xOo="), "the answer of RFC 6455: {head}");
        let name = stream.local_addr().unwrap().to_string();
        (stream, name)
    }

    /// Opens a connection, and wraps it in the WebSocket of the library that the server uses too.
    fn socket(&mut self) -> (WebSocket<TcpStream>, String) {
        let (stream, name) = self.client();
        (WebSocket::from_raw_socket(stream, tungstenite::protocol::Role::Client, None), name)
    }

    /// Runs the server until data has arrived for a client.
    fn wait_for_data(&mut self, stream: &TcpStream) {
        stream.set_nonblocking(true).unwrap();
        while stream.peek(&mut [0]).is_err_and(|it| it.kind() == std::io::ErrorKind::WouldBlock) {
            // The tasks of the server run, and time passes.
            self.host.block_on(self.host.host().sleep(self.tick));
        }
        stream.set_nonblocking(false).unwrap();
    }

    fn head(&mut self, stream: &mut TcpStream) -> String {
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            self.wait_for_data(stream);
            let mut byte = [0];
            if stream.read(&mut byte).unwrap() == 0 {
                break;
            }
            head.push(byte[0]);
        }
        String::from_utf8(head).unwrap()
    }

    /// Reads the remaining frames of a connection, up to its end.
    fn rest(&mut self, stream: &mut TcpStream) -> Vec<u8> {
        let mut rest = Vec::new();
        loop {
            self.wait_for_data(stream);
            let mut bytes = [0; 4096];
            match stream.read(&mut bytes) {
                Ok(0) | Err(_) => return rest,
                Ok(count) => rest.extend_from_slice(&bytes[..count]),
            }
        }
    }

    /// Pulls the next `count` messages, with their origins.
    fn pull(&mut self, count: usize) -> Vec<(String, Vec<u8>)> {
        let mut all = Vec::new();
        while all.len() < count {
            let (pull, batch) = self.server.pull().unwrap();
            assert_eq!(pull, Pull::Events);
            all.extend(
                batch
                    .iter()
                    .filter_map(|event| Some((event.origin()?.to_owned(), event.raw()?.to_vec()))),
            );
        }
        all
    }

    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a whole number")]
    fn metric(&self, name: &str) -> usize {
        self.host.metric(name).unwrap_or_default() as usize
    }
}

/// Returns the request of RFC 6455, section 1.2.
fn request(path: &str) -> Vec<u8> {
    format!(
        "GET {path} HTTP/1.1\r\nHost: server.example.com\r\nUpgrade: websocket\r\nConnection: keep-alive, \
         Upgrade\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nOrigin: http://example.com\r\n\
         Sec-WebSocket-Version: 13\r\n\r\n"
    )
    .into()
}

/// Returns a frame of a client, masked with zeros.
fn frame(first: u8, payload: &[u8]) -> Vec<u8> {
    let mut frame = vec![first];
    match u8::try_from(payload.len()) {
        Ok(len) if len < 126 => frame.push(0x80 | len),
        _ => {
            frame.push(0x80 | 127);
            frame.extend_from_slice(&(payload.len() as u64).to_be_bytes());
        }
    }
    frame.extend_from_slice(&[0; 4]);
    frame.extend_from_slice(payload);
    frame
}

const TEXT: u8 = 0x81;
const BINARY: u8 = 0x82;
const CLOSE: u8 = 0x88;
const PING: u8 = 0x89;
const PONG: u8 = 0x8a;

/// Returns the code of the last frame, which has to be a close.
fn close_code(frames: &[u8]) -> u16 {
    let close = frames.iter().rposition(|byte| *byte == CLOSE).expect("a close frame");
    u16::from_be_bytes([frames[close + 2], frames[close + 3]])
}

#[test]
fn text_and_binary_messages_are_events_of_their_stream() {
    let mut scene = Scene::new("");
    let (mut one, one_name) = scene.socket();
    let (mut two, two_name) = scene.socket();
    one.send(Message::text("hällo")).unwrap();
    assert_eq!(scene.pull(1), [(one_name.clone(), "hällo".into())]);
    two.send(Message::binary(vec![0, 255, 7])).unwrap();
    one.send(Message::text("")).unwrap();
    let mut pulled = scene.pull(2);
    pulled.sort();
    let mut expected = [(one_name, Vec::new()), (two_name, vec![0, 255, 7])];
    expected.sort();
    assert_eq!(pulled, expected);
    assert_eq!(scene.metric("connections"), 2);
}

#[test]
fn fragmented_message_and_ping_between_are_received() {
    let mut scene = Scene::new("");
    let (mut client, name) = scene.client();
    let mut bytes = frame(0x01, b"one, ");
    bytes.extend(frame(PING, b"still there?"));
    bytes.extend(frame(0x00, b"two, "));
    bytes.extend(frame(0x80, b"three"));
    // Send every byte separately.
    for byte in bytes {
        client.write_all(&[byte]).unwrap();
    }
    assert_eq!(scene.pull(1), [(name, b"one, two, three".to_vec())]);
    scene.wait_for_data(&client);
    let mut pong = [0; 14];
    client.read_exact(&mut pong).unwrap();
    assert_eq!((pong[0], &pong[2..]), (PONG, &b"still there?"[..]));
}

#[test]
fn closed_connection_ends_stream_and_broken_one_aborts_it() {
    let mut scene = Scene::new("");
    for (is_closed, is_aborted) in [(true, false), (false, true)] {
        let (mut client, _) = scene.client();
        client.write_all(&frame(TEXT, b"x")).unwrap();
        scene.pull(1);
        if is_closed {
            client.write_all(&frame(CLOSE, &1000_u16.to_be_bytes())).unwrap();
            let answer = scene.rest(&mut client);
            assert_eq!(close_code(&answer), 1000);
        } else {
            client.shutdown(Shutdown::Write).unwrap();
        }
        let (_, batch) = scene.server.pull().unwrap();
        let end = batch.first().unwrap();
        assert_eq!((end.is_stream_end(), end.is_stream_aborted()), (true, is_aborted));
    }
    assert_eq!((scene.metric("connections"), scene.metric("connections_aborted")), (0, 1));
}

#[test]
fn protocol_violation_closes_only_its_connection() {
    let mut scene = Scene::new(r#", "max_message_bytes": 200"#);
    let (mut good, good_name) = scene.client();
    let long = |first| frame(first, &[b'x'; 201]);
    let two = |one: Vec<u8>, two: Vec<u8>| [one, two].concat();
    let cases: Vec<(&str, Vec<u8>, u16)> = vec![
        ("text that is not UTF-8", frame(TEXT, b"\xff\xfe"), 1007),
        ("fragments that are not UTF-8", two(frame(0x01, b"\xc3"), frame(0x80, b"x")), 1007),
        ("a surrogate", frame(TEXT, b"\xed\xa0\x80"), 1007),
        ("an over-long message", long(TEXT), 1009),
        (
            "a message that is too long, in fragments",
            two(frame(0x02, &[0; 120]), frame(0x80, &[0; 120])),
            1009,
        ),
        (
            "a length of 2^63 - 1",
            vec![BINARY, 0xff, 0x7f, 255, 255, 255, 255, 255, 255, 255, 0, 0, 0, 0],
            1009,
        ),
        (
            "a length of 2^64 - 1, whose first bit has to be 0",
            vec![BINARY, 0xff, 255, 255, 255, 255, 255, 255, 255, 255, 0, 0, 0, 0],
            1009,
        ),
        ("a frame without a mask", vec![TEXT, 1, b'x'], 1002),
        ("a ping without a mask", vec![PING, 1, b'x'], 1002),
        ("a close without a mask", vec![CLOSE, 2, 3, 0xe8], 1002),
        ("reserved bit 1", frame(0xc1, b"x"), 1002),
        ("reserved bit 2", frame(0xa1, b"x"), 1002),
        ("reserved bit 3", frame(0x91, b"x"), 1002),
        ("a reserved opcode of data", frame(0x83, b"x"), 1002),
        ("a reserved opcode of control", frame(0x8b, b"x"), 1002),
        ("a ping in fragments", frame(0x09, b"x"), 1002),
        ("a ping of 126 bytes", two(vec![PING, 0xfe, 0, 126, 0, 0, 0, 0], vec![0; 126]), 1002),
        ("a continuation without a start", frame(0x80, b"x"), 1002),
        ("a message within another", two(frame(0x01, b"x"), frame(TEXT, b"y")), 1002),
        ("a close of one byte", frame(CLOSE, b"x"), 1002),
        ("a close with a code that must not be sent", frame(CLOSE, &1005_u16.to_be_bytes()), 1002),
        ("a close with a reason that is not UTF-8", frame(CLOSE, b"\x03\xe8\xff"), 1007),
    ];
    let count = cases.len();
    for (what, bytes, code) in cases {
        let (mut client, _) = scene.client();
        client.write_all(&bytes).unwrap();
        // The client sends more data after the violation. The connection must not be reset before
        // the client has read the reason.
        let _ = client.write_all(&[0; 10_000]);
        let _ = client.shutdown(Shutdown::Write);
        assert_eq!(close_code(&scene.rest(&mut client)), code, "{what}");
        good.write_all(&frame(TEXT, what.as_bytes())).unwrap();
        assert_eq!(scene.pull(1), [(good_name.clone(), what.as_bytes().to_vec())]);
    }
    assert_eq!(scene.metric("connections"), 1);
    // The close frame with an invalid code is answered, and counts as a regular end.
    assert_eq!(scene.metric("connections_refused"), count - 1);
}

#[test]
fn close_is_answered_with_its_code_if_valid() {
    let mut scene = Scene::new("");
    let good = [1000, 1001, 1002, 1003, 1007, 1008, 1009, 1010, 1011, 3000, 3999, 4000, 4999];
    let bad = [0, 999, 1004, 1005, 1006, 1015, 1016, 1100, 2000, 2999, 5000, 65_535];
    let answers = good.map(|code| (code, code)).into_iter().chain(bad.map(|code| (code, 1002)));
    for (code, answered) in answers {
        let (mut client, _) = scene.client();
        client.write_all(&frame(CLOSE, &u16::to_be_bytes(code))).unwrap();
        assert_eq!(close_code(&scene.rest(&mut client)), answered, "{code}");
    }
    // A close with a reason, and one without a code.
    let (mut client, _) = scene.client();
    client.write_all(&frame(CLOSE, b"\x03\xe8enough")).unwrap();
    assert_eq!(close_code(&scene.rest(&mut client)), 1000);
    let (mut client, _) = scene.client();
    client.write_all(&frame(CLOSE, b"")).unwrap();
    assert_eq!(scene.rest(&mut client), [CLOSE, 0]);
}

#[test]
fn message_of_any_length_and_character_is_unchanged() {
    let mut scene = Scene::new("");
    let (mut client, name) = scene.client();
    // Lengths around those at which the encoding of the length changes. Clients have to use the
    // shortest encoding.
    for length in [0, 1, 125, 126, 127, 128, 65_535, 65_536, 65_537] {
        let payload = vec![b'*'; length];
        let mut bytes = match u16::try_from(length) {
            Ok(short @ 126..) => [&[BINARY, 0xfe][..], &short.to_be_bytes(), &[0; 4]].concat(),
            _ => frame(BINARY, &payload)[..if length < 126 { 6 } else { 14 }].to_vec(),
        };
        bytes.extend_from_slice(&payload);
        client.write_all(&bytes).unwrap();
        assert_eq!(scene.pull(1), [(name.clone(), payload)], "{length}");
    }
    // Noncharacters are valid UTF-8 as well. Each text is split between two frames at every byte.
    for text in ["\u{0}", "\u{7ff}", "\u{800}", "\u{fffe}", "\u{fdd0}", "\u{10000}", "\u{10ffff}"] {
        for cut in 0..=text.len() {
            let (one, two) = text.as_bytes().split_at(cut);
            client.write_all(&[frame(0x01, one), frame(0x80, two)].concat()).unwrap();
            assert_eq!(scene.pull(1), [(name.clone(), text.into())], "{text:?}, cut at {cut}");
        }
    }
    // Each frame has another mask.
    let masked: Vec<u8> =
        b"Hello".iter().zip([0x37, 0xfa, 0x21, 0x3d, 0x37]).map(|(a, b)| a ^ b).collect();
    client.write_all(&[&[TEXT, 0x85, 0x37, 0xfa, 0x21, 0x3d][..], &masked].concat()).unwrap();
    assert_eq!(scene.pull(1), [(name, b"Hello".to_vec())]);
}

#[test]
fn invalid_handshake_gets_an_http_response() {
    let mut scene = Scene::new(r#", "path": "/events""#);
    let with = |from: &str, to: &str| {
        String::from_utf8(request("/events")).unwrap().replace(from, to).into_bytes()
    };
    let cases = [
        ("another path", request("/"), "404"),
        ("another method", with("GET", "POST"), "405"),
        ("no upgrade", with("Upgrade: websocket\r\n", ""), "426"),
        ("another version", with("Version: 13", "Version: 8"), "426"),
        ("HTTP/1.0", with("HTTP/1.1", "HTTP/1.0"), "400"),
        ("no key", with("Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n", ""), "400"),
        ("an invalid key", with("dGhlIHNhbXBsZSBub25jZQ==", "AAAA"), "400"),
        ("no HTTP", b"\x16\x03\x01\r\n\r\n".to_vec(), "400"),
        ("a head without end", vec![b'a'; 20_000], "431"),
        ("many headers", with("Host", &"a: b\r\n".repeat(200)), "431"),
    ];
    let count = cases.len();
    for (what, request, status) in cases {
        let mut client = scene.raw(&request);
        let answer = String::from_utf8(scene.rest(&mut client)).unwrap();
        assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{what}: {answer}");
    }
    assert_eq!(scene.metric("handshakes_failed"), count);
    let mut client = scene.raw(&request("/events?token=1"));
    assert!(scene.head(&mut client).starts_with("HTTP/1.1 101 "));
}

#[test]
fn client_without_handshake_is_closed() {
    let mut scene = Scene::new("");
    scene.tick = Duration::from_secs(1);
    let mut client = scene.raw(b"GET / HTTP/1.1\r\nHost: a\r\n");
    assert_eq!(scene.rest(&mut client), b"");
    assert_eq!(scene.metric("handshakes_failed"), 1);
}

/// The runtime drops both halves when it loses a connection, and waits before it reconnects.
#[test]
fn clients_wait_while_the_connection_has_no_halves() -> Result<()> {
    let host = TestHost::new();
    host.set_patience(Duration::ZERO);
    let mut server = host.component::<WsServer>(r#"{ "listen": "127.0.0.1:0" }"#)?;
    let sides = server.sides();
    drop(host.block_on(server.connect(sides))?);
    let (_, line) = host.log().last().cloned().unwrap();
    let mut client = TcpStream::connect(line.trim_start_matches("listens on ")).unwrap();
    client.write_all(&request("/")).unwrap();
    let step = || host.block_on(host.host().sleep(Duration::from_nanos(1)));
    // The tasks of the server run.
    (0..200).for_each(|_| step());
    assert_eq!(host.metric("connections_accepted"), Some(0.0));
    let _halves = host.block_on(server.connect(sides))?;
    client.set_nonblocking(true).unwrap();
    while client.peek(&mut [0]).is_err() {
        step();
    }
    assert_eq!(host.metric("connections_accepted"), Some(1.0));
    Ok(())
}

#[test]
fn stopping_server_sends_a_close() -> Result<()> {
    let mut scene = Scene::new("");
    let (mut client, _) = scene.client();
    client.write_all(&frame(CLOSE, &1001_u16.to_be_bytes())).unwrap();
    let (mut other, _) = scene.client();
    let Scene { server, .. } = scene;
    server.stop()?;
    let mut frames = Vec::new();
    other.read_to_end(&mut frames)?;
    assert_eq!(close_code(&frames), 1001);
    Ok(())
}

#[test]
fn silent_client_gets_a_ping_and_idle_one_is_closed() {
    for (keys, metric, seen) in [
        (r#""ping_interval": "30s""#, "connections_silent", PING),
        (r#""ping_interval": null, "idle_timeout": "5m""#, "connections", CLOSE),
    ] {
        let mut scene = Scene::with(keys);
        let (mut client, _) = scene.client();
        scene.tick = Duration::from_secs(1);
        let frames = scene.rest(&mut client);
        assert_eq!(frames[0], seen);
        assert_eq!(scene.metric(metric), usize::from(metric != "connections"));
    }
}

#[test]
fn tls_server_rejects_plain_clients() -> Result<()> {
    let authority = Authority::new();
    let files = authority.issue(&["localhost"]).files();
    let root = files.add("root.pem", authority.pem());
    let (certificate, key) = (files.certificate(), files.key());
    let mut scene = Scene::new(&format!(
        r#", "tls": {{ "cert_file": "{}", "key_file": "{}" }}"#,
        certificate.display(),
        key.display()
    ));
    let address: Address = scene.address.replace("127.0.0.1", "localhost").parse()?;
    let (test, host) = (scene.host.clone(), scene.host.host());
    let tls = Tls { ca_file: Some(root), ..Tls::default() };
    let connect = async || {
        let stream = net::connect(&host, &Descriptors::new(&host)?, &address).await?;
        let mut stream = TlsConnector::new(&tls, &host, &address)?.connect(stream).await?;
        write_all(&mut stream, &request("/")).await?;
        let (head, _) = read_head(&mut stream).await?;
        assert!(head.starts_with(b"HTTP/1.1 101 "));
        write_all(&mut stream, &frame(TEXT, b"secret")).await?;
        Ok::<_, Error>(stream)
    };
    let _one = test.block_on(connect())?;
    assert_eq!(scene.pull(1)[0].1, b"secret");
    let mut plain = scene.raw(&request("/"));
    scene.tick = Duration::from_secs(1);
    let answer = scene.rest(&mut plain);
    assert!(!answer.starts_with(b"HTTP/1.1 101 "));
    assert_eq!(scene.metric("handshakes_failed"), 1);
    let _two = test.block_on(connect())?;
    assert_eq!(scene.pull(1)[0].1, b"secret");
    Ok(())
}

#[test]
fn invalid_path_is_rejected() {
    let config = r#"{ "listen": "127.0.0.1:0", "path": "events" }"#;
    let error = TestHost::new().component::<WsServer>(config).err().unwrap();
    assert_eq!(error.kind(), ErrorKind::CONFIGURATION);
    assert!(error.to_string().contains("expected a path that starts with `/`"), "{error}");
}

#[test]
fn connector_passes_conformance_checks() {
    conformance::connector::<WsServer>(r#"{ "listen": "127.0.0.1:0" }"#).expect_no_faults();
}
