#![allow(clippy::unwrap_used)] // a failed `unwrap` names the line of the test

use std::{
    future::poll_fn,
    io::{IoSlice, IoSliceMut, Read, Write},
    net::TcpListener as StdTcpListener,
    pin::{Pin, pin},
    task::Poll,
    time::Duration,
};

use futures_io::{AsyncRead, AsyncWrite};

use super::{TcpStream, UnixStream};
use crate::{Descriptors, net, testing::TestHost};

struct Scene {
    test: TestHost,
    descriptors: Descriptors,
}

impl Scene {
    fn new() -> Self {
        let test = TestHost::new();
        let descriptors = Descriptors::new(&test.host()).unwrap();
        Self { test, descriptors }
    }

    /// Returns a connected stream and its peer.
    fn pair(&self) -> (TcpStream, std::net::TcpStream) {
        let listener = StdTcpListener::bind("127.0.0.1:0").unwrap();
        let connect = TcpStream::connect(&self.descriptors, listener.local_addr().unwrap());
        let stream = self.test.block_on(connect).unwrap();
        (stream, listener.accept().unwrap().0)
    }
}

#[test]
fn stream_connects_and_carries_bytes_both_ways() {
    let scene = Scene::new();
    let (stream, mut peer) = scene.pair();
    assert!(stream.get_ref().nodelay().unwrap());
    peer.write_all(b"to us").unwrap();
    let (mut one, mut two) = ([0; 2], [0; 8]);
    let read = poll_fn(|context| {
        let buffers = &mut [IoSliceMut::new(&mut one), IoSliceMut::new(&mut two)];
        Pin::new(&mut &stream).poll_read_vectored(context, buffers)
    });
    assert_eq!(scene.test.block_on(read).unwrap(), 5);
    assert_eq!((&one, &two[..3]), (b"to", &b" us"[..]));
    let write = poll_fn(|context| {
        let slices = [IoSlice::new(b"to "), IoSlice::new(b"them")];
        Pin::new(&mut &stream).poll_write_vectored(context, &slices)
    });
    assert_eq!(scene.test.block_on(write).unwrap(), 7);
    scene.test.block_on(poll_fn(|context| Pin::new(&mut &stream).poll_close(context))).unwrap();
    let mut all = String::new();
    peer.read_to_string(&mut all).unwrap();
    assert_eq!(all, "to them");
}

#[test]
fn dropped_read_loses_no_data() {
    let scene = Scene::new();
    let (mut stream, mut peer) = scene.pair();
    let mut buffer = [0; 8];
    {
        let read = pin!(poll_fn(|context| Pin::new(&mut stream).poll_read(context, &mut buffer)));
        assert!(scene.test.poll_once(read).is_pending());
    }
    peer.write_all(b"late").unwrap();
    let read = poll_fn(|context| Pin::new(&mut stream).poll_read(context, &mut buffer));
    assert_eq!(scene.test.block_on(read).unwrap(), 4);
    assert_eq!(&buffer[..4], b"late");
}

#[test]
fn write_waits_until_peer_reads() {
    let scene = Scene::new();
    let (mut stream, mut peer) = scene.pair();
    let chunk = vec![b'x'; 1 << 20];
    let mut sent = 0;
    loop {
        let write = pin!(poll_fn(|context| Pin::new(&mut stream).poll_write(context, &chunk)));
        match scene.test.poll_once(write) {
            Poll::Ready(count) => sent += count.unwrap(),
            Poll::Pending => break,
        }
    }
    let reader = std::thread::spawn(move || {
        let mut all = vec![0; sent + 4];
        peer.read_exact(&mut all).unwrap();
        all
    });
    let write = poll_fn(|context| Pin::new(&mut stream).poll_write(context, b"last"));
    assert_eq!(scene.test.block_on(write).unwrap(), 4);
    assert!(reader.join().unwrap().ends_with(b"xlast"));
}

#[test]
fn connect_without_listener_fails() {
    let scene = Scene::new();
    let connect = TcpStream::connect(&scene.descriptors, "127.0.0.1:1".parse().unwrap());
    let error = scene.test.block_on(connect).unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::ConnectionRefused);
    let connect = UnixStream::connect(&scene.descriptors, "/nowhere/socket");
    let error = scene.test.block_on(connect).unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::NotFound);
}

#[test]
fn close_of_peer_is_detected_without_a_read() {
    let scene = Scene::new();
    let (stream, peer) = scene.pair();
    assert!(!stream.0.is_hung_up());
    drop(peer);
    // The task of `Descriptors` runs during this sleep, and records that the peer has closed the connection.
    scene.test.block_on(scene.test.host().sleep(Duration::from_secs(1)));
    assert!(stream.0.is_hung_up());
}

#[test]
fn listener_accepts_a_connection() {
    let scene = Scene::new();
    let listener = net::listen(&["127.0.0.1:0".parse().unwrap()], false).unwrap();
    let listener = net::TcpListener::new(&scene.descriptors, listener).unwrap();
    let address = listener.get_ref().local_addr().unwrap();
    {
        let accept = pin!(listener.accept());
        assert!(scene.test.poll_once(accept).is_pending());
    }
    let mut peer = std::net::TcpStream::connect(address).unwrap();
    let (mut stream, from) = scene.test.block_on(listener.accept()).unwrap();
    assert_eq!(from, peer.local_addr().unwrap());
    peer.write_all(b"hello").unwrap();
    let mut buffer = [0; 8];
    let read = poll_fn(|context| Pin::new(&mut stream).poll_read(context, &mut buffer));
    assert_eq!(scene.test.block_on(read).unwrap(), 5);
}

#[test]
fn listeners_share_an_address_only_if_all_allow_it() {
    let any = ["127.0.0.1:0".parse().unwrap()];
    let first = net::listen(&any, true).unwrap();
    let taken = [first.local_addr().unwrap()];
    net::listen(&taken, true).unwrap();
    let error = net::listen(&taken, false).unwrap_err();
    assert_eq!(error.kind(), crate::ErrorKind::CONNECTION_REFUSED, "a later attempt may succeed");
    assert!(error.to_string().contains("`reuse_port`"), "{error}");
    assert!(error.to_string().contains(&taken[0].to_string()), "{error}");
}

/// Reads once.
fn read(scene: &Scene, stream: &TcpStream) -> Vec<u8> {
    let mut bytes = [0; 64];
    let read = poll_fn(|context| Pin::new(&mut &*stream).poll_read(context, &mut bytes));
    let count = scene.test.block_on(read).unwrap();
    bytes[..count].to_vec()
}

#[test]
fn data_and_end_after_a_short_read_are_read() {
    let scene = Scene::new();
    let (stream, mut peer) = scene.pair();
    for round in [&b"one"[..], b"two", b"three"] {
        peer.write_all(round).unwrap();
        assert_eq!(read(&scene, &stream), round);
    }
    // The peer may close before its last bytes were read, or afterwards.
    peer.write_all(b"last").unwrap();
    drop(peer);
    assert_eq!(read(&scene, &stream), b"last");
    assert_eq!(read(&scene, &stream), b"");
    let (stream, mut peer) = scene.pair();
    peer.write_all(b"last").unwrap();
    assert_eq!(read(&scene, &stream), b"last");
    drop(peer);
    assert_eq!(read(&scene, &stream), b"");
}

#[test]
fn data_after_urgent_data_is_read() {
    let scene = Scene::new();
    let (stream, mut peer) = scene.pair();
    peer.write_all(b"one").unwrap();
    rustix::net::send(&peer, b"!", rustix::net::SendFlags::OOB).unwrap();
    peer.write_all(b"two").unwrap();
    let mut all = Vec::new();
    while all.len() < 6 {
        all.extend(read(&scene, &stream));
    }
    assert_eq!(all, b"onetwo");
}
