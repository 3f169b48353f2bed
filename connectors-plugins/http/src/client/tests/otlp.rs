//! Tests of the preset for OpenTelemetry.

use tremor_pdk::{
    Batch, ErrorPolicy, Undelivered,
    testing::{TestHost, batch_of},
};

use super::{HttpClient, ok, peer, status};

#[test]
fn otlp_request_that_is_partly_rejected_is_a_dead_letter() {
    let of_otlp = |status_code: u16, body: &str| {
        status(status_code, "Content-Type: application/json\r\n", body)
    };
    let partial = r#"{"partialSuccess":{"rejectedLogRecords":"3","errorMessage":"too old"}}"#;
    let peer =
        peer(vec![of_otlp(200, "{}"), of_otlp(200, partial), of_otlp(500, ""), of_otlp(503, "")]);
    let test = TestHost::new();
    let keys = r#""preset": { "otlp": "logs" }"#;
    test.follow_real_time();
    let config = format!(r#"{{ "url": "http://{}", {keys} }}"#, peer.address);
    let mut client = test.connect::<HttpClient>(&config).unwrap();
    let mut refused = || client.deliver(&batch_of(&["1"])).map_err(Undelivered::into_error).err();
    assert_eq!(refused(), None);
    let error = refused().unwrap();
    assert_eq!(error.policy(), ErrorPolicy::DEAD_LETTER);
    assert!(error.message().contains("but rejected 3 of its items: too old"), "{error}");
    for policy in [ErrorPolicy::DEAD_LETTER, ErrorPolicy::RETRY] {
        assert_eq!(refused().unwrap().policy(), policy);
    }
    for (_, head, _) in peer.requests.join().unwrap() {
        assert!(head.starts_with("POST /v1/logs HTTP/1.1"), "{head}");
        assert!(head.contains("content-type: application/x-protobuf"), "{head}");
    }
}

#[test]
fn preset_any_routes_by_signal_and_rejects_unknown_signals() {
    let peer = peer(vec![ok(); 4]);
    let test = TestHost::new();
    test.follow_real_time();
    let config =
        format!(r#"{{ "url": "http://{}/in?k=1", "preset": {{ "otlp": "any" }} }}"#, peer.address);
    let mut client = test.connect::<HttpClient>(&config).unwrap();
    let mut messages = Batch::new();
    for message in [
        &b"\xc0\x3e\x01logs"[..],
        b"\xc0\x3e\x02metrics",
        b"\xc0\x3e\x03traces",
        b"\x0a\x00",
        br#" { "resourceSpans":[{}]}"#,
        br#"{"resource":{}}"#,
        b"\xc0\x3e\x04",
    ] {
        messages.push_message(message);
    }
    let Err(Undelivered::Some { exceptions, .. }) = client.deliver(&messages) else {
        panic!("expected a delivery with exceptions")
    };
    let letters: Vec<_> =
        exceptions.iter().map(|it| (it.events.clone(), it.error.policy())).collect();
    assert_eq!(letters, [3..4, 5..7].map(|events| (events, ErrorPolicy::DEAD_LETTER)));
    assert!(exceptions[0].error.message().contains("does not name its signal"), "{exceptions:?}");
    let found = peer.requests.join().unwrap();
    let found: Vec<_> =
        found.iter().map(|(_, head, body)| (head.lines().next().unwrap(), &body[..])).collect();
    assert_eq!(
        found,
        [
            ("POST /in/v1/logs?k=1 HTTP/1.1", &b"logs"[..]),
            ("POST /in/v1/metrics?k=1 HTTP/1.1", b"metrics"),
            ("POST /in/v1/traces?k=1 HTTP/1.1", b"traces"),
            ("POST /in/v1/traces?k=1 HTTP/1.1", br#" { "resourceSpans":[{}]}"#),
        ]
    );
}

#[test]
fn message_of_another_signal_is_not_sent() {
    let peer = peer(vec![ok()]);
    let test = TestHost::new();
    test.follow_real_time();
    let config =
        format!(r#"{{ "url": "http://{}", "preset": {{ "otlp": "logs" }} }}"#, peer.address);
    let mut client = test.connect::<HttpClient>(&config).unwrap();
    let mut messages = Batch::new();
    messages.push_message(b"\xc0\x3e\x02metrics");
    messages.push_message(b"\xc0\x3e\x01logs");
    let Err(Undelivered::Some { exceptions, .. }) = client.deliver(&messages) else {
        panic!("expected a delivery with exceptions")
    };
    assert_eq!((exceptions.len(), &exceptions[0].events), (1, &(0..1)));
    assert!(exceptions[0].error.message().contains("is for `/v1/metrics`"), "{exceptions:?}");
    let [(_, head, body)] = &peer.requests.join().unwrap()[..] else { panic!("one request") };
    assert!(head.starts_with("POST /v1/logs "), "{head}");
    assert_eq!(body, b"logs");
}

#[test]
fn content_type_follows_from_the_encoding_of_each_body() {
    for (keys, json, protobuf) in [
        ("", "application/json", "application/x-protobuf"),
        (r#", "content_type": "text/x""#, "text/x", "text/x"),
        (r#", "headers": { "content-type": "text/x" }"#, "text/x", "text/x"),
    ] {
        let peer = peer(vec![ok(); 2]);
        let test = TestHost::new();
        test.follow_real_time();
        let config = format!(
            r#"{{ "url": "http://{}", "preset": {{ "otlp": "any" }}, "compression": "gzip" {keys} }}"#,
            peer.address
        );
        let mut client = test.connect::<HttpClient>(&config).unwrap();
        let mut messages = Batch::new();
        messages.push_message(br#"{"resourceLogs":[{}]}"#);
        messages.push_message(b"\xc0\x3e\x01logs");
        client.deliver(&messages).unwrap();
        let found = peer.requests.join().unwrap();
        for ((_, head, _), expected) in found.iter().zip([json, protobuf]) {
            assert_eq!(head.matches("content-type: ").count(), 1, "{head}");
            assert!(head.contains(&format!("content-type: {expected}\r\n")), "{head}");
        }
    }
}

#[test]
fn request_without_data_is_delivered_without_being_sent() {
    for signal in ["any", "logs"] {
        let peer = peer(vec![ok()]);
        let test = TestHost::new();
        test.follow_real_time();
        let config = format!(
            r#"{{ "url": "http://{}", "preset": {{ "otlp": "{signal}" }} }}"#,
            peer.address
        );
        let mut client = test.connect::<HttpClient>(&config).unwrap();
        let mut messages = Batch::new();
        for message in
            [&b""[..], b"{}", br#"{"resourceLogs":[]}"#, b"\xc0\x3e\x01", b"\xc0\x3e\x01logs"]
        {
            messages.push_message(message);
        }
        client.deliver(&messages).unwrap();
        let [(_, _, body)] = &peer.requests.join().unwrap()[..] else { panic!("one request") };
        assert_eq!(body, b"logs");
    }
}
