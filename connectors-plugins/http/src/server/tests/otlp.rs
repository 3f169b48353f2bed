//! Tests of the parts of OTLP over HTTP that the connector implements. The codec implements the
//! others.

use super::{Scene, bodies, expect, gzip, request};

const PROTOBUF: &str = "Content-Type: application/x-protobuf\r\n";
const JSON: &str = "Content-Type: application/json\r\n";

fn post(path: &str, headers: &str, body: &[u8]) -> Vec<u8> {
    request(&format!("POST {path} HTTP/1.1"), headers, body)
}

#[test]
fn path_determines_signal_and_marks_protobuf_bodies() {
    let mut scene = Scene::new(r#", "preset": { "otlp": "any" }"#);
    let mut events = Vec::new();
    for path in ["/v1/logs", "/v1/metrics", "/v1/traces"] {
        let compressed = format!("{PROTOBUF}Content-Encoding: gzip\r\n");
        let bodies_sent = [
            (PROTOBUF.to_owned(), b"body".to_vec()),
            (compressed, gzip(b"body")),
            (JSON.to_owned(), br#"{"resourceLogs":[{}]}"#.to_vec()),
        ];
        for (headers, body) in bodies_sent {
            let client = scene.client(&post(path, &headers, &body));
            events.extend(bodies(&scene.pull()).into_iter().map(<[u8]>::to_vec));
            let (content_type, answer) =
                if headers == JSON { (JSON, "{}") } else { (PROTOBUF, "") };
            let content_type = content_type.to_lowercase();
            let found = scene.answer(&client);
            expect(&found, 200, &[content_type.trim_end()]);
            assert!(found.ends_with(&format!("\r\n\r\n{answer}")), "{found}");
        }
    }
    let expected = [1, 2, 3].map(|signal| {
        let mark = [0xc0, 0x3e, signal];
        let marked = [&mark[..], b"body"].concat();
        [marked.clone(), marked, br#"{"resourceLogs":[{}]}"#.to_vec()]
    });
    assert_eq!(events, expected.concat());
}

#[test]
fn request_without_data_succeeds_and_is_no_event() {
    for respond in ["accepted", "delivered"] {
        let mut scene =
            Scene::new(&format!(r#", "preset": {{ "otlp": "any" }}, "respond": "{respond}""#));
        let compressed = format!("{PROTOBUF}Content-Encoding: gzip\r\n");
        for (headers, body, expected) in [
            (PROTOBUF, &b""[..], ""),
            (&compressed, b"", ""),
            (&compressed, &gzip(b""), ""),
            (JSON, b"{ }", "{}"),
            (JSON, br#"{"resourceLogs":[]}"#, "{}"),
        ] {
            let client = scene.client(&post("/v1/logs", headers, body));
            let answer = scene.answer(&client);
            let content_type = headers.lines().next().unwrap().to_lowercase();
            expect(&answer, 200, &[&content_type]);
            assert!(answer.ends_with(&format!("\r\n\r\n{expected}")), "{answer}");
        }
        let _client = scene.client(&post("/v1/logs", JSON, br#"{"resourceLogs":[{}]}"#));
        assert_eq!(bodies(&scene.pull()), [br#"{"resourceLogs":[{}]}"#]);
    }
}

#[test]
fn rejection_uses_encoding_of_the_request() {
    let scene = Scene::new(r#", "preset": { "otlp": "any" }"#);
    for (path, headers, status) in [
        ("/v1/profiles", PROTOBUF, 404),
        ("/v1/logs/", PROTOBUF, 404),
        ("/", JSON, 404),
        ("/v1/logs", "Content-Type: text/plain\r\n", 415),
        ("/v1/logs", "", 415),
    ] {
        let client = scene.client(&post(path, &format!("{headers}Connection: close\r\n"), b"x"));
        let answer = scene.rest(client);
        expect(&answer, status, &[]);
        if headers == JSON {
            expect(&answer, status, &["content-type: application/json", r#"{"message":""#]);
        }
    }
    let get = b"GET /v1/logs HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
    expect(&scene.rest(scene.client(get)), 405, &["allow: POST, PUT"]);
}

#[test]
fn full_or_failed_flow_asks_exporters_to_retry() {
    let mut scene = Scene::new(r#", "preset": { "otlp": "any" }, "max_wait": "8s""#);
    let message = r#"{"message":""#;
    let mut clients = Vec::new();
    for (is_down, status, again) in [(false, 429, "retry-after: 1"), (true, 503, "retry-after: 5")]
    {
        scene.server.source().unwrap().on_circuit_breaker(is_down).unwrap();
        clients.push(scene.client(&post("/v1/traces", JSON, br#"{"resourceSpans":[{}]}"#)));
        let connections = if is_down { 2.0 } else { 1.0 };
        scene.run_until(|| scene.metric("connections") == Some(connections));
        // No pull takes the request.
        scene.pass(11);
        let answer = scene.answer(clients.last().unwrap());
        expect(&answer, status, &[again, message]);
    }
    let mut scene = Scene::new(r#", "preset": { "otlp": "any" }, "respond": "delivered""#);
    let client = scene.client(&post("/v1/traces", JSON, br#"{"resourceSpans":[{}]}"#));
    let pull = scene.pull().pull();
    scene.server.acks().unwrap().fail(pull, std::slice::from_ref(&(0..1))).unwrap();
    // The status 500 would make exporters give up.
    expect(&scene.answer(&client), 503, &[message, "not delivered"]);
}
