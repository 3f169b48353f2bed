#![allow(clippy::unwrap_used)] // a failed `unwrap` names the line of the test

use std::{
    future,
    net::{SocketAddr, UdpSocket as Peer},
    sync::{Arc, Mutex},
    time::Duration,
};

use super::{DatagramSink, ERROR_INTERVAL, LOOKUP_INTERVAL, Lookup};
use crate::{Error, ErrorKind, RawBatch, Result, Sink, Undelivered, testing::TestHost};

/// Binds a socket on which tests wait for datagrams.
fn peer() -> Peer {
    let peer = Peer::bind("127.0.0.1:0").unwrap();
    peer.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    peer
}

fn address(peer: &Peer) -> SocketAddr {
    peer.local_addr().unwrap()
}

struct Client {
    test: TestHost,
    sink: DatagramSink,
}

fn client(peer: SocketAddr) -> Client {
    let test = TestHost::new();
    let address = peer.to_string().parse().unwrap();
    let host = test.host();
    let sink = test.block_on(DatagramSink::connect(&host, &address)).unwrap();
    Client { test, sink }
}

#[test]
fn each_message_is_a_datagram() {
    let peer = peer();
    let mut client = client(address(&peer));
    let mut batch = RawBatch::new();
    for number in 0..150_u8 {
        batch.push_message(&[number]);
    }
    batch.push_message(b"");
    batch.stream(0).end();
    client.test.block_on(client.sink.deliver(&batch)).unwrap();
    let mut buffer = [0; 8];
    for number in 0..150_u8 {
        assert_eq!(peer.recv(&mut buffer).unwrap(), 1);
        assert_eq!(buffer[0], number);
    }
    assert_eq!(peer.recv(&mut buffer).unwrap(), 0);
}

#[test]
fn only_event_with_too_long_message_fails() {
    let peer = peer();
    let mut client = client(address(&peer));
    let mut batch = RawBatch::new();
    for length in [1, 65_508, 65_507, 70_000, 2] {
        batch.push_message(&vec![b'x'; length]);
    }
    let answer = client.test.block_on(client.sink.deliver(&batch)).unwrap_err();
    let Undelivered::Some { exceptions, .. } = answer else { panic!("{answer:?}") };
    let refused: Vec<_> = exceptions
        .iter()
        .map(|exception| (exception.events.clone(), exception.error.kind()))
        .collect();
    assert_eq!(refused, [(1..2, ErrorKind::BAD_DATA), (3..4, ErrorKind::BAD_DATA)]);
    let mut buffer = vec![0; 70_000];
    for length in [1, 65_507, 2] {
        assert_eq!(peer.recv(&mut buffer).unwrap(), length);
    }
}

#[test]
fn refused_datagrams_are_counted_and_do_not_block() {
    let mut client = client(address(&peer()));
    let mut batch = RawBatch::new();
    for _ in 0..3 {
        batch.push_message(b"anybody");
    }
    client.test.block_on(client.sink.deliver(&batch)).unwrap();
    client.test.block_on(client.sink.deliver(&batch)).unwrap();
    assert!(client.test.metric("datagrams_refused").unwrap() > 0.0);
}

/// A sink whose peer has a name.
struct Named {
    test: TestHost,
    sink: DatagramSink,
    /// Result of each lookup of the name; without one, a lookup never ends.
    addresses: Arc<Mutex<Option<Result<Vec<SocketAddr>>>>>,
}

fn named(addresses: &[SocketAddr]) -> Named {
    let test = TestHost::new();
    test.set_patience(Duration::from_millis(100));
    let addresses = Arc::new(Mutex::new(Some(Ok(addresses.to_vec()))));
    let result = addresses.clone();
    let look_up = move || -> Lookup {
        match result.lock().unwrap().clone() {
            Some(result) => Box::pin(future::ready(result)),
            None => Box::pin(future::pending()),
        }
    };
    let name = "logs.example.com:514".parse().unwrap();
    let host = test.host();
    let sink = test.block_on(DatagramSink::connect_with(&host, &name, Box::new(look_up)));
    Named { sink: sink.unwrap(), test, addresses }
}

impl Named {
    fn move_to(&self, addresses: &[SocketAddr]) {
        *self.addresses.lock().unwrap() = Some(Ok(addresses.to_vec()));
    }

    fn deliver(&mut self, message: &[u8]) {
        let mut batch = RawBatch::new();
        batch.push_message(message);
        self.test.block_on(self.sink.deliver(&batch)).unwrap();
    }
}

fn expect(peer: &Peer, message: &[u8]) {
    let mut buffer = [0; 16];
    let count = peer.recv(&mut buffer).unwrap();
    assert_eq!(&buffer[..count], message);
}

#[test]
fn moved_name_is_followed_after_a_minute() {
    let (first, second) = (peer(), peer());
    let mut named = named(&[address(&first)]);
    named.move_to(&[address(&second)]);
    named.deliver(b"before");
    expect(&first, b"before");
    named.test.advance(LOOKUP_INTERVAL);
    named.deliver(b"after");
    expect(&second, b"after");
    let (_, line) = named.test.log().pop().unwrap();
    assert!(line.contains(&address(&second).to_string()), "{line}");
    // A name with several addresses keeps the current one, although its addresses are in another order.
    named.move_to(&[address(&first), address(&second)]);
    named.test.advance(LOOKUP_INTERVAL);
    named.deliver(b"again");
    expect(&second, b"again");
}

#[test]
fn refused_datagram_leads_to_the_next_address() {
    let alive = peer();
    let [gone, other] = [peer(), peer()].map(|peer| address(&peer));
    let mut named = named(&[gone]);
    named.deliver(b"lost");
    named.move_to(&[gone, other, address(&alive)]);
    // Within a second after a lookup, errors do not cause another one.
    named.deliver(b"lost");
    assert_eq!(named.sink.name.as_ref().unwrap().peer, gone);
    named.test.advance(ERROR_INTERVAL);
    named.deliver(b"lost");
    assert_eq!(named.sink.name.as_ref().unwrap().peer, other);
    named.test.advance(ERROR_INTERVAL);
    named.deliver(b"found");
    expect(&alive, b"found");
}

#[test]
fn failed_lookup_keeps_the_address_and_is_logged() {
    let peer = peer();
    let mut named = named(&[address(&peer)]);
    *named.addresses.lock().unwrap() = Some(Err(Error::connection_refused("no name server")));
    for _ in 0..2 {
        named.test.advance(LOOKUP_INTERVAL);
        named.deliver(b"kept");
        expect(&peer, b"kept");
    }
    let (_, line) = named.test.log().pop().unwrap();
    let expected = format!("datagrams are still sent to {}: no name server", address(&peer));
    assert!(line.ends_with(&expected), "{line}");
}

#[test]
fn lookup_without_an_answer_stops_no_delivery() {
    let (first, second) = (peer(), peer());
    let mut named = named(&[address(&first)]);
    *named.addresses.lock().unwrap() = None;
    named.test.advance(LOOKUP_INTERVAL);
    for message in [b"one", b"two"] {
        named.deliver(message);
        expect(&first, message);
    }
    assert!(named.sink.name.as_ref().unwrap().lookup.is_some(), "the lookup continues");
    named.sink.name.as_mut().unwrap().lookup =
        Some(Box::pin(future::ready(Ok(vec![address(&second)]))));
    named.deliver(b"three");
    expect(&second, b"three");
}
