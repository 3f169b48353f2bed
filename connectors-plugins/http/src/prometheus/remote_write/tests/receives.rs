//! Tests of the source.

use tremor_pdk::testing::conformance;

use super::{super::RemoteWrite, compressed, events, point, request, values};
use crate::server::tests::{Scene, expect, request as http};

const HEADERS: &str = "Content-Type: application/x-protobuf\r\nContent-Encoding: snappy\r\n\
                       X-Prometheus-Remote-Write-Version: 0.1.0\r\n";

fn write(headers: &str, body: &[u8]) -> Vec<u8> {
    http("POST /api/v1/write HTTP/1.1", headers, body)
}

/// Returns a request with `count` samples.
fn samples(count: i64) -> Vec<u8> {
    let points: Vec<_> = (0..count).map(|n| point("up", ("job", "a"), 1.0, n)).collect();
    request(&points)
}

#[test]
fn samples_become_events_with_metadata_of_their_request() {
    let mut scene = Scene::of::<RemoteWrite>("");
    let request =
        request(&[point("up", ("job", "a"), 1.0, 5), point("down", ("job", "a"), 2.5, 6)]);
    let client = scene.client(&write(HEADERS, &compressed(&request)));
    let batch = scene.pull();
    expect(&scene.answer(&client), 204, &[]);
    assert_eq!(values(&batch), events(request));
    for event in &batch {
        assert_eq!(event.origin(), Some(&*client.local_addr().unwrap().to_string()));
        let metadata = event.metadata().unwrap();
        let path = metadata.get("http").and_then(|http| http.get("path")?.as_str());
        assert_eq!(path, Some("/api/v1/write"));
    }
}

#[test]
fn request_of_several_pulls_is_answered_after_the_last() {
    for (respond, ends) in [("accepted", false), ("delivered", true)] {
        let mut scene = Scene::of::<RemoteWrite>(&format!(r#", "respond": "{respond}""#));
        let client = scene.client(&write(HEADERS, &compressed(&samples(600))));
        let mut read = Vec::new();
        for count in [256, 256, 88] {
            let batch = scene.pull();
            assert_eq!(batch.len(), count);
            read.extend(values(&batch));
            if ends {
                scene.server.acks().unwrap().ack(batch.pull()).unwrap();
            }
        }
        assert_eq!(read, events(samples(600)));
        expect(&scene.answer(&client), 204, &[]);
    }
}

#[test]
fn sender_repeats_a_request_of_which_an_event_failed() {
    let mut scene = Scene::of::<RemoteWrite>(r#", "respond": "delivered""#);
    let client = scene.client(&write(HEADERS, &compressed(&samples(300))));
    let other = scene.client(&write(HEADERS, &compressed(&samples(2))));
    let first = scene.pull();
    scene.run_until(|| true);
    let (mut second, mut sizes) = (scene.pull(), vec![first.len()]);
    sizes.push(second.len());
    while sizes.iter().sum::<usize>() < 302 {
        second = scene.pull();
        sizes.push(second.len());
    }
    let acks = scene.server.acks().unwrap();
    acks.fail(1, std::slice::from_ref(&(200..201))).unwrap();
    for pull in 2..=sizes.len() as u64 {
        acks.ack(pull).unwrap();
    }
    let answers = [scene.answer(&client), scene.answer(&other)];
    let failed = answers.iter().filter(|answer| answer.starts_with("HTTP/1.1 500 ")).count();
    let good = answers.iter().filter(|answer| answer.starts_with("HTTP/1.1 204 ")).count();
    assert_eq!((failed, good), (1, 1), "{answers:?}");
}

#[test]
fn full_flow_answers_503_instead_of_429() {
    let scene = Scene::of::<RemoteWrite>(r#", "max_wait": "8s""#);
    let client = scene.client(&write(HEADERS, &compressed(&samples(1))));
    scene.run_until(|| scene.metric("connections") == Some(1.0));
    scene.pass(11);
    expect(&scene.answer(&client), 503, &["retry-after: 1", "the flow is full"]);
}

#[test]
fn request_of_another_protocol_gets_415_with_what_is_expected() {
    let scene = Scene::of::<RemoteWrite>("");
    let v2 = "Content-Type: application/x-protobuf;proto=io.prometheus.write.v2.Request\r\n";
    let snappy = "Content-Encoding: snappy\r\n";
    let kind = "Content-Type: application/x-protobuf\r\n";
    for (headers, expected) in [
        (format!("{v2}{snappy}"), "application/x-protobuf"),
        (snappy.to_owned(), "Content-Type: application/x-protobuf"),
        (format!("Content-Type: application/json\r\n{snappy}"), "Content-Type"),
        (kind.to_owned(), "Content-Encoding: snappy"),
        (format!("{kind}Content-Encoding: gzip\r\n"), "Content-Encoding: snappy"),
        (format!("{kind}{snappy}X-Prometheus-Remote-Write-Version: 2.0.0\r\n"), "0.1.0"),
    ] {
        let client = scene.client(&write(&format!("{headers}Connection: close\r\n"), b"x"));
        expect(&scene.rest(client), 415, &[expected]);
    }
    let mut scene = scene;
    let proto = "Content-Type: application/x-protobuf; proto=prometheus.WriteRequest\r\n";
    let client = scene.client(&write(&format!("{proto}{snappy}"), &compressed(&samples(1))));
    assert_eq!(scene.pull().len(), 1);
    expect(&scene.answer(&client), 204, &[]);
}

#[test]
fn malformed_or_too_large_body_is_rejected() {
    let scene = Scene::of::<RemoteWrite>(r#", "max_body_bytes": "64KiB""#);
    let expanding: Vec<_> = [
        // The labels are short in the request, but each event has them.
        (0..2_500).map(|n| point("up", ("job", &"x".repeat(5_000)), 1.0, n)).collect::<Vec<_>>(),
    ]
    .iter()
    .map(|points| compressed(&request(points)))
    .collect();
    // The head of a block has its length: here 4 GiB less 1, and 1 GiB.
    let bomb = b"\xff\xff\xff\xff\x0f\x00";
    let large = b"\x80\x80\x80\x80\x04\x00";
    for (body, status, expected) in [
        (&bomb[..], 413, "exceeds 65536 bytes"),
        (&large[..], 413, "exceeds 65536 bytes (`max_body_bytes`)"),
        (&expanding[0], 413, "send fewer samples"),
        (b"", 400, "not a snappy-compressed write request"),
        (b"\x05\x00", 400, "not a snappy-compressed write request"),
        (&compressed(b"\x0a\x01"), 400, "a length exceeds the message that contains it at byte 1"),
        (&compressed(b"hello"), 400, "not a snappy-compressed write request"),
    ] {
        let client = scene.client(&write(&format!("{HEADERS}Connection: close\r\n"), body));
        expect(&scene.rest(client), status, &[expected]);
    }
}

#[test]
fn request_without_samples_succeeds_and_is_no_event() {
    let mut scene = Scene::of::<RemoteWrite>(r#", "respond": "delivered""#);
    let client = scene.client(&write(HEADERS, &compressed(b"\x1a\x02\x08\x01")));
    expect(&scene.answer(&client), 204, &[]);
    assert_eq!(scene.metric("metadata_ignored"), Some(1.0));
    let client = scene.client(&write(HEADERS, &compressed(&samples(1))));
    let batch = scene.pull();
    scene.server.acks().unwrap().ack(batch.pull()).unwrap();
    expect(&scene.answer(&client), 204, &[]);
}

#[test]
fn keys_of_the_other_side_are_rejected() {
    let host = tremor_pdk::testing::TestHost::new();
    for (config, expected) in [
        ("{}", "either `url` for a sink, or `listen` for a source"),
        (r#"{ "url": "http://a", "listen": "127.0.0.1:0" }"#, "either `url`"),
        (r#"{ "url": "http://a", "respond": "accepted" }"#, "invalid `respond`: a sink"),
        (r#"{ "listen": "127.0.0.1:0", "labels": {} }"#, "invalid `labels`: a source"),
        (
            r#"{ "listen": "127.0.0.1:0", "auth": { "header": { "name": "a", "value": "b" } } }"#,
            "invalid `auth.header`",
        ),
        (r#"{ "url": "http://a", "labels": { "a-b": "c" } }"#, "invalid `labels` entry `a-b`"),
        (r#"{ "url": "http://a/{b}" }"#, "nothing replaces `{b}`"),
        (r#"{ "url": "http://a", "max_body_bytes": "2GiB" }"#, "invalid `max_body_bytes`"),
    ] {
        let error = host.component::<RemoteWrite>(config).unwrap_err().to_string();
        assert!(error.contains(expected), "{config}: {error}");
    }
}

#[test]
fn connector_passes_conformance_checks() {
    for config in [
        r#"{ "listen": "127.0.0.1:0", "respond": "delivered" }"#,
        r#"{ "url": "http://127.0.0.1:1/api/v1/write" }"#,
    ] {
        conformance::connector::<RemoteWrite>(config).expect_no_faults();
    }
}
