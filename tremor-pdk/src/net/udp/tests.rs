#![allow(clippy::unwrap_used)] // a failed `unwrap` names the line of the test

use std::{
    net::{SocketAddr, UdpSocket as Peer},
    pin::pin,
    time::Duration,
};

use rustix::net::sockopt::set_socket_recv_buffer_size;

use super::{DatagramSocket, Datagrams, UdpSocket};
use crate::{
    Descriptors, Limit, LogLevel, Pull, RawBatch, Source, net::bind_udp, testing::TestHost,
};

fn any() -> [SocketAddr; 1] {
    ["127.0.0.1:0".parse().unwrap()]
}

fn peer() -> Peer {
    Peer::bind(any()[0]).unwrap()
}

struct Server {
    test: TestHost,
    source: Datagrams,
    address: SocketAddr,
}

fn server() -> Server {
    Server::at(any()[0], false)
}

impl Server {
    fn at(address: SocketAddr, reuse_port: bool) -> Self {
        let test = TestHost::new();
        let socket = bind_udp(&[address], reuse_port).unwrap();
        let address = socket.local_addr().unwrap();
        Self { source: Datagrams::new(&test.host(), socket).unwrap(), test, address }
    }

    /// Limits the buffer of the system, which then drops a part of [`FLOOD`].
    fn with_small_buffer(self) -> Self {
        set_socket_recv_buffer_size(&self.source.socket, 64 << 10).unwrap();
        self
    }

    fn dropped(&self) -> usize {
        dropped(&self.test)
    }

    fn pull(&mut self, limit: Limit) -> RawBatch {
        let mut batch = RawBatch::new();
        batch.set_limit(limit);
        assert_eq!(self.test.block_on(self.source.pull(&mut batch)), Ok(Pull::Events));
        batch
    }
}

#[test]
fn each_datagram_is_a_message_with_its_sender() {
    let mut server = server();
    let senders = [peer(), peer()];
    let large = vec![b'x'; 65_507];
    let sent: [(usize, &[u8]); 5] =
        [(0, b"one"), (0, b""), (1, b"two"), (0, &large), (1, b"three")];
    for (sender, datagram) in sent {
        senders[sender].send_to(datagram, server.address).unwrap();
    }
    let batch = server.pull(Limit::default());
    assert_eq!(batch.len(), sent.len());
    for (event, (sender, datagram)) in batch.iter().zip(sent) {
        assert!(!event.is_fragment());
        assert!(event.raw() == datagram);
        assert_eq!(event.origin().unwrap(), senders[sender].local_addr().unwrap().to_string());
    }
}

#[test]
fn limit_of_pull_is_respected_without_loss() {
    let mut server = server();
    let sender = peer();
    for number in 0..10_u8 {
        sender.send_to(&[number], server.address).unwrap();
    }
    let mut seen = Vec::new();
    while seen.len() < 10 {
        let batch = server.pull(Limit { events: 3, bytes: 1 << 20 });
        assert!(batch.len() <= 3);
        seen.extend(batch.iter().map(|event| event.raw()[0]));
    }
    assert_eq!(seen, (0..10).collect::<Vec<_>>());
}

/// Lets the time of a host pass, without a pull.
fn pass(test: &TestHost, time: Duration) {
    test.block_on(test.host().sleep(time + Duration::from_millis(1)));
}

#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // a whole number
fn dropped(test: &TestHost) -> usize {
    test.metric("datagrams_dropped").unwrap() as usize
}

/// Number of datagrams that exceed the buffer of a socket, but not the queue of the network before it, whose losses are
/// not those of the socket.
const FLOOD: usize = 640;

fn flood(sender: &Peer, address: SocketAddr, datagrams: usize) {
    for _ in 0..datagrams {
        sender.send_to(&[b'x'; 1_000], address).unwrap();
    }
}

fn warnings(test: &TestHost) -> Vec<String> {
    let log = test.log().into_iter();
    log.filter(|(level, _)| *level == LogLevel::WARN).map(|(_, line)| line).collect()
}

#[test]
fn dropped_datagrams_are_counted_and_reported_without_pulls() {
    for address in ["127.0.0.1:0", "[::1]:0"] {
        let address = address.parse().unwrap();
        let mut server = Server::at(address, false).with_small_buffer();
        let sender = Peer::bind(address).unwrap();
        flood(&sender, server.address, FLOOD);
        pass(&server.test, Duration::from_secs(1));
        let first = server.dropped();
        assert!(first > 0);
        let reported = format!("the system dropped {first} datagrams for {}", server.address);
        let log = warnings(&server.test);
        assert!(log.len() == 1 && log[0].starts_with(&reported), "{log:?}");

        flood(&sender, server.address, 100);
        pass(&server.test, Duration::from_secs(1));
        assert_eq!(server.dropped(), first + 100, "the buffer is still full");
        assert_eq!(warnings(&server.test), log, "one line a minute is logged");
        pass(&server.test, Duration::from_mins(1));
        let log = warnings(&server.test);
        assert!(log.len() == 2 && log[1].starts_with("the system dropped 100 "), "{log:?}");

        let received = server.pull(Limit::default()).len();
        assert_eq!(received, FLOOD - first);
        flood(&sender, server.address, FLOOD);
        server.test.block_on(server.source.close()).unwrap();
        let lost = server.dropped() - first - 100;
        assert!(lost > 0);
        let log = warnings(&server.test);
        let reported = format!("the system dropped {lost} ");
        assert!(log.len() == 3 && log[2].starts_with(&reported), "{log:?}");
    }
}

#[test]
fn sockets_with_one_address_count_their_own_datagrams() {
    let one = Server::at(any()[0], true).with_small_buffer();
    let two = Server::at(one.address, true).with_small_buffer();
    // The system chooses the socket by the address of the sender.
    for _ in 0..64 {
        flood(&peer(), one.address, FLOOD / 64);
    }
    let mut dropped_or_received = 0;
    for mut server in [one, two] {
        pass(&server.test, Duration::from_secs(1));
        assert!(server.dropped() > 0);
        let received = server.pull(Limit { events: 10_000, bytes: 1 << 30 }).len();
        dropped_or_received += received + server.dropped();
    }
    assert_eq!(dropped_or_received, FLOOD);
}

#[test]
fn datagrams_are_counted_while_socket_has_no_source() {
    let test = TestHost::new();
    let socket = bind_udp(&any(), false).unwrap();
    set_socket_recv_buffer_size(&socket, 4 << 10).unwrap();
    let address = socket.local_addr().unwrap();
    let socket = DatagramSocket::new(&test.host(), socket);
    drop(socket.source().unwrap());
    flood(&peer(), address, 100);
    pass(&test, Duration::from_secs(1));
    let mut server = Server { source: socket.source().unwrap(), test, address };
    let received = server.pull(Limit::default()).len();
    assert_eq!(server.dropped(), 100 - received);
    // The datagrams that were dropped last are counted with the socket.
    flood(&peer(), address, 100);
    let before = server.dropped();
    let Server { test, source, .. } = server;
    drop((source, socket));
    assert!(dropped(&test) > before);
}

#[test]
fn socket_receives_a_datagram_and_answers() {
    let test = TestHost::new();
    let descriptors = Descriptors::new(&test.host()).unwrap();
    let socket = UdpSocket::new(&descriptors, bind_udp(&any(), false).unwrap()).unwrap();
    let address = socket.get_ref().local_addr().unwrap();
    let mut buffer = [0; 16];
    assert!(test.poll_once(pin!(socket.receive_from(&mut buffer))).is_pending());
    let peer = peer();
    peer.send_to(b"question", address).unwrap();
    let (count, from) = test.block_on(socket.receive_from(&mut buffer)).unwrap();
    assert_eq!((&buffer[..count], from), (&b"question"[..], peer.local_addr().unwrap()));
    assert_eq!(test.block_on(socket.send_to(b"answer", from)).unwrap(), 6);
    assert_eq!(peer.recv(&mut buffer).unwrap(), 6);
}
