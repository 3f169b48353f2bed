//! `kafka_consumer` while brokers and topics are away.

use std::{thread, time::Duration};

use broker_tests::{
    broker::Broker,
    eventually,
    flow::Flow,
    kafka::{Kafka, numbers, unique},
    records,
    scale_out::CONFIGURATION,
    small_disk::SmallDisk,
};
use rdkafka::producer::BaseRecord;

use super::{
    consumer::{STDOUT, flow},
    kafka,
};

#[test]
fn a_broker_that_is_killed_paused_and_started_again_loses_nothing() {
    let Some(mut broker) = Broker::start("kafka", CONFIGURATION) else { return };
    let kafka = Kafka::new(broker.get("plain"));
    let (topic, group) = (kafka.topic("outage", 2), unique("group"));
    let keys = format!("topics: [{topic}], group: {group}, session_timeout: 2s");
    let running = flow(&kafka, &keys, STDOUT);
    let comes = |count: usize| {
        eventually(&format!("{count} records\n{}", running.log()), || {
            (running.out().len() >= count).then_some(())
        });
    };
    kafka.write(&topic, 0..2, 0..100);
    comes(200);
    kafka.commits(&group, &topic, 0, 100);
    broker.order("kill 1");
    running.says("does not answer");
    broker.order("start 1");
    kafka.write(&topic, 0..2, 100..200);
    comes(400);
    kafka.commits(&group, &topic, 1, 200);
    broker.order("pause 1");
    // Longer than the session: the group holds its members for dead when it goes on.
    thread::sleep(Duration::from_secs(4));
    broker.order("resume 1");
    kafka.write(&topic, 0..2, 200..300);
    kafka.commits(&group, &topic, 0, 300);
    kafka.commits(&group, &topic, 1, 300);
    let out = running.out();
    for partition in 0..2 {
        let mut found = numbers(&out, partition);
        found.dedup();
        found.sort_unstable();
        found.dedup();
        assert!(found.into_iter().eq(0..300));
    }
    let (status, log) = running.stop();
    assert!(status.success(), "{log}");
}

#[test]
fn a_topic_that_is_deleted_does_not_hold_up_others_and_is_read_when_it_is_there_again() {
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
    eventually(&format!("the topic that is there again\n{}", running.log()), || {
        (running.out().len() >= 40).then_some(())
    });
    let mut found = numbers(&running.out(), 0);
    found.sort_unstable();
    assert!(found.into_iter().eq(0..40));
}

#[test]
fn a_leader_that_is_killed_is_replaced_and_no_record_is_lost() {
    let nodes = [CONFIGURATION, &["--nodes", "3"]].concat();
    let Some(mut broker) = Broker::start("kafka", &nodes) else { return };
    let kafka = Kafka::new(broker.get("plain"));
    let (topic, group) = (unique("leader"), unique("group"));
    records::make(kafka.address(), &topic, 3, &[]);
    let keys = format!("topics: [{topic}], group: {group}, session_timeout: 2s");
    let running = flow(&kafka, &keys, STDOUT);
    kafka.write(&topic, [0], 0..100);
    kafka.commits(&group, &topic, 0, 100);
    let leader = records::leader(kafka.address(), &topic).unwrap();
    broker.order(&format!("kill {leader}"));
    kafka.write(&topic, [0], 100..200);
    kafka.commits(&group, &topic, 0, 200);
    broker.order(&format!("start {leader}"));
    kafka.write(&topic, [0], 200..300);
    kafka.commits(&group, &topic, 0, 300);
    all_came(&running, 300);
}

#[test]
fn a_broker_whose_disk_is_full_is_read_on_once_there_is_room_again() {
    let Some(disk) = SmallDisk::new(48) else { return };
    let folder = tempfile::tempdir_in(disk.path()).unwrap();
    let Some(mut broker) = Broker::start_in(folder, "kafka", CONFIGURATION) else { return };
    let kafka = Kafka::new(broker.get("plain"));
    let (topic, group) = (kafka.topic("full", 1), unique("group"));
    let running = flow(&kafka, &format!("topics: [{topic}], group: {group}"), STDOUT);
    kafka.write(&topic, [0], 0..100);
    kafka.commits(&group, &topic, 0, 100);
    // More than there is room for: the broker ends, since it has no other disk.
    let rest = "x".repeat(980);
    for number in 100..60_000 {
        let payload = format!(r#"{{"p":0,"n":{number},"x":"{rest}"}}"#);
        kafka.send(BaseRecord::to(&topic).partition(0).payload(&payload));
    }
    running.says("does not answer");
    disk.resize(256);
    broker.order("start 1");
    kafka.flush();
    kafka.commits(&group, &topic, 0, 60_000);
    all_came(&running, 60_000);
}

/// Whether all records of partition 0 have come, some of them perhaps several times.
#[track_caller]
fn all_came(running: &Flow, count: u64) {
    let mut found = numbers(&running.out(), 0);
    found.sort_unstable();
    found.dedup();
    assert!(found.into_iter().eq(0..count), "{}", running.log());
}
