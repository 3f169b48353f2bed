#![allow(clippy::unwrap_used)] // a failed `unwrap` names the line of the test

use std::{
    io::{Read, Write},
    net::{TcpListener, TcpStream as Peer},
    sync::Arc,
    thread,
    time::Duration,
};

use rustix::net::sockopt::set_socket_linger;

use super::{StreamSink, StreamSource};
use crate::{
    Batch, Descriptors, ErrorKind, Pull, RawBatch, Result, Sink, Source,
    net::{Link, TcpStream, connect, server_origin},
    testing::TestHost,
};

struct Scene {
    test: TestHost,
    source: StreamSource<TcpStream>,
    sink: StreamSink<TcpStream>,
    peer: Peer,
}

fn scene() -> Scene {
    let test = TestHost::new();
    let host = test.host();
    let descriptors = Descriptors::new(&host).unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string().parse().unwrap();
    let stream = test.block_on(connect(&host, &descriptors, &address)).unwrap();
    let link = Arc::new(Link::new(stream));
    let source = StreamSource::new(link.clone(), &server_origin(&address.to_string(), &address));
    let sink = StreamSink::new(&host, link, &address);
    Scene { test, source, sink, peer: listener.accept().unwrap().0 }
}

impl Scene {
    fn pull(&mut self) -> Result<Batch> {
        let mut batch = RawBatch::new();
        let pull = self.test.block_on(self.source.pull(&mut batch))?;
        assert_eq!(pull, Pull::Events);
        Ok(batch.into())
    }
}

#[test]
fn data_of_peer_is_one_stream_until_it_closes() {
    let mut scene = scene();
    scene.peer.write_all(b"some bytes").unwrap();
    let batch = scene.pull().unwrap();
    let event = batch.first().unwrap();
    assert_eq!((event.raw(), event.is_fragment()), (Some(&b"some bytes"[..]), true));
    let address = scene.peer.local_addr().unwrap().to_string();
    assert_eq!(event.origin(), Some(&*address));
    scene.peer.shutdown(std::net::Shutdown::Write).unwrap();
    let event = scene.pull().unwrap();
    assert!(event.first().unwrap().is_stream_end() && !event.first().unwrap().is_stream_aborted());
    for _ in 0..2 {
        let error = scene.pull().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::CONNECTION_LOST);
        assert!(error.to_string().contains("has closed the connection"), "{error}");
    }
}

#[test]
fn reset_within_a_message_aborts_the_stream() {
    let mut scene = scene();
    scene.peer.write_all(b"half a li").unwrap();
    scene.pull().unwrap();
    set_socket_linger(&scene.peer, Some(Duration::ZERO)).unwrap();
    let Scene { test, mut source, peer, .. } = scene;
    drop(peer);
    let mut batch = RawBatch::new();
    assert_eq!(test.block_on(source.pull(&mut batch)), Ok(Pull::Events));
    assert!(Batch::from(batch).first().unwrap().is_stream_aborted());
    let error = test.block_on(source.pull(&mut RawBatch::new())).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::CONNECTION_LOST);
}

#[test]
fn messages_are_written_in_order_with_many_writes() {
    let mut scene = scene();
    let mut batch = Batch::new();
    let messages: Vec<_> =
        (0..5_000_usize).map(|i| format!("{i}: {}\n", "x".repeat(i % 700))).collect();
    for message in &messages {
        batch.push_message(message.as_bytes());
        // A gap between the messages causes more slices than the system accepts at once.
        batch.push_message(b"gap");
    }
    batch.retain(|event| event.raw() != Some(b"gap"));
    let mut peer = scene.peer.try_clone().unwrap();
    let expected = messages.concat();
    let length = expected.len();
    let reader = thread::spawn(move || {
        let mut all = vec![0; length];
        peer.read_exact(&mut all).unwrap();
        all
    });
    scene.test.block_on(scene.sink.deliver(&batch.into())).unwrap();
    assert!(reader.join().unwrap() == expected.as_bytes());
}

#[test]
fn delivery_to_closed_peer_fails() {
    let Scene { test, mut sink, peer, .. } = scene();
    drop(peer);
    // The task of `Descriptors` runs during this sleep, and records that the peer has closed the connection.
    test.block_on(test.host().sleep(Duration::from_secs(1)));
    let mut batch = RawBatch::new();
    batch.push_message(b"into the void");
    let error = test.block_on(sink.deliver(&batch)).unwrap_err().into_error();
    assert_eq!(error.kind(), ErrorKind::CONNECTION_LOST);
    assert_eq!(test.block_on(sink.deliver(&RawBatch::new())), Ok(()), "an empty batch cannot fail");
}

#[test]
fn close_delivers_everything_despite_unread_input() {
    let mut scene = scene();
    // The message has more bytes than the system accepts while the peer does not read.
    let mut batch = RawBatch::new();
    let message = vec![b'x'; 1 << 20];
    batch.push_message(&message);
    scene.peer.write_all(b"250 an answer that nobody reads\n").unwrap();
    let mut peer = scene.peer.try_clone().unwrap();
    let reader = thread::spawn(move || {
        let mut all = Vec::new();
        peer.read_to_end(&mut all).map(|_| all)
    });
    scene.test.block_on(scene.sink.deliver(&batch)).unwrap();
    scene.test.block_on(scene.sink.close()).unwrap();
    drop((scene.sink, scene.source));
    let all = reader.join().unwrap();
    assert!(all.is_ok_and(|all| all == message), "the connection is not reset");
}
