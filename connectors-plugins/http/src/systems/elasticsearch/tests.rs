//! Tests against a server that follows the documentation of the bulk API.

mod fake;

use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
    time::Duration,
};

use serde_json::{Value as Json, json};
use tremor_pdk::{
    Batch, ErrorKind, ErrorPolicy, Undelivered, literal,
    testing::{Connection, TestHost, batch_of, batch_with_metadata, conformance},
};

use self::fake::{Fake, Item};
use super::Elasticsearch;
use crate::testing::{Reply, Server, exceptions};

fn client(host: &TestHost, server: &Server, keys: &str) -> Connection {
    host.follow_real_time();
    let config = format!(r#"{{ "url": "http://{}", "index": "i" {keys} }}"#, server.address);
    host.connect::<Elasticsearch>(&config).unwrap()
}

/// Returns a batch of documents `{"n":N}` with positions in a file.
fn numbered(numbers: impl IntoIterator<Item = u64>) -> Batch {
    let document = |number: u64| {
        let metadata = literal!({ "file": { "path": "/var/log/app.log", "offset": number } });
        (format!(r#"{{"n":{number}}}"#), metadata)
    };
    let documents: Vec<_> = numbers.into_iter().map(document).collect();
    let events: Vec<_> = documents.iter().map(|(text, it)| (&**text, it.clone())).collect();
    batch_with_metadata(&events)
}

/// Delivers events until none of them has to be sent again, as the runtime does. Returns those that become dead
/// letters.
fn deliver_all(client: &mut Connection, mut numbers: Vec<u64>) -> Vec<(u64, String)> {
    let mut letters = Vec::new();
    for _ in 0..20 {
        let mut again = Vec::new();
        match client.deliver(&numbered(numbers.iter().copied())) {
            Ok(()) => return letters,
            Err(Undelivered::All(error)) => panic!("the connector failed: {error}"),
            Err(Undelivered::Some { exceptions, .. }) => {
                for exception in exceptions {
                    let of = exception.events.clone().map(|position| numbers[position]);
                    match exception.error.policy() {
                        ErrorPolicy::RETRY => again.extend(of),
                        _ => letters.extend(of.map(|it| (it, exception.error.to_string()))),
                    }
                }
            }
        }
        numbers = again;
        if numbers.is_empty() {
            return letters;
        }
    }
    panic!("the events were sent again too often: {numbers:?}");
}

/// Returns a function that returns `true` at the first `count` calls.
fn first(count: usize) -> impl Fn() -> bool + Send + Sync + 'static {
    let left = Mutex::new(count);
    move || {
        let mut left = left.lock().unwrap();
        let is_first = *left > 0;
        *left = left.saturating_sub(1);
        is_first
    }
}

#[test]
fn request_has_an_action_before_each_document() {
    let fake = Fake::accepting();
    let host = TestHost::new();
    host.follow_real_time();
    let config = format!(
        r#"{{ "url": "http://{}/search/?key=a", "index": "logs-{{%v}}-{{:+%Y.%m.%d}}", "id": "{{%id}}",
              "routing": "{{%v}}", "pipeline": "a b", "auth": {{ "basic": {{ "user": "u", "password": "p" }} }} }}"#,
        fake.server.address
    );
    let mut client = host.connect::<Elasticsearch>(&config).unwrap();
    let events = [
        (r#"{"n":1}"#, literal!({ "v": "a", "id": 7 })),
        ("{\n  \"n\": 2\n}\n", literal!({ "v": "\"}\n", "id": "x" })),
    ];
    client.deliver(&batch_with_metadata(&events)).unwrap();
    let requests = fake.server.requests();
    let [request] = &requests[..] else { panic!("{requests:?}") };
    let expected = "/search/_bulk?key=a&pipeline=a%20b&filter_path=errors,items.*.status,items.*.error.type,\
                    items.*.error.reason,items.*.error.caused_by.reason,items.*.error.index";
    assert_eq!(request.target(), expected);
    assert!(request.has("content-type: application/x-ndjson"), "{}", request.head);
    assert!(request.has("authorization: Basic dTpw"), "{}", request.head);
    let expected = concat!(
        r#"{"create":{"_index":"logs-a-1970.01.01","_id":"7","routing":"a"}}"#,
        "\n{\"n\":1}\n",
        r#"{"create":{"_index":"logs-\"}\n-1970.01.01","_id":"x","routing":"\"}\n"}}"#,
        "\n{   \"n\": 2 }\n",
    );
    assert_eq!(request.text(), expected);
}

#[test]
fn index_and_action_have_defaults() {
    let fake = Fake::accepting();
    let host = TestHost::new();
    host.follow_real_time();
    for path in ["", "/", "/_bulk", "/_bulk/"] {
        let config = format!(r#"{{ "url": "http://{}{path}" }}"#, fake.server.address);
        let mut client = host.connect::<Elasticsearch>(&config).unwrap();
        client.deliver(&batch_of(&["{}"])).unwrap();
        let request = fake.server.requests().remove(0);
        assert!(request.target().starts_with("/_bulk?filter_path="), "{}", request.target());
        assert_eq!(request.text(), "{\"create\":{\"_index\":\"tremor-1970.01.01\"}}\n{}\n");
    }
}

/// The connection is cut after the server has stored the documents, which is the worst case.
#[test]
fn faults_write_each_document_once_and_refuse_one() {
    let (busy, failed, cut) = (first(1), first(1), first(1));
    let refuse = move |item: &Item| match &*item.document {
        r#"{"n":100}"# => Some((400, "mapper_parsing_exception")),
        r#"{"n":200}"# if busy() => Some((429, "es_rejected_execution_exception")),
        r#"{"n":300}"# if failed() => Some((500, "internal_error")),
        _ => None,
    };
    let reply = move |body| {
        if cut() { Reply::Part("HTTP/1.1 200 OK\r\nContent-Le") } else { Reply::ok(body) }
    };
    let fake = Fake::replying(refuse, reply);
    let mut client = fake.client(r#", "id": "position""#);
    let letters = deliver_all(&mut client, (0..500).collect());
    let [(100, error)] = &letters[..] else { panic!("{letters:?}") };
    assert!(
        error.ends_with(
            "/_bulk` refused the document with the status 400: mapper_parsing_exception: why: index `i`"
        ),
        "{error}"
    );
    let documents = fake.documents();
    let mut numbers: Vec<u64> = documents
        .values()
        .map(|it| serde_json::from_str::<Json>(it).unwrap()["n"].as_u64().unwrap())
        .collect();
    numbers.sort_unstable();
    assert!(numbers.into_iter().eq((0..500).filter(|it| *it != 100)));
}

#[test]
fn status_of_an_item_decides_for_its_event_alone() {
    const LETTER: ErrorPolicy = ErrorPolicy::DEAD_LETTER;
    const RETRY: ErrorPolicy = ErrorPolicy::RETRY;
    for (status, kind, policy) in [
        (400, "mapper_parsing_exception", LETTER),
        (404, "index_not_found_exception", LETTER),
        (413, "circuit_breaking_exception", LETTER),
        (403, "cluster_block_exception", RETRY),
        (403, "security_exception", RETRY),
        (401, "security_exception", RETRY),
        (408, "process_cluster_event_timeout_exception", RETRY),
        (429, "es_rejected_execution_exception", RETRY),
        (500, "internal_error", RETRY),
        (503, "unavailable_shards_exception", RETRY),
    ] {
        let fake = Fake::start(move |item| item.document.contains('1').then_some((status, kind)));
        let mut client = fake.client(r#", "id": "position""#);
        let refused = exceptions(client.deliver(&numbered(0..3)));
        let [refused] = &refused[..] else { panic!("{refused:?}") };
        assert_eq!((refused.events.clone(), refused.error.policy()), (1..2, policy), "{status}");
        let text = refused.error.to_string();
        assert!(text.contains(&format!("status {status}: {kind}: why")), "{text}");
        assert_eq!(fake.documents().len(), 2);
    }
}

#[test]
fn forbidden_index_does_not_stop_other_indices() {
    let is_forbidden = |item: &Item| item.target["_index"] == "b";
    let fake = Fake::start(move |item| is_forbidden(item).then_some((403, "security_exception")));
    let host = TestHost::new();
    host.follow_real_time();
    let config = format!(r#"{{ "url": "http://{}", "index": "{{%v}}" }}"#, fake.server.address);
    let mut client = host.connect::<Elasticsearch>(&config).unwrap();
    let events = [("{}", literal!({ "v": "a" })), ("{}", literal!({ "v": "b" }))];
    let refused = exceptions(client.deliver(&batch_with_metadata(&events)));
    assert_eq!((refused.len(), refused[0].events.clone()), (1, 1..2));
    assert_eq!(refused[0].error.policy(), ErrorPolicy::DEAD_LETTER);
}

#[test]
fn response_that_cannot_be_read_is_not_believed() {
    for body in [
        "",
        "<html>",
        "{}",
        r#"{"errors":false}"#,
        r#"{"errors":false,"items":[]}"#,
        r#"{"errors":false,"items":[{"create":{"status":201}}]}"#,
        r#"{"errors":false,"items":[{"create":{"status":201}},{"create":{"status":201}}"#,
        r#"{"errors":false,"items":[{"create":{"status":201}},{"create":{}}]}"#,
        r#"{"errors":false,"items":[{"create":{"status":201}},{}]}"#,
        r#"{"error":{"type":"x"},"status":200}"#,
    ] {
        let server = Server::start(move |_| Reply::ok(body));
        let mut client = client(&TestHost::new(), &server, "");
        let again = exceptions(client.deliver(&batch_of(&["{}", "{}"])));
        let [again] = &again[..] else { panic!("{again:?}") };
        assert_eq!((again.events.clone(), again.error.policy()), (0..2, ErrorPolicy::RETRY));
        assert!(again.error.to_string().contains("cannot read the response"), "{}", again.error);
        // A document that the server may not be able to read is not sent again without end.
        let again = exceptions(client.deliver(&batch_of(&["{}", "{1}"])));
        assert_eq!(again[1].error.policy(), ErrorPolicy::DEAD_LETTER);
        assert!(again[1].error.to_string().contains("it is not JSON"), "{}", again[1].error);
    }
}

#[test]
fn unfiltered_response_is_read() {
    let server = Server::start(|_| {
        Reply::ok(
            r#"{ "took": 3, "errors": true, "items": [
                { "create": { "_index": "i", "_id": "a", "_version": 1, "result": "created", "status": 201 } },
                { "create": { "_index": "i", "status": 400, "error": {
                    "type": "document_parsing_exception", "reason": "[1:6] failed to parse field [n]",
                    "caused_by": { "type": "x", "reason": "For input string" } } } } ] }"#,
        )
    });
    let mut client = client(&TestHost::new(), &server, "");
    let refused = exceptions(client.deliver(&batch_of(&["{}", "{}"])));
    let text = refused[0].error.to_string();
    assert_eq!(refused[0].events, 1..2);
    assert!(
        text.ends_with(
            "status 400: document_parsing_exception: [1:6] failed to parse field [n]: For input string"
        ),
        "{text}"
    );
}

#[test]
fn existing_document_of_a_create_is_delivered() {
    let fake = Fake::accepting();
    let mut created = fake.client(r#", "id": "position""#);
    for _ in 0..2 {
        created.deliver(&numbered(0..3)).unwrap();
        assert_eq!(fake.documents().len(), 3);
    }
    for keys in ["", r#", "id": "position", "action": "index""#] {
        let fake = Fake::start(|_| Some((409, "version_conflict_engine_exception")));
        let refused = exceptions(fake.client(keys).deliver(&numbered(0..1)));
        assert_eq!(refused[0].error.policy(), ErrorPolicy::DEAD_LETTER);
    }
}

#[test]
fn later_version_waits_for_the_earlier_one() {
    let busy = first(1);
    let refuse = move |item: &Item| {
        let is_refused = item.document == r#"{"a":1}"# && busy();
        is_refused.then_some((429, "es_rejected_execution_exception"))
    };
    let fake = Fake::start(refuse);
    let mut client = fake.client(r#", "id": "{%id}", "action": "index""#);
    let events: Vec<_> = [("a", 1), ("b", 1), ("a", 2), ("b", 2)]
        .map(|(id, n)| (format!(r#"{{"{id}":{n}}}"#), literal!({ "id": id })))
        .into();
    let batch = |of: &[usize]| {
        let events: Vec<_> = of.iter().map(|at| (&*events[*at].0, events[*at].1.clone())).collect();
        batch_with_metadata(&events)
    };
    let again = exceptions(client.deliver(&batch(&[0, 1, 2, 3])));
    let positions: Vec<_> = again.iter().flat_map(|it| it.events.clone()).collect();
    assert_eq!(positions, [0, 2]);
    assert!(again.iter().all(|it| it.error.policy() == ErrorPolicy::RETRY));
    client.deliver(&batch(&[0, 2])).unwrap();
    let documents: Vec<_> = fake.documents().into_values().collect();
    assert_eq!(documents, [r#"{"a":2}"#, r#"{"b":2}"#]);
}

#[test]
fn status_of_the_response_decides_for_all_items() {
    for (status, kind) in [
        (401, ErrorKind::AUTHENTICATION),
        (403, ErrorKind::AUTHENTICATION),
        (404, ErrorKind::CONFIGURATION),
        (405, ErrorKind::CONFIGURATION),
        (429, ErrorKind::FULL),
        (503, ErrorKind::FULL),
    ] {
        let server = Server::start(move |_| Reply::With(status, "", "why".to_owned()));
        let mut client = client(&TestHost::new(), &server, "");
        let again = exceptions(client.deliver(&batch_of(&["{}", "{}"])));
        let [again] = &again[..] else { panic!("{again:?}") };
        assert_eq!((again.events.clone(), again.error.policy()), (0..2, ErrorPolicy::RETRY));
        assert_eq!(again.error.kind(), kind, "{}", again.error);
        let text = again.error.to_string();
        assert!(!text.contains("`method`"), "the connector does not have the key: {text}");
        assert_eq!(server.requests().len(), 1);
    }
}

#[test]
fn large_request_is_divided_between_documents() {
    let documents = Arc::new(Mutex::new(HashMap::new()));
    let stored = documents.clone();
    let server = Server::start(move |request| {
        if request.body.len() > 1_000 {
            return Reply::With(413, "", String::new());
        }
        let items = Item::all(request);
        for item in &items {
            *stored.lock().unwrap().entry(item.document.clone()).or_insert(0) += 1;
        }
        let results = vec![r#"{"create":{"status":201}}"#; items.len()].join(",");
        Reply::ok(format!(r#"{{"errors":false,"items":[{results}]}}"#))
    });
    for keys in ["", r#", "max_body_bytes": 999"#] {
        let mut client = client(&TestHost::new(), &server, keys);
        client.deliver(&numbered(0..300)).unwrap();
        let documents = std::mem::take(&mut *documents.lock().unwrap());
        assert!(documents.len() == 300 && documents.values().all(|count| *count == 1));
        let refused = server.requests().iter().filter(|it| it.body.len() > 1_000).count();
        assert_eq!(refused > 0, keys.is_empty());
    }
}

#[test]
fn event_that_cannot_be_a_document_is_refused() {
    let fake = Fake::accepting();
    let mut client = fake.client(r#", "id": "{%id:-}", "max_body_bytes": 200"#);
    let long = format!(r#"{{"a":"{}"}}"#, "x".repeat(200));
    let events = [
        ("[1]", literal!({ "id": "1" })),
        ("", literal!({ "id": "1" })),
        ("{}", literal!({})),
        (&*long, literal!({ "id": "1" })),
        ("{}", literal!({ "id": "1" })),
    ];
    let refused = exceptions(client.deliver(&batch_with_metadata(&events)));
    let text: Vec<_> = refused.iter().map(|it| it.error.to_string()).collect();
    assert!(refused.iter().all(|it| it.error.policy() == ErrorPolicy::DEAD_LETTER), "{text:?}");
    let positions: Vec<_> = refused.into_iter().flat_map(|it| it.events).collect();
    assert_eq!(positions, [0, 1, 2, 3]);
    for (error, part) in text.iter().zip(["JSON object", "is empty", "`max_body_bytes` is 200"]) {
        assert!(error.contains(part), "{error}");
    }
    assert_eq!(fake.documents().len(), 1);
}

#[test]
fn events_made_from_one_event_are_documents_of_their_own() {
    let fake = Fake::accepting();
    let mut client = fake.client(r#", "id": "position""#);
    let position = || literal!({ "kafka": { "topic": "t", "partition": 0, "offset": 3 } });
    let batch = batch_with_metadata(&[("{\"n\":1}", position()), ("{\"n\":2}", position())]);
    client.deliver(&batch).unwrap();
    client.deliver(&batch).unwrap();
    assert_eq!(fake.documents().len(), 2);
}

#[test]
fn event_without_position_is_refused() {
    let fake = Fake::accepting();
    let refused = exceptions(fake.client(r#", "id": "position""#).deliver(&batch_of(&["{}"])));
    assert_eq!(refused[0].error.policy(), ErrorPolicy::DEAD_LETTER);
    assert!(refused[0].error.to_string().contains("`offset: true`"), "{}", refused[0].error);
}

#[test]
fn silent_server_is_retried() {
    let server = Server::start(|_| Reply::Silence);
    let host = TestHost::new();
    let config = format!(r#"{{ "url": "http://{}", "timeout": "3s" }}"#, server.address);
    // This host does not follow real time: after one second without an answer, its clock jumps to the timeout.
    let mut client = host.connect::<Elasticsearch>(&config).unwrap();
    let again = exceptions(client.deliver(&batch_of(&["{}"])));
    assert_eq!(again[0].error.policy(), ErrorPolicy::RETRY);
    assert!(again[0].error.to_string().contains("did not answer within 3s"), "{}", again[0].error);
}

#[test]
fn requested_delay_is_kept() {
    let server = Server::start(|_| Reply::With(429, "Retry-After: 7\r\n", String::new()));
    let mut client = client(&TestHost::new(), &server, "");
    for _ in 0..2 {
        let again = exceptions(client.deliver(&batch_of(&["{}"])));
        assert!(again[0].error.delay() > Duration::from_secs(5), "{:?}", again[0].error.delay());
    }
    assert_eq!(server.requests().len(), 1);
}

#[test]
fn error_shows_no_secret_and_is_bounded() {
    let server = Server::start(|_| {
        let reason = format!("token hidden {}", "x".repeat(2_000));
        let error = json!({ "type": "t", "reason": reason });
        let item = json!({ "create": { "status": 400, "error": error } });
        Reply::ok(json!({ "errors": true, "items": [item] }).to_string())
    });
    let mut client = client(&TestHost::new(), &server, r#", "auth": { "bearer": "hidden" }"#);
    let text = exceptions(client.deliver(&batch_of(&["{}"])))[0].error.to_string();
    assert!(text.contains("token [redacted]") && !text.contains("hidden"), "{text}");
    assert!(text.len() < 700, "{}", text.len());
}

#[test]
fn invalid_configuration_is_rejected() {
    for (keys, part) in [
        (r#""id": """#, "invalid `id` ``"),
        (r#""id": "constant""#, "all events would be one document"),
        (r#""index": """#, "invalid `index`"),
        (r#""index": "{""#, "invalid template"),
        (r#""pipeline": "{p}""#, "`pipeline`: nothing replaces `{p}`"),
        (r#""tls": {}"#, "use a `url` with `https`"),
        (r#""unknown": 1"#, "unknown"),
    ] {
        let config = format!(r#"{{ "url": "http://a", {keys} }}"#);
        let error = TestHost::new().component::<Elasticsearch>(&config).err().unwrap().to_string();
        assert!(error.contains(part), "{error}");
    }
    let error = TestHost::new().component::<Elasticsearch>(r#"{ "url": "http://a/{x}" }"#);
    assert!(error.err().unwrap().to_string().contains("`url`"));
}

#[test]
fn connector_passes_conformance_checks() {
    conformance::connector::<Elasticsearch>(r#"{ "url": "http://127.0.0.1:1" }"#)
        .expect_no_faults();
}
