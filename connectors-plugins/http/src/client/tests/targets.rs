//! Tests of requests whose URLs and headers depend on events.

use std::{
    io::Write,
    net::TcpListener,
    sync::{Arc, Mutex},
    thread,
};

use tremor_pdk::{
    Batch, Delivery, ErrorKind, ErrorPolicy, Exception, Undelivered, literal,
    testing::{Connection, TestHost, batch_of, batch_with_metadata},
};

use super::{client, peer, read_request, status};

/// A request that a [`Router`] received.
#[derive(Clone, Debug)]
pub(super) struct Request {
    pub(super) status: u16,
    /// Path and query.
    pub(super) target: String,
    pub(super) head: String,
    pub(super) body: String,
}

/// A peer that judges each request by its target and its body.
pub(super) struct Router {
    address: String,
    requests: Arc<Mutex<Vec<Request>>>,
}

impl Router {
    /// Starts the peer. `judge` returns the status and further headers of the response for a target and a body.
    pub(super) fn start(
        judge: impl Fn(&str, &str) -> (u16, &'static str) + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let requests = Arc::new(Mutex::new(Vec::<Request>::new()));
        let state = Arc::new((judge, requests.clone()));
        thread::spawn(move || {
            for mut stream in listener.incoming().flatten() {
                let state = state.clone();
                thread::spawn(move || {
                    let (judge, seen) = &*state;
                    while let Some((head, body)) = read_request(&mut stream) {
                        let body = String::from_utf8(body).unwrap();
                        let target = head.split(' ').nth(1).unwrap().to_owned();
                        let (status, headers) = judge(&target, &body);
                        seen.lock().unwrap().push(Request { status, target, head, body });
                        let head = format!("HTTP/1.1 {status} X\r\n{headers}");
                        let answer = format!("{head}Content-Length: 3\r\n\r\nwhy");
                        if stream.write_all(answer.as_bytes()).is_err() {
                            break;
                        }
                    }
                });
            }
        });
        Self { address, requests }
    }

    /// Starts a peer that accepts all requests.
    pub(super) fn accepting() -> Self {
        Self::start(|_, _| (200, ""))
    }

    /// Returns a client of the peer whose URL has this path and query.
    pub(super) fn client(&self, host: &TestHost, path: &str, keys: &str) -> Connection {
        host.follow_real_time();
        let config = format!(r#"{{ "url": "http://{}{path}" {keys} }}"#, self.address);
        host.connect::<super::HttpClient>(&config).unwrap()
    }

    /// Returns the requests since the last call.
    pub(super) fn requests(&self) -> Vec<Request> {
        std::mem::take(&mut *self.requests.lock().unwrap())
    }

    /// Returns the targets and bodies of the accepted requests since the last call.
    pub(super) fn accepted(&self) -> Vec<(String, String)> {
        let accepted = self.requests().into_iter().filter(|it| it.status == 200);
        accepted.map(|it| (it.target, it.body)).collect()
    }
}

/// Returns a batch of messages, each with the metadata `v`.
pub(super) fn tagged(events: &[(&str, &str)]) -> Batch {
    let events: Vec<_> = events
        .iter()
        .map(|(message, value)| (*message, literal!({ "v": (*value).to_owned() })))
        .collect();
    batch_with_metadata(&events)
}

#[track_caller]
pub(super) fn exceptions(delivery: Delivery) -> Vec<Exception> {
    match delivery {
        Err(Undelivered::Some { exceptions, .. }) => exceptions,
        other => panic!("expected a delivery with exceptions, found {other:?}"),
    }
}

const NDJSON: &str = r#", "format": "ndjson""#;

fn pairs(expected: &[(&str, &str)]) -> Vec<(String, String)> {
    expected.iter().map(|(target, body)| ((*target).to_owned(), (*body).to_owned())).collect()
}

#[test]
fn events_are_grouped_by_target_in_order() {
    let router = Router::accepting();
    let events = [("1", "a"), ("2", "b"), ("3", "a"), ("4", "c"), ("5", "b")];
    let mut client = router.client(&TestHost::new(), "/in/{%v}", NDJSON);
    client.deliver(&tagged(&events)).unwrap();
    let expected = pairs(&[("/in/a", "1\n3\n"), ("/in/b", "2\n5\n"), ("/in/c", "4\n")]);
    assert_eq!(router.accepted(), expected);
    let mut client = router.client(&TestHost::new(), "/in?x={%v}", "");
    client.deliver(&tagged(&events[..3])).unwrap();
    let expected = pairs(&[("/in?x=a", "1"), ("/in?x=a", "3"), ("/in?x=b", "2")]);
    assert_eq!(router.accepted(), expected);
}

#[test]
fn groups_differ_by_headers_and_by_ends_of_bodies() {
    let router = Router::accepting();
    let keys = r#", "format": "joined", "headers": { "X-Tenant": "t-{%v}" }"#;
    let mut client = router.client(&TestHost::new(), "/in", keys);
    client.deliver(&tagged(&[("1", "a"), ("2", "b"), ("3", "a")])).unwrap();
    let requests = router.requests();
    let seen: Vec<_> = requests.iter().map(|it| (&*it.target, &*it.body)).collect();
    assert_eq!(seen, [("/in", "13"), ("/in", "2")]);
    for (request, expected) in requests.iter().zip(["x-tenant: t-a", "x-tenant: t-b"]) {
        assert!(request.head.lines().any(|line| line == expected), "{}", request.head);
    }
    let keys = r#", "format": "joined", "body": { "prefix": "<{%v}>", "suffix": "</{%v}>" }"#;
    let mut client = router.client(&TestHost::new(), "/in", keys);
    client.deliver(&tagged(&[("1", "a"), ("2", "b"), ("3", "a")])).unwrap();
    let expected = pairs(&[("/in", "<a>13</a>"), ("/in", "<b>2</b>")]);
    assert_eq!(router.accepted(), expected);
}

#[test]
fn hostile_values_stay_in_their_segment() {
    let router = Router::accepting();
    let long = "x".repeat(10 << 10);
    let values = [
        ("../x", Some("..%2Fx")),
        ("a/b", Some("a%2Fb")),
        ("?x=#", Some("%3Fx%3D%23")),
        ("%2f", Some("%252f")),
        ("%2e%2e", Some("%252e%252e")),
        ("a\r\nx-evil: 1", Some("a%0D%0Ax-evil%3A%201")),
        ("\0", Some("%00")),
        ("äöü", Some("%C3%A4%C3%B6%C3%BC")),
        ("@other:1", Some("%40other%3A1")),
        ("..", None),
        (".", None),
        ("", None),
        (&long, None),
    ];
    let mut client = router.client(&TestHost::new(), "/in/{%v}/x?q={%v}&key=secret", "");
    let events: Vec<_> = values.iter().map(|(value, _)| ("1", *value)).collect();
    let refused = exceptions(client.deliver(&tagged(&events)));
    let expected = values.iter().filter_map(|(_, it)| *it);
    let expected: Vec<_> = expected.map(|it| format!("/in/{it}/x?q={it}&key=secret")).collect();
    let targets: Vec<_> = router.requests().into_iter().map(|it| it.target).collect();
    assert_eq!(targets, expected);
    let positions: Vec<_> = refused.iter().flat_map(|it| it.events.clone()).collect();
    assert_eq!(positions, [9, 10, 11, 12]);
    let parts = ["segment `.` or `..`", "segment `.` or `..`", "would be empty", "than 8192 bytes"];
    for (exception, part) in refused.iter().zip(parts) {
        let text = exception.error.to_string();
        assert!(text.contains(part) && text.contains("/in/{%v}/x`"), "{text}");
        assert!(!text.contains("secret"), "{text}");
        assert_eq!(exception.error.policy(), ErrorPolicy::DEAD_LETTER);
    }
}

#[test]
fn two_values_cannot_be_a_segment_of_points() {
    let router = Router::accepting();
    let mut client = router.client(&TestHost::new(), "/in/{%v}{%v}/%2e{%v}", "");
    let refused = exceptions(client.deliver(&tagged(&[("1", "."), ("2", "a")])));
    assert_eq!((refused.len(), &refused[0].events), (1, &(0..1)));
    assert_eq!(router.accepted(), pairs(&[("/in/aa/%2ea", "2")]));
    // Each of two values without characters is a segment.
    let mut client = router.client(&TestHost::new(), "/in/{%v}/x{%v}", "");
    exceptions(client.deliver(&tagged(&[("1", "")])));
    assert_eq!(router.requests().len(), 0);
}

#[test]
fn header_values_cannot_add_headers() {
    let router = Router::accepting();
    let keys = r#", "headers": { "x-tenant": "{%v}" }"#;
    let mut client = router.client(&TestHost::new(), "/in", keys);
    let long = "x".repeat(8_193);
    let values = ["a\r\nx-evil: 1", "a\n", "\0", "\u{7f}", &long, "plain, täxt"];
    let refused = exceptions(client.deliver(&tagged(&values.map(|value| ("1", value)))));
    let positions: Vec<_> = refused.iter().flat_map(|it| it.events.clone()).collect();
    assert_eq!(positions, [0, 1, 2, 3, 4]);
    for exception in refused {
        let text = exception.error.to_string();
        assert!(text.contains("`headers.x-tenant`") && !text.contains("evil"), "{text}");
        assert_eq!(exception.error.policy(), ErrorPolicy::DEAD_LETTER);
    }
    let requests = router.requests();
    assert_eq!(requests.len(), 1);
    assert!(requests[0].head.contains("\r\nx-tenant: plain, täxt\r\n"), "{}", requests[0].head);
}

#[test]
fn refused_target_does_not_take_others_along() {
    for (status, keys) in [(404, NDJSON), (403, NDJSON), (404, ""), (403, "")] {
        let judge = move |target: &str, _: &str| (if target == "/b" { status } else { 200 }, "");
        let router = Router::start(judge);
        let mut client = router.client(&TestHost::new(), "/{%v}", keys);
        let events = [("1", "b"), ("2", "a"), ("3", "c"), ("4", "b")];
        let refused = exceptions(client.deliver(&tagged(&events)));
        let positions: Vec<_> = refused.iter().flat_map(|it| it.events.clone()).collect();
        assert_eq!(positions, [0, 3]);
        for exception in refused {
            assert_eq!(exception.error.policy(), ErrorPolicy::DEAD_LETTER, "{}", exception.error);
        }
        assert_eq!(router.accepted().len(), 2);
    }
}

#[test]
fn refused_header_is_of_the_event_and_wrong_url_is_not() {
    for (status, policy) in [(403, ErrorPolicy::DEAD_LETTER), (404, ErrorPolicy::RETRY)] {
        let router = Router::start(move |_, _| (status, ""));
        let keys = r#", "headers": { "x-tenant": "{%v}" }"#;
        let mut client = router.client(&TestHost::new(), "/in", keys);
        let refused = exceptions(client.deliver(&tagged(&[("1", "a")])));
        assert_eq!(refused[0].error.policy(), policy, "{status}");
    }
}

#[test]
fn failed_target_is_retried_without_the_others() {
    for status in [429, 500] {
        let judge = move |target: &str, _: &str| (if target == "/b" { status } else { 200 }, "");
        let router = Router::start(judge);
        let mut client = router.client(&TestHost::new(), "/{%v}", NDJSON);
        let events = [("1", "a"), ("2", "b"), ("3", "c"), ("4", "b"), ("5", "a")];
        let again = exceptions(client.deliver(&tagged(&events)));
        let positions: Vec<_> = again.iter().flat_map(|it| it.events.clone()).collect();
        assert_eq!(positions, [1, 3]);
        assert!(again.iter().all(|it| it.error.policy() == ErrorPolicy::RETRY));
        assert_eq!(router.accepted(), pairs(&[("/a", "1\n5\n"), ("/c", "3\n")]));
        // The flow delivers the events that are left.
        exceptions(client.deliver(&tagged(&[("2", "b"), ("4", "b")])));
        let requests = router.requests();
        assert_eq!((requests.len(), &*requests[0].target), (1, "/b"));
    }
}

/// The long URLs do not fit into the groups of one round, so the second event for `/a` is in another round.
#[test]
fn later_event_waits_for_its_failed_target() {
    let judge = |target: &str, _: &str| (if target == "/a" { 500 } else { 200 }, "");
    let router = Router::start(judge);
    let mut client = router.client(&TestHost::new(), "/{%v}", NDJSON);
    let long: Vec<_> = (100..300).map(|it| format!("{it}{}", "x".repeat(8_000))).collect();
    let mut events = vec![("1", "a")];
    events.extend(long.iter().map(|value| ("2", &**value)));
    events.push(("3", "a"));
    let again = exceptions(client.deliver(&tagged(&events)));
    let positions: Vec<_> = again.iter().flat_map(|it| it.events.clone()).collect();
    assert_eq!(positions, [0, 201]);
    let requests = router.requests();
    assert_eq!(requests.iter().filter(|it| it.target == "/a").count(), 1);
    assert_eq!(requests.len(), 201);
}

#[test]
fn failure_of_the_peer_stops_the_delivery() {
    for (status, headers) in [(401, ""), (407, ""), (503, "Retry-After: 7\r\n")] {
        let judge = move |target: &str, _: &str| match target {
            "/a" => (200, ""),
            _ => (status, headers),
        };
        let router = Router::start(judge);
        let mut client = router.client(&TestHost::new(), "/{%v}", NDJSON);
        let events = [("1", "a"), ("2", "b"), ("3", "a"), ("4", "c"), ("5", "b")];
        let again = exceptions(client.deliver(&tagged(&events)));
        let positions: Vec<_> = again.iter().flat_map(|it| it.events.clone()).collect();
        assert_eq!(positions, [1, 3, 4], "{status}");
        assert!(again.iter().all(|it| it.error.policy() == ErrorPolicy::RETRY));
        assert_eq!(router.requests().len(), 2, "{status}");
    }
}

#[test]
fn lost_connection_retries_what_was_not_accepted() {
    let peer = peer(vec![status(200, "", ""), super::Reply::Part("HTTP/1.1 200 OK\r\nContent-L")]);
    let host = TestHost::new();
    host.follow_real_time();
    let config = format!(r#"{{ "url": "http://{}/{{%v}}" {NDJSON} }}"#, peer.address);
    let mut client = host.connect::<super::HttpClient>(&config).unwrap();
    let again = exceptions(client.deliver(&tagged(&[("1", "a"), ("2", "b"), ("3", "c")])));
    let [again] = &again[..] else { panic!("{again:?}") };
    assert_eq!((again.events.clone(), again.error.policy()), (1..3, ErrorPolicy::RETRY));
    assert_eq!(peer.requests.join().unwrap().len(), 2);
}

#[test]
fn overloaded_peer_is_not_asked_for_each_target() {
    let router = Router::start(|_, _| (500, ""));
    let mut client = router.client(&TestHost::new(), "/{%v}", NDJSON);
    let values: Vec<_> = (0..100).map(|number| number.to_string()).collect();
    let events: Vec<_> = values.iter().map(|value| ("1", &**value)).collect();
    let again = exceptions(client.deliver(&tagged(&events)));
    let positions: Vec<_> = again.iter().flat_map(|it| it.events.clone()).collect();
    assert!(positions.into_iter().eq(0..100));
    assert!(again.iter().all(|it| it.error.policy() == ErrorPolicy::RETRY));
    assert_eq!(router.requests().len(), 20);
}

#[test]
fn target_that_refuses_contents_does_not_stop_others() {
    let judge = |target: &str, _: &str| (if target == "/bad" { 422 } else { 200 }, "");
    let router = Router::start(judge);
    let mut client = router.client(&TestHost::new(), "/{%v}", NDJSON);
    let mut events = vec![("1", "bad"); 50];
    events.push(("2", "good"));
    let refused = exceptions(client.deliver(&tagged(&events)));
    let positions: Vec<_> = refused.iter().flat_map(|it| it.events.clone()).collect();
    assert!(positions.into_iter().eq(0..50));
    assert_eq!(router.accepted(), pairs(&[("/good", "2\n")]));
}

#[test]
fn missing_field_names_key_template_and_field() {
    let router = Router::accepting();
    for (path, keys, expected) in [
        (
            "/x/{tenant}?key=secret",
            "",
            "/x/{tenant}`: expected text, a number or a truth value as `tenant`, found no such field",
        ),
        ("/", r#", "headers": { "x-t": "secret{%t}" }"#, "cannot render `headers.x-t`: expected"),
        (
            "/",
            r#", "body": { "before_event": "{%t}" }"#,
            "cannot render `body.before_event` `{%t}`: expected text",
        ),
    ] {
        let mut client = router.client(&TestHost::new(), path, keys);
        let refused = exceptions(client.deliver(&batch_of(&["1"])));
        let error = &refused[0].error;
        assert_eq!((error.kind(), error.policy()), (ErrorKind::BAD_DATA, ErrorPolicy::DEAD_LETTER));
        let text = error.to_string();
        assert!(text.contains(expected) && !text.contains("secret"), "{text}");
    }
    let mut client = router.client(&TestHost::new(), "/x/{tenant:-none}", "");
    client.deliver(&batch_of(&["1"])).unwrap();
    assert_eq!(router.accepted(), pairs(&[("/x/none", "1")]));
}

#[test]
fn encoded_event_has_fields_of_its_payload() {
    let router = Router::accepting();
    let mut client = router.client(&TestHost::new(), "/{tenant}/{:+%Y.%m.%d}", NDJSON);
    let metadata = literal!({ "template": { "tenant": "t/1" } });
    let mut batch = batch_with_metadata(&[("1", metadata)]);
    batch.last_mut().unwrap().set_ingest_ns(1_795_912_200_123_456_789);
    client.deliver(&batch).unwrap();
    assert_eq!(router.accepted(), pairs(&[("/t%2F1/2026.11.29", "1\n")]));
}

#[test]
fn doubled_braces_are_braces() {
    let router = Router::accepting();
    let keys = r#", "headers": { "x-a": "{{b}}", "x-token": "{{c}}" }"#;
    for (path, expected) in [("/{{a}}?{{%v}}", "/{a}?{%v}"), ("/{{a}}/{%v}", "/{a}/z")] {
        let mut client = router.client(&TestHost::new(), path, keys);
        client.deliver(&tagged(&[("1", "z")])).unwrap();
        let request = router.requests().remove(0);
        assert_eq!(request.target, expected);
        // A token may contain any braces.
        for line in ["x-a: {b}", "x-token: {{c}}"] {
            assert!(request.head.lines().any(|it| it == line), "{}", request.head);
        }
    }
}

#[test]
fn answer_that_echoes_values_shows_none() {
    let echo = "/x/seven?key=a-key-of-seven x-tenant: tenant-of-seven";
    let peer = peer(vec![status(422, "", echo)]);
    let host = TestHost::new();
    host.follow_real_time();
    let config = format!(
        r#"{{ "url": "http://{}/x/{{%v}}?key=a-key-of-{{%v}}", "headers": {{ "x-tenant": "tenant-of-{{%v}}" }} }}"#,
        peer.address
    );
    let mut client = host.connect::<super::HttpClient>(&config).unwrap();
    let refused = exceptions(client.deliver(&tagged(&[("1", "seven")])));
    let text = refused[0].error.to_string();
    assert!(text.ends_with(": /x/seven?[redacted] x-tenant: [redacted]"), "{text}");
    peer.requests.join().unwrap();
}

#[test]
fn fixed_headers_can_be_replaced_by_values() {
    let router = Router::accepting();
    let keys = r#", "headers": { "User-Agent": "{%v}", "content-type": "text/{%v}" }"#;
    let mut client = router.client(&TestHost::new(), "/", keys);
    client.deliver(&tagged(&[("1", "a")])).unwrap();
    let head = router.requests().remove(0).head;
    for line in ["user-agent: a", "content-type: text/a"] {
        assert_eq!(head.matches(line).count(), 1, "{head}");
    }
    assert_eq!(head.matches("user-agent").count() + head.matches("content-type").count(), 2);
}

#[test]
fn source_without_fields_polls_its_url() {
    let peer = peer(vec![status(200, "", "one")]);
    let mut client = client(&TestHost::new(), &peer.address, r#", "interval": "30s""#);
    client.pull().unwrap();
    peer.requests.join().unwrap();
}
