//! Tests of the producer with librdkafka's mock cluster, which uses real sockets.

use std::time::Duration;

use rdkafka::{
    ClientConfig, Message, Offset, TopicPartitionList,
    consumer::{BaseConsumer, Consumer},
    message::Headers,
    mocking::MockCluster,
    producer::DefaultProducerContext,
    types::{RDKafkaApiKey as Api, RDKafkaRespErr as Answer},
};
use tremor_pdk::{
    Batch, ErrorKind, ErrorPolicy, Exception, Undelivered, literal,
    testing::{Connection, TestHost, batch_of, batch_with_metadata, conformance, exceptions},
};

use super::KafkaProducer;

/// Starts a cluster with the topic `t`.
fn cluster(partitions: i32) -> MockCluster<'static, DefaultProducerContext> {
    let cluster = MockCluster::new(1).unwrap();
    cluster.create_topic("t", partitions, 1).unwrap();
    cluster
}

fn config(cluster: &MockCluster<'_, DefaultProducerContext>, keys: &str) -> String {
    format!(r#"{{ "brokers": ["{}"] {keys} }}"#, cluster.bootstrap_servers())
}

fn producer(
    host: &TestHost,
    cluster: &MockCluster<'_, DefaultProducerContext>,
    keys: &str,
) -> Connection {
    // Follow real time, because timers that end early would make a slow answer time out.
    host.follow_real_time();
    host.connect::<KafkaProducer>(&config(cluster, keys)).unwrap()
}

/// A record that was read back.
#[derive(Debug, PartialEq)]
struct Read {
    payload: Option<String>,
    key: Option<String>,
    headers: Vec<(String, Option<Vec<u8>>)>,
    timestamp: Option<i64>,
}

/// Reads the first `count` records of the partition.
fn read(
    cluster: &MockCluster<'_, DefaultProducerContext>,
    topic: &str,
    partition: i32,
    count: usize,
) -> Vec<Read> {
    let consumer: BaseConsumer = ClientConfig::new()
        .set("bootstrap.servers", cluster.bootstrap_servers())
        .set("group.id", "test")
        .create()
        .unwrap();
    let mut all = TopicPartitionList::new();
    all.add_partition_offset(topic, partition, Offset::Beginning).unwrap();
    consumer.assign(&all).unwrap();
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    let next = || loop {
        // Errors about connections may be returned before the first record.
        if let Some(Ok(message)) = consumer.poll(Duration::from_secs(10)) {
            let headers = message.headers().into_iter().flat_map(Headers::iter);
            return Read {
                payload: message.payload().map(text),
                key: message.key().map(text),
                headers: headers
                    .map(|it| (it.key.to_owned(), it.value.map(<[u8]>::to_vec)))
                    .collect(),
                timestamp: message.timestamp().to_millis(),
            };
        }
    };
    (0..count).map(|_| next()).collect()
}

#[test]
fn delivery_writes_one_record_per_event_in_order() {
    let cluster = cluster(1);
    let host = TestHost::new();
    let mut producer = producer(&host, &cluster, r#", "topic": "t", "compression": "lz4""#);
    let messages: Vec<String> = (0..300).map(|number| format!("event {number}")).collect();
    let messages: Vec<&str> = messages.iter().map(String::as_str).collect();
    assert_eq!(producer.deliver(&batch_of(&messages)), Ok(()));
    assert_eq!(producer.deliver(&Batch::new()), Ok(()));
    let read = read(&cluster, "t", 0, 300);
    assert!(read.iter().filter_map(|it| it.payload.as_deref()).eq(messages));
    producer.stop().unwrap();
}

#[test]
fn metadata_set_topic_key_headers_partition_and_time() {
    let cluster = cluster(4);
    cluster.create_topic("u", 1, 1).unwrap();
    let host = TestHost::new();
    let keys = r#", "topic": "%to.topic", "partition": "%to.partition", "timestamp": "%at""#;
    let mut producer = producer(&host, &cluster, keys);
    let events = batch_with_metadata(&[
        (
            "one",
            literal!({
                "to": { "topic": "t", "partition": 3 },
                "at": 1_700_000_000_123_u64,
                "kafka": { "key": "k", "headers": { "a": "1", "b": ["2", null] } },
            }),
        ),
        ("two", literal!({ "to": { "topic": "u" } })),
        ("three", literal!({ "to": {} })),
        ("four", literal!({ "to": { "topic": "t", "partition": 4 } })),
        ("five", literal!({ "to": { "topic": "a b" } })),
        ("six", literal!({ "to": { "topic": "u" }, "kafka": { "headers": { "a": { "b": 1 } } } })),
        ("seven", literal!({ "to": { "topic": "u" }, "kafka": { "key": 7 } })),
    ]);
    let errors = exceptions(producer.deliver(&events));
    let expected = [
        (2, "`topic` of the event, `%to.topic`: expected a text, found nothing"),
        (
            3,
            "cannot write to topic `t`: UnknownPartition (Local: Unknown partition); check whether the topic exists, and `partition`",
        ),
        (
            4,
            "`topic` of the event, `%to.topic`: expected 1 to 249 letters, digits, `.`, `_` and `-`, found `a b`",
        ),
        (
            5,
            "`headers` of the event, `%kafka.headers`: expected an object of texts, bytes and null, and of lists of them, found another value at `a`",
        ),
        (6, "`key` of the event, `%kafka.key`: expected a text or bytes, found another value"),
    ];
    for (Exception { events, error }, (position, text)) in errors.iter().zip(expected) {
        assert_eq!((events.clone(), error.message()), (position..position + 1, text));
        assert_eq!(error.policy(), ErrorPolicy::DEAD_LETTER);
    }
    assert_eq!(errors.len(), expected.len());
    assert_eq!(host.metric("refused"), Some(5.0));
    let one = Read {
        payload: Some("one".to_owned()),
        key: Some("k".to_owned()),
        headers: vec![
            ("a".to_owned(), Some(b"1".to_vec())),
            ("b".to_owned(), Some(b"2".to_vec())),
            ("b".to_owned(), None),
        ],
        timestamp: Some(1_700_000_000_123),
    };
    assert_eq!(read(&cluster, "t", 3, 1), [one]);
    let two = &read(&cluster, "u", 0, 1)[0];
    assert_eq!((two.payload.as_deref(), &two.key, two.headers.len()), (Some("two"), &None, 0));
}

#[test]
fn topics_of_a_template_are_checked_and_bounded() {
    let cluster = cluster(1);
    for topic in ["logs-a", "logs-b", "logs-c"] {
        cluster.create_topic(topic, 1, 1).unwrap();
    }
    let host = TestHost::new();
    let keys = r#", "topic": "logs-{host}", "key": "{host}/{n:-none}", "max_topics": 2"#;
    let mut producer = producer(&host, &cluster, keys);
    // The runtime adds the fields of encoded events to their metadata.
    let events = batch_with_metadata(&[
        ("one", literal!({ "template": { "host": "a", "n": 1 } })),
        ("two", literal!({ "template": { "host": "b" } })),
        ("three", literal!({ "template": {} })),
        ("four", literal!({ "template": { "host": "../x" } })),
        ("five", literal!({ "template": { "host": "c" } })),
        ("six", literal!({ "template": { "host": "a" } })),
    ]);
    let errors = exceptions(producer.deliver(&events));
    let expected = [
        (
            2,
            "`key` of the event, `{host}/{n:-none}`: expected text, a number or a truth value as `host`, found no such field",
        ),
        (
            3,
            "`topic` of the event, `logs-{host}`: expected 1 to 249 letters, digits, `.`, `_` and `-`, found `logs-../x`",
        ),
        (
            4,
            "cannot write to topic `logs-c`: this connection has written to 2 topics, the limit of `max_topics`; raise it, \
             or use a `topic` with fewer values",
        ),
    ];
    assert_eq!(errors.len(), expected.len(), "{errors:?}");
    for (Exception { events, error }, (position, text)) in errors.iter().zip(expected) {
        assert_eq!((events.clone(), error.message()), (position..position + 1, text));
        assert_eq!(error.policy(), ErrorPolicy::DEAD_LETTER);
    }
    let keys = |topic, count| -> Vec<_> {
        read(&cluster, topic, 0, count).into_iter().map(|it| it.key.unwrap_or_default()).collect()
    };
    assert_eq!(keys("logs-a", 2), ["a/1", "a/none"]);
    assert_eq!(keys("logs-b", 1), ["b/none"]);
}

#[test]
fn empty_message_is_tombstone_only_if_metadata_mark_it() {
    let cluster = cluster(1);
    let host = TestHost::new();
    let mut producer = producer(&host, &cluster, r#", "topic": "t""#);
    let events = batch_with_metadata(&[
        ("", literal!({ "kafka": { "key": "a", "tombstone": true } })),
        ("", literal!({ "kafka": { "key": "b" } })),
        ("c", literal!({ "kafka": { "tombstone": true } })),
    ]);
    assert_eq!(producer.deliver(&events), Ok(()));
    let read = read(&cluster, "t", 0, 3);
    let payloads = read.iter().map(|it| it.payload.as_deref());
    assert!(payloads.eq([None, Some(""), Some("c")]));
}

#[test]
fn permanently_rejected_record_goes_to_err_with_reason() {
    let cluster = cluster(1);
    let host = TestHost::new();
    let mut producer = producer(&host, &cluster, r#", "topic": "t", "max_record_bytes": "1000B""#);
    let large = "x".repeat(2_000);
    let errors = exceptions(producer.deliver(&batch_of(&["one", &large, "two"])));
    let [Exception { events, error }] = &errors[..] else { panic!("{errors:?}") };
    assert_eq!((events.clone(), error.kind()), (1..2, ErrorKind::BAD_DATA));
    assert!(error.message().contains("Message size too large"), "{error}");
    let refused = Answer::RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED;
    cluster.request_errors(Api::Produce, &[refused]);
    let errors = exceptions(producer.deliver(&batch_of(&["three", "four"])));
    let [Exception { events, error }] = &errors[..] else { panic!("{errors:?}") };
    assert_eq!((events.clone(), error.policy()), (0..2, ErrorPolicy::DEAD_LETTER));
    assert!(error.message().contains("Topic authorization failed"), "{error}");
    let read = read(&cluster, "t", 0, 2);
    assert!(read.iter().filter_map(|it| it.payload.as_deref()).eq(["one", "two"]));
}

#[test]
fn records_too_large_together_are_sent_one_by_one() {
    let cluster = cluster(1);
    let host = TestHost::new();
    let mut producer = producer(&host, &cluster, r#", "topic": "t""#);
    let too_large = Answer::RD_KAFKA_RESP_ERR_MSG_SIZE_TOO_LARGE;
    cluster.request_errors(Api::Produce, &[too_large]);
    assert_eq!(producer.deliver(&batch_of(&["one", "two", "three"])), Ok(()));
    let read = read(&cluster, "t", 0, 3);
    assert!(read.iter().filter_map(|it| it.payload.as_deref()).eq(["one", "two", "three"]));
}

#[test]
fn transient_error_is_retried_within_the_delivery() {
    let cluster = cluster(1);
    let host = TestHost::new();
    let mut producer = producer(&host, &cluster, r#", "topic": "t""#);
    let short = Answer::RD_KAFKA_RESP_ERR_NOT_ENOUGH_REPLICAS;
    cluster.request_errors(Api::Produce, &[short, short]);
    assert_eq!(producer.deliver(&batch_of(&["one", "two"])), Ok(()));
    let read = read(&cluster, "t", 0, 2);
    assert!(read.iter().filter_map(|it| it.payload.as_deref()).eq(["one", "two"]));
}

#[test]
fn full_buffer_blocks_the_delivery_without_error() {
    let cluster = cluster(1);
    let host = TestHost::new();
    let keys = r#", "topic": "t", "max_record_bytes": "64KiB", "max_buffer_bytes": "64KiB""#;
    let mut producer = producer(&host, &cluster, keys);
    let message = "x".repeat(900);
    let messages = vec![message.as_str(); 500];
    assert_eq!(producer.deliver(&batch_of(&messages)), Ok(()));
    assert_eq!(read(&cluster, "t", 0, 500).len(), 500);
}

#[test]
fn unacknowledged_records_time_out_and_reconnect() {
    let cluster = cluster(1);
    let host = TestHost::new();
    let keys = r#", "topic": "t", "timeout": "20ms""#;
    let mut producer = producer(&host, &cluster, keys);
    cluster.broker_round_trip_time(1, Duration::from_mins(1)).unwrap();
    let answer = exceptions(producer.deliver(&batch_of(&["one", "two"])));
    let [Exception { events, error }] = &answer[..] else { panic!("{answer:?}") };
    assert_eq!((events.clone(), error.policy()), (0..2, ErrorPolicy::RECONNECT));
    assert!(error.message().starts_with("records were not acknowledged within 20ms"));
    // The connection delivers no further records.
    let next = producer.deliver(&batch_of(&["three"]));
    let Err(Undelivered::All(error)) = next else { panic!("{next:?}") };
    assert_eq!(error.policy(), ErrorPolicy::RECONNECT);
    producer.stop().unwrap();
}

#[test]
fn invalid_configuration_names_its_key() {
    let host = TestHost::new();
    let check = |keys: &str| {
        let config = format!(r#"{{ "brokers": ["127.0.0.1:9"], {keys} }}"#);
        let error = host.component::<KafkaProducer>(&config).err();
        error.unwrap_or_else(|| panic!("{keys} is rejected")).to_string()
    };
    for (keys, expected) in [
        (r#""topic": "a/b""#, "`topic`"),
        (r#""topic": "%a..b""#, "invalid path"),
        (r#""topic": "a{b""#, "invalid template"),
        (r#""topic": "t", "max_topics": 0"#, "`max_topics`"),
        (r#""topic": "t", "headers": "h""#, "expected `%` and a path"),
        (r#""topic": "t", "max_record_bytes": "10B""#, "`max_record_bytes`"),
        (r#""topic": "t", "max_buffer_bytes": "10B""#, "`max_buffer_bytes`"),
        (r#""topic": "t", "linger": "2m""#, "`linger`"),
    ] {
        let error = check(keys);
        assert!(error.contains(expected), "{keys}: {error}");
    }
}

#[test]
fn producer_passes_conformance() {
    let cluster = cluster(2);
    let config = config(&cluster, r#", "topic": "t""#);
    conformance::connector::<KafkaProducer>(&config).expect_no_faults();
}
