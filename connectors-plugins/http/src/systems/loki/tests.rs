//! Tests against a server that follows the documentation of Loki's push API.

mod reading;

use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex},
    time::Duration,
};

use serde_json::json;
use tremor_pdk::{
    Batch, ErrorPolicy, literal, schemars,
    template::TemplateFields,
    testing::{Connection, TestHost, batch_of, batch_with_metadata, conformance},
};

use self::reading::{Line, lines_of};
use super::{Loki, config::Config};
use crate::testing::{Reply, Server, exceptions};

/// Labels, time and text of a stored line. A second line that equals it is ignored.
type Stored = (String, (i64, u64), String);

/// A server that stores lines as Loki does: it stores the valid lines of a request, also if it answers with 400.
struct Fake {
    server: Server,
    lines: Arc<Mutex<BTreeSet<Stored>>>,
}

impl Fake {
    /// Starts the server. `is_refused` returns whether a line with this text is too old.
    fn start(is_refused: impl Fn(&str) -> bool + Send + Sync + 'static) -> Self {
        let lines = Arc::new(Mutex::new(BTreeSet::new()));
        let stored = lines.clone();
        let server = Server::start(move |request| {
            let mut refused = 0;
            for Line { labels, seconds, nanoseconds, text, .. } in lines_of(request) {
                if is_refused(&text) {
                    refused += 1;
                } else {
                    stored.lock().unwrap().insert((labels, (seconds, nanoseconds), text));
                }
            }
            match refused {
                0 => Reply::With(204, "", String::new()),
                _ => {
                    Reply::With(400, "", format!("entry too far behind, total ignored: {refused}"))
                }
            }
        });
        Self { server, lines }
    }

    fn client(&self, keys: &str) -> Connection {
        client(&self.server, keys)
    }

    fn texts(&self) -> Vec<String> {
        self.lines.lock().unwrap().iter().map(|(.., text)| text.clone()).collect()
    }
}

fn client(server: &Server, keys: &str) -> Connection {
    let host = TestHost::new();
    host.follow_real_time();
    let config = format!(r#"{{ "url": "http://{}" {keys} }}"#, server.address);
    host.connect::<Loki>(&config).unwrap()
}

/// Labels that all events have.
const LABELS: &str = r#", "labels": { "job": "app" }"#;

#[test]
fn request_has_streams_with_their_lines_in_order() {
    let fake = Fake::start(|_| false);
    let mut client = fake.client(
        r#", "labels": { "job": "app", "host": "{%host}" }, "time": "{%at}",
            "structured_metadata": { "trace": "{%trace}", "fixed": "\"" }, "auth": { "bearer": "t" }"#,
    );
    let events = [
        ("{\"n\":1}", literal!({ "host": "b", "at": "2026-11-29T08:30:00.5Z", "trace": "x" })),
        (
            "2\n\t\u{1}\\é",
            literal!({ "host": "a\"\n\u{1}\\é", "at": 1_700_000_000_000_000_001_u64 }),
        ),
        ("3", literal!({ "host": "b", "at": 5_u64 })),
        ("4", literal!({ "at": 6_u64 })),
    ];
    client.deliver(&batch_with_metadata(&events)).unwrap();
    let requests = fake.server.requests();
    let [request] = &requests[..] else { panic!("{requests:?}") };
    assert_eq!(request.target(), "/loki/api/v1/push");
    assert!(request.has("content-type: application/x-protobuf"), "{}", request.head);
    assert!(request.has("authorization: Bearer t"), "{}", request.head);
    assert!(!request.head.contains("x-scope-orgid"), "{}", request.head);
    assert!(!request.head.contains("content-encoding"), "{}", request.head);
    let line = |labels: &str, (seconds, nanoseconds), text: &str, metadata: &[(&str, &str)]| Line {
        labels: labels.to_owned(),
        seconds,
        nanoseconds,
        text: text.to_owned(),
        metadata: metadata.iter().map(|(name, text)| ((*name).into(), (*text).into())).collect(),
    };
    let (b, fixed) = (r#"{host="b",job="app"}"#, ("fixed", "\""));
    let expected = [
        line(b, (1_795_941_000, 500_000_000), "{\"n\":1}", &[fixed, ("trace", "x")]),
        line(b, (0, 5), "3", &[fixed]),
        line(r#"{host="a\"\n\u0001\\é",job="app"}"#, (1_700_000_000, 1), "2\n\t\u{1}\\é", &[fixed]),
        line(r#"{job="app"}"#, (0, 6), "4", &[fixed]),
    ];
    assert_eq!(lines_of(request), expected);
}

/// The bytes are those of the message `PushRequest` of Loki in a block of snappy with one literal.
#[test]
fn uncompressed_body_is_one_literal_of_snappy() {
    let fake = Fake::start(|_| false);
    let keys = r#", "labels": { "a": "b" }, "time": "{%t}", "structured_metadata": { "c": "d" }"#;
    fake.client(keys)
        .deliver(&batch_with_metadata(&[("x", literal!({ "t": 1_000_000_300_u64 }))]))
        .unwrap();
    let expected = [
        &b"\x1f\xfc\x1e\0\0\0"[..],
        b"\x0a\x1d\x0a\x07{a=\"b\"}",
        b"\x12\x12\x0a\x05\x08\x01\x10\xac\x02\x12\x01x",
        b"\x1a\x06\x0a\x01c\x12\x01d",
    ];
    assert_eq!(
        fake.server.requests()[0].body.escape_ascii().to_string(),
        expected.concat().escape_ascii().to_string()
    );
}

#[test]
fn compressed_body_is_short_and_has_the_lines() {
    let fake = Fake::start(|_| false);
    let text = "a line of a log ".repeat(20_000);
    let keys = format!(r#"{LABELS}, "compression": "snappy""#);
    fake.client(&keys).deliver(&batch_of(&[&*text, "short"])).unwrap();
    let requests = fake.server.requests();
    let [request] = &requests[..] else { panic!("{}", requests.len()) };
    assert!(request.body.len() < text.len() / 10, "{}", request.body.len());
    assert!(!request.head.contains("content-encoding"), "{}", request.head);
    let texts: Vec<_> = lines_of(request).into_iter().map(|line| line.text).collect();
    assert_eq!(texts, [&*text, "short"]);
}

#[test]
fn times_of_all_years_are_exact() {
    let fake = Fake::start(|_| false);
    let events = [
        ("1", literal!({ "t": "1969-12-31T23:59:59Z" })),
        ("2", literal!({ "t": "2262-01-01T00:00:00.000000001Z" })),
        ("3", literal!({ "t": "1969-12-31T23:59:59.25Z" })),
        ("4", literal!({ "t": -1_000_000_001 })),
    ];
    let keys = format!(r#"{LABELS}, "time": "{{%t}}""#);
    fake.client(&keys).deliver(&batch_with_metadata(&events)).unwrap();
    let lines = lines_of(&fake.server.requests()[0]);
    let times: Vec<_> = lines.iter().map(|line| (line.seconds, line.nanoseconds)).collect();
    assert_eq!(times, [(-1, 0), (9_214_646_400, 1), (-1, 250_000_000), (-2, 999_999_999)]);
}

#[test]
fn path_is_appended_once() {
    let fake = Fake::start(|_| false);
    for (path, target) in [
        ("/", "/loki/api/v1/push"),
        ("/insert", "/insert/loki/api/v1/push"),
        ("/loki/api/v1/push/", "/loki/api/v1/push"),
        ("/a?b=c", "/a/loki/api/v1/push?b=c"),
    ] {
        let config = format!(r#"{{ "url": "http://{}{path}" {LABELS} }}"#, fake.server.address);
        TestHost::new().connect::<Loki>(&config).unwrap().deliver(&batch_of(&["x"])).unwrap();
        assert_eq!(fake.server.requests()[0].target(), target);
    }
}

#[test]
fn invalid_utf8_is_replaced() {
    let fake = Fake::start(|_| false);
    let messages: [&[u8]; 3] = [b"\xff\x00\"", b"a\xc3", "\u{1f600}\x7f".as_bytes()];
    fake.client(LABELS).deliver(&batch_of(&messages)).unwrap();
    let texts: Vec<_> =
        lines_of(&fake.server.requests()[0]).into_iter().map(|line| line.text).collect();
    assert_eq!(texts, ["\u{fffd}\0\"", "a\u{fffd}", "\u{1f600}\x7f"]);
}

/// Loki ignores a line that equals another one in its stream, labels, time and text.
#[test]
fn equal_lines_that_were_read_together_are_all_stored() {
    let fake = Fake::start(|_| false);
    fake.client(LABELS).deliver(&batch_of(&["x"; 5])).unwrap();
    assert_eq!(fake.texts().len(), 5);
}

#[test]
fn refused_line_goes_to_err_and_others_are_stored_once() {
    let fake = Fake::start(|text| text == "70");
    let messages: Vec<_> = (0..100).map(|number| number.to_string()).collect();
    let refused = exceptions(fake.client(LABELS).deliver(&batch_of(&messages)));
    let [refused] = &refused[..] else { panic!("{refused:?}") };
    assert_eq!(
        (refused.events.clone(), refused.error.policy()),
        (70..71, ErrorPolicy::DEAD_LETTER)
    );
    let text = refused.error.to_string();
    assert!(text.contains("answered with 400 Bad Request: entry too far behind"), "{text}");
    let texts = fake.texts();
    let distinct: BTreeSet<_> = texts.iter().collect();
    assert_eq!((texts.len(), distinct.len()), (99, 99));
}

#[test]
fn status_of_the_response_decides_for_all_lines() {
    for (status, part) in [
        (401, "check `auth`"),
        (403, "check `auth`"),
        (404, "check `url`"),
        (408, "answered with 408"),
        (429, "Ingestion rate limit exceeded"),
        (500, "answered with 500"),
        (503, "answered with 503"),
    ] {
        let server =
            Server::start(move |_| Reply::With(status, "", "Ingestion rate limit exceeded".into()));
        let again = exceptions(client(&server, LABELS).deliver(&batch_of(&["1", "2"])));
        let [again] = &again[..] else { panic!("{again:?}") };
        assert_eq!((again.events.clone(), again.error.policy()), (0..2, ErrorPolicy::RETRY));
        assert!(again.error.to_string().contains(part), "{}", again.error);
        assert_eq!(server.requests().len(), 1);
    }
}

#[test]
fn requested_delay_is_kept() {
    let server = Server::start(|_| Reply::With(429, "Retry-After: 7\r\n", String::new()));
    let mut client = client(&server, LABELS);
    for _ in 0..2 {
        let again = exceptions(client.deliver(&batch_of(&["x"])));
        assert!(again[0].error.delay() > Duration::from_secs(5), "{:?}", again[0].error.delay());
    }
    assert_eq!(server.requests().len(), 1);
}

#[test]
fn cut_response_is_retried() {
    let server = Server::start(|_| Reply::Part("HTTP/1.1 204 No"));
    let again = exceptions(client(&server, LABELS).deliver(&batch_of(&["x"])));
    assert_eq!(again[0].error.policy(), ErrorPolicy::RETRY);
}

#[test]
fn tenants_have_requests_of_their_own() {
    let fake = Fake::start(|_| false);
    let keys = format!(r#"{LABELS}, "tenant": "team-{{%team}}""#);
    let team = |name: &'static str| ("x", literal!({ "team": name }));
    let events = [team("a"), team("b"), team("a"), ("x", literal!({})), team("a\n")];
    let refused = exceptions(fake.client(&keys).deliver(&batch_with_metadata(&events)));
    let positions: Vec<_> = refused.iter().flat_map(|it| it.events.clone()).collect();
    assert_eq!(positions, [3, 4]);
    let requests = fake.server.requests();
    let counts: Vec<_> = requests.iter().map(|it| lines_of(it).len()).collect();
    assert_eq!(counts, [2, 1]);
    assert!(requests[0].has("x-scope-orgid: team-a"), "{}", requests[0].head);
    assert!(requests[1].has("x-scope-orgid: team-b"), "{}", requests[1].head);
    fake.client(&format!(r#"{LABELS}, "tenant": "seven""#)).deliver(&batch_of(&["x"])).unwrap();
    assert!(fake.server.requests()[0].has("x-scope-orgid: seven"));
}

#[test]
fn event_that_cannot_be_a_line_is_refused() {
    let fake = Fake::start(|_| false);
    let mut client =
        fake.client(r#", "labels": { "a": "{%a}" }, "time": "{%t}", "max_body_bytes": 300"#);
    let long = "x".repeat(300);
    let events = [
        ("1", literal!({ "t": 1 })),
        ("2", literal!({ "a": "", "t": 1 })),
        ("3", literal!({ "a": "x" })),
        ("4", literal!({ "a": "x", "t": "yesterday" })),
        (&*long, literal!({ "a": "x", "t": 1 })),
        ("6", literal!({ "a": "x", "t": 1 })),
    ];
    let refused = exceptions(client.deliver(&batch_with_metadata(&events)));
    assert!(refused.iter().all(|it| it.error.policy() == ErrorPolicy::DEAD_LETTER));
    let text: Vec<_> = refused.iter().map(|it| it.error.to_string()).collect();
    let positions: Vec<_> = refused.into_iter().flat_map(|it| it.events).collect();
    assert_eq!(positions, [0, 1, 2, 3, 4], "{text:?}");
    for part in ["template in `labels`", "`time` `{%t}`", "`max_body_bytes` is 300"] {
        assert!(text.iter().any(|it| it.contains(part)), "{part}: {text:?}");
    }
    assert_eq!(fake.texts(), ["6"]);
}

#[test]
fn large_delivery_is_divided_into_requests() {
    let fake = Fake::start(|_| false);
    let keys = format!(r#"{LABELS}, "max_body_bytes": 1000"#);
    let lines = [&b"\"\n\x01\xc3\xa9"[..], b"\xff\xff\xff\xff"].repeat(30);
    fake.client(&keys).deliver(&batch_of(&lines)).unwrap();
    let requests = fake.server.requests();
    assert!(requests.len() > 2, "{}", requests.len());
    assert!(requests.iter().all(|it| it.body.len() <= 1_000));
    assert_eq!(fake.texts().len(), 60);
}

/// Each request numbers its labels, and some messages are not UTF-8.
#[test]
fn interleaved_streams_are_complete_in_each_request() {
    let fake = Fake::start(|_| false);
    let keys = r#", "labels": { "n": "{%n}" }, "structured_metadata": { "m": "{%m}" }, "max_body_bytes": 900"#;
    let label = |number: usize| format!("{}", number * number % 7);
    let mut batch = Batch::new();
    for number in 0..60 {
        batch.push_message(format!("{number}").as_bytes());
        if number % 5 == 0 {
            batch.push_message(b"\xff");
        }
    }
    let mut expected = Vec::new();
    for position in 0..batch.len() {
        let (n, m) = (label(position), format!("{}", position % 3));
        let text = batch.get(position).unwrap().raw().unwrap();
        let text = String::from_utf8_lossy(text).into_owned();
        expected.push((format!("{{n=\"{n}\"}}"), text, m.clone()));
        batch.get_mut(position).unwrap().set_metadata(literal!({ "n": n, "m": m }));
    }
    fake.client(keys).deliver(&batch).unwrap();
    let requests = fake.server.requests();
    assert!(requests.len() > 2, "{}", requests.len());
    let mut found = Vec::new();
    for request in &requests {
        let mut streams = Vec::new();
        for line in lines_of(request) {
            if streams.last() != Some(&line.labels) {
                streams.push(line.labels.clone());
            }
            found.push((line.labels, line.text, line.metadata[0].1.clone()));
        }
        let distinct: BTreeSet<_> = streams.iter().collect();
        assert_eq!(distinct.len(), streams.len(), "a stream is not contiguous");
    }
    let of = |lines: &[(String, String, String)], n: &str| -> Vec<_> {
        lines.iter().filter(|line| line.0 == n).cloned().collect()
    };
    assert_eq!(found.len(), expected.len());
    for (n, ..) in &expected {
        assert_eq!(of(&found, n), of(&expected, n));
    }
}

#[test]
fn labels_can_have_the_time_of_reading() {
    let fake = Fake::start(|_| false);
    let mut batch = batch_of(&["1", "2", "3"]);
    batch.last_mut().unwrap().set_ingest_ns(86_400_000_000_000);
    fake.client(r#", "labels": { "day": "{:+%d}" }"#).deliver(&batch).unwrap();
    let lines = lines_of(&fake.server.requests()[0]);
    let labels: Vec<_> = lines.iter().map(|line| &*line.labels).collect();
    assert_eq!(labels, [r#"{day="01"}"#, r#"{day="01"}"#, r#"{day="02"}"#]);
}

#[test]
fn error_shows_no_secret() {
    let server = Server::start(|_| Reply::With(500, "", "token hidden".into()));
    let keys = format!(r#"{LABELS}, "auth": {{ "bearer": "hidden" }}"#);
    let text = exceptions(client(&server, &keys).deliver(&batch_of(&["x"])))[0].error.to_string();
    assert!(text.contains("token [redacted]") && !text.contains("hidden"), "{text}");
}

#[test]
fn invalid_configuration_is_rejected() {
    for (keys, part) in [
        (r#""labels": {}"#, "invalid `labels`: expected at least one label"),
        (r#""tenant": "t""#, "missing field `labels`"),
        (
            r#""labels": { "a": "x" }, "time": "t""#,
            "invalid `time` `t`: expected exactly one field",
        ),
        (r#""labels": { "a": "x" }, "time": "{a}{b}""#, "invalid `time` `{a}{b}`"),
        (r#""labels": { "a": "x" }, "time": "{a:-1}""#, "invalid `time` `{a:-1}`"),
        (r#""labels": { "1a": "x" }"#, "invalid `labels` entry `1a`"),
        (r#""labels": { "a-b": "x" }"#, "invalid `labels` entry `a-b`"),
        (r#""labels": { "": "x" }"#, "invalid `labels` entry ``"),
        (r#""labels": { "a": "x" }, "compression": "gzip""#, "expected `none` or `snappy`"),
        (
            r#""labels": { "a": "x" }, "max_body_bytes": "1025MiB""#,
            "invalid `max_body_bytes` 1074790400: expected at most 1073741824 bytes",
        ),
        (r#""labels": { "a": "{" }"#, "invalid template"),
        (r#""labels": { "a": "x" }, "structured_metadata": { "ä": "x" }"#, "`structured_metadata`"),
        (r#""labels": { "a": "x" }, "tenant": "{""#, "invalid template"),
        (
            r#""labels": { "a": "x" }, "tenant": "a", "headers": { "X-Scope-OrgID": "b" }"#,
            "`tenant` sets this header",
        ),
    ] {
        let config = format!(r#"{{ "url": "http://a", {keys} }}"#);
        let error = TestHost::new().component::<Loki>(&config).err().unwrap().to_string();
        assert!(error.contains(part), "{error}");
    }
}

/// The runtime hands a sink only the fields of keys that are templates by the schema.
#[test]
fn fields_of_all_keys_are_known_from_the_schema() {
    let schema = serde_json::to_value(schemars::schema_for!(Config)).unwrap();
    let config = json!({ "labels": { "a": "{a}" }, "structured_metadata": { "b": "{b}" }, "time": "{c}", "tenant": "{d}" });
    let fields = TemplateFields::of_config(&schema, &config).unwrap();
    let mut names: Vec<_> = fields.names().collect();
    names.sort_unstable();
    assert_eq!(names, ["a", "b", "c", "d"]);
}

#[test]
fn connector_passes_conformance_checks() {
    conformance::connector::<Loki>(r#"{ "url": "http://127.0.0.1:1", "labels": { "a": "b" } }"#)
        .expect_no_faults();
}
