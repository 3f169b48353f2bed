//! Tests of `nats_consumer` during faults and changes of the flow.

use async_nats::{
    HeaderMap,
    jetstream::consumer::{AckPolicy, pull},
};
use broker_tests::{
    broker::Broker,
    eventually,
    flow::Flow,
    lines::have_all,
    nats::{Nats, numbers, record, unique},
    peer::Peer,
    proxy::{Proxy, Way},
};
use std::time::Duration;

use super::{
    STDOUT,
    consumer::{flow, flow_from, three_seconds_pass},
    nats,
};
use crate::faults::Copy;

fn await_output(flow: &Flow, count: u64) {
    eventually(format_args!("{count} messages\n{flow}"), || {
        have_all(&flow.out(), count).then_some(())
    });
}

/// Returns a sink that has up to 16 events in flight and does not keep them in order.
fn in_any_order(peer: &Peer) -> String {
    peer.sink().replace("in_flight: 16", "in_flight: 16, ordered: false")
}

#[test]
fn message_with_status_headers_is_an_event() {
    let Some(nats) = nats() else { return };
    let stream = nats.stream("status");
    let subject = format!("{stream}.a");
    for (number, status) in (0..).zip(["409 Consumer Deleted", "408 Request Timeout", "503"]) {
        nats.publish_raw(&subject, &format!("NATS/1.0 {status}\r\n\r\n"), &record(number));
    }
    nats.publish(&subject, [record(3)]);
    let running = flow(&nats, &format!("stream: {stream}, consumer: c"), STDOUT);
    await_output(&running, 4);
    nats.acknowledged(&stream, "c", 4);
    assert_eq!(numbers(&running.out()), [0, 1, 2, 3]);
}

#[test]
fn requests_stay_within_limits_of_the_consumer() {
    let Some(nats) = nats() else { return };
    let stream = nats.stream("bounds");
    nats.make_consumer(
        &stream,
        pull::Config {
            durable_name: Some("c".to_owned()),
            ack_policy: AckPolicy::Explicit,
            max_batch: 3,
            max_expires: Duration::from_secs(2),
            ..pull::Config::default()
        },
    );
    let running = flow(&nats, &format!("stream: {stream}, consumer: c"), STDOUT);
    nats.publish(&format!("{stream}.a"), (0..100).map(record));
    await_output(&running, 100);
    nats.acknowledged(&stream, "c", 100);
    assert!(!running.log().contains("WARN"), "{}", running.log());
}

#[test]
fn deleted_consumer_is_recreated_at_its_position() {
    let Some(nats) = nats() else { return };
    let stream = nats.stream("deleted");
    let subject = format!("{stream}.a");
    // If the recreated consumer started at `latest`, the messages that were published before would be lost.
    let running = flow(&nats, &format!("stream: {stream}, consumer: c, start: latest"), STDOUT);
    eventually("the consumer", || nats.consumer(&stream, "c"));
    nats.publish(&subject, (0..10).map(record));
    await_output(&running, 10);
    nats.delete_consumer(&stream, "c");
    nats.publish(&subject, (10..20).map(record));
    await_output(&running, 20);
    nats.acknowledged(&stream, "c", 20);
    running.says("was deleted while it was read");
}

#[test]
fn deleted_stream_fails_flow() {
    let Some(nats) = nats() else { return };
    let stream = nats.stream("gone");
    nats.publish(&format!("{stream}.a"), (0..10).map(record));
    let mut running = flow(&nats, &format!("stream: {stream}, consumer: c"), STDOUT);
    await_output(&running, 10);
    nats.delete_stream(&stream);
    assert!(!running.wait().success());
    assert!(running.log().contains("stream not found"), "{}", running.log());
}

#[test]
fn shutdown_acknowledges_read_and_returns_unread_messages() {
    let Some(nats) = nats() else { return };
    let stream = nats.stream("back");
    let peer = Peer::new();
    peer.delay_answers(|_| true);
    nats.publish(&format!("{stream}.a"), (0..2_000).map(record));
    // `ack_wait` is far longer than this test takes, so that no message is redelivered because of it.
    let keys = format!("stream: {stream}, consumer: c, ack_wait: 1h, max_ack_pending: 1500");
    let running = flow(&nats, &keys, &in_any_order(&peer));
    peer.receives("16 events", |lines| lines.len() >= 16);
    running.signal("INT");
    // The source gets no further messages, because `max_ack_pending` is reached.
    eventually("the end of the requests of the source", || {
        (nats.consumer(&stream, "c")?.num_waiting == 0).then_some(())
    });
    peer.answer_all();
    let mut running = running;
    assert!(running.wait().success(), "{}", running.log());
    // The messages that the flow has read are acknowledged. The shutdown does not wait for other messages.
    let answered = peer.answered().len();
    let info = nats.consumer(&stream, "c").unwrap();
    assert!(info.num_ack_pending + answered <= 2_000 && answered < 2_000);
    let next = flow(&nats, &keys, &in_any_order(&peer));
    nats.acknowledged(&stream, "c", 2_000);
    let mut found = numbers(&peer.answered());
    found.sort_unstable();
    assert!(found.into_iter().eq(0..2_000), "each message is delivered once");
    next.stop();
}

#[test]
fn acks_during_server_pause_prevent_redelivery() {
    let Some(mut broker) = Broker::start("nats", &[]) else { return };
    let nats = Nats::new(broker.get("plain"));
    let stream = nats.stream("paused");
    let peer = Peer::new();
    peer.delay_answers(|_| true);
    nats.publish(&format!("{stream}.a"), (0..10).map(record));
    let keys = format!("stream: {stream}, consumer: c, ack_wait: 1h");
    let running = flow(&nats, &keys, &in_any_order(&peer));
    peer.receives("all events", |lines| lines.len() == 10);
    broker.order("pause 1");
    peer.answer_all();
    eventually("all answers", || (peer.answered().len() == 10).then_some(()));
    broker.order("resume 1");
    nats.acknowledged(&stream, "c", 10);
    nats.publish(&format!("{stream}.a"), (10..20).map(record));
    nats.acknowledged(&stream, "c", 20);
    let mut found = numbers(&peer.received());
    found.sort_unstable();
    assert!(found.into_iter().eq(0..20), "each message is delivered once");
    let (status, log) = running.stop();
    assert!(status.success(), "{log}");
}

#[test]
fn cut_slow_and_silent_network_loses_nothing() {
    let Some(broker) = Broker::start("nats", &[]) else { return };
    let nats = Nats::new(broker.get("plain"));
    let stream = nats.stream("way");
    let proxy = Proxy::new();
    proxy.lead_to(broker.get("plain"));
    let keys = format!("stream: {stream}, consumer: c, ack_wait: 1s");
    let running = flow_from(&proxy.address(), &keys, STDOUT);
    let mut count = 0;
    let mut more = |running: &Flow| {
        nats.publish(&format!("{stream}.a"), (count..count + 500).map(record));
        count += 500;
        await_output(running, count);
    };
    more(&running);
    for _ in 0..5 {
        proxy.set(Way::Cut);
        proxy.set(Way::Open);
        more(&running);
    }
    proxy.set(Way::Slow(20));
    more(&running);
    // The connection stays open. Either unanswered pings or missing heartbeats are noticed first, after 30 s.
    proxy.set(Way::Silent);
    running.is("input", "connecting");
    proxy.set(Way::Cut);
    proxy.set(Way::Open);
    more(&running);
    nats.acknowledged(&stream, "c", count);
    let (status, log) = running.stop();
    assert!(status.success(), "{log}");
}

#[test]
fn connectors_leave_lame_duck_servers_without_loss() {
    let quick = ["--nodes", "3", "--set", "lame_duck_grace_period: 100ms"];
    let Some(mut broker) = Broker::start("nats", &quick) else { return };
    let mut copy = Copy::start(Nats::new(broker.get("plain")));
    for node in 1..=3 {
        // The signal makes the node enter lame duck mode.
        broker.signal(node, "USR2");
        copy.more();
        eventually("the end of the server", || broker.has_ended(node).then_some(()));
        copy.more();
        broker.order(&format!("start {node}"));
        for stream in [&copy.from, &copy.to] {
            eventually("the replicas", || copy.system.is_in_sync(&stream.name).then_some(()));
        }
    }
    // Each connector was connected to at least one of these servers.
    let log = copy.stop();
    assert!(log.matches("is about to shut down").count() >= 2, "{log}");
}

/// Starts a flow with an admin API, and waits until it reads.
fn changeable(nats: &Nats, keys: &str, sink: &str) -> Flow {
    let address = nats.address();
    let text = format!(
        "connectors:\n  \
           input: {{ type: nats_consumer, codec: json, config: {{ servers: ['{address}'], {keys} }} }}\n  \
           output: {sink}\n\
         links: [input -> output]\n"
    );
    let running = Flow::run_in(tempfile::tempdir().unwrap(), &text, &["--api", "127.0.0.1:0"]);
    running.is("input", "running");
    running
}

#[test]
fn paused_consumer_keeps_messages_and_restarted_continues() {
    let Some(nats) = nats() else { return };
    let stream = nats.stream("changed");
    let (peer, subject) = (Peer::new(), format!("{stream}.a"));
    let keys = format!("stream: {stream}, consumer: c, ack_wait: 1s");
    let running = changeable(&nats, &keys, &in_any_order(&peer));
    nats.publish(&subject, (0..10).map(record));
    nats.acknowledged(&stream, "c", 10);
    running.change("input", "pause");
    running.is("input", "paused");
    nats.publish(&subject, (10..20).map(record));
    eventually("the messages that wait in the connector", || {
        (nats.consumer(&stream, "c")?.num_ack_pending >= 10).then_some(())
    });
    // Wait longer than `ack_wait`. No message is redelivered, because the connector reports progress to the server.
    three_seconds_pass(&nats);
    assert_eq!(peer.received().len(), 10, "the paused source reads nothing");
    running.change("input", "resume");
    nats.acknowledged(&stream, "c", 20);
    let mut found = numbers(&peer.received());
    found.sort_unstable();
    assert!(found.into_iter().eq(0..20), "each message is delivered once");
    // Restart the connector while messages are in flight.
    peer.delay_answers(|_| true);
    nats.publish(&subject, (20..30).map(record));
    peer.receives("unanswered events", |lines| lines.len() >= 30);
    running.change("input", "restart");
    running.says("restarts because of a request");
    peer.answer_all();
    nats.publish(&subject, (30..40).map(record));
    nats.acknowledged(&stream, "c", 40);
    let mut found = numbers(&peer.answered());
    found.sort_unstable();
    found.dedup();
    assert!(found.into_iter().eq(0..40));
    let (status, log) = running.stop();
    assert!(status.success(), "{log}");
}

#[test]
fn dropped_core_messages_are_counted_and_others_read() {
    let Some(nats) = nats() else { return };
    let core = unique("fast");
    let running = changeable(&nats, &format!("subjects: ['{core}']"), STDOUT);
    running.change("input", "pause");
    running.is("input", "paused");
    let messages: Vec<_> = (0..150_000).map(record).collect();
    nats.publish_core(&core, &HeaderMap::new(), &messages);
    let dropped =
        || running.metric("tremor_plugin_nats_consumer_dropped_total").unwrap_or_default();
    // The server may deliver slower than the flow reads. Messages are dropped for certain only while it is paused.
    eventually("dropped messages", || (dropped() > 0.5).then_some(()));
    running.change("input", "resume");
    #[allow(clippy::cast_precision_loss)]
    // a few thousand messages, which a float represents exactly
    eventually(format_args!("received and dropped messages\n{running}"), || {
        (running.out().len() as f64 + dropped() >= messages.len() as f64).then_some(())
    });
    let found = numbers(&running.out());
    assert!(found.is_sorted_by(|one, next| one < next), "each message is read once, in order");
    #[allow(clippy::cast_precision_loss)]
    let missing = (messages.len() - found.len()) as f64;
    assert!((dropped() - missing).abs() < 0.5 && missing > 0.0, "{} of {missing}", dropped());
    let (status, log) = running.stop();
    assert!(status.success(), "{log}");
    assert!(log.contains("dropped messages, because they arrive faster"), "{log}");
}

#[test]
fn metrics_show_progress_of_a_consumer() {
    let Some(nats) = nats() else { return };
    let stream = nats.stream("metrics");
    let peer = Peer::new();
    peer.delay_answers(|_| true);
    nats.publish(&format!("{stream}.a"), (0..50).map(record));
    let keys = format!("stream: {stream}, consumer: c, max_ack_pending: 20");
    let running = changeable(&nats, &keys, &peer.sink());
    let value = |name: &str| running.metric(&format!("tremor_plugin_nats_consumer_{name}"));
    let is = |name: &str, wanted: u32| {
        eventually(format_args!("{name} is {wanted}: {}", running.ask("/metrics")), || {
            ((value(name)? - f64::from(wanted)).abs() < 0.5).then_some(())
        });
    };
    is("unanswered", 20);
    is("pending", 30);
    peer.answer_all();
    is("unanswered", 0);
    is("pending", 0);
    is("acknowledged_total", 50);
    let (status, log) = running.stop();
    assert!(status.success(), "{log}");
}
