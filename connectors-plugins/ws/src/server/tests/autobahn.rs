//! Cases of the Autobahn test suite, sent by a client.

use std::{io::Write, thread};

use super::Scene;
use crate::session::cases::{self, Case};

/// Parses frames of a server, which have no mask.
fn parse(mut bytes: &[u8]) -> Vec<(u8, Vec<u8>)> {
    let mut frames = Vec::new();
    while let [first, length @ 0..126, rest @ ..] = bytes {
        let (payload, rest) = rest.split_at(usize::from(*length));
        frames.push((*first, payload.to_vec()));
        bytes = rest;
    }
    assert!(bytes.is_empty(), "{bytes:?}");
    frames
}

/// Events of a connection.
#[derive(Default)]
struct Received {
    messages: Vec<Vec<u8>>,
    /// `true` if the stream was aborted; `None` until it has ended.
    end: Option<bool>,
}

impl Received {
    fn pull(&mut self, scene: &mut Scene) {
        let (_, batch) = scene.server.pull().unwrap();
        for event in &batch {
            if event.is_stream_end() {
                self.end = Some(event.is_stream_aborted());
            } else {
                self.messages.extend(event.raw().map(<[u8]>::to_vec));
            }
        }
    }
}

/// Sends the frames of a case in writes of `part` bytes, and compares the events and the response
/// with the expected ones.
fn check(scene: &mut Scene, case: &Case, part: usize) {
    let (mut client, _) = scene.client();
    let bytes = case.bytes(Some([0x37, 0xfa, 0x21, 0x3d]));
    // Send each part immediately.
    client.set_nodelay(true).unwrap();
    let mut writer = client.try_clone().unwrap();
    let writes = thread::spawn(move || {
        // The server may have closed the connection.
        bytes.chunks(part).take_while(|part| writer.write_all(part).is_ok()).count()
    });
    let mut received = Received::default();
    // Pull meanwhile: the server does not read the connection while the batch is full.
    while received.messages.len() < case.messages.len() {
        received.pull(scene);
    }
    let answer = scene.rest(&mut client);
    writes.join().unwrap();
    cases::compare(case, &parse(&answer));
    while received.end.is_none() {
        received.pull(scene);
    }
    let Received { messages, end } = &received;
    assert_eq!((messages, *end), (&case.messages, Some(case.is_cut_off)), "{}", case.name);
}

#[test]
fn autobahn_cases_have_expected_results() {
    let mut scene = Scene::new("");
    for case in cases::all() {
        check(&mut scene, &case, usize::MAX);
    }
}

#[test]
fn autobahn_cases_have_expected_results_byte_by_byte() {
    let mut scene = Scene::new("");
    for case in cases::all() {
        let part = if case.bytes(None).len() > 1_000 { 997 } else { 1 };
        check(&mut scene, &case, part);
    }
}
