//! Tests of peers that violate HTTP or break connections.

use std::{
    io::Write,
    net::{Shutdown, TcpStream},
    thread,
    time::Duration,
};

use rustix::net::sockopt::set_socket_linger;

use super::{Scene, bodies, expect, post, read_all, request};

/// Sends `bytes` on a new connection, expects one of `statuses` (0: no response), and checks that
/// the server still works.
#[track_caller]
fn refused(scene: &mut Scene, bytes: &[u8], statuses: &[u16]) {
    let client = scene.client(bytes);
    if statuses.contains(&0) {
        // The request is incomplete, and no more data follows.
        client.shutdown(Shutdown::Write).unwrap();
    }
    let answer = scene.rest(client);
    let status = answer.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or(0);
    let shown = String::from_utf8_lossy(&bytes[..bytes.len().min(200)]);
    assert!(statuses.contains(&status), "{status} is none of {statuses:?}: {shown:?}: {answer}");
    let answers = answer.lines().filter(|line| line.starts_with("HTTP/1.1 ")).count();
    assert!(answers <= 1, "one answer: {shown:?}: {answer}");
    assert_serving(scene);
}

#[track_caller]
fn assert_serving(scene: &mut Scene) {
    let client = scene.client(&request("POST / HTTP/1.1", "Connection: close\r\n", b"good"));
    assert_eq!(bodies(&scene.pull()), [b"good"], "the rejected request has no event");
    expect(&scene.rest(client), 202, &[]);
}

#[test]
fn malformed_request_is_rejected() {
    let mut scene = Scene::new("");
    for bytes in [
        &b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"[..],
        b"nonsense\r\n\r\n",
        b"POST\r\n\r\n",
        b"POST / HTTP/3.0\r\nHost: a\r\n\r\n",
        b"POST / HTTP/1.1 \r\nHost: a\r\n\r\n",
        b"P\0ST / HTTP/1.1\r\nHost: a\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: a\r\nA: \0\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: a\r\nHost: b\r\nConnection: close\r\n\r\n",
    ] {
        refused(&mut scene, bytes, &[400]);
    }
    assert!(scene.metric("requests_400") >= Some(8.0));
}

/// The peer sends the whole body before it reads the response. The body is much longer than the
/// socket buffers, so the peer gets the response only if the server reads and discards the body.
#[test]
fn peer_that_sends_a_long_body_first_gets_its_response() {
    let scene = Scene::new("");
    let mut client = TcpStream::connect(&scene.address).unwrap();
    let thread = thread::spawn(move || {
        let body = vec![b'x'; 12 << 20];
        let head = format!("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: {}\r\n\r\n", body.len());
        client.write_all(head.as_bytes()).unwrap();
        client.write_all(&body).unwrap();
        read_all(client)
    });
    expect(&scene.join(thread), 413, &["8388608 bytes (`max_body_bytes`)"]);
}

#[test]
fn ambiguous_length_is_rejected() {
    let mut scene = Scene::new("");
    let smuggled = "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n";
    for headers in [
        "Content-Length: 3\r\nContent-Length: 4",
        "Content-Length: +3",
        "Content-Length: -3",
        "Content-Length: 3, 4",
        "Content-Length: 0x3",
        "Content-Length: 99999999999999999999",
        "Content-Length : 3",
        "Transfer-Encoding: chunked, identity",
        "Transfer-Encoding: xchunked",
        "Transfer-Encoding: \x0bchunked",
        "Transfer-Encoding : chunked",
        " Transfer-Encoding: chunked",
    ] {
        let bytes = format!("POST / HTTP/1.1\r\nHost: a\r\n{headers}\r\n\r\nabc{smuggled}");
        refused(&mut scene, bytes.as_bytes(), &[0, 400, 413]);
    }
    let bytes =
        format!("POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n{smuggled}");
    refused(&mut scene, bytes.as_bytes(), &[0, 400]);
}

#[test]
fn chunked_encoding_overrides_length_and_ends_connection() {
    let mut scene = Scene::new("");
    let smuggled = "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 8\r\n\r\nsmuggled";
    for lengths in [
        "Content-Length: 4\r\nTransfer-Encoding: chunked",
        "Transfer-Encoding: chunked\r\nContent-Length: 4",
    ] {
        let bytes = format!(
            "POST / HTTP/1.1\r\nHost: a\r\n{lengths}\r\n\r\n3\r\nabc\r\n0\r\n\r\n{smuggled}"
        );
        let client = scene.client(bytes.as_bytes());
        assert_eq!(bodies(&scene.pull()), [b"abc"]);
        let answer = scene.rest(client);
        assert_eq!(answer.matches("HTTP/1.1 ").count(), 1, "{answer}");
        assert_serving(&mut scene);
    }
}

#[test]
fn malformed_chunks_are_rejected() {
    let mut scene = Scene::new("");
    for chunks in [
        "x\r\nabc\r\n0\r\n\r\n",
        "-3\r\nabc\r\n0\r\n\r\n",
        "3\r\nabcdef\r\n0\r\n\r\n",
        "ffffffffffffffffff\r\nabc\r\n0\r\n\r\n",
        "5\r\nabc\r\n0\r\n\r\n",
        "3\r\nabc\r\n",
        "3\r\nabc",
        "3",
        "3;a=\n\r\nabc\r\n0\r\n\r\n",
    ] {
        let head = "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n";
        refused(&mut scene, format!("{head}{chunks}").as_bytes(), &[0, 400]);
    }
}

#[test]
fn endless_head_is_rejected_early() {
    let mut scene = Scene::new("");
    let line = "POST / HTTP/1.1\r\nHost: a\r\n";
    let one = [line.as_bytes(), b"A: ", &vec![b'a'; 1 << 20]].concat();
    refused(&mut scene, &one, &[431]);
    let many = [line.as_bytes(), &b"A: a\r\n".repeat(10_000), b"\r\n"].concat();
    refused(&mut scene, &many, &[431]);
    let path = [b"POST /", &vec![b'a'; 1 << 20][..]].concat();
    refused(&mut scene, &path, &[414, 431]);
    let trailers =
        [line.as_bytes(), b"Transfer-Encoding: chunked\r\n\r\n0\r\n", &b"A: a\r\n".repeat(50_000)];
    refused(&mut scene, &trailers.concat(), &[0, 400, 431]);
}

#[test]
fn head_of_100_mib_gets_a_response() {
    use std::io::Write;

    let mut scene = Scene::new("");
    let mut client = scene.client(b"POST / HTTP/1.1\r\nHost: a\r\nA: ");
    let mut reader = client.try_clone().unwrap();
    let sends = thread::spawn(move || {
        let chunk = vec![b'a'; 1 << 20];
        // Writing fails once the server has closed the connection.
        let sent = (0..100).take_while(|_| client.write_all(&chunk).is_ok()).count();
        let mut answer = String::new();
        let _ = std::io::Read::read_to_string(&mut reader, &mut answer);
        (sent, answer)
    });
    let (sent, answer) = scene.join(sends);
    assert!(sent < 100, "the server did not read the whole head");
    assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 431 "), "{answer}");
    assert_serving(&mut scene);
}

#[test]
fn connection_that_breaks_at_any_byte_leaves_nothing() {
    let mut scene = Scene::new("");
    let chunked =
        "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n";
    for whole in [post("abc"), chunked.as_bytes().to_vec()] {
        for count in 0..whole.len() {
            for is_reset in [true, false] {
                let client = scene.client(&whole[..count]);
                if is_reset {
                    set_socket_linger(&client, Some(Duration::ZERO)).unwrap();
                }
                drop(client);
            }
        }
        assert_serving(&mut scene);
    }
    scene.run_until(|| scene.metric("connections") == Some(0.0));
    assert_eq!(scene.metric("requests_202"), Some(2.0));
}
