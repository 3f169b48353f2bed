//! Tests of a server that is not pulled.

use std::{
    io::{Read, Write},
    net::TcpStream,
    time::Duration,
};

use super::{BINARY, PONG, Scene, TEXT, frame};

/// Length of a message in bytes.
const MESSAGE: usize = 60_000;

/// Sends messages until the server accepts no more data, although its tasks run. Returns the number of bytes.
fn fill(scene: &mut Scene, client: &mut TcpStream) -> usize {
    client.write_all(&frame(TEXT, b"x")).unwrap();
    scene.pull(1);
    client.set_nonblocking(true).unwrap();
    let message = frame(BINARY, &vec![0; MESSAGE]);
    let mut sent = 0;
    for _ in 0..2_000 {
        match client.write(&message[sent % message.len()..]) {
            Ok(count) => sent += count,
            Err(_) => scene.host.block_on(scene.host.host().sleep(scene.tick)),
        }
    }
    sent
}

#[test]
fn server_reads_at_most_a_batch_without_pulls() {
    let mut scene = Scene::new("");
    let (mut client, _) = scene.client();
    let sent = fill(&mut scene, &mut client);
    let mut pulled = 0;
    while pulled < sent / frame(BINARY, &vec![0; MESSAGE]).len() {
        let (_, batch) = scene.server.pull().unwrap();
        pulled += batch.len();
        assert!(batch.bytes().len() <= (256 << 10) + MESSAGE);
    }
    assert!(sent > 256 << 10);
}

/// The server cannot answer pings, because it would have to read the messages before them.
#[test]
fn client_that_is_not_read_gets_pongs() {
    let mut scene = Scene::with(r#""ping_interval": "30s""#);
    let (mut client, _) = scene.client();
    fill(&mut scene, &mut client);
    scene.tick = Duration::from_secs(1);
    let start_ns = scene.host.monotonic_ns();
    for _ in 0..10 {
        scene.wait_for_data(&client);
        let mut heartbeat = [0; 2];
        client.read_exact(&mut heartbeat).unwrap();
        assert_eq!(heartbeat, [PONG, 0]);
    }
    let passed = Duration::from_nanos(scene.host.monotonic_ns() - start_ns);
    assert!((290..=301).contains(&passed.as_secs()), "{passed:?}");
    assert_eq!(scene.metric("connections_silent"), 0);
}
