//! What the sink sends, and to whom.

use std::{io::Read, ops::Range, time::Duration};

use tremor_pdk::{
    Delivery, EventRef,
    testing::{self, batch_of},
};
use tungstenite::Message;

use super::Scene;

fn exceptions(delivery: Delivery) -> Vec<(Range<usize>, String)> {
    let exceptions = testing::exceptions(delivery).into_iter();
    exceptions.map(|it| (it.events, it.error.to_string())).collect()
}

#[test]
fn the_sink_sends_to_every_client_and_without_one_events_go_to_err() {
    let mut scene = Scene::new("");
    let nobody = exceptions(scene.server.deliver(&batch_of(&[b"one"])));
    assert_eq!(nobody, [(0..1, "no client is connected".to_owned())]);
    let mut clients = [scene.socket().0, scene.socket().0];
    let undelivered =
        exceptions(scene.server.deliver(&batch_of::<&[u8]>(&[b"one", b"\xff", b"two"])));
    assert_eq!(undelivered.len(), 1);
    assert_eq!(undelivered[0].0, 1..2, "what is no text is sent to nobody");
    assert!(undelivered[0].1.contains("set `frames: binary`"), "{undelivered:?}");
    for client in &mut clients {
        // Both are written together.
        scene.settle(client.get_ref());
        for expected in ["one", "two"] {
            assert_eq!(client.read().unwrap(), Message::text(expected));
        }
    }
}

/// The client reads while the server does not run: whatever was not written before the acknowledgement never comes.
#[test]
fn empty_messages_are_written_before_acknowledgement() {
    let mut scene = Scene::new("");
    let (mut client, _) = scene.socket();
    client.get_ref().set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    scene.server.deliver(&batch_of(&[b"", b""])).unwrap();
    for _ in 0..2 {
        assert_eq!(client.read().unwrap(), Message::text(""));
    }
}

#[test]
fn bytes_are_sent_as_such_if_the_flow_says_so() {
    let mut scene = Scene::new(r#", "frames": "binary""#);
    let (mut client, _) = scene.socket();
    scene.server.deliver(&batch_of(&[b"\xff\x00"])).unwrap();
    assert_eq!(client.read().unwrap(), Message::binary(vec![0xff, 0]));
}

#[test]
fn an_answer_goes_to_the_client_that_its_event_came_from() {
    let mut scene = Scene::new(r#", "send_to": "origin""#);
    let (mut one, _) = scene.socket();
    let (mut two, two_name) = scene.socket();
    two.send(Message::text("question")).unwrap();
    let (_, questions) = scene.server.pull().unwrap();
    assert_eq!(questions.first().and_then(EventRef::origin), Some(&*two_name));
    scene.server.deliver(&questions).unwrap();
    assert_eq!(two.read().unwrap(), Message::text("question"));
    one.get_ref().set_nonblocking(true).unwrap();
    assert!(one.read().is_err(), "the other one gets nothing");
    // It goes, and its answer with it.
    two.close(None).unwrap();
    while !scene.server.pull().unwrap().1.first().unwrap().is_stream_end() {}
    let gone = exceptions(scene.server.deliver(&questions));
    assert_eq!(gone[0].0, 0..1);
    assert!(gone[0].1.contains("is gone"), "{gone:?}");
    // So does what came from elsewhere.
    assert_eq!(exceptions(scene.server.deliver(&batch_of(&[b"x"]))).len(), 1);
}

#[test]
fn a_client_that_is_too_slow_is_closed_and_the_others_are_not_held_up() {
    let mut scene = Scene::new(r#", "max_send_bytes": "1MiB""#);
    let (_slow, _) = scene.socket();
    let (fast, _) = scene.socket();
    let reader = fast.get_ref().try_clone().unwrap();
    let read = std::thread::spawn(move || {
        let (mut reader, mut all, mut bytes) = (reader, 0, vec![0; 64 << 10]);
        while let Ok(count @ 1..) = reader.read(&mut bytes) {
            all += count;
        }
        all
    });
    let message = vec![b'x'; 256 << 10];
    for _ in 0..200 {
        scene.server.deliver(&batch_of(&[&message])).unwrap();
    }
    assert_eq!(scene.metric("connections_slow"), 1);
    let log = scene.host.log();
    assert!(log.iter().any(|(_, line)| line.contains("it reads too slowly")), "{log:?}");
    let Scene { host, server, .. } = scene;
    server.stop().unwrap();
    host.block_on(host.host().sleep(Duration::from_secs(1)));
    assert!(read.join().unwrap() >= 200 * message.len());
}
