use std::{
    future::poll_fn,
    io::{Read, Write},
    os::unix::net::UnixStream,
    task::{Context, Poll, Waker},
};

use super::Descriptors;
use crate::testing::TestHost;

fn pair() -> (UnixStream, UnixStream) {
    let (one, other) = UnixStream::pair().expect("a pair of sockets");
    one.set_nonblocking(true).expect("a socket has a non-blocking mode");
    (one, other)
}

#[test]
fn many_descriptors_can_be_awaited_repeatedly() {
    let test = TestHost::new();
    let descriptors = Descriptors::new(&test.host()).unwrap();
    let pairs: Vec<_> = (0..40)
        .map(|_| {
            let (one, other) = pair();
            (descriptors.register(one).unwrap(), other)
        })
        .collect();
    for round in 0..3_u8 {
        // The bytes are written in reverse order, so that the descriptors do not become ready in the order in which
        // they are awaited.
        for (_, other) in pairs.iter().rev() {
            (&*other).write_all(&[round]).unwrap();
        }
        for (one, _) in &pairs {
            let mut byte = [9];
            let read = one.read_with(|mut socket| socket.read(&mut byte));
            assert_eq!(test.block_on(read).unwrap(), 1);
            assert_eq!(byte, [round]);
        }
    }
}

#[test]
fn read_waits_for_data_and_for_the_end() {
    let test = TestHost::new();
    let descriptors = Descriptors::new(&test.host()).unwrap();
    let (one, other) = pair();
    let one = descriptors.register(one).unwrap();
    let mut bytes = [0; 16];
    let late = std::thread::spawn(move || {
        (&other).write_all(b"late").unwrap();
        other
    });
    let count = test.block_on(one.read_with(|mut socket| socket.read(&mut bytes))).unwrap();
    assert_eq!(&bytes[..count], b"late");
    drop(late.join().unwrap());
    let count = test.block_on(one.read_with(|mut socket| socket.read(&mut bytes))).unwrap();
    assert_eq!(count, 0, "the other side is gone");
}

#[test]
fn write_waits_until_the_peer_reads() {
    let test = TestHost::new();
    let descriptors = Descriptors::new(&test.host()).unwrap();
    let (one, mut other) = pair();
    let one = descriptors.register(one).unwrap();
    let mut sent = 0;
    while let Ok(count) = (&mut one.get_ref()).write(&[7; 4096]) {
        sent += count;
    }
    let reader = std::thread::spawn(move || {
        let mut all = vec![0; sent];
        other.read_exact(&mut all).unwrap();
        other
    });
    let wrote = test.block_on(one.write_with(|mut socket| socket.write(&[8; 16]))).unwrap();
    assert_eq!(wrote, 16);
    drop(reader.join().unwrap());
}

#[cfg(feature = "net")]
#[test]
fn short_read_is_not_repeated_before_new_data() {
    let test = TestHost::new();
    let descriptors = Descriptors::new(&test.host()).unwrap();
    let (one, mut other) = pair();
    let one = descriptors.register(one).unwrap();
    let (mut bytes, mut reads) = ([0; 16], 0);
    let mut read = |context: &Context<'_>| {
        one.poll_read_bytes(context, 16, |mut socket| {
            reads += 1;
            socket.read(&mut bytes)
        })
    };
    let mut once = |is_waited_for| {
        if is_waited_for {
            return test.block_on(poll_fn(|context| read(context))).ok();
        }
        match read(&Context::from_waker(Waker::noop())) {
            Poll::Ready(result) => result.ok(),
            Poll::Pending => None,
        }
    };
    assert_eq!(once(false), None);
    other.write_all(b"short").unwrap();
    assert_eq!(once(true), Some(5));
    assert_eq!((once(false), once(false)), (None, None));
    // A read that fills the buffer may have left data behind.
    other.write_all(&[0; 20]).unwrap();
    assert_eq!((once(true), once(false)), (Some(16), Some(4)));
    assert_eq!(once(false), None);
    drop(other);
    assert_eq!((once(true), once(false)), (Some(0), Some(0)));
    // The socket was read once before data arrived, and once for each result: data or the end.
    assert_eq!(reads, 6);
}

#[test]
fn reused_entry_gets_no_events_of_its_predecessor() {
    let test = TestHost::new();
    let descriptors = Descriptors::new(&test.host()).unwrap();
    let (one, other) = pair();
    drop(descriptors.register(one).unwrap());
    drop(other);
    let (one, mut other) = pair();
    let one = descriptors.register(one).unwrap();
    other.write_all(b"x").unwrap();
    let mut byte = [0];
    let read = one.read_with(|mut socket| socket.read(&mut byte));
    assert_eq!(test.block_on(read).unwrap(), 1);
    let file = std::fs::File::open(env!("CARGO_MANIFEST_DIR").to_owned() + "/Cargo.toml").unwrap();
    assert!(descriptors.register(file).is_err(), "a regular file is always ready");
}
