//! `nats_consumer`.

use broker_tests::{
    broker::Broker,
    eventually,
    flow::Flow,
    nats::{Nats, numbers, record, unique},
    peer::Peer,
};
use serde_json::json;

use super::{STDOUT, nats};

/// A flow from a stream to a sink.
pub(super) fn flow(nats: &Nats, keys: &str, sink: &str) -> Flow {
    flow_from(&nats.address(), keys, sink)
}

/// The same from a server that is reached otherwise.
pub(super) fn flow_from(address: &str, keys: &str, sink: &str) -> Flow {
    Flow::run(&format!(
        "connectors:\n  \
           input: {{ type: nats_consumer, codec: json, config: {{ servers: ['{address}'], {keys} }} }}\n  \
           output: {sink}\n\
         links: [input -> output]\n"
    ))
}

fn comes(flow: &Flow, count: usize) {
    eventually(&format!("{count} messages\n{}", flow.log()), || {
        (flow.out().len() >= count).then_some(())
    });
}

#[test]
fn every_message_of_a_stream_comes_once_in_order_and_is_acknowledged() {
    let Some(nats) = nats() else { return };
    let stream = nats.stream("all");
    nats.publish(&format!("{stream}.a"), (0..2_000).map(record));
    for ack in ["simple", "double"] {
        let keys = format!("stream: {stream}, consumer: {ack}, ack: {ack}");
        let running = flow(&nats, &keys, STDOUT);
        comes(&running, 2_000);
        nats.acknowledged(&stream, ack, 2_000);
        assert!(numbers(&running.out()).into_iter().eq(0..2_000));
        let (status, log) = running.stop();
        assert!(status.success(), "{log}");
    }
    // The next run goes on from there.
    nats.publish(&format!("{stream}.a"), (2_000..2_010).map(record));
    let running = flow(&nats, &format!("stream: {stream}, consumer: simple"), STDOUT);
    comes(&running, 10);
    assert!(numbers(&running.out()).into_iter().eq(2_000..2_010));
}

#[test]
fn what_is_not_acknowledged_comes_again_after_kill_9() {
    let Some(nats) = nats() else { return };
    let stream = nats.stream("killed");
    let peer = Peer::new();
    peer.hold(|line| line == record(5));
    nats.publish(&format!("{stream}.a"), (0..20).map(record));
    let keys = format!("stream: {stream}, consumer: c, ack_wait: 1s");
    let running = flow(&nats, &keys, &peer.sink());
    peer.comes("the one that is held", |lines| numbers(lines).contains(&5));
    running.kill();
    let pending = nats.consumer(&stream, "c").unwrap().ack_floor.stream_sequence;
    assert!(pending <= 5, "the sixth is not acknowledged: {pending}");
    peer.release();
    let running = flow(&nats, &keys, &peer.sink());
    nats.acknowledged(&stream, "c", 20);
    let mut came = numbers(&peer.answered());
    came.sort_unstable();
    came.dedup();
    assert!(came.into_iter().eq(0..20));
    running.stop();
}

/// As the server counts them: a message comes again three times meanwhile.
pub(super) fn three_seconds_pass(nats: &Nats) {
    let stream = nats.stream("clock");
    nats.publish(&format!("{stream}.a"), ["no JSON".to_owned()]);
    let keys = format!("stream: {stream}, consumer: clock, retry_delay: 1s, max_deliver: 4");
    let clock = flow(nats, &keys, STDOUT);
    eventually("four deliveries", || {
        let info = nats.consumer(&stream, "clock")?;
        (info.delivered.consumer_sequence >= 4).then_some(())
    });
    clock.kill();
}

#[test]
fn what_the_flow_holds_longer_than_ack_wait_does_not_come_again() {
    let Some(nats) = nats() else { return };
    let stream = nats.stream("held");
    let peer = Peer::new();
    peer.hold(|line| line == record(0));
    nats.publish(&format!("{stream}.a"), [record(0)]);
    let keys = format!("stream: {stream}, consumer: c, ack_wait: 1s");
    let running = flow(&nats, &keys, &peer.sink());
    peer.comes("the one that is held", |lines| numbers(lines) == [0]);
    three_seconds_pass(&nats);
    peer.release();
    eventually("the acknowledgement", || {
        let info = nats.consumer(&stream, "c")?;
        (info.ack_floor.stream_sequence >= 1).then_some(())
    });
    assert_eq!(numbers(&peer.came()), [0]);
    running.kill();
}

#[test]
fn a_message_that_fails_comes_again_as_often_as_the_consumer_says() {
    let Some(nats) = nats() else { return };
    let stream = nats.stream("failed");
    nats.publish(&format!("{stream}.a"), ["no JSON".to_owned(), record(1)]);
    let keys = format!("stream: {stream}, consumer: c, max_deliver: 3, retry_delay: 10ms");
    let running = flow(&nats, &keys, STDOUT);
    eventually(&format!("three deliveries of it\n{}", running.log()), || {
        let info = nats.consumer(&stream, "c")?;
        (info.delivered.consumer_sequence >= 4).then_some(())
    });
    comes(&running, 1);
    assert_eq!(numbers(&running.out()), [1]);
    let (status, log) = running.stop();
    assert!(status.success(), "{log}");
    // Three times the one, and once the other.
    assert_eq!(nats.consumer(&stream, "c").unwrap().delivered.consumer_sequence, 4);
}

#[test]
fn no_more_is_under_way_than_max_ack_pending() {
    let Some(nats) = nats() else { return };
    let stream = nats.stream("bound");
    let peer = Peer::new();
    peer.hold(|_| true);
    nats.publish(&format!("{stream}.a"), (0..50).map(record));
    let keys = format!("stream: {stream}, consumer: c, max_ack_pending: 7");
    let running = flow(&nats, &keys, &peer.sink());
    eventually("as many as may be", || {
        (nats.consumer(&stream, "c")?.num_ack_pending >= 7).then_some(())
    });
    peer.comes("one", |lines| !lines.is_empty());
    assert_eq!(nats.consumer(&stream, "c").unwrap().delivered.consumer_sequence, 7);
    assert!(peer.came().len() <= 7);
    peer.release();
    nats.acknowledged(&stream, "c", 50);
    running.kill();
}

#[test]
fn a_server_that_is_killed_and_started_again_loses_nothing() {
    let Some(mut broker) = Broker::start("nats", &[]) else { return };
    let nats = Nats::new(broker.get("plain"));
    let stream = nats.stream("outage");
    nats.publish(&format!("{stream}.a"), (0..100).map(record));
    let running = flow(&nats, &format!("stream: {stream}, consumer: c, ack_wait: 1s"), STDOUT);
    comes(&running, 100);
    broker.order("kill 1");
    running.says("connection to the server is lost");
    broker.order("start 1");
    nats.publish(&format!("{stream}.a"), (100..200).map(record));
    nats.acknowledged(&stream, "c", 200);
    let mut found = numbers(&running.out());
    found.sort_unstable();
    found.dedup();
    assert!(found.into_iter().eq(0..200), "{}", running.log());
    let (status, log) = running.stop();
    assert!(status.success(), "{log}");
}

#[test]
fn a_consumer_begins_where_start_says_and_gets_the_subjects_that_it_wants() {
    let Some(nats) = nats() else { return };
    let stream = nats.stream("start");
    nats.publish(&format!("{stream}.a"), (0..10).map(record));
    nats.publish(&format!("{stream}.b"), (10..12).map(record));
    let keys = format!("stream: {stream}, consumer: five, start: 6, subjects: ['{stream}.a']");
    let running = flow(&nats, &keys, STDOUT);
    comes(&running, 5);
    nats.acknowledged(&stream, "five", 10);
    assert!(numbers(&running.out()).into_iter().eq(5..10));
    let running = flow(&nats, &format!("stream: {stream}, consumer: new, start: latest"), STDOUT);
    eventually("the consumer", || nats.consumer(&stream, "new"));
    nats.publish(&format!("{stream}.b"), (12..14).map(record));
    comes(&running, 2);
    assert!(numbers(&running.out()).into_iter().eq(12..14));
}

#[test]
fn what_the_server_has_otherwise_is_said_and_nothing_is_read() {
    let Some(nats) = nats() else { return };
    let stream = nats.stream("other");
    let first = flow(&nats, &format!("stream: {stream}, consumer: c, ack_wait: 5s"), STDOUT);
    eventually("the consumer", || nats.consumer(&stream, "c"));
    first.kill();
    for (keys, said) in [
        (format!("stream: {stream}, consumer: c, ack_wait: 9s"), "another `ack_wait`: 5s"),
        (format!("stream: {stream}, consumer: c, max_ack_pending: 3"), "another `max_ack_pending`"),
        (format!("stream: {stream}x, consumer: c"), "stream not found"),
    ] {
        let mut running = flow(&nats, &keys, STDOUT);
        assert!(!running.wait().success());
        assert!(running.log().contains(said), "{said}: {}", running.log());
    }
}

#[test]
fn of_a_queue_group_one_member_gets_each_message_and_metadata_say_what_it_was() {
    let Some(nats) = nats() else { return };
    let subject = unique("core");
    let address = nats.address();
    let meta =
        json!({ "subject": format!("{subject}.a"), "headers": { "A": ["1", "2"], "B": "3" } });
    let run = || {
        Flow::run(&format!(
            "connectors:\n  \
               input: {{ type: nats_consumer, codec: json, \
                 config: {{ servers: ['{address}'], subjects: ['{subject}.*'], queue: q }} }}\n  \
               output: {STDOUT}\n\
             pipelines:\n  \
               meta: {{ operators: [{{ type: filter, config: {{ field: '%', equals: {meta} }} }}] }}\n\
             links: [input -> meta -> output]\n"
        ))
    };
    let members = [run(), run()];
    let mut headers = async_nats::HeaderMap::new();
    headers.append("A", "1");
    headers.append("A", "2");
    headers.append("B", "3");
    // Both are there once each has got one.
    let mut sent = 0;
    eventually("both members", || {
        nats.publish_core(&format!("{subject}.a"), &headers, &[record(sent)]);
        sent += 1;
        members.iter().all(|it| !it.out().is_empty()).then_some(())
    });
    let before: Vec<_> = members.iter().flat_map(|it| numbers(&it.out())).collect();
    let messages: Vec<_> = (10_000..11_000).map(record).collect();
    nats.publish_core(&format!("{subject}.a"), &headers, &messages);
    let found = || {
        let mut found: Vec<_> = members.iter().flat_map(|it| numbers(&it.out())).collect();
        found.retain(|it| *it >= 10_000);
        found.sort_unstable();
        found
    };
    eventually("all of them", || (found().len() >= 1_000).then_some(()));
    assert!(found().into_iter().eq(10_000..11_000) && before.len() >= 2);
}

#[test]
fn metadata_of_a_stream_say_where_a_message_was_and_how_often_it_came() {
    let Some(nats) = nats() else { return };
    let stream = nats.stream("metadata");
    nats.publish(&format!("{stream}.a"), [record(0)]);
    let address = nats.address();
    let wants = [
        ("subject", json!(format!("{stream}.a"))),
        ("stream", json!(stream)),
        ("consumer", json!("c")),
        ("stream_sequence", json!(1)),
        ("consumer_sequence", json!(1)),
        ("deliveries", json!(1)),
        ("pending", json!(0)),
    ];
    let wants: Vec<_> = wants
        .iter()
        .map(|(key, value)| format!("{{ field: '%{key}', equals: {value} }}"))
        .collect();
    let running = Flow::run(&format!(
        "connectors:\n  \
           input: {{ type: nats_consumer, codec: json, \
             config: {{ servers: ['{address}'], stream: {stream}, consumer: c }} }}\n  \
           output: {STDOUT}\n\
         pipelines:\n  \
           meta: {{ operators: [{{ type: filter, config: {{ all: [{}] }} }}] }}\n\
         links: [input -> meta -> output]\n",
        wants.join(", ")
    ));
    comes(&running, 1);
}
