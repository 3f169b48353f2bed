//! Tests of the sink.

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
fn sink_sends_to_every_client_or_rejects_without_clients() {
    let mut scene = Scene::new("");
    let nobody = exceptions(scene.server.deliver(&batch_of(&[b"one"])));
    assert_eq!(nobody, [(0..1, "no client is connected".to_owned())]);
    let mut clients = [scene.socket().0, scene.socket().0];
    let undelivered =
        exceptions(scene.server.deliver(&batch_of::<&[u8]>(&[b"one", b"\xff", b"two"])));
    assert_eq!(undelivered.len(), 1);
    assert_eq!(undelivered[0].0, 1..2, "an event that is not text is not sent");
    assert!(undelivered[0].1.contains("set `frames: binary`"), "{undelivered:?}");
    for client in &mut clients {
        // The server writes the messages `one` and `two` together.
        scene.wait_for_data(client.get_ref());
        for expected in ["one", "two"] {
            assert_eq!(client.read().unwrap(), Message::text(expected));
        }
    }
}

/// The client reads while the server's tasks do not run. Therefore a message that was acknowledged
/// before it was written would be missing.
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
fn events_are_sent_as_binary_messages_if_configured() {
    let mut scene = Scene::new(r#", "frames": "binary""#);
    let (mut client, _) = scene.socket();
    scene.server.deliver(&batch_of(&[b"\xff\x00"])).unwrap();
    assert_eq!(client.read().unwrap(), Message::binary(vec![0xff, 0]));
}

#[test]
fn event_is_sent_to_the_client_of_its_origin() {
    let mut scene = Scene::new(r#", "send_to": "origin""#);
    let (mut one, _) = scene.socket();
    let (mut two, two_name) = scene.socket();
    two.send(Message::text("question")).unwrap();
    let (_, questions) = scene.server.pull().unwrap();
    assert_eq!(questions.first().and_then(EventRef::origin), Some(&*two_name));
    scene.server.deliver(&questions).unwrap();
    assert_eq!(two.read().unwrap(), Message::text("question"));
    one.get_ref().set_nonblocking(true).unwrap();
    assert!(one.read().is_err(), "the other client gets nothing");
    // The client disconnects, so an event from this client has no recipient.
    two.close(None).unwrap();
    while !scene.server.pull().unwrap().1.first().unwrap().is_stream_end() {}
    let gone = exceptions(scene.server.deliver(&questions));
    assert_eq!(gone[0].0, 0..1);
    assert!(gone[0].1.contains("has disconnected"), "{gone:?}");
    // An event that was not received from a client has no recipient either.
    assert_eq!(exceptions(scene.server.deliver(&batch_of(&[b"x"]))).len(), 1);
}

#[test]
fn slow_client_is_closed_and_does_not_delay_others() {
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
