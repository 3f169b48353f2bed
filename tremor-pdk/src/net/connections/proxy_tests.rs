#![allow(clippy::unwrap_used)] // a failed `unwrap` names the line of the test

use std::{
    io::{self, Read, Write},
    net::{SocketAddr, TcpStream},
    os::unix::net::{UnixListener, UnixStream},
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use rustix::net::sockopt::set_socket_linger;
use rustls::{
    ClientConfig, ClientConnection, RootCertStore, crypto::ring, pki_types::pem::PemObject,
};

use super::{Connections, Limits, Listener};
use crate::{
    Batch, LogLevel, RawBatch, Source,
    net::{
        Others, ProxyHeaders, ProxyProtocol, listen,
        tls::{Tls, TlsAcceptor},
    },
    testing::{TestHost, certificates::Authority},
};

/// Maximum real time that a test waits for a condition.
const TIMEOUT: Duration = Duration::from_secs(20);

const LINE: &[u8] = b"PROXY TCP4 192.0.2.7 203.0.113.1 56324 443\r\n";
const CLIENT: &str = "192.0.2.7:56324";

/// A header of version 2 with the command LOCAL, as a balancer sends it to check the server.
const LOCAL: &[u8] = b"\r\n\r\n\0\r\nQUIT\n\x20\0\0\0";

/// A server that the test pulls itself.
struct Scene {
    test: TestHost,
    server: Connections,
    address: SocketAddr,
    /// Origins and bytes of the events.
    events: Vec<(String, Vec<u8>)>,
}

impl Scene {
    /// Starts a server that trusts `network`.
    fn new(network: &str, others: Others, limits: Limits) -> Self {
        let test = TestHost::new();
        let config = ProxyProtocol { trusted: vec![network.parse().unwrap()], others };
        let listener = listen(&["127.0.0.1:0".parse().unwrap()], false).unwrap();
        let address = listener.local_addr().unwrap();
        let headers = ProxyHeaders::new(&test.host(), &config).unwrap();
        let server = Connections::new(&test.host(), listener, limits).unwrap();
        Self { server: server.with_proxy_protocol(headers), test, address, events: Vec::new() }
    }

    fn trusting() -> Self {
        Self::new("127.0.0.0/8", Others::Reject, Limits::default())
    }

    /// Connects, and sends `bytes`.
    fn client(&self, bytes: &[u8]) -> TcpStream {
        let mut client = TcpStream::connect(self.address).unwrap();
        client.write_all(bytes).unwrap();
        client
    }

    /// Pulls once, and cancels the pull if there is nothing to read.
    fn pull(&mut self) {
        let mut batch = RawBatch::new();
        for _ in 0..2 {
            let _ = self.test.poll_once(std::pin::pin!(self.server.pull(&mut batch)));
            for event in &Batch::from(std::mem::take(&mut batch)) {
                if let Some(bytes) = event.raw().filter(|bytes| !bytes.is_empty()) {
                    self.events.push((event.origin().unwrap().to_owned(), bytes.to_vec()));
                }
            }
        }
    }

    /// Lets a second pass, in which the timer of the server may expire.
    fn sleep_one_second(&mut self) {
        self.test.block_on(self.test.host().sleep(Duration::from_secs(1)));
        self.test.block_on(self.test.host().sleep(Duration::from_nanos(1)));
        self.pull();
    }

    #[track_caller]
    fn until(&mut self, mut holds: impl FnMut(&Self) -> bool) {
        let begun = Instant::now();
        while !holds(self) {
            assert!(begun.elapsed() < TIMEOUT, "{:?} {:?}", self.events, self.test.log());
            self.pull();
            thread::yield_now();
        }
    }

    #[track_caller]
    fn expect(&mut self, events: &[(&str, &[u8])]) {
        self.until(|scene| scene.events.len() >= events.len());
        let found = self.events.iter().map(|(origin, bytes)| (&**origin, &**bytes));
        assert!(found.eq(events.iter().copied()), "{:?}", self.events);
    }

    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a whole number")]
    fn metric(&self, name: &str) -> u64 {
        self.test.metric(name).map_or(0, |value| value as u64)
    }

    fn warnings(&self) -> Vec<String> {
        let log = self.test.log();
        let warnings = log.into_iter().filter(|(level, _)| *level == LogLevel::WARN);
        warnings.map(|(_, line)| line).collect()
    }
}

#[test]
fn origin_is_the_client_of_the_header() {
    let mut scene = Scene::trusting();
    let _first = scene.client(&[LINE, b"one"].concat());
    scene.expect(&[(CLIENT, b"one")]);
    let mut second = scene.client(&LINE[..9]);
    scene.until(|scene| scene.metric("connections") == 2);
    for byte in &LINE[9..] {
        second.write_all(&[*byte]).unwrap();
        scene.pull();
    }
    second.write_all(LINE).unwrap();
    scene.expect(&[(CLIENT, b"one"), (CLIENT, LINE)]);
    assert_eq!(scene.metric("proxy_headers_failed"), 0);
}

#[test]
fn untrusted_peers_are_rejected_or_served_unchanged() {
    let mut scene = Scene::new("10.0.0.0/8", Others::Reject, Limits::default());
    let mut client = scene.client(&[LINE, b"one"].concat());
    scene.until(|scene| scene.metric("proxy_headers_failed") == 1);
    // The connection is closed with unread data, so the system resets it.
    let end = client.read(&mut [0]);
    assert!(
        matches!(&end, Ok(0))
            || end.is_err_and(|error| error.kind() == io::ErrorKind::ConnectionReset)
    );
    assert_eq!((scene.metric("connections"), scene.events.len()), (0, 0));
    assert!(scene.warnings()[0].contains("it is not in `proxy_protocol.trusted`"));

    let mut scene = Scene::new("10.0.0.0/8", Others::Direct, Limits::default());
    let client = scene.client(&[LINE, b"one"].concat());
    let own = client.local_addr().unwrap().to_string();
    scene.expect(&[(&own, &[LINE, b"one"].concat())]);
}

#[test]
fn invalid_headers_are_counted_and_logged_once() {
    let mut scene = Scene::trusting();
    let mut clients: Vec<_> =
        (0..5).map(|_| scene.client(b"<13>Nov 29 08:00:00 host tag: text\n")).collect();
    clients.push(scene.client(b"PROXY UNKNOWN\n"));
    // The peer closes the connection within its header.
    clients.push(scene.client(b"PROXY TCP4 "));
    drop(clients.pop());
    scene.until(|scene| scene.metric("proxy_headers_failed") == 7);
    scene.until(|scene| scene.metric("connections") == 0);
    assert!(scene.events.is_empty());
    let warnings = scene.warnings();
    assert_eq!(warnings.len(), 1, "{warnings:?}");
    assert!(warnings[0].contains("127.0.0.1:"), "{warnings:?}");
}

#[test]
fn checks_of_balancers_are_no_failures() {
    let mut scene = Scene::trusting();
    for _ in 0..5 {
        drop(scene.client(b""));
        drop(scene.client(LOCAL));
        set_socket_linger(scene.client(b""), Some(Duration::ZERO)).unwrap();
    }
    scene.until(|scene| {
        scene.metric("connections_accepted") == 15 && scene.metric("connections") == 0
    });
    assert_eq!(scene.metric("proxy_headers_failed"), 0);
    assert_eq!((scene.warnings(), scene.events.len()), (Vec::new(), 0));
    // Data after LOCAL is that of the balancer itself.
    let balancer = scene.client(&[LOCAL, b"check"].concat());
    let own = balancer.local_addr().unwrap().to_string();
    scene.expect(&[(&own, b"check")]);
}

#[test]
fn header_has_to_arrive_within_ten_seconds() {
    for limits in [
        Limits::default(),
        Limits { idle_timeout: Some(Duration::from_mins(5)), ..Limits::default() },
    ] {
        let mut scene = Scene::new("127.0.0.1", Others::Reject, limits);
        let (mut slow, _silent) = (scene.client(b"PROXY "), scene.client(b""));
        let _good = scene.client(&[LINE, b"one"].concat());
        scene.expect(&[(CLIENT, b"one")]);
        // Bytes that arrive one by one do not extend the time.
        for byte in b"TCP4 1.2" {
            scene.sleep_one_second();
            slow.write_all(&[*byte]).unwrap();
            scene.pull();
        }
        assert_eq!(scene.metric("proxy_headers_failed"), 0);
        (0..3).for_each(|_| scene.sleep_one_second());
        scene.until(|scene| scene.metric("proxy_headers_failed") == 2);
        assert_eq!(scene.metric("connections"), 1);
        assert!(scene.warnings()[0].contains("within ten seconds"), "{:?}", scene.warnings());
    }
}

#[test]
fn waiting_for_headers_counts_as_connections() {
    let limits = Limits { max_connections: 2, ..Limits::default() };
    let mut scene = Scene::new("127.0.0.1", Others::Reject, limits);
    let (first, _second) = (scene.client(b"PROXY "), scene.client(b"PROXY "));
    scene.until(|scene| scene.metric("connections") == 2);
    let _third = scene.client(&[LINE, b"one"].concat());
    scene.pull();
    assert_eq!((scene.metric("connections_accepted"), scene.events.len()), (2, 0));
    drop(first);
    scene.expect(&[(CLIENT, b"one")]);
}

#[test]
fn unix_sockets_have_headers_too() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("socket");
    let test = TestHost::new();
    let listener = Listener::from(UnixListener::bind(&path).unwrap());
    let server = Connections::new(&test.host(), listener, Limits::default()).unwrap();
    let server = server.with_proxy_protocol(ProxyHeaders::of_all(&test.host()));
    let address = CLIENT.parse().unwrap();
    let mut scene = Scene { test, server, address, events: Vec::new() };
    let mut client = UnixStream::connect(&path).unwrap();
    client.write_all(&[LINE, b"one"].concat()).unwrap();
    scene.expect(&[(CLIENT, b"one")]);
    client.write_all(b"two").unwrap();
    scene.expect(&[(CLIENT, b"one"), (CLIENT, b"two")]);
}

#[test]
fn header_precedes_the_tls_handshake() {
    let authority = Authority::new();
    let files = authority.issue(&["localhost"]).files();
    let tls =
        Tls { cert_file: Some(files.certificate()), key_file: Some(files.key()), ..Tls::default() };
    let mut scene = Scene::trusting();
    let acceptor = TlsAcceptor::new(&tls, &scene.test.host()).unwrap();
    scene.server = scene.server.with_tls(acceptor);
    let mut roots = RootCertStore::empty();
    let pem = rustls::pki_types::CertificateDer::from_pem_slice(authority.pem().as_bytes());
    roots.add(pem.unwrap()).unwrap();
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let mut session =
        ClientConnection::new(Arc::new(config), "localhost".try_into().unwrap()).unwrap();
    session.writer().write_all(b"secret").unwrap();
    // The header and the beginning of the handshake arrive together.
    let mut first = LINE.to_vec();
    session.write_tls(&mut first).unwrap();
    let mut socket = scene.client(&first);
    socket.set_nonblocking(true).unwrap();
    let begun = Instant::now();
    while scene.events.is_empty() {
        assert!(begun.elapsed() < TIMEOUT, "{:?}", scene.test.log());
        while session.wants_write() && session.write_tls(&mut socket).is_ok() {}
        if session.read_tls(&mut socket).is_ok() {
            session.process_new_packets().unwrap();
        }
        scene.pull();
    }
    scene.expect(&[(CLIENT, b"secret")]);
    // A failed handshake is logged with the client, and a missing header is not a failed handshake.
    let _other = scene.client(&[LINE, b"GET / HTTP/1.1\r\n\r\n"].concat());
    scene.until(|scene| scene.metric("handshakes_failed") == 1);
    assert!(scene.warnings()[0].contains(&format!("cannot establish TLS with {CLIENT}")));
    let _missing = scene.client(b"\x16\x03\x01\0\xa5\x01");
    scene.until(|scene| scene.metric("proxy_headers_failed") == 1);
    assert_eq!(scene.metric("handshakes_failed"), 1);
}
