use tremor_pdk::{
    Batch, ErrorPolicy, Exception, Value, literal,
    testing::{TestHost, batch_with_metadata, conformance, exceptions},
};

use super::{NatsProducer, config::check_chosen};
use crate::testing::{Stream, server, server_of};

fn config(keys: &str) -> String {
    format!(r#"{{ "servers": ["{}"], {keys} }}"#, server())
}

#[test]
fn unpublishable_events_go_to_err_and_others_are_confirmed() {
    let host = TestHost::new();
    host.follow_real_time();
    let keys = r#""subject": "%to", "message_id": "%id""#;
    let mut producer = host.connect::<NatsProducer>(&config(keys)).unwrap();
    let large = "x".repeat(2_000);
    let long = "x".repeat(4_000);
    let events = batch_with_metadata(&[
        (
            "one",
            literal!({ "to": "a.b", "id": "1", "nats": { "headers": { "A": ["1", "2"], "B": "3" } } }),
        ),
        ("two", literal!({ "to": "a.*" })),
        ("three", literal!({ "id": "3" })),
        ("four", literal!({ "to": "a", "id": 4 })),
        ("five", literal!({ "to": "a", "nats": { "headers": { "A": "two\nlines" } } })),
        (&large, literal!({ "to": "a" })),
        ("seven", literal!({ "to": "nobody" })),
        ("eight", literal!({ "to": "a" })),
        ("nine", literal!({ "to": "service" })),
        ("ten", literal!({ "to": "$JS.API.STREAM.DELETE.ORDERS" })),
        ("eleven", literal!({ "to": long })),
    ]);
    let errors = exceptions(producer.deliver(&events));
    let expected = [
        "without spaces and wildcards, found `a.*`",
        "`subject` of the event, `%to`: expected a text, found nothing",
        "`message_id` of the event, `%id`: expected a single-line text, found another value",
        "found another value or name at `A`",
        "check `max_payload` of the server",
        "no stream stores it",
        "the reply did not come from a stream",
        "reserved for managing servers",
        "expected at most 3900 bytes, found 4000",
    ];
    assert_eq!(errors.len(), expected.len(), "{errors:?}");
    let positions = (1..7).chain(8..11);
    for ((position, Exception { events, error }), text) in positions.zip(&errors).zip(expected) {
        assert_eq!(*events, position..position + 1);
        assert_eq!(error.policy(), ErrorPolicy::DEAD_LETTER);
        assert!(error.message().contains(text), "{error}");
    }
    assert_eq!(host.metric("refused"), Some(9.0));
    assert_eq!(producer.deliver(&Batch::new()), Ok(()));
    producer.stop().unwrap();
}

#[test]
fn window_of_one_keeps_order_after_a_failure() {
    let payloads = ["0", "1", "full", "3", "4"].map(|it| (it, Value::default()));
    for (window, stored, failed) in [(1, &["0", "1"][..], 2..5), (9, &["0", "1", "3", "4"], 2..3)] {
        let host = TestHost::new();
        let stream = Stream::default();
        let address = server_of(&stream);
        let config =
            format!(r#"{{ "servers": ["{address}"], "subject": "a", "window": {window} }}"#);
        let mut producer = host.connect::<NatsProducer>(&config).unwrap();
        let errors = exceptions(producer.deliver(&batch_with_metadata(&payloads)));
        assert_eq!(errors.len(), 1, "{errors:?}");
        let Exception { events, error } = &errors[0];
        assert_eq!((events.clone(), error.policy()), (failed, ErrorPolicy::RETRY));
        assert_eq!(*stream.lock().unwrap(), stored);
        producer.stop().unwrap();
    }
}

#[test]
fn server_headers_are_sent_only_if_configured() {
    let metadata = literal!({ "to": "a", "nats": { "headers": { "Nats-Rollup": "all", "nats-x": "1", "Other": "2" } } });
    for (more, count) in [("", 1), (r#", "server_headers": true"#, 3)] {
        let host = TestHost::new();
        let stream = Stream::default();
        let address = server_of(&stream);
        let config = format!(r#"{{ "servers": ["{address}"], "subject": "%to"{more} }}"#);
        let mut producer = host.connect::<NatsProducer>(&config).unwrap();
        producer.deliver(&batch_with_metadata(&[("one", metadata.clone())])).unwrap();
        // The received bytes contain the headers and the payload.
        let received = stream.lock().unwrap().concat();
        assert_eq!(received.matches(": ").count(), count, "{received}");
        assert!(received.contains("Other: 2") && received.ends_with("one"), "{received}");
        producer.stop().unwrap();
    }
}

#[test]
fn invalid_configuration_names_its_key_and_no_secret() {
    let host = TestHost::new();
    for (keys, expected) in [
        (r#""subject": "a..b""#, "`subject`"),
        (r#""subject": "a.>""#, "`subject`"),
        (r#""subject": "a", "window": 0"#, "`window`"),
        (r#""subject": "a", "headers": "h""#, "expected `%` and a path"),
        (r#""subject": "a", "jetstream": false, "message_id": "%id""#, "`message_id`"),
        (r#""subject": "a", "auth": { "user": "hunter2" }"#, "`auth`"),
        (r#""subject": "a", "auth": { "token": "hunter2", "nkey": "hunter2" }"#, "`auth`"),
        (r#""subject": "a", "auth": { "token": "" }"#, "`auth.token`"),
        (r#""subject": "a", "tls": { "cert_file": "a.pem" }"#, "`key_file`"),
    ] {
        let error = host.component::<NatsProducer>(&config(keys)).err();
        let error = error.unwrap_or_else(|| panic!("{keys} is rejected")).to_string();
        assert!(error.contains(expected) && !error.contains("hunter2"), "{keys}: {error}");
    }
}

#[test]
fn producer_passes_conformance() {
    for keys in [r#""subject": "a""#, r#""subject": "a", "jetstream": false"#] {
        conformance::connector::<NatsProducer>(&config(keys)).expect_no_faults();
    }
}

#[test]
fn subject_of_an_event_has_no_wildcards_or_empty_levels() {
    for subject in ["logs.web-1", "logs.web.example.com", "logs.ä"] {
        assert_eq!(check_chosen(subject), Ok(()), "{subject}");
    }
    for subject in [
        "logs.",
        "logs..a",
        "logs.a b",
        "logs.*",
        "logs.>",
        "logs.a*",
        "logs.a>",
        "logs.a\nb",
        "",
        "$SYS.a",
    ] {
        assert!(check_chosen(subject).is_err(), "{subject}");
    }
}
