//! `nats_consumer`, when something goes wrong, and when somebody wants it to.

use async_nats::{
    HeaderMap,
    jetstream::consumer::{AckPolicy, pull},
};
use broker_tests::{
    broker::Broker,
    eventually,
    flow::Flow,
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

/// The numbers that a flow has printed, in order and each once.
fn found(flow: &Flow) -> Vec<usize> {
    let mut found = numbers(&flow.out());
    found.sort_unstable();
    found.dedup();
    found
}

fn comes(flow: &Flow, count: usize) {
    eventually(&format!("{count} messages\n{}", flow.log()), || {
        (found(flow).len() >= count).then_some(())
    });
    assert!(found(flow).into_iter().eq(0..count));
}

/// The sink of a flow that sends as many as it can, whichever were answered.
fn in_any_order(peer: &Peer) -> String {
    peer.sink().replace("in_flight: 16", "in_flight: 16, ordered: false")
}

#[test]
fn a_message_that_looks_like_a_word_of_the_server_is_a_message() {
    let Some(nats) = nats() else { return };
    let stream = nats.stream("status");
    let subject = format!("{stream}.a");
    for (number, status) in
        ["409 Consumer Deleted", "408 Request Timeout", "503"].iter().enumerate()
    {
        nats.publish_raw(&subject, &format!("NATS/1.0 {status}\r\n\r\n"), &record(number));
    }
    nats.publish(&subject, [record(3)]);
    let running = flow(&nats, &format!("stream: {stream}, consumer: c"), STDOUT);
    comes(&running, 4);
    nats.acknowledged(&stream, "c", 4);
    assert_eq!(numbers(&running.out()), [0, 1, 2, 3]);
}

#[test]
fn a_consumer_that_bounds_requests_is_asked_for_no_more() {
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
    comes(&running, 100);
    nats.acknowledged(&stream, "c", 100);
    assert!(!running.log().contains("WARN"), "{}", running.log());
}

#[test]
fn a_consumer_that_is_deleted_while_it_is_read_goes_on_where_it_was() {
    let Some(nats) = nats() else { return };
    let stream = nats.stream("deleted");
    let subject = format!("{stream}.a");
    // What is published while there is no consumer would be lost to one that begins at the latest.
    let running = flow(&nats, &format!("stream: {stream}, consumer: c, start: latest"), STDOUT);
    eventually("the consumer", || nats.consumer(&stream, "c"));
    nats.publish(&subject, (0..10).map(record));
    comes(&running, 10);
    nats.delete_consumer(&stream, "c");
    nats.publish(&subject, (10..20).map(record));
    comes(&running, 20);
    nats.acknowledged(&stream, "c", 20);
    running.says("was deleted while it was read");
}

#[test]
fn a_stream_that_is_deleted_while_it_is_read_fails_the_flow() {
    let Some(nats) = nats() else { return };
    let stream = nats.stream("gone");
    nats.publish(&format!("{stream}.a"), (0..10).map(record));
    let mut running = flow(&nats, &format!("stream: {stream}, consumer: c"), STDOUT);
    comes(&running, 10);
    nats.delete_stream(&stream);
    assert!(!running.wait().success());
    assert!(running.log().contains("stream not found"), "{}", running.log());
}

#[test]
fn what_was_fetched_and_not_taken_goes_back_at_the_end_and_what_was_taken_is_acknowledged() {
    let Some(nats) = nats() else { return };
    let stream = nats.stream("back");
    let peer = Peer::new();
    peer.hold(|_| true);
    nats.publish(&format!("{stream}.a"), (0..2_000).map(record));
    // Far longer than this test may take: nothing comes again by itself.
    let keys = format!("stream: {stream}, consumer: c, ack_wait: 1h, max_ack_pending: 1500");
    let running = flow(&nats, &keys, &in_any_order(&peer));
    peer.comes("some", |lines| lines.len() >= 16);
    running.signal("INT");
    // From here on it takes no more: what it has, it waits for.
    eventually("the end of its requests", || {
        (nats.consumer(&stream, "c")?.num_waiting == 0).then_some(())
    });
    peer.release();
    let mut running = running;
    assert!(running.wait().success(), "{}", running.log());
    // Those that were taken are acknowledged, and no other is waited for.
    let answered = peer.answered().len();
    let info = nats.consumer(&stream, "c").unwrap();
    assert!(info.num_ack_pending + answered <= 2_000 && answered < 2_000);
    let next = flow(&nats, &keys, &in_any_order(&peer));
    nats.acknowledged(&stream, "c", 2_000);
    let mut came = numbers(&peer.answered());
    came.sort_unstable();
    assert!(came.into_iter().eq(0..2_000), "each once");
    next.stop();
}

#[test]
fn what_is_acknowledged_while_the_server_is_paused_does_not_come_again() {
    let Some(mut broker) = Broker::start("nats", &[]) else { return };
    let nats = Nats::new(broker.get("plain"));
    let stream = nats.stream("paused");
    let peer = Peer::new();
    peer.hold(|_| true);
    nats.publish(&format!("{stream}.a"), (0..10).map(record));
    let keys = format!("stream: {stream}, consumer: c, ack_wait: 1h");
    let running = flow(&nats, &keys, &in_any_order(&peer));
    peer.comes("all", |lines| lines.len() == 10);
    broker.order("pause 1");
    peer.release();
    eventually("all answers", || (peer.answered().len() == 10).then_some(()));
    broker.order("resume 1");
    nats.acknowledged(&stream, "c", 10);
    nats.publish(&format!("{stream}.a"), (10..20).map(record));
    nats.acknowledged(&stream, "c", 20);
    let mut came = numbers(&peer.came());
    came.sort_unstable();
    assert!(came.into_iter().eq(0..20), "each once");
    let (status, log) = running.stop();
    assert!(status.success(), "{log}");
}

#[test]
fn a_way_that_is_cut_slow_and_silent_loses_nothing() {
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
        comes(running, count);
    };
    more(&running);
    for _ in 0..5 {
        proxy.set(Way::Cut);
        proxy.set(Way::Open);
        more(&running);
    }
    proxy.set(Way::Slow(20));
    more(&running);
    // The peer seems to be there: only its silence tells.
    proxy.set(Way::Silent);
    running.says_again("connection to the server is lost", 5);
    proxy.set(Way::Cut);
    proxy.set(Way::Open);
    more(&running);
    nats.acknowledged(&stream, "c", count as u64);
    let (status, log) = running.stop();
    assert!(status.success(), "{log}");
}

#[test]
fn the_leader_of_a_stream_is_killed_and_no_event_is_lost() {
    let Some(mut broker) = Broker::start("nats", &["--nodes", "3"]) else { return };
    let mut copy = Copy::start(&broker);
    for which in [copy.to.clone(), copy.from.clone()] {
        let leader = eventually("a leader", || copy.nats.leader(&which));
        broker.order(&format!("kill {leader}"));
        eventually("another leader", || {
            copy.nats.leader(&copy.from).and(copy.nats.leader(&copy.to))
        });
        copy.more();
        broker.order(&format!("start {leader}"));
    }
    copy.stop();
}

#[test]
fn servers_that_are_about_to_end_are_left_one_after_the_other_and_no_event_is_lost() {
    let quick = ["--nodes", "3", "--set", "lame_duck_grace_period: 100ms"];
    let Some(mut broker) = Broker::start("nats", &quick) else { return };
    let mut copy = Copy::start(&broker);
    for node in 1..=3 {
        // Lame duck mode.
        broker.signal(node, "USR2");
        copy.more();
        eventually("the end of the server", || broker.has_ended(node).then_some(()));
        copy.more();
        broker.order(&format!("start {node}"));
        for stream in [&copy.from, &copy.to] {
            eventually("the replicas", || copy.nats.is_in_sync(stream).then_some(()));
        }
    }
    // Each connector was with one of them, at least.
    let log = copy.stop();
    assert!(log.matches("is about to end").count() >= 2, "{log}");
}

/// A flow between two streams of a cluster, each with a leader of its own.
struct Copy {
    nats: Nats,
    from: String,
    to: String,
    running: Flow,
    count: usize,
}

impl Copy {
    fn start(broker: &Broker) -> Self {
        let nats = Nats::new(broker.get("plain"));
        let [from, to] =
            ["from", "to"].map(|name| nats.stream_with(name, |config| config.num_replicas = 3));
        let address = nats.address();
        let running = Flow::run(&format!(
            "connectors:\n  \
               input: {{ type: nats_consumer, codec: json, \
                 config: {{ servers: ['{address}'], stream: {from}, consumer: c, ack_wait: 2s }} }}\n  \
               output: {{ type: nats_producer, codec: json, in_flight: 4, \
                 config: {{ servers: ['{address}'], subject: {to}.a }} }}\n\
             links: [input -> output]\n"
        ));
        let mut copy = Self { nats, from, to, running, count: 0 };
        copy.more();
        copy
    }

    /// Publishes more, and waits until the other stream has all.
    fn more(&mut self) {
        let Self { nats, from, to, running, count } = self;
        nats.publish_again(&format!("{from}.a"), (*count..*count + 500).map(record));
        *count += 500;
        eventually(&format!("{count} messages\n{}", running.log()), || {
            let payloads = nats.try_messages(to)?;
            let mut found = numbers(&payloads);
            found.sort_unstable();
            found.dedup();
            found.into_iter().eq(0..*count).then_some(())
        });
    }

    fn stop(self) -> String {
        let (status, log) = self.running.stop();
        assert!(status.success(), "{log}");
        log
    }
}

/// A flow that the admin API changes, once it reads.
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
fn a_consumer_that_is_paused_keeps_what_it_has_and_one_that_is_restarted_goes_on() {
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
    eventually("what waits in the connector", || {
        (nats.consumer(&stream, "c")?.num_ack_pending >= 10).then_some(())
    });
    // Longer than `ack_wait`: the server hears that they are worked on.
    three_seconds_pass(&nats);
    assert_eq!(peer.came().len(), 10, "the flow takes nothing");
    running.change("input", "resume");
    nats.acknowledged(&stream, "c", 20);
    let mut came = numbers(&peer.came());
    came.sort_unstable();
    assert!(came.into_iter().eq(0..20), "each once");
    // While some are under way.
    peer.hold(|_| true);
    nats.publish(&subject, (20..30).map(record));
    peer.comes("those that are held", |lines| lines.len() >= 30);
    running.change("input", "restart");
    running.says("restarts, as somebody has asked");
    peer.release();
    nats.publish(&subject, (30..40).map(record));
    nats.acknowledged(&stream, "c", 40);
    let mut came = numbers(&peer.answered());
    came.sort_unstable();
    came.dedup();
    assert!(came.into_iter().eq(0..40));
    let (status, log) = running.stop();
    assert!(status.success(), "{log}");
}

#[test]
fn messages_of_core_nats_that_do_not_wait_are_counted_and_all_others_come() {
    let Some(nats) = nats() else { return };
    let core = unique("fast");
    let running = changeable(&nats, &format!("subjects: ['{core}']"), STDOUT);
    running.change("input", "pause");
    running.is("input", "paused");
    let messages: Vec<_> = (0..150_000).map(record).collect();
    nats.publish_core(&core, &HeaderMap::new(), &messages);
    running.change("input", "resume");
    let dropped =
        || running.metric("tremor_plugin_nats_consumer_dropped_total").unwrap_or_default();
    #[allow(clippy::cast_precision_loss)] // some thousands
    eventually(&format!("those that came and those that did not\n{}", running.log()), || {
        (running.out().len() as f64 + dropped() >= messages.len() as f64).then_some(())
    });
    let came = numbers(&running.out());
    assert!(came.is_sorted_by(|one, next| one < next), "in order, and each once");
    #[allow(clippy::cast_precision_loss)]
    let missing = (messages.len() - came.len()) as f64;
    assert!((dropped() - missing).abs() < 0.5 && missing > 0.0, "{} of {missing}", dropped());
    let (status, log) = running.stop();
    assert!(status.success(), "{log}");
}

#[test]
fn of_two_members_one_is_killed_and_the_other_gets_what_it_had() {
    let Some(nats) = nats() else { return };
    let stream = nats.stream("members");
    let keys = format!("stream: {stream}, consumer: c, ack_wait: 1s, prefetch: 10");
    let (one, other) = (Peer::new(), Peer::new());
    one.hold(|_| true);
    let dies = flow(&nats, &keys, &one.sink());
    let lives = flow(&nats, &keys, &other.sink());
    eventually("both", || (nats.consumer(&stream, "c")?.num_waiting >= 2).then_some(()));
    nats.publish(&format!("{stream}.a"), (0..100).map(record));
    for member in [&one, &other] {
        member.comes("some", |lines| !lines.is_empty());
    }
    dies.kill();
    nats.acknowledged(&stream, "c", 100);
    // Those of the member that was killed have nobody else's answer.
    let mut came = numbers(&other.answered());
    came.sort_unstable();
    came.dedup();
    assert!(came.into_iter().eq(0..100), "{}", lives.log());
    let (status, log) = lives.stop();
    assert!(status.success(), "{log}");
}

#[test]
fn metrics_say_how_far_a_consumer_is() {
    let Some(nats) = nats() else { return };
    let stream = nats.stream("metrics");
    let peer = Peer::new();
    peer.hold(|_| true);
    nats.publish(&format!("{stream}.a"), (0..50).map(record));
    let keys = format!("stream: {stream}, consumer: c, max_ack_pending: 20");
    let running = changeable(&nats, &keys, &peer.sink());
    let value = |name: &str| running.metric(&format!("tremor_plugin_nats_consumer_{name}"));
    let is = |name: &str, wanted: u32| {
        eventually(&format!("{name} is {wanted}: {}", running.ask("/metrics")), || {
            ((value(name)? - f64::from(wanted)).abs() < 0.5).then_some(())
        });
    };
    is("unanswered", 20);
    is("pending", 30);
    peer.release();
    is("unanswered", 0);
    is("pending", 0);
    is("acknowledged_total", 50);
    let (status, log) = running.stop();
    assert!(status.success(), "{log}");
}
