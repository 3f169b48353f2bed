#![allow(clippy::unwrap_used)] // a failed `unwrap` names the line of the test

use std::{
    collections::BTreeSet,
    io::{self, Read, Write},
    net::{Shutdown, SocketAddr, TcpStream},
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use rustix::net::sockopt::set_socket_linger;
use rustls::{
    ClientConfig, ClientConnection, RootCertStore,
    crypto::ring,
    pki_types::{CertificateDer, ServerName, pem::PemObject},
};

use super::{Connections, Limits};
use crate::{
    Batch, LogLevel, RawBatch, Source,
    net::{
        listen,
        tls::{ClientAuth, Tls, TlsAcceptor},
    },
    testing::{
        TestHost,
        certificates::{Authority, Files},
    },
};

/// Maximum real time that a test waits for a condition.
const TIMEOUT: Duration = Duration::from_secs(20);

/// A server that the test pulls itself, so that time passes only when the test advances it.
struct Scene {
    test: TestHost,
    server: Connections,
    address: SocketAddr,
    authority: Authority,
    /// Received bytes and end of each stream, indexed by the number of the stream.
    streams: Vec<(Vec<u8>, Option<End>)>,
    _files: Files,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Complete,
    Aborted,
}

impl Scene {
    fn new(limits: Limits) -> Self {
        Self::with(limits, false)
    }

    fn with(limits: Limits, asks_clients: bool) -> Self {
        let (test, authority) = (TestHost::new(), Authority::new());
        let files = authority.issue(&["localhost"]).files();
        let mut tls = Tls {
            cert_file: Some(files.certificate()),
            key_file: Some(files.key()),
            ..Tls::default()
        };
        if asks_clients {
            tls.ca_file = Some(files.add("ca", authority.pem()));
            tls.client_auth = Some(ClientAuth::Required);
        }
        let acceptor = TlsAcceptor::new(&tls, &test.host()).unwrap();
        let listener = listen(&["127.0.0.1:0".parse().unwrap()], false).unwrap();
        let address = listener.local_addr().unwrap();
        let server = Connections::new(&test.host(), listener, limits).unwrap().with_tls(acceptor);
        Self { test, server, address, authority, streams: Vec::new(), _files: files }
    }

    fn socket(&self) -> TcpStream {
        let socket = TcpStream::connect(self.address).unwrap();
        socket.set_nonblocking(true).unwrap();
        socket
    }

    fn client(&self) -> Client {
        Client::new(self.socket(), &self.authority)
    }

    /// Returns a client whose handshake is complete.
    fn connected(&mut self) -> Client {
        let mut client = self.client();
        self.until(&mut [&mut client], |_, clients| !clients[0].tls.is_handshaking());
        client
    }

    /// Pulls once, and cancels the pull if there is nothing to read.
    fn pull(&mut self) {
        let mut batch = RawBatch::new();
        for _ in 0..2 {
            let pulled = self.test.poll_once(std::pin::pin!(self.server.pull(&mut batch)));
            assert!(
                pulled.is_pending() || pulled == std::task::Poll::Ready(Ok(crate::Pull::Events))
            );
            for event in &Batch::from(std::mem::take(&mut batch)) {
                let stream = usize::try_from(event.stream().number()).unwrap();
                if self.streams.len() <= stream {
                    self.streams.resize_with(stream + 1, Default::default);
                }
                let (bytes, end) = &mut self.streams[stream];
                assert_eq!(*end, None, "a stream has no events after its end");
                bytes.extend_from_slice(event.raw().unwrap_or_default());
                if event.is_stream_end() {
                    let aborted = event.is_stream_aborted();
                    *end = Some(if aborted { End::Aborted } else { End::Complete });
                }
            }
        }
    }

    /// Runs the server and the clients until `holds` returns `true`.
    #[track_caller]
    fn until(
        &mut self,
        clients: &mut [&mut Client],
        mut holds: impl FnMut(&Self, &mut [&mut Client]) -> bool,
    ) {
        let begun = Instant::now();
        while !holds(self, clients) {
            assert!(begun.elapsed() < TIMEOUT, "{:?}", self.test.log());
            for client in &mut *clients {
                client.pump();
            }
            self.pull();
            thread::yield_now();
        }
    }

    /// Returns the received bytes of a stream. Streams are numbered from 1.
    fn bytes(&self, stream: usize) -> &[u8] {
        self.streams.get(stream).map_or(&[], |stream| &stream.0)
    }

    fn end(&self, stream: usize) -> Option<End> {
        self.streams.get(stream).and_then(|stream| stream.1)
    }

    fn metric(&self, name: &str) -> Option<f64> {
        self.test.metric(name)
    }

    fn warnings(&self) -> Vec<String> {
        let log = self.test.log();
        let warnings = log.into_iter().filter(|(level, _)| *level == LogLevel::WARN);
        warnings.map(|(_, line)| line).collect()
    }
}

/// A client that acts only when the test calls it.
struct Client {
    socket: TcpStream,
    tls: ClientConnection,
    /// The end of reading: `Ok` if the server has closed the connection.
    end: Option<io::Result<()>>,
}

impl Client {
    fn new(socket: TcpStream, authority: &Authority) -> Self {
        Self { socket, tls: session(authority), end: None }
    }

    fn write(&mut self, bytes: &[u8]) {
        self.tls.writer().write_all(bytes).unwrap();
    }

    /// Sends and reads as much as possible.
    fn pump(&mut self) {
        while self.tls.wants_write() && self.tls.write_tls(&mut self.socket).is_ok() {}
        while self.end.is_none() {
            match self.tls.read_tls(&mut self.socket) {
                Ok(0) => self.end = Some(Ok(())),
                Ok(_) => {
                    if let Err(error) = self.tls.process_new_packets() {
                        self.end = Some(Err(io::Error::other(error)));
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(error) => self.end = Some(Err(error)),
            }
        }
    }

    fn reset(self) {
        set_socket_linger(&self.socket, Some(Duration::ZERO)).unwrap();
    }
}

/// Returns the initial TLS state of a client that trusts `authority`.
fn session(authority: &Authority) -> ClientConnection {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(authority.pem().as_bytes()).unwrap()).unwrap();
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let name = ServerName::try_from("localhost").unwrap();
    let mut tls = ClientConnection::new(Arc::new(config), name).unwrap();
    tls.set_buffer_limit(None);
    tls
}

#[test]
fn each_connection_is_a_stream_that_its_peer_ends() {
    let mut scene = Scene::new(Limits::default());
    let mut clients: Vec<_> = (0..20).map(|_| scene.client()).collect();
    for (number, client) in clients.iter_mut().enumerate() {
        client.write(format!("from client {number:02}").as_bytes());
    }
    let mut all: Vec<_> = clients.iter_mut().collect();
    scene.until(&mut all, |scene, _| {
        scene.streams.iter().filter(|(bytes, _)| bytes.len() == 14).count() == 20
    });
    let texts: BTreeSet<_> = scene.streams[1..].iter().map(|stream| stream.0.clone()).collect();
    assert_eq!(texts.len(), 20);
    all.iter_mut().for_each(|client| client.tls.send_close_notify());
    scene.until(&mut all, |scene, clients| {
        scene.metric("connections") == Some(0.0)
            && clients.iter().all(|client| client.end.is_some())
    });
    assert!(scene.streams.iter().skip(1).all(|(_, end)| *end == Some(End::Complete)));
    // The server has closed its sessions as well.
    assert!(
        all.iter_mut().all(|client| client
            .tls
            .reader()
            .read(&mut [0])
            .is_ok_and(|count| count == 0))
    );
    assert_eq!(scene.metric("handshakes_failed"), Some(0.0));
}

#[test]
fn data_buffered_by_tls_is_read_without_readiness() {
    let mut scene = Scene::new(Limits::default());
    let mut client = scene.connected();
    // A single read of the socket returns hundreds of small records.
    let sent: Vec<u8> = (0..5_000_u32).map(|number| number.to_le_bytes()[0]).collect();
    sent.iter().for_each(|byte| client.write(&[*byte]));
    scene.until(&mut [&mut client], |scene, _| scene.bytes(1).len() == 5_000);
    assert!(scene.bytes(1) == sent);
    let sent: Vec<u8> = (0..3_000_000_u32).map(|number| number.to_be_bytes()[2]).collect();
    client.write(&sent);
    scene.until(&mut [&mut client], |scene, _| scene.bytes(1).len() == 3_005_000);
    assert!(scene.bytes(1)[5_000..] == sent);
}

#[test]
fn connection_closed_without_alert_is_aborted() {
    let mut scene = Scene::new(Limits::default());
    let mut client = scene.connected();
    client.write(b"half a li");
    scene.until(&mut [&mut client], |scene, _| scene.bytes(1).len() == 9);
    client.socket.shutdown(Shutdown::Write).unwrap();
    scene.until(&mut [&mut client], |scene, _| scene.end(1).is_some());
    assert_eq!(scene.end(1), Some(End::Aborted));
    let mut client = scene.connected();
    client.write(b"half a li");
    scene.until(&mut [&mut client], |scene, _| scene.bytes(2).len() == 9);
    client.reset();
    scene.until(&mut [], |scene, _| scene.end(2).is_some());
    assert_eq!(scene.end(2), Some(End::Aborted));
    assert_eq!(scene.metric("connections_aborted"), Some(2.0));
}

#[test]
fn reset_within_handshake_affects_no_other_connection() {
    let mut scene = Scene::new(Limits::default());
    let mut witness = scene.connected();
    let mut hello = Vec::new();
    session(&scene.authority).write_tls(&mut hello).unwrap();
    assert!(hello.len() > 100);
    for length in 0..=hello.len() {
        let mut socket = scene.socket();
        socket.write_all(&hello[..length]).unwrap();
        scene.pull();
        set_socket_linger(&socket, Some(Duration::ZERO)).unwrap();
    }
    // The second flight of the client, which ends the handshake, is cut at every byte as well.
    for length in 0.. {
        let mut client = scene.client();
        let mut flight = Vec::new();
        while flight.is_empty() {
            client.pump_in(&mut scene);
            if !client.tls.is_handshaking() {
                client.tls.write_tls(&mut flight).unwrap();
            }
        }
        if length == flight.len() {
            break;
        }
        client.socket.write_all(&flight[..length]).unwrap();
        scene.pull();
        client.reset();
    }
    scene.until(&mut [], |scene, _| scene.metric("connections") == Some(1.0));
    assert!(scene.metric("handshakes_failed") > Some(100.0));
    witness.write(b"still here");
    scene.until(&mut [&mut witness], |scene, _| scene.bytes(1) == b"still here");
    assert!(scene.streams.iter().skip(2).all(|stream| stream.0.is_empty()), "no stream has begun");
}

impl Client {
    /// Runs until the client has received the server's part of the handshake. The client does not answer.
    fn pump_in(&mut self, scene: &mut Scene) {
        while self.tls.wants_write() {
            self.tls.write_tls(&mut self.socket).unwrap();
        }
        let begun = Instant::now();
        while self.tls.is_handshaking() {
            assert!(begun.elapsed() < TIMEOUT);
            scene.pull();
            if self.tls.read_tls(&mut self.socket).is_ok() {
                self.tls.process_new_packets().unwrap();
            }
        }
    }
}

#[test]
fn client_without_tls_is_counted_and_logged_once_a_minute() {
    let mut scene = Scene::new(Limits::default());
    let mut names = Vec::new();
    for _ in 0..3 {
        let mut socket = scene.socket();
        socket.write_all(b"<34>1 2026-01-01T00:00:00Z host app - - - plain\n").unwrap();
        names.push(socket.local_addr().unwrap().to_string());
        scene.until(&mut [], |_, _| {
            let mut alert = [0; 100];
            // The server sends an alert and closes the connection.
            socket.read(&mut alert).is_ok_and(|count| count == 0)
                || socket
                    .read(&mut alert)
                    .is_err_and(|error| error.kind() == io::ErrorKind::ConnectionReset)
        });
    }
    assert_eq!(scene.metric("handshakes_failed"), Some(3.0));
    assert!(
        scene.streams.iter().all(|stream| stream.0.is_empty() && stream.1.is_none()),
        "no event"
    );
    let warnings = scene.warnings();
    assert_eq!(warnings.len(), 1, "{warnings:?}");
    assert!(warnings[0].contains(&names[0]) && warnings[0].contains("does not speak TLS"));
    let mut good = scene.connected();
    good.write(b"good");
    scene.until(&mut [&mut good], |scene, _| scene.bytes(4) == b"good");
}

#[test]
fn slow_handshake_is_closed_after_ten_seconds() {
    let limits = Limits { idle_timeout: Some(Duration::from_mins(1)), ..Limits::default() };
    let mut scene = Scene::new(limits);
    let mut good = scene.connected();
    let mut slow = scene.socket();
    let mut hello = Vec::new();
    session(&scene.authority).write_tls(&mut hello).unwrap();
    // Sending a byte each second does not extend the time limit.
    for (second, byte) in hello[..9].iter().enumerate() {
        slow.write_all(&[*byte]).unwrap();
        scene.pull();
        scene.tick();
        scene.pull();
        assert_eq!(scene.metric("connections"), Some(2.0), "after {second} s");
    }
    good.write(b"good");
    scene.until(&mut [&mut good], |scene, _| scene.bytes(1) == b"good");
    for _ in 0..2 {
        scene.tick();
        scene.pull();
    }
    assert_eq!(scene.metric("connections"), Some(1.0));
    assert_eq!(scene.metric("handshakes_failed"), Some(1.0));
    assert!(scene.warnings()[0].contains("within ten seconds"), "{:?}", scene.warnings());
    // After 65 more seconds, the other connection was idle for a minute.
    for _ in 0..65 {
        scene.tick();
        scene.pull();
    }
    assert_eq!(scene.metric("connections"), Some(0.0));
    assert_eq!(scene.end(1), Some(End::Aborted), "an incomplete message is aborted");
    assert_eq!(scene.metric("connections_idle"), Some(1.0));
}

impl Scene {
    /// Advances the time by a second, and lets timers run.
    fn tick(&self) {
        self.test.block_on(self.test.host().sleep(Duration::from_secs(1)));
        self.test.block_on(self.test.host().sleep(Duration::from_nanos(1)));
    }
}

#[test]
fn simultaneous_handshakes_are_limited_per_turn() {
    let mut scene = Scene::new(Limits::default());
    let mut clients: Vec<_> = (0..100).map(|_| scene.client()).collect();
    for client in &mut clients {
        client.write(b"hello");
        client.pump();
    }
    let mut batch = RawBatch::new();
    // The first poll accepts the connections, and the second one starts handshakes.
    for _ in 0..2 {
        assert!(scene.test.poll_once(std::pin::pin!(scene.server.pull(&mut batch))).is_pending());
    }
    let answered = |clients: &[Client]| {
        clients.iter().filter(|client| client.socket.peek(&mut [0]).is_ok()).count()
    };
    assert!((1..=16).contains(&answered(&clients)));
    let mut all: Vec<_> = clients.iter_mut().collect();
    scene.until(&mut all, |scene, _| (1..=100).all(|stream| scene.bytes(stream) == b"hello"));
}

#[test]
fn invalid_record_after_first_data_aborts_the_stream() {
    let mut scene = Scene::new(Limits::default());
    let mut client = scene.client();
    while client.tls.is_handshaking() {
        client.pump_in(&mut scene);
    }
    client.write(b"half a li");
    let mut flight = Vec::new();
    while client.tls.wants_write() {
        client.tls.write_tls(&mut flight).unwrap();
    }
    flight.extend_from_slice(&[23, 3, 3, 0, 32]);
    flight.extend_from_slice(&[0; 32]);
    client.socket.write_all(&flight).unwrap();
    scene.until(&mut [], |scene, _| scene.end(1).is_some());
    assert_eq!((scene.bytes(1), scene.end(1)), (&b"half a li"[..], Some(End::Aborted)));
    assert_eq!(scene.metric("connections_aborted"), Some(1.0));
}

#[test]
fn client_without_certificate_gets_an_alert() {
    let mut scene = Scene::with(Limits::default(), true);
    let mut client = scene.client();
    client.write(b"never an event");
    scene.until(&mut [&mut client], |_, clients| clients[0].end.is_some());
    let error = client.end.unwrap().unwrap_err().to_string();
    assert!(error.contains("CertificateRequired"), "{error}");
    let warnings = scene.warnings();
    assert!(warnings[0].contains("it presented no certificate"), "{warnings:?}");
    assert!(scene.streams.iter().all(|stream| stream.0.is_empty()));
}

#[test]
fn source_that_is_not_pulled_makes_peer_wait() {
    let mut scene = Scene::new(Limits::default());
    let mut client = scene.connected();
    let sent = vec![b'x'; 20 << 20];
    client.write(&sent);
    client.pump();
    assert!(client.tls.wants_write(), "the system accepts no more data");
    scene.until(&mut [&mut client], |scene, _| scene.bytes(1).len() == sent.len());
}
