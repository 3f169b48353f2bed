//! `kafka_consumer`.

use broker_tests::{
    flow::Flow,
    kafka::{Kafka, numbers, unique},
    peer::Peer,
};

use super::kafka;

/// A flow from topics to a sink.
fn flow(kafka: &Kafka, keys: &str, sink: &str) -> Flow {
    let address = kafka.address();
    Flow::run(&format!(
        "connectors:\n  \
           input: {{ type: kafka_consumer, codec: json, \
             config: {{ brokers: ['{address}'], commit_interval: 100ms, {keys} }} }}\n  \
           output: {sink}\n\
         links: [input -> output]\n"
    ))
}

const STDOUT: &str = "{ type: stdio, codec: json, postprocessors: [lines] }";

#[test]
fn every_record_comes_once_in_the_order_of_its_partition_and_is_committed() {
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
    // The next run goes on from there.
    kafka.write(&topic, 0..4, 1000..1010);
    let running = flow(&kafka, &keys, STDOUT);
    broker_tests::eventually("the others", || (running.out().len() >= 40).then_some(()));
    for partition in 0..4 {
        assert!(numbers(&running.out(), partition).into_iter().eq(1000..1010));
    }
}

#[test]
fn what_is_not_acknowledged_is_not_committed_and_comes_again_after_kill_9() {
    let Some(kafka) = kafka() else { return };
    let (topic, group) = (kafka.topic("killed", 1), unique("group"));
    let peer = Peer::new();
    peer.hold(|line| line == r#"{"p":0,"n":5}"#);
    kafka.write(&topic, [0], 0..20);
    let keys = format!("topics: [{topic}], group: {group}, session_timeout: 1s");
    let running = flow(&kafka, &keys, &peer.sink());
    // The five before it are answered: up to it is committed, and no further.
    kafka.commits(&group, &topic, 0, 5);
    peer.comes("the one that is held", |lines| numbers(lines, 0).contains(&5));
    running.kill();
    assert_eq!(kafka.committed(&group, &topic, 0), Some(5));
    peer.release();
    let running = flow(&kafka, &keys, &peer.sink());
    kafka.commits(&group, &topic, 0, 20);
    let mut came = numbers(&peer.answered(), 0);
    came.sort_unstable();
    came.dedup();
    assert!(came.into_iter().eq(0..20));
    running.stop();
}
