//! Tests of requests that wait for the flow, and of the limits of waiting.

use std::io::Write;

use super::{Scene, bodies, expect, post};

#[test]
fn full_flow_delays_requests_and_then_answers_429() {
    let mut scene =
        Scene::new(r#", "max_wait": "8s", "max_body_bytes": 10, "max_waiting_bytes": 10"#);
    let first = scene.client(&post("0123456"));
    scene.run_until(|| scene.metric("connections") == Some(1.0));
    scene.pass(1);
    let second = scene.client(&post("0123456"));
    scene.run_until(|| scene.metric("connections") == Some(2.0));
    // Only the first request is in the batch, because the second one has to wait for capacity.
    assert_eq!(bodies(&scene.pull()), [b"0123456"]);
    expect(&scene.answer(&first), 202, &[]);
    // No further pulls.
    scene.pass(11);
    expect(&scene.answer(&second), 429, &["retry-after: 1"]);
    scene.server.source().unwrap().on_circuit_breaker(true).unwrap();
    let third = scene.client(&post("0123456"));
    scene.run_until(|| scene.metric("connections") == Some(3.0));
    scene.pass(11);
    expect(&scene.answer(&third), 503, &["retry-after: 5", "a sink of the flow is down"]);
    // The rejected requests do not become events later.
    let last = scene.client(&post("last"));
    assert_eq!(bodies(&scene.pull()), [b"last"]);
    expect(&scene.answer(&last), 202, &[]);
}

#[test]
fn headers_in_metadata_count_as_waiting_bytes() {
    let keys = r#", "headers": ["x-long"], "max_body_bytes": 10, "max_waiting_bytes": "16KiB""#;
    let mut scene = Scene::new(keys);
    let long = "y".repeat(7 << 10);
    let mut clients = Vec::new();
    for body in ["1", "2", "3"] {
        let request = format!(
            "POST / HTTP/1.1\r\nHost: x\r\nX-Long: {long}\r\nContent-Length: 1\r\n\r\n{body}"
        );
        clients.push(scene.client(request.as_bytes()));
        let open = f64::from(u32::try_from(clients.len()).unwrap());
        scene.run_until(|| scene.metric("connections") == Some(open));
        scene.pass(1);
    }
    assert_eq!(bodies(&scene.pull()), [b"1", b"2"], "the third request waits for memory");
    assert_eq!(bodies(&scene.pull()), [b"3"]);
    for client in &clients {
        expect(&scene.answer(client), 202, &[]);
    }
}

#[test]
fn request_beyond_the_memory_of_the_flow_gets_503() {
    let mut scene = Scene::new("");
    let [mut first, mut second, mut third] = [(); 3].map(|()| scene.client(b""));
    scene.run_until(|| scene.metric("connections") == Some(3.0));
    scene.pass(1);
    scene.host.set_memory_limit(scene.host.memory() + (64 << 10));
    let long = "x".repeat(40 << 10);
    first.write_all(&post(&long)).unwrap();
    scene.pass(1);
    second.write_all(&post(&long)).unwrap();
    expect(&scene.answer(&second), 503, &["retry-after: 1", "reached its memory limit"]);
    assert_eq!(bodies(&scene.pull()), [long.as_bytes()]);
    expect(&scene.answer(&first), 202, &[]);
    third.write_all(&post(&long)).unwrap();
    assert_eq!(bodies(&scene.pull()), [long.as_bytes()]);
    expect(&scene.answer(&third), 202, &[]);
}

#[test]
fn connections_wait_while_flow_has_no_memory() {
    let scene = Scene::new("");
    scene.host.set_memory_limit(0);
    let first = scene.client(b"");
    scene.run_until(|| scene.metric("connections") == Some(1.0));
    let _second = scene.client(b"");
    scene.pass(5);
    assert_eq!(scene.metric("connections"), Some(1.0));
    assert!(scene.host.log().iter().any(|(_, line)| line.contains("`--memory-limit`")));
    drop(first);
    scene.run_until(|| scene.metric("connections_accepted") == Some(2.0));
}
