//! Tests of the limit of bytes that all connections together buffer.

use std::{io::Write, time::Duration};

use super::{BINARY, Scene, close_code, frame};

#[test]
fn unfinished_messages_of_all_clients_have_a_limit() {
    let keys = r#", "max_message_bytes": "100KiB", "max_buffered_bytes": "256KiB""#;
    let mut scene = Scene::new(keys);
    // The server waits two seconds for the answer of a client that it disconnects.
    scene.tick = Duration::from_millis(20);
    let unfinished = &frame(BINARY, &vec![0; 100 << 10])[..99 << 10];
    let mut clients = Vec::new();
    while scene.metric("connections_over_budget") == 0 {
        let (mut client, _) = scene.client();
        client.write_all(unfinished).unwrap();
        clients.push(client);
        assert!(clients.len() < 20, "2 MB do not exceed the budget");
        for _ in 0..200 {
            scene.host.block_on(scene.host.host().sleep(scene.tick));
        }
    }
    assert_eq!(clients.len(), 3, "the budget suffices for two messages");
    let answer = scene.rest(&mut clients[2]);
    assert_eq!(close_code(&answer), 1013);
    // The server has released the bytes of the third connection, so the other clients can complete
    // their messages.
    for client in &mut clients[..2] {
        client.write_all(&[0; 2_000]).unwrap();
    }
    assert_eq!(scene.pull(2).iter().map(|it| it.1.len()).sum::<usize>(), 200 << 10);
}

/// The server reads the end of a message and the start of the next one together.
#[test]
fn bytes_read_after_a_message_count_as_buffered() {
    let keys = r#", "max_message_bytes": "4KiB", "max_buffered_bytes": "8KiB""#;
    let mut scene = Scene::new(keys);
    scene.tick = Duration::from_millis(20);
    let next = frame(BINARY, &vec![0; 4 << 10]);
    let both = [&frame(BINARY, b"whole"), &next[..3 << 10]].concat();
    let mut clients = Vec::new();
    for _ in 0..2 {
        let (mut client, _) = scene.client();
        client.write_all(&both).unwrap();
        clients.push(client);
        assert_eq!(scene.pull(1)[0].1, b"whole");
    }
    let (mut third, _) = scene.client();
    third.write_all(&both).unwrap();
    for _ in 0..200 {
        scene.host.block_on(scene.host.host().sleep(scene.tick));
    }
    assert_eq!(
        scene.metric("connections_over_budget"),
        1,
        "the budget suffices for two beginnings"
    );
    // The server disconnects the third client. The others can complete their messages.
    for client in &mut clients {
        client.write_all(&next[3 << 10..]).unwrap();
    }
    assert_eq!(scene.pull(2).iter().map(|it| it.1.len()).sum::<usize>(), 8 << 10);
}
