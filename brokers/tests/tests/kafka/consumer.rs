//! Tests of `kafka_consumer`.

use broker_tests::{
    flow::Flow,
    kafka::{Kafka, numbers, record, unique},
    peer::Peer,
};
use rdkafka::{
    message::{Header, OwnedHeaders},
    producer::BaseRecord,
};
use serde_json::json;

use super::kafka;

/// Starts a flow from topics to a sink.
pub(super) fn flow(kafka: &Kafka, keys: &str, sink: &str) -> Flow {
    // The address may have several nodes, separated by commas.
    let address = kafka.address().replace(',', "', '");
    let flow = format!(
        "connectors:\n  \
           input: {{ type: kafka_consumer, codec: json, \
             config: {{ brokers: ['{address}'], commit_interval: 100ms, {keys} }} }}\n  \
           output: {sink}\n\
         links: [input -> output]\n"
    );
    Flow::run_in(tempfile::tempdir().unwrap(), &flow, &["--api", "127.0.0.1:0"])
}

pub(super) const STDOUT: &str = "{ type: stdio, codec: json, postprocessors: [lines] }";

#[test]
fn records_are_read_once_in_order_and_committed() {
    let Some(kafka) = kafka() else { return };
    let (topic, group) = (kafka.topic("all", 4), unique("group"));
    kafka.write(&topic, 0..4, 0..1000);
    let keys = format!("topics: [{topic}], group: {group}");
    let running = flow(&kafka, &keys, STDOUT);
    broker_tests::eventually("all records", || (running.out().len() >= 4000).then_some(()));
    kafka.commits(&group, &topic, 0, 1000);
    let out = running.out();
    let (status, log) = running.stop();
    assert!(status.success(), "{log}");
    for partition in 0..4 {
        assert!(numbers(&out, partition).into_iter().eq(0..1000));
        assert_eq!(kafka.committed(&group, &topic, partition), Some(1000), "{log}");
    }
    // The second run has to continue where the first one has ended.
    kafka.write(&topic, 0..4, 1000..1010);
    let running = flow(&kafka, &keys, STDOUT);
    broker_tests::eventually("the records of the second run", || {
        (running.out().len() >= 40).then_some(())
    });
    for partition in 0..4 {
        assert!(numbers(&running.out(), partition).into_iter().eq(1000..1010));
    }
}

#[test]
fn lag_counts_unacknowledged_records() {
    let Some(kafka) = kafka() else { return };
    let (topic, group) = (kafka.topic("lag", 2), unique("group"));
    let peer = Peer::new();
    let delayed = "{\"p\":0,\"n\":3}";
    peer.delay_answers(move |line| line == delayed);
    kafka.write(&topic, 0..2, 0..10);
    let keys = format!("topics: [{topic}], group: {group}");
    let running = flow(&kafka, &keys, &peer.sink());
    let is = |lag: u64| {
        let line =
            format!("tremor_plugin_kafka_consumer_lag{{flow=\"flow\",component=\"input\"}} {lag}");
        broker_tests::eventually(&line, || {
            running.ask("/metrics").lines().any(|it| it == line).then_some(())
        });
    };
    // The pull of partition 0 does not count as acknowledged, because one of its records is not.
    is(10);
    kafka.write(&topic, [1], 10..15);
    kafka.commits(&group, &topic, 1, 15);
    is(10);
    peer.answer_all();
    is(0);
}

#[test]
fn latest_starts_at_first_assignment_and_persists() {
    let Some(kafka) = kafka() else { return };
    let (topic, group) = (kafka.topic("latest", 2), unique("group"));
    kafka.write(&topic, 0..2, 0..10);
    let keys = format!("topics: [{topic}], group: {group}, start: latest, session_timeout: 1s");
    let running = flow(&kafka, &keys, STDOUT);
    running.says("assigned 2 partitions");
    // With `start: latest` the start offset is committed before the first record is read.
    assert_eq!(kafka.committed(&group, &topic, 0), Some(10));
    running.kill();
    kafka.write(&topic, 0..2, 10..20);
    let running = flow(&kafka, &keys, STDOUT);
    broker_tests::eventually("the records after the start offset", || {
        (running.out().len() >= 20).then_some(())
    });
    for partition in 0..2 {
        assert!(numbers(&running.out(), partition).into_iter().eq(10..20));
    }
}

#[test]
fn time_starts_at_first_record_not_older_or_at_end() {
    let Some(kafka) = kafka() else { return };
    let (topic, group) = (kafka.topic("time", 2), unique("group"));
    // 2026-11-23T10:00:00Z and the following seconds; all records of partition 1 are older.
    for (partition, from) in [(0, 1_795_428_000_000), (1, 1_795_000_000_000)] {
        for number in 0..10 {
            let payload = record(partition, number);
            let time = from + 1_000 * i64::try_from(number).unwrap();
            let record = BaseRecord::to(&topic).partition(partition).timestamp(time);
            kafka.send(record.payload(&payload));
        }
    }
    kafka.flush();
    let start = "start: '2026-11-23T10:00:04Z'";
    let keys = format!("topics: [{topic}], group: {group}, {start}");
    let running = flow(&kafka, &keys, STDOUT);
    broker_tests::eventually("the records from the start time on", || {
        (running.out().len() >= 6).then_some(())
    });
    kafka.write(&topic, [1], 10..11);
    broker_tests::eventually("the later record", || (running.out().len() >= 7).then_some(()));
    assert!(numbers(&running.out(), 0).into_iter().eq(4..10));
    assert_eq!(numbers(&running.out(), 1), [10]);
}

#[test]
fn pattern_finds_topics_created_later() {
    let Some(kafka) = kafka() else { return };
    let (prefix, group) = (unique("pattern"), unique("group"));
    kafka.make_topic(&format!("{prefix}-a"), 1);
    kafka.make_topic(&format!("other-{prefix}"), 1);
    kafka.write(&format!("{prefix}-a"), [0], 0..10);
    kafka.write(&format!("other-{prefix}"), [0], 0..10);
    let keys = format!("topics: ['^{prefix}-.*'], group: {group}, refresh_interval: 200ms");
    let running = flow(&kafka, &keys, STDOUT);
    broker_tests::eventually("the records of the first topic", || {
        (running.out().len() >= 10).then_some(())
    });
    kafka.make_topic(&format!("{prefix}-b"), 1);
    kafka.write(&format!("{prefix}-b"), [0], 10..20);
    broker_tests::eventually("the records of the new topic", || {
        (running.out().len() >= 20).then_some(())
    });
    assert!(numbers(&running.out(), 0).into_iter().eq(0..20));
}

#[test]
fn record_fields_become_metadata() {
    let Some(kafka) = kafka() else { return };
    let (topic, group) = (kafka.topic("metadata", 2), unique("group"));
    let headers = OwnedHeaders::new()
        .insert(Header { key: "a", value: Some("1") })
        .insert(Header { key: "b", value: None::<&str> })
        .insert(Header { key: "a", value: Some("2") });
    let record = BaseRecord::to(&topic).partition(1).timestamp(1_795_428_000_000);
    kafka.send(record.payload(r#"{"v":1}"#).key("the key").headers(headers));
    kafka.send(BaseRecord::to(&topic).partition(1).key("gone"));
    kafka.flush();
    let meta = json!({
        "topic": topic, "partition": 1, "offset": 0, "timestamp": 1_795_428_000_000_i64,
        "key": "the key", "headers": { "a": ["1", "2"], "b": null },
    });
    let first = format!("{{ field: '%kafka', equals: {meta} }}");
    let second = "{ all: [{ field: '%kafka.tombstone', equals: true }, { field: '%kafka.key', equals: gone }] }";
    let address = kafka.address();
    let running = Flow::run(&format!(
        "connectors:\n  \
           input: {{ type: kafka_consumer, codec: string, \
             config: {{ brokers: ['{address}'], topics: [{topic}], group: {group} }} }}\n  \
           output: {STDOUT}\n\
         pipelines:\n  \
           meta: {{ operators: [{{ type: filter, config: {{ any: [{first}, {second}] }} }}] }}\n\
         links: [input -> meta -> output]\n"
    ));
    broker_tests::eventually("both records", || (running.out().len() >= 2).then_some(()));
    assert_eq!(running.out(), ["\"{\\\"v\\\":1}\"", "\"\""]);
}
