//! Tests of `kafka_consumer` while topics are deleted and brokers fail.

use broker_tests::{
    broker::Broker,
    eventually,
    flow::Flow,
    kafka::{Kafka, numbers, unique},
    scale_out::CONFIGURATION,
    small_disk::SmallDisk,
};
use rdkafka::producer::BaseRecord;

use super::{
    consumer::{STDOUT, flow},
    kafka,
};

#[test]
fn recreated_topic_is_read_and_delays_no_other() {
    let Some(kafka) = kafka() else { return };
    let (deleted, other) = (kafka.topic("deleted", 1), kafka.topic("other", 1));
    let group = unique("group");
    let keys = format!("topics: [{deleted}, {other}], group: {group}, refresh_interval: 200ms");
    let running = flow(&kafka, &keys, STDOUT);
    kafka.write(&deleted, [0], 0..10);
    kafka.write(&other, [0], 10..20);
    kafka.commits(&group, &deleted, 0, 10);
    kafka.commits(&group, &other, 0, 10);
    kafka.delete_topic(&deleted);
    running.says(&deleted);
    kafka.write(&other, [0], 20..30);
    kafka.commits(&group, &other, 0, 20);
    kafka.make_topic(&deleted, 1);
    kafka.write(&deleted, [0], 30..40);
    eventually(format_args!("the records of the recreated topic\n{running}"), || {
        (running.out().len() >= 40).then_some(())
    });
    let mut found = numbers(&running.out(), 0);
    found.sort_unstable();
    assert!(found.into_iter().eq(0..40));
}

#[test]
fn reading_continues_once_full_disk_has_space() {
    let Some(disk) = SmallDisk::new(48) else { return };
    let folder = tempfile::tempdir_in(disk.path()).unwrap();
    let Some(mut broker) = Broker::start_in(folder, "kafka", CONFIGURATION) else { return };
    let kafka = Kafka::new(broker.get("plain"));
    let (topic, group) = (kafka.topic("full", 1), unique("group"));
    let running = flow(&kafka, &format!("topics: [{topic}], group: {group}"), STDOUT);
    kafka.write(&topic, [0], 0..100);
    kafka.commits(&group, &topic, 0, 100);
    // Write more than the disk has space for. The broker ends by itself, because it has no other disk.
    let padding = "x".repeat(980);
    for number in 100..60_000 {
        let payload = format!(r#"{{"p":0,"n":{number},"x":"{padding}"}}"#);
        kafka.send(BaseRecord::to(&topic).partition(0).payload(&payload));
    }
    running.says("cannot reach a broker");
    eventually("the end of the broker", || broker.has_ended(1).then_some(()));
    disk.resize(256);
    broker.order("start 1");
    kafka.flush();
    kafka.commits(&group, &topic, 0, 60_000);
    all_are_read(&running, 60_000);
}

/// Checks that all records of partition 0 were read. Repetitions are allowed.
#[track_caller]
fn all_are_read(running: &Flow, count: u64) {
    let mut found = numbers(&running.out(), 0);
    found.sort_unstable();
    found.dedup();
    assert!(found.into_iter().eq(0..count), "{}", running.log());
}
