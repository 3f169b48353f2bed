//! Tests of `kafka_producer`.

use broker_tests::{
    eventually,
    kafka::unique,
    lines::{Lines, line, long_line},
    records,
};

use super::kafka;

/// Starts a flow to a topic. `keys` are additional keys in `config` of the connector, and `sink` additional keys of the
/// connector itself.
pub(super) fn flow_to(brokers: &str, keys: &str, sink: &str) -> Lines {
    Lines::to(&format!(
        "{{ type: kafka_producer, codec: json, {sink} config: {{ brokers: [{brokers}], {keys} }} }}"
    ))
}

/// Waits until a partition has at least `count` records.
pub(super) fn arrive(lines: &Lines, address: &str, topic: &str, count: i64) {
    let look = || records::end(address, topic, 0).filter(|end| *end >= count).map(drop);
    eventually(format_args!("{count} records; the log:\n{}", lines.flow), look);
}

#[test]
fn events_become_records_in_order_with_any_compression() {
    let Some(kafka) = kafka() else { return };
    for compression in ["none", "gzip", "snappy", "lz4", "zstd"] {
        let topic = kafka.topic(compression, 1);
        let keys = format!("topic: {topic}, compression: {compression}");
        let mut lines = flow_to(kafka.address(), &keys, "in_flight: 4,");
        lines.add((0..2_000).map(line));
        arrive(&lines, kafka.address(), &topic, 2_000);
        lines.stop();
        let expected: Vec<_> = (0..2_000).map(line).collect();
        assert_eq!(records::payloads(kafka.address(), &topic, 0), expected);
    }
}

#[test]
fn rejected_records_go_to_err_and_others_are_written() {
    let Some(kafka) = kafka() else { return };
    let topic = unique("small");
    records::make(kafka.address(), &topic, 1, &[("max.message.bytes", "1000")]);
    let mut lines = flow_to(kafka.address(), &format!("topic: {topic}"), "");
    lines.add((0..100).map(line));
    lines.add([long_line(1_000, 3_000)]);
    lines.add((100..200).map(line));
    arrive(&lines, kafka.address(), &topic, 200);
    let refused = &lines.rejects(1)[0];
    assert!(refused.contains("Broker: Message size too large"), "{refused}");
    lines.stop();
    let mut all = records::payloads(kafka.address(), &topic, 0);
    all.sort_unstable();
    let mut expected: Vec<_> = (0..200).map(line).collect();
    expected.sort_unstable();
    assert_eq!(all, expected);
}
