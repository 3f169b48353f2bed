//! The cases of the Autobahn test suite, from a client.

use std::{io::Write, thread};

use super::Scene;
use crate::session::cases::{self, Case};

/// Frames of a server: none has a mask.
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

/// What a connection has brought.
#[derive(Default)]
struct Brought {
    messages: Vec<Vec<u8>>,
    /// Whether it was cut off, once it has ended.
    end: Option<bool>,
}

impl Brought {
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

/// Sends a case in parts of this length, and looks at what comes of it.
fn check(scene: &mut Scene, case: &Case, part: usize) {
    let (mut client, _) = scene.client();
    let bytes = case.bytes(Some([0x37, 0xfa, 0x21, 0x3d]));
    // Each part goes at once.
    client.set_nodelay(true).unwrap();
    let mut writer = client.try_clone().unwrap();
    let writes = thread::spawn(move || {
        // The server may have had enough of it.
        bytes.chunks(part).take_while(|part| writer.write_all(part).is_ok()).count()
    });
    let mut brought = Brought::default();
    // A message that fills a batch stops the connection until it is pulled.
    while brought.messages.len() < case.messages.len() {
        brought.pull(scene);
    }
    let answer = scene.rest(&mut client);
    writes.join().unwrap();
    cases::compare(case, &parse(&answer));
    while brought.end.is_none() {
        brought.pull(scene);
    }
    let Brought { messages, end } = &brought;
    assert_eq!((messages, *end), (&case.messages, Some(case.is_cut_off)), "{}", case.name);
}

#[test]
fn the_cases_of_autobahn_bring_messages_and_are_answered_as_they_should() {
    let mut scene = Scene::new("");
    for case in cases::all() {
        check(&mut scene, &case, usize::MAX);
    }
}

#[test]
fn they_do_so_byte_by_byte() {
    let mut scene = Scene::new("");
    for case in cases::all() {
        let part = if case.bytes(None).len() > 1_000 { 997 } else { 1 };
        check(&mut scene, &case, part);
    }
}
