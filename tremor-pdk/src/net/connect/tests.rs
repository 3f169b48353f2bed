#![allow(clippy::unwrap_used)] // a failed `unwrap` names the line of the test

use std::{
    net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream as Peer},
    time::Duration,
};

use super::{MAX_ADDRESSES, alternating, connect, connect_any, connect_within};
use crate::{Descriptors, ErrorKind, Result, net::TcpStream, testing::TestHost};

/// An address that drops the packets of new connections, because its queue of connections is full.
struct Silent {
    address: SocketAddr,
    _listener: TcpListener,
    _connection: Peer,
}

impl Silent {
    fn new() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        rustix::net::listen(&listener, 0).unwrap();
        let address = listener.local_addr().unwrap();
        Self { address, _connection: Peer::connect(address).unwrap(), _listener: listener }
    }
}

/// Returns an address at which no process listens.
fn refusing() -> SocketAddr {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap()
}

/// Connects on a test host, and returns the result with the time that has passed on its clock.
fn dial(peers: &[SocketAddr], timeout: Duration) -> (Result<TcpStream>, Duration) {
    let test = TestHost::new();
    test.set_patience(Duration::from_millis(500));
    let (host, begun_ns) = (test.host(), test.monotonic_ns());
    let descriptors = Descriptors::new(&host).unwrap();
    let name = "logs.example.com:9000".parse().unwrap();
    let (peers, elapsed) = (peers.to_vec(), Duration::ZERO);
    let connecting = connect_any(&host, &descriptors, &name, peers, timeout, elapsed);
    let result = test.block_on(connecting);
    (result, Duration::from_nanos(test.monotonic_ns() - begun_ns))
}

#[test]
fn silent_and_refusing_addresses_do_not_hide_the_next_one() {
    let (silent, other, listener) =
        (Silent::new(), Silent::new(), TcpListener::bind("127.0.0.1:0").unwrap());
    let open = listener.local_addr().unwrap();
    let peers = [silent.address, refusing(), other.address, open];
    let (stream, took) = dial(&peers, Duration::from_secs(10));
    assert_eq!(stream.unwrap().get_ref().peer_addr().unwrap(), open);
    assert!(took >= Duration::from_millis(500), "each silent address has 250 ms: {took:?}");
    assert!(took < Duration::from_secs(2), "{took:?}");
    let (stream, _) = dial(&peers, Duration::from_millis(100));
    assert!(stream.is_ok(), "with a short time limit the delay is shorter");
}

#[test]
fn refused_address_is_followed_by_the_next_at_once() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut peers = vec![refusing(); MAX_ADDRESSES - 1];
    peers.push(listener.local_addr().unwrap());
    let (stream, took) = dial(&peers, Duration::from_secs(10));
    assert!(stream.is_ok() && took < Duration::from_millis(250), "{took:?}");
}

#[test]
fn error_names_all_addresses_and_the_time_limit_holds() {
    let (silent, other, refusing) = (Silent::new(), Silent::new(), refusing());
    let (first, second) = (silent.address, other.address);
    let (result, took) = dial(&[first, refusing, second], Duration::from_secs(10));
    let error = result.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::CONNECTION_REFUSED);
    let expected = format!(
        "cannot connect to `logs.example.com:9000` within 10s: {refusing}: Connection refused (os \
         error 111); {first}: no answer; {second}: no answer"
    );
    assert_eq!(error.to_string(), expected);
    assert!((Duration::from_secs(10)..Duration::from_secs(11)).contains(&took), "{took:?}");
}

#[test]
fn number_of_tried_addresses_is_limited() {
    let refusing = refusing();
    let (result, _) = dial(&vec![refusing; MAX_ADDRESSES + 7], Duration::from_secs(10));
    let error = result.unwrap_err().to_string();
    assert_eq!(error.matches(&refusing.to_string()).count(), MAX_ADDRESSES, "{error}");
    assert!(error.ends_with("; 7 other addresses were not tried"), "{error}");
}

#[test]
fn families_of_addresses_alternate() {
    let four = |n| SocketAddr::from((Ipv4Addr::new(10, 0, 0, n), 1));
    let six = |n| SocketAddr::from((Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, n), 1));
    let found = vec![six(1), six(2), six(3), four(1), four(2)];
    assert_eq!(alternating(found), [six(1), four(1), six(2), four(2), six(3)]);
    assert_eq!(alternating(vec![four(1), four(2)]), [four(1), four(2)]);
}

#[test]
fn unreachable_address_is_a_refused_connection() {
    let test = TestHost::new();
    let host = test.host();
    let descriptors = Descriptors::new(&host).unwrap();
    let address = "localhost:1".parse().unwrap();
    let limited = connect_within(&host, &descriptors, &address, Duration::from_secs(5));
    for result in [test.block_on(connect(&host, &descriptors, &address)), test.block_on(limited)] {
        let error = result.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::CONNECTION_REFUSED);
        let message = error.to_string();
        assert!(message.starts_with("cannot connect to `localhost:1`: "), "{message}");
        assert!(message.contains("127.0.0.1:1: Connection refused"), "{message}");
    }
}

#[test]
fn lookup_of_name_counts_against_the_time_limit() {
    let test = TestHost::new();
    let host = test.host();
    let descriptors = Descriptors::new(&host).unwrap();
    let address = "localhost:1".parse().unwrap();
    // The time limit ends before the lookup, because the lookup runs on another thread.
    let result = test.block_on(connect_within(&host, &descriptors, &address, Duration::ZERO));
    let message = result.unwrap_err().to_string();
    assert_eq!(message, "cannot find the address of `localhost:1`: no answer within 0ns");
}
