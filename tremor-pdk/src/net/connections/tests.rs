#![allow(clippy::unwrap_used)] // a failed `unwrap` names the line of the test

use std::{
    io::{Read, Write},
    net::{Shutdown, SocketAddr, TcpStream},
    os::unix::net::{UnixListener, UnixStream},
    sync::{Arc, Mutex},
    time::Duration,
};

use rustix::net::sockopt::set_socket_linger;

use super::{Connections, Limits};
use crate::{Batch, EventRef, LogLevel, Pull, RawBatch, Source, net::listen, testing::TestHost};

const MINUTE: Duration = Duration::from_mins(1);

/// A server that the test pulls itself.
struct Scene {
    test: TestHost,
    server: Connections,
    address: SocketAddr,
    limit: crate::Limit,
}

impl Scene {
    fn new(limits: Limits) -> Self {
        let test = TestHost::new();
        let listener = listen(&["127.0.0.1:0".parse().unwrap()], false).unwrap();
        let address = listener.local_addr().unwrap();
        let server = Connections::new(&test.host(), listener, limits).unwrap();
        Self { test, server, address, limit: crate::Limit::default() }
    }

    fn client(&self) -> TcpStream {
        TcpStream::connect(self.address).unwrap()
    }

    fn pull(&mut self) -> Batch {
        let mut batch = RawBatch::new();
        batch.set_limit(self.limit);
        let pulled = self.test.block_on(self.server.pull(&mut batch)).unwrap();
        assert_eq!(pulled, Pull::Events);
        assert!(!batch.is_empty());
        batch.into()
    }

    /// Pulls until `bytes` bytes and `ends` ends of streams were received.
    fn pull_until(&mut self, bytes: usize, ends: usize) -> Vec<Seen> {
        let mut seen = Vec::new();
        loop {
            let count: usize = seen.iter().map(|event: &Seen| event.bytes.len()).sum();
            let ended = seen.iter().filter(|event| event.end != End::None).count();
            if count >= bytes && ended >= ends {
                assert_eq!((count, ended), (bytes, ends));
                return seen;
            }
            seen.extend(self.pull().iter().map(Seen::of));
        }
    }

    /// Returns whether a pull stays pending after the waiting connections were accepted.
    fn waits(&mut self) -> bool {
        let mut batch = RawBatch::new();
        let mut pull = std::pin::pin!(self.server.pull(&mut batch));
        // After accepting connections, the source yields once.
        (0..2).all(|_| self.test.poll_once(pull.as_mut()).is_pending())
    }

    fn metric(&self, name: &str) -> Option<f64> {
        self.test.metric(name)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    None,
    Complete,
    Aborted,
}

/// The parts of an event that the tests compare.
#[derive(Debug)]
struct Seen {
    stream: u64,
    bytes: Vec<u8>,
    end: End,
    origin: String,
}

impl Seen {
    fn of(event: EventRef<'_>) -> Self {
        let end = match (event.is_stream_end(), event.is_stream_aborted()) {
            (false, _) => End::None,
            (true, false) => End::Complete,
            (true, true) => End::Aborted,
        };
        Self {
            stream: event.stream().number(),
            bytes: event.raw().unwrap_or_default().to_vec(),
            end,
            origin: event.origin().unwrap().to_owned(),
        }
    }
}

/// Resets a connection instead of closing it.
fn reset(client: TcpStream) {
    set_socket_linger(&client, Some(Duration::ZERO)).unwrap();
    drop(client);
}

#[test]
fn each_connection_is_a_stream_with_its_peer_as_origin() {
    let mut scene = Scene::new(Limits::default());
    let mut clients: Vec<_> = (0..20).map(|_| scene.client()).collect();
    let names: Vec<_> =
        clients.iter().map(|client| client.local_addr().unwrap().to_string()).collect();
    for (number, client) in clients.iter_mut().enumerate() {
        write!(client, "from client {number:02}").unwrap();
    }
    let seen = scene.pull_until(20 * 14, 0);
    for event in &seen {
        let text = String::from_utf8(event.bytes.clone()).unwrap();
        let number: usize = text.strip_prefix("from client ").unwrap().parse().unwrap();
        assert_eq!(event.origin, names[number]);
    }
    assert_eq!(
        (scene.metric("connections"), scene.metric("connections_accepted")),
        (Some(20.0), Some(20.0))
    );
    drop(clients);
    let ends = scene.pull_until(0, 20);
    assert!(ends.iter().all(|event| event.end == End::Complete));
    assert_eq!(scene.metric("connections"), Some(0.0));
    // Numbers of streams are not reused.
    let mut client = scene.client();
    client.write_all(b"later").unwrap();
    let later = scene.pull_until(5, 0);
    assert!(seen.iter().chain(&ends).all(|event| event.stream < later[0].stream));
}

#[test]
fn data_sent_before_close_precedes_the_end() {
    let mut scene = Scene::new(Limits::default());
    let mut client = scene.client();
    client.write_all(&vec![b'x'; 100_000]).unwrap();
    client.shutdown(Shutdown::Write).unwrap();
    let seen = scene.pull_until(100_000, 1);
    assert_eq!(seen.last().unwrap().end, End::Complete);
    assert_eq!(client.read(&mut [0]).unwrap(), 0, "the server closes the connection as well");
}

#[test]
fn reset_connection_aborts_its_stream() {
    let mut scene = Scene::new(Limits::default());
    let mut client = scene.client();
    client.write_all(b"half a li").unwrap();
    assert_eq!(scene.pull_until(9, 0)[0].bytes, b"half a li");
    reset(client);
    let seen = scene.pull_until(0, 1);
    assert_eq!(seen[0].end, End::Aborted);
    assert_eq!(scene.metric("connections_aborted"), Some(1.0));
    assert!(scene.waits());
}

#[test]
fn client_without_data_emits_no_event() {
    let mut scene = Scene::new(Limits::default());
    drop(scene.client());
    reset(scene.client());
    assert!(scene.waits());
    assert_eq!(scene.metric("connections"), Some(0.0));
    assert_eq!(scene.metric("connections_accepted"), Some(2.0));
}

#[test]
fn only_idle_clients_are_closed() {
    let limits = Limits { idle_timeout: Some(MINUTE), ..Limits::default() };
    let mut scene = Scene::new(limits);
    let (mut silent, mut half) = (scene.client(), scene.client());
    half.write_all(b"half a li").unwrap();
    scene.pull_until(9, 0);
    scene.test.advance(MINUTE / 2);
    let mut busy = scene.client();
    busy.write_all(b"busy").unwrap();
    scene.pull_until(4, 0);
    // The time of the test host advances only when there is nothing else to do.
    let seen = scene.pull_until(0, 1);
    assert_eq!(seen[0].end, End::Aborted, "an incomplete message is aborted");
    assert_eq!(seen[0].origin, half.local_addr().unwrap().to_string());
    for client in [&mut silent, &mut half] {
        assert_eq!(client.read(&mut [0]).unwrap(), 0);
    }
    assert_eq!(
        (scene.metric("connections"), scene.metric("connections_idle")),
        (Some(1.0), Some(2.0))
    );
    busy.write_all(b"still busy").unwrap();
    scene.pull_until(10, 0);
}

#[test]
fn set_clock_and_late_pull_do_not_close_connections() {
    let limits = Limits { idle_timeout: Some(MINUTE), ..Limits::default() };
    let mut scene = Scene::new(limits);
    let mut client = scene.client();
    client.write_all(b"one").unwrap();
    scene.pull_until(3, 0);
    scene.test.set_now_ns(scene.test.now_ns() + 1_000_000_000_000);
    assert!(scene.waits());
    scene.test.advance(10 * MINUTE);
    // The task of the timer runs first, and then the pull.
    scene.test.block_on(scene.test.host().sleep(Duration::ZERO));
    assert!(scene.waits());
    assert_eq!(scene.metric("connections"), Some(1.0));
    client.write_all(b"two").unwrap();
    assert_eq!(scene.pull_until(3, 0)[0].bytes, b"two");
}

#[test]
fn connections_beyond_the_limit_wait() {
    let mut scene = Scene::new(Limits { max_connections: 2, ..Limits::default() });
    let mut clients: Vec<_> = (0..3).map(|_| scene.client()).collect();
    for client in &mut clients {
        client.write_all(b"x").unwrap();
    }
    scene.pull_until(2, 0);
    assert!(scene.waits());
    assert_eq!(scene.metric("connections"), Some(2.0));
    drop(clients.remove(0));
    scene.pull_until(1, 1);
    assert_eq!(scene.metric("connections_accepted"), Some(3.0));
}

#[test]
fn busy_connections_share_turns_with_others() {
    let mut scene = Scene::new(Limits::default());
    scene.limit.bytes = 128 << 10;
    let mut busy: Vec<_> = (0..4).map(|_| scene.client()).collect();
    for client in &busy {
        client.set_nonblocking(true).unwrap();
    }
    // Writes as much as the system accepts.
    let fill = |clients: &mut [TcpStream]| {
        for client in clients {
            while client.write(&[b'x'; 8 << 10]).is_ok() {}
        }
    };
    fill(&mut busy);
    let mut quiet = scene.client();
    let mut bytes = [0; 6];
    for round in 0..20 {
        fill(&mut busy);
        if round == 8 {
            quiet.write_all(b"a line").unwrap();
        }
        for event in &scene.pull() {
            bytes[usize::try_from(event.stream().number()).unwrap()] += event.raw().unwrap().len();
        }
        assert!(round < 12 || bytes[5] == 6, "the line waits for at most one round");
    }
    let (least, most) = (bytes[1..5].iter().min().unwrap(), bytes[1..5].iter().max().unwrap());
    assert!(least * 2 >= *most, "{bytes:?}");
}

#[test]
fn source_that_is_not_pulled_reads_nothing() {
    let mut scene = Scene::new(Limits::default());
    let client = scene.client();
    client.set_nonblocking(true).unwrap();
    let mut sent = 0;
    while let Ok(count) = (&client).write(&vec![b'x'; 64 << 10]) {
        sent += count;
    }
    assert!(sent > 0, "the system accepts some data");
    scene.pull_until(sent, 0);
}

#[test]
fn cancelled_pull_loses_no_data() {
    let mut scene = Scene::new(Limits::default());
    let mut client = scene.client();
    for number in 0..10_u8 {
        assert!(scene.waits());
        client.write_all(&[number]).unwrap();
        assert_eq!(scene.pull_until(1, 0)[0].bytes, [number]);
    }
}

#[test]
fn connections_wait_while_there_are_no_descriptors() {
    let mut scene = Scene::new(Limits::default());
    let mut first = scene.client();
    first.write_all(b"first").unwrap();
    scene.pull_until(5, 0);
    let mut second = scene.client();
    second.write_all(b"second").unwrap();
    // Accepting has failed, so it is paused.
    scene.server.acceptor.pause_for_error(&scene.test.host(), rustix::io::Errno::MFILE);
    scene.server.acceptor.pause_for_error(&scene.test.host(), rustix::io::Errno::MFILE);
    first.write_all(b" again").unwrap();
    assert_eq!(scene.pull_until(6, 0)[0].bytes, b" again");
    assert!(scene.waits());
    assert_eq!(scene.metric("accept_errors"), Some(2.0));
    let warned = scene.test.log();
    let warned: Vec<_> = warned.iter().filter(|(level, _)| *level == LogLevel::WARN).collect();
    assert_eq!(warned.len(), 1, "logged once a minute at most: {warned:?}");
    assert!(warned[0].1.contains("`ulimit -n`"), "{warned:?}");
    // Time passes, and the server tries again.
    let before = scene.test.now_ns();
    assert_eq!(scene.pull_until(6, 0)[0].bytes, b"second");
    assert_eq!(scene.test.now_ns() - before, 250_000_000);
}

#[test]
fn connections_wait_while_flow_has_no_memory() {
    let mut scene = Scene::new(Limits::default());
    scene.test.set_memory_limit(0);
    let mut first = scene.client();
    first.write_all(b"first").unwrap();
    scene.pull_until(5, 0);
    let mut second = scene.client();
    second.write_all(b"second").unwrap();
    assert!(scene.waits(), "the first connection needs no memory of the flow, and the second does");
    first.write_all(b" again").unwrap();
    assert_eq!(scene.pull_until(6, 0)[0].bytes, b" again");
    let warned = scene.test.log();
    let warned: Vec<_> = warned.iter().filter(|(level, _)| *level == LogLevel::WARN).collect();
    assert_eq!(warned.len(), 1, "logged once a minute at most: {warned:?}");
    assert!(warned[0].1.contains("`--memory-limit`"), "{warned:?}");
    drop(first);
    scene.pull_until(6, 1);
    // Time passes, and the server tries again.
    let mut third = scene.client();
    third.write_all(b"third").unwrap();
    assert!(scene.waits());
    scene.test.set_memory_limit(2 << 20);
    assert_eq!(scene.pull_until(5, 0)[0].bytes, b"third");
}

#[test]
fn closed_connection_admits_the_next_at_once() {
    let mut scene = Scene::new(Limits::default());
    let mut first = scene.client();
    first.write_all(b"first").unwrap();
    scene.pull_until(5, 0);
    scene.server.acceptor.pause_for_error(&scene.test.host(), rustix::io::Errno::MFILE);
    let mut second = scene.client();
    second.write_all(b"second").unwrap();
    drop(first);
    let before = scene.test.now_ns();
    scene.pull_until(6, 1);
    assert_eq!(scene.test.now_ns(), before);
}

#[test]
fn full_server_waits_after_its_retry_timer_expires() {
    let mut scene = Scene::new(Limits { max_connections: 2, ..Limits::default() });
    let mut clients = [(); 2].map(|()| scene.client());
    clients.iter_mut().for_each(|client| client.write_all(b"1").unwrap());
    scene.pull_until(2, 0);
    scene.server.acceptor.pause_for_error(&scene.test.host(), rustix::io::Errno::MFILE);
    let mut later = [(); 2].map(|()| scene.client());
    later.iter_mut().for_each(|client| client.write_all(b"2").unwrap());
    let [_first, second] = clients;
    drop(second);
    scene.pull_until(1, 1);
    assert_eq!(scene.metric("connections"), Some(2.0));
    let host = scene.test.host();
    scene.test.block_on(host.sleep(MINUTE));
    assert!(scene.waits());
}

#[test]
fn data_after_urgent_data_is_read_without_readiness() {
    let mut scene = Scene::new(Limits::default());
    let mut client = scene.client();
    client.write_all(b"one").unwrap();
    rustix::net::send(&client, b"!", rustix::net::SendFlags::OOB).unwrap();
    client.write_all(b"two").unwrap();
    let seen = scene.pull_until(6, 0);
    assert_eq!(seen.iter().map(|event| &*event.bytes).collect::<Vec<_>>().concat(), b"onetwo");
}

#[test]
fn passed_descriptors_are_closed_and_later_data_is_read() {
    use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};

    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("socket");
    let listener = UnixListener::bind(&path).unwrap();
    let test = TestHost::new();
    let mut server = Connections::new(&test.host(), listener, Limits::default()).unwrap();
    let mut client = UnixStream::connect(&path).unwrap();
    let (mut reader, writer) = std::io::pipe().unwrap();
    client.write_all(b"one").unwrap();
    let mut space = [std::mem::MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    let descriptors = [std::os::fd::AsFd::as_fd(&writer)];
    assert!(ancillary.push(SendAncillaryMessage::ScmRights(&descriptors)));
    let message = [std::io::IoSlice::new(b"two")];
    assert_eq!(sendmsg(&client, &message, &mut ancillary, SendFlags::empty()).unwrap(), 3);
    client.write_all(b"three").unwrap();
    drop(writer);
    let mut bytes = Vec::new();
    while bytes.len() < 11 {
        let mut batch = RawBatch::new();
        let pulled = test.poll_once(std::pin::pin!(server.pull(&mut batch)));
        let accepts = pulled.is_pending() && test.metric("connections") == Some(1.0);
        assert!(
            pulled.is_ready() || (accepts && bytes.is_empty()),
            "the system reports no further data"
        );
        batch.iter().for_each(|event| bytes.extend_from_slice(event.raw()));
    }
    assert_eq!(bytes, b"onetwothree");
    assert_eq!(reader.read(&mut [0]).unwrap(), 0, "the passed descriptor is closed");
}

#[test]
fn connections_with_unread_data_are_not_idle() {
    let limits = Limits { idle_timeout: Some(MINUTE), ..Limits::default() };
    let mut scene = Scene::new(limits);
    let mut clients: Vec<_> = (0..300).map(|_| scene.client()).collect();
    while scene.metric("connections") != Some(300.0) {
        scene.waits();
    }
    clients.iter_mut().for_each(|client| client.write_all(b"x").unwrap());
    // The timer expires at its time, but the source is pulled later.
    scene.test.advance(MINUTE);
    scene.test.block_on(scene.test.host().sleep(Duration::from_nanos(1)));
    scene.test.advance(MINUTE / 2);
    scene.pull_until(300, 0);
    assert_eq!(scene.metric("connections"), Some(300.0));
}

#[test]
fn idle_time_includes_time_without_pulls() {
    let limits = Limits { idle_timeout: Some(MINUTE), ..Limits::default() };
    let mut scene = Scene::new(limits);
    let mut client = scene.client();
    client.write_all(b"half a li").unwrap();
    scene.pull_until(9, 0);
    scene.test.advance(MINUTE);
    scene.test.block_on(scene.test.host().sleep(Duration::from_nanos(1)));
    scene.test.advance(10 * MINUTE);
    let before = scene.test.now_ns();
    let seen = scene.pull_until(0, 1);
    assert_eq!((seen[0].end, scene.test.now_ns()), (End::Aborted, before));
}

#[test]
fn unix_socket_is_served() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("socket");
    let listener = UnixListener::bind(&path).unwrap();
    let test = TestHost::new();
    let mut server = Connections::new(&test.host(), listener, Limits::default()).unwrap();
    let mut client = UnixStream::connect(&path).unwrap();
    client.write_all(b"hello").unwrap();
    let mut batch = RawBatch::new();
    test.block_on(server.pull(&mut batch)).unwrap();
    let event = batch.first().unwrap();
    assert_eq!(event.raw(), b"hello");
    assert_eq!(event.origin(), path.to_str());
}

#[test]
fn client_that_connects_during_renewal_is_served() {
    let folder = tempfile::tempdir().unwrap();
    let [old, new] = ["old", "new"].map(|name| folder.path().join(name));
    let test = TestHost::new();
    let listener = UnixListener::bind(&old).unwrap();
    let server = Connections::new(&test.host(), listener, Limits::default()).unwrap();
    let clients = Arc::new(Mutex::new(Vec::new()));
    let (early_clients, address) = (clients.clone(), new.clone());
    let mut server = server.with_renewal(MINUTE, move || {
        let mut client = UnixStream::connect(&old).ok()?;
        client.write_all(b"early").ok()?;
        early_clients.lock().unwrap().push(client);
        Some(UnixListener::bind(&address).ok()?.into())
    });
    let mut pulled = || {
        let mut batch = RawBatch::new();
        test.block_on(server.pull(&mut batch)).unwrap();
        batch.iter().next().map(|event| event.raw().to_vec()).unwrap_or_default()
    };
    test.advance(MINUTE);
    assert_eq!(pulled(), b"early");
    let mut later = UnixStream::connect(&new).unwrap();
    later.write_all(b"later").unwrap();
    assert_eq!(pulled(), b"later");
    assert_eq!(clients.lock().unwrap().len(), 1, "the old listener is replaced once");
}
