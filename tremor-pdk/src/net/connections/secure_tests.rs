#![allow(clippy::unwrap_used)] // a test that cannot go on says where

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

/// How long a test waits for what has to come.
const PATIENCE: Duration = Duration::from_secs(20);

/// A server, pulled by hand, so that no time passes unless a test says so.
struct Scene {
    test: TestHost,
    server: Connections,
    address: SocketAddr,
    authority: Authority,
    /// What came of each stream, and how it ended.
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

    /// A client whose handshake is done.
    fn connected(&mut self) -> Client {
        let mut client = self.client();
        self.until(&mut [&mut client], |_, clients| !clients[0].tls.is_handshaking());
        client
    }

    /// Pulls once, and gives up where there is nothing.
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
                assert_eq!(*end, None, "nothing comes after an end");
                bytes.extend_from_slice(event.raw().unwrap_or_default());
                if event.is_stream_end() {
                    let aborted = event.is_stream_aborted();
                    *end = Some(if aborted { End::Aborted } else { End::Complete });
                }
            }
        }
    }

    /// Lets both sides go on until that holds.
    #[track_caller]
    fn until(
        &mut self,
        clients: &mut [&mut Client],
        mut holds: impl FnMut(&Self, &mut [&mut Client]) -> bool,
    ) {
        let begun = Instant::now();
        while !holds(self, clients) {
            assert!(begun.elapsed() < PATIENCE, "{:?}", self.test.log());
            for client in &mut *clients {
                client.pump();
            }
            self.pull();
            thread::yield_now();
        }
    }

    /// What has come of a stream; they are numbered from 1 on.
    fn bytes(&self, stream: usize) -> &[u8] {
        self.streams.get(stream).map_or(&[], |it| &it.0)
    }

    fn end(&self, stream: usize) -> Option<End> {
        self.streams.get(stream).and_then(|it| it.1)
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

/// A client, of which each step is a call.
struct Client {
    socket: TcpStream,
    tls: ClientConnection,
    /// How reading has ended.
    over: Option<io::Result<()>>,
}

impl Client {
    fn new(socket: TcpStream, authority: &Authority) -> Self {
        Self { socket, tls: session(authority), over: None }
    }

    fn write(&mut self, bytes: &[u8]) {
        self.tls.writer().write_all(bytes).unwrap();
    }

    /// Sends and reads what can be.
    fn pump(&mut self) {
        while self.tls.wants_write() && self.tls.write_tls(&mut self.socket).is_ok() {}
        while self.over.is_none() {
            match self.tls.read_tls(&mut self.socket) {
                Ok(0) => self.over = Some(Ok(())),
                Ok(_) => {
                    if let Err(error) = self.tls.process_new_packets() {
                        self.over = Some(Err(io::Error::other(error)));
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(error) => self.over = Some(Err(error)),
            }
        }
    }

    fn reset(self) {
        set_socket_linger(&self.socket, Some(Duration::ZERO)).unwrap();
    }
}

/// What a client that trusts this authority starts with.
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
fn each_connection_is_a_stream_that_ends_when_its_peer_says_so() {
    let mut scene = Scene::new(Limits::default());
    let mut clients: Vec<_> = (0..20).map(|_| scene.client()).collect();
    for (number, client) in clients.iter_mut().enumerate() {
        client.write(format!("from client {number:02}").as_bytes());
    }
    let mut all: Vec<_> = clients.iter_mut().collect();
    scene.until(&mut all, |scene, _| {
        scene.streams.iter().filter(|(bytes, _)| bytes.len() == 14).count() == 20
    });
    let texts: BTreeSet<_> = scene.streams[1..].iter().map(|it| it.0.clone()).collect();
    assert_eq!(texts.len(), 20);
    all.iter_mut().for_each(|client| client.tls.send_close_notify());
    scene.until(&mut all, |scene, clients| {
        scene.metric("connections") == Some(0.0) && clients.iter().all(|it| it.over.is_some())
    });
    assert!(scene.streams.iter().skip(1).all(|(_, end)| *end == Some(End::Complete)));
    // The other side has said so, too.
    assert!(all.iter_mut().all(|it| it.tls.reader().read(&mut [0]).is_ok_and(|count| count == 0)));
    assert_eq!(scene.metric("handshakes_failed"), Some(0.0));
}

#[test]
fn what_tls_holds_is_brought_though_the_system_says_nothing_of_it() {
    let mut scene = Scene::new(Limits::default());
    let mut client = scene.connected();
    // So many records that one read of the socket brings hundreds of them.
    let sent: Vec<u8> = (0..5_000_u32).map(|it| it.to_le_bytes()[0]).collect();
    sent.iter().for_each(|byte| client.write(&[*byte]));
    scene.until(&mut [&mut client], |scene, _| scene.bytes(1).len() == 5_000);
    assert!(scene.bytes(1) == sent);
    let sent: Vec<u8> = (0..3_000_000_u32).map(|it| it.to_be_bytes()[2]).collect();
    client.write(&sent);
    scene.until(&mut [&mut client], |scene, _| scene.bytes(1).len() == 3_005_000);
    assert!(scene.bytes(1)[5_000..] == sent);
}

#[test]
fn a_connection_that_is_closed_without_a_word_ends_without_a_message() {
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
fn a_reset_at_every_byte_of_the_handshake_disturbs_nobody() {
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
    // And of the second half, which proves that the client has the keys.
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
    assert!(scene.streams.iter().skip(2).all(|it| it.0.is_empty()), "no stream has begun");
}

impl Client {
    /// Goes on until it has the server's half of the handshake, and does not answer.
    fn pump_in(&mut self, scene: &mut Scene) {
        while self.tls.wants_write() {
            self.tls.write_tls(&mut self.socket).unwrap();
        }
        let begun = Instant::now();
        while self.tls.is_handshaking() {
            assert!(begun.elapsed() < PATIENCE);
            scene.pull();
            if self.tls.read_tls(&mut self.socket).is_ok() {
                self.tls.process_new_packets().unwrap();
            }
        }
    }
}

#[test]
fn a_client_that_speaks_no_tls_is_refused_counted_and_named_once_a_minute() {
    let mut scene = Scene::new(Limits::default());
    let mut names = Vec::new();
    for _ in 0..3 {
        let mut socket = scene.socket();
        socket.write_all(b"<34>1 2026-01-01T00:00:00Z host app - - - plain\n").unwrap();
        names.push(socket.local_addr().unwrap().to_string());
        scene.until(&mut [], |_, _| {
            let mut alert = [0; 100];
            // The server says why, and closes the connection.
            socket.read(&mut alert).is_ok_and(|count| count == 0)
                || socket
                    .read(&mut alert)
                    .is_err_and(|it| it.kind() == io::ErrorKind::ConnectionReset)
        });
    }
    assert_eq!(scene.metric("handshakes_failed"), Some(3.0));
    assert!(scene.streams.iter().all(|it| it.0.is_empty() && it.1.is_none()), "no event");
    let warnings = scene.warnings();
    assert_eq!(warnings.len(), 1, "{warnings:?}");
    assert!(warnings[0].contains(&names[0]) && warnings[0].contains("does not speak TLS"));
    let mut good = scene.connected();
    good.write(b"good");
    scene.until(&mut [&mut good], |scene, _| scene.bytes(4) == b"good");
}

#[test]
fn a_client_that_never_finishes_its_handshake_is_closed_after_ten_seconds_and_others_are_not() {
    let limits = Limits { idle_timeout: Some(Duration::from_mins(1)), ..Limits::default() };
    let mut scene = Scene::new(limits);
    let mut good = scene.connected();
    let mut slow = scene.socket();
    let mut hello = Vec::new();
    session(&scene.authority).write_tls(&mut hello).unwrap();
    // A byte a second does not make it less slow.
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
    // The other one was silent for a minute then.
    for _ in 0..65 {
        scene.tick();
        scene.pull();
    }
    assert_eq!(scene.metric("connections"), Some(0.0));
    assert_eq!(scene.end(1), Some(End::Aborted), "half a message is none");
    assert_eq!(scene.metric("connections_idle"), Some(1.0));
}

impl Scene {
    /// A second passes, and timers have their turn.
    fn tick(&self) {
        self.test.block_on(self.test.host().sleep(Duration::from_secs(1)));
        self.test.block_on(self.test.host().sleep(Duration::from_nanos(1)));
    }
}

#[test]
fn clients_that_all_connect_at_once_hold_the_thread_for_some_handshakes_at_a_time() {
    let mut scene = Scene::new(Limits::default());
    let mut clients: Vec<_> = (0..100).map(|_| scene.client()).collect();
    for client in &mut clients {
        client.write(b"hello");
        client.pump();
    }
    let mut batch = RawBatch::new();
    // They are accepted, and then there are handshakes.
    for _ in 0..2 {
        assert!(scene.test.poll_once(std::pin::pin!(scene.server.pull(&mut batch))).is_pending());
    }
    let answered =
        |clients: &[Client]| clients.iter().filter(|it| it.socket.peek(&mut [0]).is_ok()).count();
    assert!((1..=16).contains(&answered(&clients)));
    let mut all: Vec<_> = clients.iter_mut().collect();
    scene.until(&mut all, |scene, _| (1..=100).all(|stream| scene.bytes(stream) == b"hello"));
}

#[test]
fn what_comes_with_the_end_of_a_handshake_is_cut_off_where_what_follows_is_bad() {
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
fn a_client_without_a_certificate_hears_that_it_needs_one() {
    let mut scene = Scene::with(Limits::default(), true);
    let mut client = scene.client();
    client.write(b"never an event");
    scene.until(&mut [&mut client], |_, clients| clients[0].over.is_some());
    let error = client.over.unwrap().unwrap_err().to_string();
    assert!(error.contains("CertificateRequired"), "{error}");
    let warnings = scene.warnings();
    assert!(warnings[0].contains("it shows no certificate"), "{warnings:?}");
    assert!(scene.streams.iter().all(|it| it.0.is_empty()));
}

#[test]
fn a_source_that_is_not_pulled_reads_nothing_and_the_peer_waits() {
    let mut scene = Scene::new(Limits::default());
    let mut client = scene.connected();
    let sent = vec![b'x'; 20 << 20];
    client.write(&sent);
    client.pump();
    assert!(client.tls.wants_write(), "the system takes no more");
    scene.until(&mut [&mut client], |scene, _| scene.bytes(1).len() == sent.len());
}
