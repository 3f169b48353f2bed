#![allow(clippy::unwrap_used)] // a failed `unwrap` names the line of the test

use std::{
    fs, io,
    os::unix::net::UnixDatagram,
    path::PathBuf,
    pin::pin,
    sync::{Arc, Mutex},
    thread,
    time::Duration,
};

use rustix::net::sockopt::set_socket_send_buffer_size;

use super::{LONGEST, UnixDatagramSink, UnixDatagrams};
use crate::{
    ErrorKind, Limit, LogLevel, Pull, RawBatch, Sink, Source, Undelivered, testing::TestHost,
};

struct Scene {
    test: TestHost,
    folder: tempfile::TempDir,
    source: UnixDatagrams,
}

impl Scene {
    fn new() -> Self {
        let (test, folder) = (TestHost::new(), tempfile::tempdir().unwrap());
        let path = folder.path().join("socket");
        let socket = UnixDatagram::bind(&path).unwrap();
        let source = UnixDatagrams::new(&test.host(), socket, &path).unwrap();
        Self { test, folder, source }
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("socket")
    }

    fn sender(&self) -> UnixDatagram {
        let sender = UnixDatagram::unbound().unwrap();
        sender.connect(self.path()).unwrap();
        sender
    }

    fn pull(&mut self, limit: Limit) -> Vec<Vec<u8>> {
        let mut batch = RawBatch::new();
        batch.set_limit(limit);
        assert_eq!(self.test.block_on(self.source.pull(&mut batch)), Ok(Pull::Events));
        let path = self.path();
        batch.iter().for_each(|event| assert_eq!(event.origin(), path.to_str()));
        batch.iter().map(|event| event.raw().to_vec()).collect()
    }
}

#[test]
fn each_datagram_is_a_message_of_any_length() {
    let mut scene = Scene::new();
    let sender = scene.sender();
    let long = vec![b'x'; 150_000];
    for datagram in [&b"one"[..], b"", &long, b"four\n\0"] {
        sender.send(datagram).unwrap();
    }
    assert_eq!(scene.pull(Limit::default()), [&b"one"[..], b"", &long, b"four\n\0"]);
}

#[test]
fn full_queue_makes_senders_wait_and_drops_nothing() {
    let mut scene = Scene::new();
    let sender = scene.sender();
    sender.set_nonblocking(true).unwrap();
    let mut sent = 0_u32;
    while sender.send(&sent.to_be_bytes()).is_ok() {
        sent += 1;
    }
    assert_eq!(sender.send(b"x").unwrap_err().kind(), io::ErrorKind::WouldBlock);
    sender.set_nonblocking(false).unwrap();
    let waiting = thread::spawn(move || {
        (sent..1_000).for_each(|number| assert_eq!(sender.send(&number.to_be_bytes()).unwrap(), 4));
    });
    let mut received = Vec::new();
    while received.len() < 1_000 {
        received.extend(scene.pull(Limit { events: 7, ..Limit::default() }));
    }
    waiting.join().unwrap();
    assert!(
        received
            .iter()
            .enumerate()
            .all(|(number, it)| *it == u32::try_from(number).unwrap().to_be_bytes())
    );
}

#[test]
fn datagram_above_the_limit_is_shortened_and_counted() {
    let mut scene = Scene::new();
    let sender = scene.sender();
    // Only a privileged process can send such datagrams with the default limits of the system.
    let _ = rustix::net::sockopt::set_socket_send_buffer_size_force(&sender, 4 << 20);
    let _ = set_socket_send_buffer_size(&sender, 4 << 20);
    let long = vec![b'x'; LONGEST + 10];
    if sender.send(&long).is_err() {
        return;
    }
    sender.send(b"next").unwrap();
    let received = scene.pull(Limit { bytes: 4 << 20, ..Limit::default() });
    assert!(received[0] == long[..LONGEST] && received[1] == b"next");
    assert_eq!(scene.test.metric("datagrams_shortened"), Some(1.0));
    let log = scene.test.log();
    assert!(log.iter().any(|(level, line)| *level == LogLevel::WARN && line.contains("shortened")));
}

#[test]
fn socket_is_replaced_after_its_datagrams_are_read() {
    let scene = Scene::new();
    let path = scene.path();
    let next = Arc::new(Mutex::new(None));
    let own = next.clone();
    let Scene { test, folder, source } = scene;
    let source = source.with_renewal(Duration::from_secs(1), move || own.lock().unwrap().take());
    let mut scene = Scene { test, folder, source };
    let old = scene.sender();
    old.send(b"before").unwrap();
    fs::remove_file(&path).unwrap();
    *next.lock().unwrap() = Some(UnixDatagram::bind(&path).unwrap());
    let new = scene.sender();
    new.send(b"after").unwrap();
    assert_eq!(scene.pull(Limit::default()), [b"before"]);
    assert_eq!(scene.pull(Limit::default()), [b"after"]);
    assert_eq!(old.send(b"x").unwrap_err().kind(), io::ErrorKind::ConnectionRefused);
}

fn batch(messages: &[&[u8]]) -> RawBatch {
    let mut batch = RawBatch::new();
    messages.iter().for_each(|message| batch.push_message(message));
    batch
}

#[test]
fn sink_sends_messages_and_waits_for_a_full_queue() {
    let (test, folder) = (TestHost::new(), tempfile::tempdir().unwrap());
    let path = folder.path().join("socket");
    let error = UnixDatagramSink::connect(&test.host(), &path).err().unwrap();
    assert_eq!(error.kind(), ErrorKind::CONNECTION_REFUSED);
    let peer = UnixDatagram::bind(&path).unwrap();
    let mut sink = UnixDatagramSink::connect(&test.host(), &path).unwrap();
    let numbers: Vec<_> = (0..1_000_u32).map(u32::to_be_bytes).collect();
    let messages = batch(&numbers.iter().map(|number| &number[..]).collect::<Vec<_>>());
    {
        let mut delivery = pin!(sink.deliver(&messages));
        assert!(test.poll_once(delivery.as_mut()).is_pending(), "the queue of the peer is full");
        let reads = thread::spawn(move || {
            let mut received = Vec::new();
            while received.len() < 1_000 {
                let mut bytes = [0; 8];
                let count = peer.recv(&mut bytes).unwrap();
                received.push(bytes[..count].to_vec());
            }
            (peer, received)
        });
        assert!(test.block_on(delivery).is_ok());
        let (peer, received) = reads.join().unwrap();
        assert_eq!(received, numbers);
        drop(peer);
    }
    let Err(Undelivered::All(error)) = test.block_on(sink.deliver(&batch(&[b"lost"]))) else {
        panic!("the peer is gone");
    };
    assert_eq!(error.kind(), ErrorKind::CONNECTION_LOST);
}

#[test]
fn only_event_with_too_long_datagram_fails() {
    let (test, folder) = (TestHost::new(), tempfile::tempdir().unwrap());
    let path = folder.path().join("socket");
    let peer = UnixDatagram::bind(&path).unwrap();
    let mut sink = UnixDatagramSink::connect(&test.host(), &path).unwrap();
    let long = vec![b'x'; 64 << 20];
    let delivered = test.block_on(sink.deliver(&batch(&[b"one", &long, b"three"])));
    let Err(Undelivered::Some { exceptions, .. }) = delivered else { panic!("{delivered:?}") };
    assert_eq!((exceptions.len(), exceptions[0].events.clone()), (1, 1..2));
    let mut bytes = [0; 8];
    for expected in [&b"one"[..], b"three"] {
        let count = peer.recv(&mut bytes).unwrap();
        assert_eq!(&bytes[..count], expected);
    }
}
