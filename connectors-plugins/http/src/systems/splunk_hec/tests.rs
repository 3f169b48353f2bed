//! Tests against a server that answers as the HTTP Event Collector does.

use std::time::Duration;

use serde_json::{Deserializer, Value as Json, json};
use tremor_pdk::{
    ErrorPolicy, literal, schemars,
    template::TemplateFields,
    testing::{Connection, TestHost, batch_of, batch_with_metadata, conformance},
};

use super::{SplunkHec, config::Config};
use crate::testing::{Reply, Request, Server, exceptions};

mod acknowledgements;

fn client(server: &Server, keys: &str) -> Connection {
    let host = TestHost::new();
    host.follow_real_time();
    let config = format!(r#"{{ "url": "http://{}", "token": "hidden" {keys} }}"#, server.address);
    host.connect::<SplunkHec>(&config).unwrap()
}

fn accepting() -> Server {
    Server::start(|_| Reply::ok(r#"{"text":"Success","code":0}"#))
}

fn events_of(request: &Request) -> Vec<Json> {
    let events: Result<Vec<_>, _> = Deserializer::from_slice(&request.body).into_iter().collect();
    events.unwrap()
}

fn refusal(code: u16, position: Option<usize>) -> String {
    let mut answer = json!({ "text": "why", "code": code });
    if let Some(position) = position {
        answer["invalid-event-number"] = json!(position);
    }
    answer.to_string()
}

#[test]
fn request_has_envelopes_with_events() {
    let server = accepting();
    let keys = r#", "time": "{%at}", "host": "{%host}", "source": "a\"b", "sourcetype": "_json", "index": "i-{%team}",
        "fields": { "service": "{%service}", "site": "x" }, "channel": "c-1""#;
    let mut client = client(&server, keys);
    let events = [
        (
            r#"{"n":1}"#,
            literal!({ "at": "2026-11-29T08:30:00.5Z", "host": "h", "team": "t", "service": "s" }),
        ),
        ("[\n2]\n", literal!({ "at": 1_700_000_000_123_456_789_u64 })),
    ];
    client.deliver(&batch_with_metadata(&events)).unwrap();
    let requests = server.requests();
    let [request] = &requests[..] else { panic!("{requests:?}") };
    assert_eq!(request.target(), "/services/collector/event");
    for line in ["authorization: Splunk hidden", "x-splunk-request-channel: c-1"] {
        assert!(request.has(line), "{}", request.head);
    }
    let expected = [
        json!({
            "time": 1_795_941_000.5, "host": "h", "source": "a\"b", "sourcetype": "_json", "index": "i-t",
            "fields": { "service": "s", "site": "x" }, "event": { "n": 1 },
        }),
        json!({
            "time": 1_700_000_000.123, "source": "a\"b", "sourcetype": "_json", "fields": { "site": "x" },
            "event": [2],
        }),
    ];
    assert_eq!(events_of(request), expected);
}

#[test]
fn times_before_1970_have_a_negative_fraction() {
    let server = accepting();
    let times = [0, -1, -1_000_000, -250_000_000, -1_000_000_000, -1_250_000_000];
    let events = times.map(|ns: i64| ("{}", literal!({ "at": ns })));
    client(&server, r#", "time": "{%at}""#).deliver(&batch_with_metadata(&events)).unwrap();
    let events = events_of(&server.requests()[0]);
    let times: Vec<_> = events.iter().map(|it| it["time"].as_f64().unwrap()).collect();
    assert_eq!(times, [0.0, -0.001, -0.001, -0.25, -1.0, -1.25]);
}

#[test]
fn event_can_be_text() {
    let server = accepting();
    let messages: [&[u8]; 2] = [b"a \"b\"\n", b"\xff\tc"];
    client(&server, r#", "event": "text""#).deliver(&batch_of(&messages)).unwrap();
    let events = events_of(&server.requests()[0]);
    let texts: Vec<_> = events.iter().map(|it| it["event"].as_str().unwrap()).collect();
    assert_eq!(texts, ["a \"b\"", "\u{fffd}\tc"]);
    assert!(events.iter().all(|it| it["time"].is_number() && it.get("fields").is_none()));
}

#[test]
fn event_that_cannot_be_sent_is_refused() {
    let server = accepting();
    let long = format!("\"{}\"", "x".repeat(200));
    let events = ["{1}", "", " ", "{} {}", &long, "{}"];
    let mut client = client(&server, r#", "max_body_bytes": 100"#);
    let refused = exceptions(client.deliver(&batch_of(&events)));
    assert!(refused.iter().all(|it| it.error.policy() == ErrorPolicy::DEAD_LETTER), "{refused:?}");
    let positions: Vec<_> = refused.into_iter().flat_map(|it| it.events).collect();
    assert_eq!(positions, [0, 1, 2, 3, 4]);
    assert_eq!(events_of(&server.requests()[0]).len(), 1);
}

#[test]
fn refused_event_goes_to_err_alone() {
    for is_named in [true, false] {
        let server = Server::start(move |request| {
            let is_bad = |it: &Json| it["event"] == json!(70) || it["event"] == json!(3);
            match events_of(request).iter().position(is_bad) {
                Some(position) => {
                    Reply::With(400, "", refusal(6, Some(position).filter(|_| is_named)))
                }
                None => Reply::ok("{}"),
            }
        });
        let messages: Vec<_> = (0..100).map(|number| number.to_string()).collect();
        let refused = exceptions(client(&server, "").deliver(&batch_of(&messages)));
        let positions: Vec<_> = refused.iter().flat_map(|it| it.events.clone()).collect();
        assert_eq!(positions, [3, 70]);
        assert!(refused.iter().all(|it| it.error.policy() == ErrorPolicy::DEAD_LETTER));
        let text = refused[0].error.to_string();
        assert!(text.contains("answered with 400: code 6: why"), "{text}");
        if is_named {
            assert_eq!(server.requests().len(), 5);
        }
    }
}

#[test]
fn code_decides_whether_the_connector_or_an_event_is_wrong() {
    const LETTER: ErrorPolicy = ErrorPolicy::DEAD_LETTER;
    const RETRY: ErrorPolicy = ErrorPolicy::RETRY;
    for (status, code, index, policy, part) in [
        (403, 1, "i", RETRY, "check `token`"),
        (401, 2, "i", RETRY, "check `token`"),
        (401, 3, "i", RETRY, "check `token`"),
        (403, 4, "i", RETRY, "check `token`"),
        (400, 5, "i", LETTER, "code 5"),
        (400, 6, "i", LETTER, "code 6"),
        (400, 7, "i", RETRY, "check `index`"),
        (400, 7, "{%x:-i}", LETTER, "code 7"),
        (500, 8, "i", RETRY, "answered with 500"),
        (503, 9, "i", RETRY, "answered with 503"),
        (400, 10, "i", RETRY, "set `channel`"),
        (400, 11, "i", RETRY, "set `channel`"),
        (400, 12, "i", LETTER, "code 12"),
        (400, 13, "i", LETTER, "code 13"),
        (400, 15, "i", LETTER, "code 15"),
        (503, 23, "i", RETRY, "answered with 503"),
        (429, 27, "i", RETRY, "answered with 429"),
    ] {
        let server = Server::start(move |_| Reply::With(status, "", refusal(code, Some(0))));
        let mut client = client(&server, &format!(r#", "index": "{index}""#));
        let refused = exceptions(client.deliver(&batch_of(&["{}"])));
        let error = &refused[0].error;
        assert_eq!(error.policy(), policy, "{code}: {error}");
        assert!(error.to_string().contains(part), "{code}: {error}");
    }
}

#[test]
fn status_of_a_proxy_names_the_keys_of_the_connector() {
    for (status, part) in [
        (401, "check `token` and `headers`"),
        (403, "check `token` and `url`"),
        (405, "; check `url`"),
    ] {
        let server = Server::start(move |_| Reply::With(status, "", "<html>".to_owned()));
        let refused = exceptions(client(&server, "").deliver(&batch_of(&["{}"])));
        let text = refused[0].error.to_string();
        assert!(text.ends_with(part), "{status}: {text}");
    }
}

#[test]
fn position_beyond_the_request_is_not_believed() {
    let server = Server::start(|_| Reply::With(400, "", refusal(6, Some(99))));
    let refused = exceptions(client(&server, "").deliver(&batch_of(&["1", "2"])));
    let positions: Vec<_> = refused.iter().flat_map(|it| it.events.clone()).collect();
    assert_eq!(positions, [0, 1]);
}

#[test]
fn requested_delay_is_kept() {
    let server = Server::start(|_| Reply::With(503, "Retry-After: 7\r\n", refusal(9, None)));
    let mut client = client(&server, "");
    for _ in 0..2 {
        let again = exceptions(client.deliver(&batch_of(&["{}"])));
        assert!(again[0].error.delay() > Duration::from_secs(5), "{:?}", again[0].error.delay());
    }
    assert_eq!(server.requests().len(), 1);
}

#[test]
fn error_does_not_show_the_token() {
    for code in [4, 6, 9] {
        let server = Server::start(move |_| {
            let answer = json!({ "text": "token hidden", "code": code });
            Reply::With(400 + code, "", answer.to_string())
        });
        let text = exceptions(client(&server, "").deliver(&batch_of(&["{}"])))[0].error.to_string();
        assert!(text.contains("token [redacted]") && !text.contains("hidden"), "{text}");
    }
}

#[test]
fn invalid_configuration_is_rejected() {
    for (keys, part) in [
        (r#""token": """#, "invalid `token`"),
        (r#""token": "a\nb""#, "invalid `token`: a header must not contain a line feed"),
        (r#""index": "i""#, "missing field `token`"),
        (r#""token": "hidden", "auth": { "bearer": "x" }"#, "`token` has the credentials"),
        (r#""token": "hidden", "headers": { "Authorization": "x" }"#, "`token` sets this header"),
        (r#""token": "hidden", "event": "xml""#, "event"),
        (r#""token": "hidden", "acknowledgement": "indexer", "channel": "c""#, "remove `channel`"),
        (r#""token": "hidden", "host": "{""#, "invalid template"),
        (r#""token": "hidden", "channel": "\u0000""#, "invalid `channel`"),
    ] {
        let config = format!(r#"{{ "url": "http://a", {keys} }}"#);
        let error = TestHost::new().component::<SplunkHec>(&config).err().unwrap().to_string();
        assert!(error.contains(part) && !error.contains("hidden"), "{error}");
    }
}

/// The runtime hands a sink only the fields of keys that are templates by the schema.
#[test]
fn fields_of_all_keys_are_known_from_the_schema() {
    let schema = serde_json::to_value(schemars::schema_for!(Config)).unwrap();
    let config = json!({ "time": "{a}", "host": "{b}", "source": "{c}", "sourcetype": "{d}", "index": "{e}", "fields": { "f": "{f}" } });
    let fields = TemplateFields::of_config(&schema, &config).unwrap();
    let mut names: Vec<_> = fields.names().collect();
    names.sort_unstable();
    assert_eq!(names, ["a", "b", "c", "d", "e", "f"]);
}

#[test]
fn connector_passes_conformance_checks() {
    conformance::connector::<SplunkHec>(r#"{ "url": "http://127.0.0.1:1", "token": "hidden" }"#)
        .expect_no_faults();
}
