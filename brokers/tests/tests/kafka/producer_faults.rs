//! `kafka_producer` and brokers that fail: nothing that was read is lost, and the flow goes on by itself.

use broker_tests::{
    broker::Broker,
    eventually,
    kafka::unique,
    proxy::{Proxy, Way},
    records,
    small_disk::SmallDisk,
};

use super::producer::{Lines, complete, line};

/// What is not acknowledged for so long is given up.
const TIMEOUT: &str = "timeout: 2s";

/// With several deliveries at a time.
const SEVERAL: &str = "in_flight: 4,";
/// With one, as a flow has it that says nothing.
const ONE: &str = "";

/// A topic of its own in a broker of its own, with a flow to it that has delivered 1,000 events.
fn begun(broker: &Broker, replicas: i32, deliveries: &str) -> (Lines, String, String) {
    let (address, topic) = (broker.get("plain").to_owned(), unique("fault"));
    records::make(&address, &topic, replicas, &[]);
    let brokers = address.replace(',', "', '");
    let mut lines =
        Lines::to(&format!("'{brokers}'"), &format!("topic: {topic}, {TIMEOUT}"), deliveries);
    lines.add(0..1_000);
    lines.arrive(&address, &topic, 1_000);
    lines.flow.is("output", "running");
    (lines, address, topic)
}

/// What follows once the brokers are well again.
fn recovered(mut lines: Lines, address: &str, topic: &str) -> String {
    lines.add(2_000..3_000);
    lines.arrive(address, topic, 3_000);
    lines.flow.is("output", "running");
    let log = lines.stop();
    complete(&records::payloads(address, topic, 0), 3_000);
    log
}

#[test]
fn a_broker_that_is_killed_and_started_again_gets_every_event() {
    let Some(mut broker) = Broker::start("kafka", &[]) else { return };
    let (mut lines, address, topic) = begun(&broker, 1, SEVERAL);
    broker.order("kill 1");
    lines.add(1_000..2_000);
    lines.flow.says("a broker does not answer");
    // What was not acknowledged is given up, and the connector looks for another connection.
    lines.flow.says("records were not acknowledged within 2s");
    lines.flow.is("output", "connecting");
    broker.order("start 1");
    recovered(lines, &address, &topic);
}

#[test]
fn a_broker_that_is_restarted_soon_gets_every_event_once() {
    let Some(mut broker) = Broker::start("kafka", &[]) else { return };
    let (address, topic) = (broker.get("plain").to_owned(), unique("restarted"));
    records::make(&address, &topic, 1, &[]);
    let keys = format!("topic: {topic}, timeout: 1m");
    let mut lines = Lines::to(&address, &keys, "in_flight: 4,");
    lines.add(0..1_000);
    lines.arrive(&address, &topic, 1_000);
    broker.order("kill 1");
    lines.add(1_000..2_000);
    lines.flow.says("a broker does not answer");
    broker.order("start 1");
    lines.arrive(&address, &topic, 2_000);
    lines.stop();
    let expected: Vec<_> = (0..2_000).map(line).collect();
    assert_eq!(records::payloads(&address, &topic, 0), expected);
}

#[test]
fn a_broker_that_is_silent_is_given_up_and_gets_every_event_when_it_is_back() {
    let Some(mut broker) = Broker::start("kafka", &[]) else { return };
    let (mut lines, address, topic) = begun(&broker, 1, ONE);
    broker.order("pause 1");
    lines.add(1_000..2_000);
    lines.flow.says("records were not acknowledged within 2s");
    lines.flow.is("output", "connecting");
    let metrics = lines.flow.ask("/metrics");
    let given_up = metrics.lines().find(|it| it.contains("given_up") && !it.starts_with('#'));
    assert!(given_up.is_some_and(|it| it.ends_with(" 1")), "{given_up:?} in {metrics}");
    broker.order("resume 1");
    recovered(lines, &address, &topic);
}

#[test]
fn a_way_to_the_broker_that_is_slow_cut_or_silent_loses_nothing() {
    let proxy = Proxy::new();
    let advertised = format!("advertised.listeners=PLAINTEXT://{}", proxy.address());
    let Some(broker) = Broker::start("kafka", &["--set", &advertised]) else { return };
    proxy.lead_to(broker.get("plain"));
    let (mut lines, address, topic) = begun(&broker, 1, SEVERAL);
    proxy.set(Way::Slow(20));
    lines.add(1_000..1_300);
    lines.arrive(&address, &topic, 1_300);
    proxy.set(Way::Cut);
    lines.add(1_300..1_600);
    lines.flow.says("records were not acknowledged within 2s");
    proxy.set(Way::Open);
    lines.arrive(&address, &topic, 1_600);
    proxy.set(Way::Silent);
    lines.add(1_600..2_000);
    lines.flow.says_again("records were not acknowledged within 2s", 1);
    proxy.set(Way::Open);
    recovered(lines, &address, &topic);
}

#[test]
fn events_for_a_topic_that_is_deleted_go_to_err_until_it_is_there_again() {
    let keep = ["--set", "auto.create.topics.enable=false"];
    let Some(broker) = Broker::start("kafka", &keep) else { return };
    let (mut lines, address, topic) = begun(&broker, 1, SEVERAL);
    broker_tests::kafka::Kafka::new(&address).delete_topic(&topic);
    lines.add(1_000..1_100);
    eventually("all of them at `err`", || (lines.flow.out().len() == 100).then_some(()));
    // The client hears of a topic that has no partitions any more, or of no such topic.
    let helps = ["see whether the topic is there", "create the topic"];
    for letter in lines.flow.out() {
        assert!(helps.iter().any(|help| letter.contains(help)), "{letter}");
    }
    records::make(&address, &topic, 1, &[]);
    // Until the client hears of the topic, events go to `err`, and none is lost.
    let mut next = 1_100;
    eventually("events in the topic", || {
        lines.add(next..next + 1);
        next += 1;
        eventually("what became of the event", || {
            let arrived = records::end(&address, &topic, 0)?;
            let refused = lines.flow.out().len() as u64 - 100;
            (arrived.cast_unsigned() + refused == next - 1_100).then_some(())
        });
        (records::end(&address, &topic, 0) > Some(0)).then_some(())
    });
    lines.stop();
}

#[test]
fn a_leader_that_is_killed_is_replaced_and_no_acknowledged_event_is_lost() {
    let Some(mut broker) = Broker::start("kafka", &["--nodes", "3"]) else { return };
    let (mut lines, address, topic) = begun(&broker, 3, SEVERAL);
    let leader = records::leader(&address, &topic).unwrap();
    broker.order(&format!("kill {leader}"));
    lines.add(1_000..2_000);
    lines.arrive(&address, &topic, 2_000);
    recovered(lines, &address, &topic);
}

#[test]
fn a_broker_whose_disk_is_full_gets_every_event_once_there_is_room_again() {
    let Some(disk) = SmallDisk::new(48) else { return };
    let folder = tempfile::tempdir_in(disk.path()).unwrap();
    let Some(mut broker) = Broker::start_in(folder, "kafka", &[]) else { return };
    let (mut lines, address, topic) = begun(&broker, 1, SEVERAL);
    // More than there is room for: the broker ends, since it has no other disk.
    lines.add_long(1_000..61_000);
    lines.flow.is("output", "connecting");
    disk.resize(256);
    broker.order("start 1");
    lines.add(61_000..62_000);
    lines.arrive(&address, &topic, 62_000);
    lines.stop();
    complete(&records::payloads(&address, &topic, 0), 62_000);
}
