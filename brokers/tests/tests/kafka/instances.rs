//! Tests of static membership: members of a group with an `instance`.

use broker_tests::{flow::Flow, kafka::unique};

use super::{
    consumer::{STDOUT, flow},
    kafka,
};

/// Returns the line with the metric `rebalances` of a consumer.
fn rebalances(flow: &Flow) -> String {
    let metrics = flow.ask("/metrics");
    let is_it = |line: &&str| line.starts_with("tremor_plugin_kafka_consumer_rebalances_total{");
    metrics.lines().find(is_it).unwrap().to_owned()
}

#[test]
fn restarted_instance_keeps_partitions_without_rebalance() {
    let Some(kafka) = kafka() else { return };
    let (topic, group) = (kafka.topic("instances", 4), unique("group"));
    let member = |name: &str| {
        let keys =
            format!("topics: [{topic}], group: {group}, instance: {name}, session_timeout: 1m");
        flow(&kafka, &keys, STDOUT)
    };
    let first = member("first");
    first.says("assigned 4 partitions");
    let second = member("second");
    let before = second.says("assigned 2 partitions");
    kafka.write(&topic, 0..4, 0..10);
    let commits = |offset| (0..4).for_each(|it| kafka.commits(&group, &topic, it, offset));
    commits(10);
    let logged = rebalances(&first);
    let (status, log) = second.stop();
    assert!(status.success(), "{log}");
    kafka.write(&topic, 0..4, 10..20);
    let second = member("second");
    let after = second.says("assigned 2 partitions");
    let list = |line: &str| line.split_once("partitions:").unwrap().1.to_owned();
    assert_eq!(list(&before), list(&after));
    commits(20);
    assert_eq!(rebalances(&first), logged);
}

#[test]
fn second_process_of_an_instance_fails_the_first() {
    let Some(kafka) = kafka() else { return };
    let (topic, group) = (kafka.topic("fenced", 1), unique("group"));
    let keys = format!("topics: [{topic}], group: {group}, instance: same");
    let mut first = flow(&kafka, &keys, STDOUT);
    first.says("assigned 1 partitions");
    let second = flow(&kafka, &keys, STDOUT);
    second.says("assigned 1 partitions");
    first.says("another process is the member with this `instance`");
    assert!(!first.wait().success(), "{}", first.log());
    kafka.write(&topic, [0], 0..10);
    kafka.commits(&group, &topic, 0, 10);
}
