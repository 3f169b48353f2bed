//! Tests of `kafka_producer` with failing brokers: no event is lost, and the flow continues by itself.

use broker_tests::{broker::Broker, eventually, kafka::unique, lines::line, records};

use super::producer::{arrive, flow_to};

#[test]
fn restarted_broker_gets_every_event_once() {
    let Some(mut broker) = Broker::start("kafka", &[]) else { return };
    let (address, topic) = (broker.get("plain").to_owned(), unique("restarted"));
    records::make(&address, &topic, 1, &[]);
    let keys = format!("topic: {topic}, timeout: 1m");
    let mut lines = flow_to(&address, &keys, "in_flight: 4,");
    lines.add((0..1_000).map(line));
    arrive(&lines, &address, &topic, 1_000);
    broker.order("kill 1");
    lines.add((1_000..2_000).map(line));
    lines.flow.says("cannot reach a broker");
    broker.order("start 1");
    arrive(&lines, &address, &topic, 2_000);
    lines.stop();
    let expected: Vec<_> = (0..2_000).map(line).collect();
    assert_eq!(records::payloads(&address, &topic, 0), expected);
}

#[test]
fn events_go_to_err_until_deleted_topic_is_recreated() {
    let keep = ["--set", "auto.create.topics.enable=false"];
    let Some(broker) = Broker::start("kafka", &keep) else { return };
    let (address, topic) = (broker.get("plain").to_owned(), unique("deleted"));
    records::make(&address, &topic, 1, &[]);
    let mut lines = flow_to(&address, &format!("topic: {topic}, timeout: 2s"), "in_flight: 4,");
    lines.add((0..1_000).map(line));
    arrive(&lines, &address, &topic, 1_000);
    broker_tests::kafka::Kafka::new(&address).delete_topic(&topic);
    lines.add((1_000..1_100).map(line));
    lines.rejects(100);
    // The broker reports either a topic without partitions or an unknown topic.
    let helps = ["check whether the topic exists", "create the topic"];
    for letter in lines.flow.out() {
        assert!(helps.iter().any(|help| letter.contains(help)), "{letter}");
    }
    records::make(&address, &topic, 1, &[]);
    // Events go to `err` until the client knows the new topic. No event may be lost.
    let mut next = 1_100;
    eventually("events in the topic", || {
        lines.add([line(next)]);
        next += 1;
        eventually("the result of the event", || {
            let arrived = records::end(&address, &topic, 0)?;
            let refused = lines.flow.out().len() as u64 - 100;
            (arrived.cast_unsigned() + refused == next - 1_100).then_some(())
        });
        (records::end(&address, &topic, 0) > Some(0)).then_some(())
    });
    lines.stop();
}
