//! `kafka_consumer` while brokers and topics are away.

use std::{thread, time::Duration};

use broker_tests::{
    broker::Broker,
    eventually,
    kafka::{Kafka, numbers, unique},
};

use super::{
    CONFIGURATION,
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
