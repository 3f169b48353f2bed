#![allow(clippy::unwrap_used)] // a failed `unwrap` names the line of the test

use std::{
    net::{SocketAddr, UdpSocket as Peer},
    pin::pin,
};

use rustix::net::sockopt::set_socket_recv_buffer_size;

use super::{Datagrams, UdpSocket};
use crate::{Descriptors, Limit, Pull, RawBatch, Source, net::bind_udp, testing::TestHost};

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
    let test = TestHost::new();
    let socket = bind_udp(&any(), false).unwrap();
    let address = socket.local_addr().unwrap();
    Server { source: Datagrams::new(&test.host(), socket).unwrap(), test, address }
}

impl Server {
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

#[test]
fn datagrams_that_system_drops_are_counted() {
    let mut server = server();
    set_socket_recv_buffer_size(&server.source.socket, 4 << 10).unwrap();
    let (sender, datagram) = (peer(), [b'x'; 1_000]);
    for _ in 0..100 {
        sender.send_to(&datagram, server.address).unwrap();
    }
    let mut received = 0;
    let mut count = |server: &mut Server| received += server.pull(Limit::default()).len();
    count(&mut server);
    let dropped = |server: &Server| server.test.metric("datagrams_dropped").unwrap();
    let first = dropped(&server);
    assert!(first > 0.0);
    // The counter is not updated for every datagram, but at the end.
    for _ in 0..100 {
        sender.send_to(&datagram, server.address).unwrap();
    }
    count(&mut server);
    assert_eq!(Some(dropped(&server)), Some(first));
    server.test.block_on(server.source.close()).unwrap();
    let lost = u32::try_from(200 - received).unwrap();
    assert_eq!(server.test.metric("datagrams_dropped"), Some(f64::from(lost)));
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
