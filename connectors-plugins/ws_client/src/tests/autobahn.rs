//! The cases of the Autobahn test suite, from a server.

use std::{
    future::poll_fn,
    sync::{Arc, Mutex},
    task::Poll,
};

use tremor_pdk::{ErrorKind, EventRef, testing::TestHost};

use super::{agree, connect, frame, peer};
use crate::session::{
    cases::{self, Case},
    write_all,
};

/// The first byte of a close.
const CLOSE: u8 = 0x88;

/// Sends a case in parts of this length, and looks at what comes of it.
fn check(case: &Case, part: usize) {
    let test = TestHost::new();
    let (bytes, answers) = (case.bytes(None), Arc::new(Mutex::new(Vec::new())));
    let hears = answers.clone();
    let (address, _peer) = peer(&test, move |mut stream| async move {
        agree(&mut stream).await;
        for part in bytes.chunks(part) {
            // The client may have had enough of it.
            if write_all(&mut stream, part).await.is_err() {
                break;
            }
        }
        let mut is_closed = false;
        while !is_closed {
            let answer = frame(&mut stream).await;
            is_closed = answer.0 == CLOSE;
            hears.lock().unwrap().push(answer);
        }
    });
    let mut client = connect(&test, &format!("ws://{address}/"), "").unwrap();
    let (mut messages, mut end) = (Vec::new(), None);
    let error = loop {
        match client.pull() {
            Ok((_, batch)) => {
                let others = batch.iter().filter(|event| !event.is_stream_end());
                messages.extend(others.filter_map(|event| Some(event.raw()?.to_vec())));
                let found = batch.iter().find(|event| event.is_stream_end());
                end = end.or(found.map(EventRef::is_stream_aborted));
            }
            Err(error) => break error,
        }
    };
    let name = &case.name;
    assert_eq!(error.kind(), ErrorKind::CONNECTION_LOST, "{name}");
    assert_eq!((&messages, end), (&case.messages, Some(case.is_cut_off)), "{name}");
    let is_closed = || answers.lock().unwrap().last().is_some_and(|answer| answer.0 == CLOSE);
    test.block_on(poll_fn(|_| if is_closed() { Poll::Ready(()) } else { Poll::Pending }));
    cases::compare(case, &answers.lock().unwrap());
}

#[test]
fn the_cases_of_autobahn_bring_messages_and_are_answered_as_they_should() {
    for case in cases::all() {
        check(&case, usize::MAX);
    }
}

#[test]
fn they_do_so_byte_by_byte() {
    for case in cases::all() {
        check(&case, if case.bytes(None).len() > 1_000 { 997 } else { 1 });
    }
}
