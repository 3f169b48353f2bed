//! Members of a group that have names of their own: static membership.

use broker_tests::{flow::Flow, kafka::unique};

use super::{
    consumer::{STDOUT, flow},
    kafka,
};

/// How often it was told of a change of its partitions.
fn rebalances(flow: &Flow) -> String {
    let metrics = flow.ask("/metrics");
    let is_it = |line: &&str| line.starts_with("tremor_plugin_kafka_consumer_rebalances_total{");
    metrics.lines().find(is_it).unwrap().to_owned()
}

#[test]
fn an_instance_that_is_soon_back_has_its_partitions_again_and_the_others_notice_nothing() {
    let Some(kafka) = kafka() else { return };
    let (topic, group) = (kafka.topic("instances", 4), unique("group"));
    let member = |name: &str| {
        let keys =
            format!("topics: [{topic}], group: {group}, instance: {name}, session_timeout: 1m");
        flow(&kafka, &keys, STDOUT)
    };
    let first = member("first");
    first.says("got 4 partitions");
    let second = member("second");
    let before = second.says("got 2 partitions");
    kafka.write(&topic, 0..4, 0..10);
    let commits = |offset| (0..4).for_each(|it| kafka.commits(&group, &topic, it, offset));
    commits(10);
    let told = rebalances(&first);
    let (status, log) = second.stop();
    assert!(status.success(), "{log}");
    kafka.write(&topic, 0..4, 10..20);
    let second = member("second");
    let after = second.says("got 2 partitions");
    let list = |line: &str| line.split_once("partitions:").unwrap().1.to_owned();
    assert_eq!(list(&before), list(&after));
    commits(20);
    assert_eq!(rebalances(&first), told);
}

#[test]
fn a_second_process_of_the_same_instance_ends_the_first_which_says_why() {
    let Some(kafka) = kafka() else { return };
    let (topic, group) = (kafka.topic("fenced", 1), unique("group"));
    let keys = format!("topics: [{topic}], group: {group}, instance: same");
    let mut first = flow(&kafka, &keys, STDOUT);
    first.says("got 1 partitions");
    let second = flow(&kafka, &keys, STDOUT);
    second.says("got 1 partitions");
    first.says("another process is the member of the group with this `instance`");
    assert!(!first.wait().success(), "{}", first.log());
    kafka.write(&topic, [0], 0..10);
    kafka.commits(&group, &topic, 0, 10);
}
