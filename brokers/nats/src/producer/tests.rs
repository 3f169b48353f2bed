use tremor_pdk::{
    Batch, Delivery, Error, ErrorPolicy, Undelivered, Value, literal,
    testing::{TestHost, conformance},
};

use super::NatsProducer;
use crate::testing::server;

fn config(keys: &str) -> String {
    format!(r#"{{ "servers": ["{}"], {keys} }}"#, server())
}

fn with_metadata(messages: &[(&str, Value<'static>)]) -> Batch {
    let mut batch = Batch::new();
    for (message, metadata) in messages {
        batch.push_message(message.as_bytes());
        batch.last_mut().unwrap().set_metadata(metadata.clone());
    }
    batch
}

/// What went to `err`: positions and errors.
#[track_caller]
fn exceptions(delivery: Delivery) -> Vec<(std::ops::Range<usize>, Error)> {
    match delivery {
        Err(Undelivered::Some(exceptions)) => {
            exceptions.into_exceptions().into_iter().map(|it| (it.events, it.error)).collect()
        }
        other => panic!("an error about some: {other:?}"),
    }
}

#[test]
fn each_event_that_cannot_be_a_message_goes_to_err_and_the_others_are_confirmed() {
    let host = TestHost::new();
    host.hold_time();
    let keys = r#""subject": "%to", "message_id": "%id""#;
    let mut producer = host.connect::<NatsProducer>(&config(keys)).unwrap();
    let large = "x".repeat(2_000);
    let events = with_metadata(&[
        ("one", literal!({ "to": "a.b", "id": "1", "headers": { "A": ["1", "2"], "B": "3" } })),
        ("two", literal!({ "to": "a.*" })),
        ("three", literal!({ "id": "3" })),
        ("four", literal!({ "to": "a", "id": 4 })),
        ("five", literal!({ "to": "a", "headers": { "A": "two\nlines" } })),
        (&large, literal!({ "to": "a" })),
        ("seven", literal!({ "to": "nobody" })),
        ("eight", literal!({ "to": "a" })),
    ]);
    let errors = exceptions(producer.deliver(&events));
    let expected = [
        "without spaces and wildcards, found `a.*`",
        "`subject` of the event, `%to`: expected a text, found nothing",
        "`message_id` of the event, `%id`: expected a text in one line, found another value",
        "found another value or name at `A`",
        "see `max_payload` of the server",
        "no stream takes it",
    ];
    assert_eq!(errors.len(), expected.len(), "{errors:?}");
    for (position, ((events, error), text)) in errors.iter().zip(expected).enumerate() {
        assert_eq!(*events, position + 1..position + 2);
        assert_eq!(error.policy(), ErrorPolicy::DEAD_LETTER);
        assert!(error.message().contains(text), "{error}");
    }
    assert_eq!(host.metric("refused"), Some(6.0));
    assert_eq!(producer.deliver(&Batch::new()), Ok(()));
    producer.stop().unwrap();
}

#[test]
fn a_configuration_that_cannot_be_is_refused_with_its_key_and_without_secrets() {
    let host = TestHost::new();
    for (keys, said) in [
        (r#""subject": "a..b""#, "`subject`"),
        (r#""subject": "a.>""#, "`subject`"),
        (r#""subject": "a", "headers": "h""#, "expected `%` and a path"),
        (r#""subject": "a", "jetstream": false, "message_id": "%id""#, "`message_id`"),
        (r#""subject": "a", "auth": { "user": "hunter2" }"#, "`auth`"),
        (r#""subject": "a", "auth": { "token": "hunter2", "nkey": "hunter2" }"#, "`auth`"),
        (r#""subject": "a", "auth": { "token": "" }"#, "`auth.token`"),
        (r#""subject": "a", "tls": { "cert_file": "a.pem" }"#, "`key_file`"),
    ] {
        let error = host.component::<NatsProducer>(&config(keys)).err();
        let error = error.unwrap_or_else(|| panic!("{keys} is refused")).to_string();
        assert!(error.contains(said) && !error.contains("hunter2"), "{keys}: {error}");
    }
}

#[test]
fn it_keeps_the_contract_of_plugins() {
    for keys in [r#""subject": "a""#, r#""subject": "a", "jetstream": false"#] {
        conformance::connector::<NatsProducer>(&config(keys)).expect_no_faults();
    }
}
