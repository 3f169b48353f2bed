//! Tests of `nats_consumer`.

use broker_tests::{
    eventually,
    flow::Flow,
    nats::{Nats, numbers, record, unique},
    peer::Peer,
};
use serde_json::json;

use super::{STDOUT, nats};

/// Starts a flow from a stream to a sink.
pub(super) fn flow(nats: &Nats, keys: &str, sink: &str) -> Flow {
    flow_from(&nats.address(), keys, sink)
}

/// Starts a flow from the server at `address` to a sink, with the admin API.
pub(super) fn flow_from(address: &str, keys: &str, sink: &str) -> Flow {
    let flow = format!(
        "connectors:\n  \
           input: {{ type: nats_consumer, codec: json, config: {{ servers: ['{address}'], {keys} }} }}\n  \
           output: {sink}\n\
         links: [input -> output]\n"
    );
    Flow::run_in(tempfile::tempdir().unwrap(), &flow, &["--api", "127.0.0.1:0"])
}

fn await_output(flow: &Flow, count: usize) {
    eventually(format_args!("{count} messages\n{flow}"), || {
        (flow.out().len() >= count).then_some(())
    });
}

#[test]
fn messages_are_read_once_in_order_and_acknowledged() {
    let Some(nats) = nats() else { return };
    let stream = nats.stream("all");
    nats.publish(&format!("{stream}.a"), (0..2_000).map(record));
    for ack in ["simple", "double"] {
        let keys = format!("stream: {stream}, consumer: {ack}, ack: {ack}");
        let running = flow(&nats, &keys, STDOUT);
        await_output(&running, 2_000);
        nats.acknowledged(&stream, ack, 2_000);
        assert!(numbers(&running.out()).into_iter().eq(0..2_000));
        let (status, log) = running.stop();
        assert!(status.success(), "{log}");
    }
    // The second run has to continue where the first one has ended.
    nats.publish(&format!("{stream}.a"), (2_000..2_010).map(record));
    let running = flow(&nats, &format!("stream: {stream}, consumer: simple"), STDOUT);
    await_output(&running, 10);
    assert!(numbers(&running.out()).into_iter().eq(2_000..2_010));
}

/// Waits for three seconds by the server's clock: until the server has redelivered a message that fails three times,
/// each time after a delay of 1 s.
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
fn message_in_flow_beyond_ack_wait_is_not_redelivered() {
    let Some(nats) = nats() else { return };
    let stream = nats.stream("held");
    let peer = Peer::new();
    peer.delay_answers(|line| line == record(0));
    nats.publish(&format!("{stream}.a"), [record(0)]);
    let keys = format!("stream: {stream}, consumer: c, ack_wait: 1s");
    let running = flow(&nats, &keys, &peer.sink());
    peer.receives("the unanswered event", |lines| numbers(lines) == [0]);
    three_seconds_pass(&nats);
    peer.answer_all();
    eventually("the acknowledgement", || {
        let info = nats.consumer(&stream, "c")?;
        (info.ack_floor.stream_sequence >= 1).then_some(())
    });
    assert_eq!(numbers(&peer.received()), [0]);
    running.kill();
}

#[test]
fn failed_message_is_redelivered_up_to_max_deliver() {
    let Some(nats) = nats() else { return };
    let stream = nats.stream("failed");
    nats.publish(&format!("{stream}.a"), ["no JSON".to_owned(), record(1)]);
    let keys = format!("stream: {stream}, consumer: c, max_deliver: 3, retry_delay: 10ms");
    let running = flow(&nats, &keys, STDOUT);
    eventually(format_args!("three deliveries of the failed message\n{running}"), || {
        let info = nats.consumer(&stream, "c")?;
        (info.delivered.consumer_sequence >= 4).then_some(())
    });
    await_output(&running, 1);
    assert_eq!(numbers(&running.out()), [1]);
    let (status, log) = running.stop();
    assert!(status.success(), "{log}");
    // The rejected message was delivered three times, and the other message once.
    assert_eq!(nats.consumer(&stream, "c").unwrap().delivered.consumer_sequence, 4);
}

#[test]
fn max_ack_pending_limits_messages_in_flight() {
    let Some(nats) = nats() else { return };
    let stream = nats.stream("bound");
    let peer = Peer::new();
    peer.delay_answers(|_| true);
    nats.publish(&format!("{stream}.a"), (0..50).map(record));
    let keys = format!("stream: {stream}, consumer: c, max_ack_pending: 7");
    let running = flow(&nats, &keys, &peer.sink());
    eventually("the maximum number of messages in flight", || {
        (nats.consumer(&stream, "c")?.num_ack_pending >= 7).then_some(())
    });
    peer.receives("one", |lines| !lines.is_empty());
    assert_eq!(nats.consumer(&stream, "c").unwrap().delivered.consumer_sequence, 7);
    assert!(peer.received().len() <= 7);
    peer.answer_all();
    nats.acknowledged(&stream, "c", 50);
    running.kill();
}

#[test]
fn new_consumer_begins_at_start_with_its_subjects() {
    let Some(nats) = nats() else { return };
    let stream = nats.stream("start");
    nats.publish(&format!("{stream}.a"), (0..10).map(record));
    nats.publish(&format!("{stream}.b"), (10..12).map(record));
    let keys = format!("stream: {stream}, consumer: five, start: 6, subjects: ['{stream}.a']");
    let running = flow(&nats, &keys, STDOUT);
    await_output(&running, 5);
    nats.acknowledged(&stream, "five", 10);
    assert!(numbers(&running.out()).into_iter().eq(5..10));
    let running = flow(&nats, &format!("stream: {stream}, consumer: new, start: latest"), STDOUT);
    eventually("the consumer", || nats.consumer(&stream, "new"));
    nats.publish(&format!("{stream}.b"), (12..14).map(record));
    await_output(&running, 2);
    assert!(numbers(&running.out()).into_iter().eq(12..14));
}

#[test]
fn mismatch_with_existing_consumer_is_reported() {
    let Some(nats) = nats() else { return };
    let stream = nats.stream("other");
    let first = flow(&nats, &format!("stream: {stream}, consumer: c, ack_wait: 5s"), STDOUT);
    eventually("the consumer", || nats.consumer(&stream, "c"));
    first.kill();
    for (keys, expected) in [
        (format!("stream: {stream}, consumer: c, ack_wait: 9s"), "another `ack_wait`: 5s"),
        (format!("stream: {stream}, consumer: c, max_ack_pending: 3"), "another `max_ack_pending`"),
        (format!("stream: {stream}x, consumer: c"), "stream not found"),
    ] {
        let mut running = flow(&nats, &keys, STDOUT);
        assert!(!running.wait().success());
        assert!(running.log().contains(expected), "{expected}: {}", running.log());
    }
}

#[test]
fn queue_group_member_gets_each_message_with_metadata() {
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
               meta: {{ operators: [{{ type: filter, config: {{ field: '%nats', equals: {meta} }} }}] }}\n\
             links: [input -> meta -> output]\n"
        ))
    };
    let members = [run(), run()];
    let mut headers = async_nats::HeaderMap::new();
    headers.append("A", "1");
    headers.append("A", "2");
    headers.append("B", "3");
    // The two members are connected once each of them has received a message.
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
    eventually("all messages", || (found().len() >= 1_000).then_some(()));
    assert!(found().into_iter().eq(10_000..11_000) && before.len() >= 2);
}

#[test]
fn metadata_contain_position_and_number_of_deliveries() {
    let Some(nats) = nats() else { return };
    let stream = nats.stream("metadata");
    nats.publish(&format!("{stream}.a"), [record(0)]);
    let address = nats.address();
    let wants = [
        ("subject", json!(format!("{stream}.a"))),
        ("stream", json!(stream)),
        ("consumer", json!("c")),
        ("sequence", json!(1)),
        ("consumer_sequence", json!(1)),
        ("deliveries", json!(1)),
        ("pending", json!(0)),
    ];
    let wants: Vec<_> = wants
        .iter()
        .map(|(key, value)| format!("{{ field: '%nats.{key}', equals: {value} }}"))
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
    await_output(&running, 1);
}
