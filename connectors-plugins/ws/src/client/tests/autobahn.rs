//! Tests of the client with cases of the Autobahn test suite, which a server sends.

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

/// First byte of a close frame.
const CLOSE: u8 = 0x88;

/// Sends the frames of a case in writes of `part` bytes, and compares the events and the response
/// with the expected ones.
fn check(case: &Case, part: usize) {
    let test = TestHost::new();
    let (bytes, answers) = (case.bytes(None), Arc::new(Mutex::new(Vec::new())));
    let recorded = answers.clone();
    let (address, _peer) = peer(&test, move |mut stream| async move {
        agree(&mut stream).await;
        for part in bytes.chunks(part) {
            // The client may have closed the connection.
            if write_all(&mut stream, part).await.is_err() {
                break;
            }
        }
        let mut is_closed = false;
        while !is_closed {
            let answer = frame(&mut stream).await;
            is_closed = answer.0 == CLOSE;
            recorded.lock().unwrap().push(answer);
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
fn autobahn_cases_have_expected_results() {
    for case in cases::all() {
        check(&case, usize::MAX);
    }
}

#[test]
fn autobahn_cases_have_expected_results_byte_by_byte() {
    for case in cases::all() {
        check(&case, if case.bytes(None).len() > 1_000 { 997 } else { 1 });
    }
}
