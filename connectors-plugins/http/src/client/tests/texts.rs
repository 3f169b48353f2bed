//! Tests of the texts around events in bodies.

use tremor_pdk::{ErrorPolicy, testing::TestHost};

use super::targets::{Router, exceptions, tagged};

/// Returns the bodies of the requests of a delivery of these events.
fn bodies(keys: &str, events: &[(&str, &str)]) -> Vec<String> {
    let router = Router::accepting();
    let mut client = router.client(&TestHost::new(), "/in", keys);
    client.deliver(&tagged(events)).unwrap();
    router.accepted().into_iter().map(|(_, body)| body).collect()
}

#[test]
fn texts_are_around_events_of_each_format() {
    let events = [("1", "a"), ("2\n", "\"b\"\n")];
    let body =
        r#""body": { "prefix": "P", "before_event": "<{%v}", "after_event": ">", "suffix": "S" }"#;
    for (format, expected) in [
        ("raw", &[r"P<a1>S", "P<\\\"b\\\"\\n2\n>S"][..]),
        ("ndjson", &["P<a1>\n<\\\"b\\\"\\n2>\nS"]),
        ("array", &["P[<a1>,<\\\"b\\\"\\n2\n>]S"]),
        ("joined", &["P<a1><\\\"b\\\"\\n2\n>S"]),
    ] {
        let keys = format!(r#", "format": "{format}", {body}"#);
        assert_eq!(bodies(&keys, &events), expected, "{format}");
    }
    let keys = r#", "format": "joined", "body": { "separator": " | " }"#;
    assert_eq!(bodies(keys, &[("1", ""), ("2", ""), ("3", "")]), ["1 | 2 | 3"]);
    let keys = r#", "body": { "before_event": "{%v}", "escape": "none" }"#;
    assert_eq!(bodies(keys, &[("1", "\"\n")]), ["\"\n1"]);
}

const BULK: &str = r#", "format": "ndjson",
    "body": { "before_event": "{{\"index\":{{\"_index\":\"logs-{%v}-{:+%Y.%m.%d}\"}}}}\n" }"#;

#[test]
fn bulk_request_has_an_action_before_each_event() {
    let expected = concat!(
        r#"{"index":{"_index":"logs-a-1970.01.01"}}"#,
        "\n{\"n\":1}\n",
        r#"{"index":{"_index":"logs-\"},-1970.01.01"}}"#,
        "\n{\"n\":2}\n",
    );
    assert_eq!(bodies(BULK, &[("{\"n\":1}", "a"), ("{\"n\":2}", "\"},")]), [expected]);
}

#[test]
fn divided_request_keeps_texts_with_their_events() {
    let router = Router::start(|_, body| (if body.lines().count() > 6 { 413 } else { 200 }, ""));
    let mut client = router.client(&TestHost::new(), "/in", BULK);
    let values: Vec<_> = (0..50).map(|number| number.to_string()).collect();
    let events: Vec<_> = values.iter().map(|value| (&**value, &**value)).collect();
    client.deliver(&tagged(&events)).unwrap();
    let accepted = router.accepted();
    assert!(accepted.len() > 16, "{}", accepted.len());
    let expected = |value: &String| {
        format!("{{\"index\":{{\"_index\":\"logs-{value}-1970.01.01\"}}}}\n{value}\n")
    };
    for (_, body) in &accepted {
        assert!(body.lines().count() % 2 == 0 && body.starts_with("{\"index\""), "{body}");
    }
    let all: String = accepted.into_iter().map(|(_, body)| body).collect();
    assert_eq!(all, values.iter().map(expected).collect::<String>());
}

#[test]
fn refused_event_is_refused_with_its_text() {
    let router = Router::start(|_, body| (if body.contains("logs-17") { 400 } else { 200 }, ""));
    let mut client = router.client(&TestHost::new(), "/in", BULK);
    let values: Vec<_> = (0..50).map(|number| number.to_string()).collect();
    let events: Vec<_> = values.iter().map(|value| (&**value, &**value)).collect();
    let refused = exceptions(client.deliver(&tagged(&events)));
    assert_eq!((refused.len(), &refused[0].events), (1, &(17..18)));
    let accepted: String = router.accepted().into_iter().map(|(_, body)| body).collect();
    assert_eq!(accepted.lines().count(), 98);
}

#[test]
fn bodies_are_limited_with_their_texts() {
    let keys = r#", "format": "joined", "max_body_bytes": 14,
        "body": { "prefix": "<<", "before_event": "({%v}", "after_event": ")", "suffix": ">" }"#;
    let events = [("1", "a"), ("2", "b"), ("3", "long value"), ("4", ""), ("5", "")];
    let expected = ["<<(a1)(b2)>", "<<(long value3)>", "<<(4)(5)>"];
    let router = Router::accepting();
    let mut client = router.client(&TestHost::new(), "/in", keys);
    client.deliver(&tagged(&events)).unwrap();
    let found: Vec<_> = router.accepted().into_iter().map(|(_, body)| body).collect();
    // Each event may count one byte more than it has, and each body two.
    assert!(found.iter().all(|body| body.len() <= 14 || body == expected[1]), "{found:?}");
    let events = |bodies: &[String]| bodies.concat().replace("<<", "").replace('>', "");
    assert_eq!(events(&found), events(&expected.map(str::to_owned)));
    for format in ["ndjson", "array"] {
        let keys = format!(r#", "format": "{format}", "max_body_bytes": 1000"#);
        let events = vec![("0123456789", ""); 500];
        let bodies = bodies(&keys, &events);
        assert!(bodies.len() < 8, "{}", bodies.len());
        assert!(bodies.iter().all(|body| body.len() <= 1000));
        let count = bodies.iter().map(|body| body.matches("0123456789").count()).sum::<usize>();
        assert_eq!(count, 500);
    }
}

#[test]
fn value_with_a_line_feed_cannot_be_a_line() {
    let router = Router::accepting();
    let long = "x".repeat(70_000);
    let keys = r#", "format": "ndjson", "body": { "before_event": "{%v} ", "escape": "none" }"#;
    let mut client = router.client(&TestHost::new(), "/in", keys);
    let events = [("1", "a"), ("2", "b\nc"), ("3", &long), ("4", "d")];
    let refused = exceptions(client.deliver(&tagged(&events)));
    let [line, long] = &refused[..] else { panic!("{refused:?}") };
    assert_eq!((line.events.clone(), long.events.clone()), (1..2, 2..3));
    assert!(line.error.to_string().contains("line feed"), "{}", line.error);
    assert!(long.error.to_string().contains("longer than 65536 bytes"), "{}", long.error);
    assert!(refused.iter().all(|it| it.error.policy() == ErrorPolicy::DEAD_LETTER));
    assert_eq!(router.accepted()[0].1, "a 1\nd 4\n");
    let keys = r#", "format": "ndjson", "body": { "prefix": "{%v}", "escape": "none" }"#;
    let mut client = router.client(&TestHost::new(), "/in", keys);
    assert_eq!(exceptions(client.deliver(&tagged(&[("1", "a\n{}")]))).len(), 1);
}
