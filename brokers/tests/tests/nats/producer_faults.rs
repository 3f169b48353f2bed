//! `nats_producer`, when something goes wrong, and when somebody wants it to.

use async_nats::jetstream::stream::{Config, DiscardPolicy};
use broker_tests::{
    broker::Broker,
    eventually,
    flow::Flow,
    nats::{Nats, record, unique},
    proxy::{Proxy, Way},
    small_disk::SmallDisk,
};

use super::{
    STDOUT, nats,
    producer::{Lines, has, written},
};

/// The numbers that a stream has, in order and each once.
fn found(nats: &Nats, stream: &str) -> Vec<usize> {
    let mut found = written(nats, stream);
    found.sort_unstable();
    found.dedup();
    found
}

fn has_all(nats: &Nats, stream: &str, count: usize, lines: &Lines) {
    eventually(&format!("{count} messages\n{}", lines.flow.log()), || {
        (found(nats, stream).len() >= count).then_some(())
    });
    assert!(found(nats, stream).into_iter().eq(0..count));
}

/// A line of that size.
fn large(number: usize, bytes: usize) -> String {
    format!("{{\"n\":{number},\"x\":\"{}\"}}", "x".repeat(bytes))
}

/// The number of such a line.
fn number(line: &str) -> Option<usize> {
    line.split_once("\"n\":")?.1.split_once(',')?.0.parse().ok()
}

/// Runs a flow until its connector `input` takes what comes.
fn run(flow: &str) -> Flow {
    let flow = Flow::run_in(tempfile::tempdir().unwrap(), flow, &["--api", "127.0.0.1:0"]);
    flow.is("input", "running");
    flow
}

#[test]
fn headers_that_tell_the_server_what_to_do_are_left_out_unless_the_flow_wants_them() {
    let Some(nats) = nats() else { return };
    let rollup = |config: &mut Config| config.allow_rollup = true;
    for (more, left) in [("", 3), (", server_headers: true", 1)] {
        let (to, core) = (nats.stream_with("rollup", rollup), unique("core"));
        nats.publish(&format!("{to}.a"), [record(0), record(1)]);
        let address = nats.address();
        let running = run(&format!(
            "connectors:\n  \
               input: {{ type: nats_consumer, codec: json, config: {{ servers: ['{address}'], subjects: ['{core}'] }} }}\n  \
               output: {{ type: nats_producer, codec: json, \
                 config: {{ servers: ['{address}'], subject: {to}.a{more} }} }}\n\
             links: [input -> output]\n"
        ));
        let mut headers = async_nats::HeaderMap::new();
        // With it goes all that the stream has before.
        headers.append("Nats-Rollup", "all");
        headers.append("A", "1");
        nats.publish_core(&core, &headers, &[record(2)]);
        eventually(&format!("the copy\n{}", running.log()), || {
            (nats.last(&to)?.2 == record(2)).then_some(())
        });
        let (_, headers, _) = nats.last(&to).unwrap();
        assert_eq!(headers.get("A").map(|it| it.as_str().to_owned()), Some("1".to_owned()));
        assert_eq!(nats.count(&to), left);
        running.kill();
    }
}

#[test]
fn what_something_else_than_a_stream_answers_goes_to_err() {
    let Some(nats) = nats() else { return };
    let subject = unique("service");
    nats.service(&subject, "hello");
    let mut lines = Lines::to(&nats, &format!("subject: {subject}"));
    lines.add([record(0)]);
    let refused = lines.refuses(1);
    assert!(refused[0].contains("something has answered that is no stream"), "{refused:?}");
    lines.stop();
}

#[test]
fn a_subject_that_a_line_of_the_protocol_has_no_room_for_goes_to_err_and_the_others_are_written() {
    let Some(nats) = nats() else { return };
    let (stream, core) = (nats.stream("subjects"), unique("core"));
    let address = nats.address();
    let running = run(&format!(
        "connectors:\n  \
           input: {{ type: nats_consumer, codec: json, config: {{ servers: ['{address}'], subjects: ['{core}'] }} }}\n  \
           output: {{ type: nats_producer, codec: json, \
             config: {{ servers: ['{address}'], subject: '%headers.to' }} }}\n  \
           refused: {STDOUT}\n\
         links: [input -> output, output/err -> refused]\n"
    ));
    let bad =
        [format!("{stream}.{}", "x".repeat(5_000)), format!("$JS.API.STREAM.DELETE.{stream}")];
    for to in bad.iter().chain([&format!("{stream}.a")]) {
        let mut headers = async_nats::HeaderMap::new();
        headers.append("to", to.as_str());
        nats.publish_core(&core, &headers, &[record(0)]);
    }
    has(&nats, &stream, 1);
    eventually("both at err", || (running.out().len() == 2).then_some(()));
    assert!(!running.log().contains("connection to the server is lost"), "{}", running.log());
}

#[test]
fn a_storage_that_is_full_is_waited_for_and_nothing_goes_to_err() {
    // Of a stream, and of an account.
    let account =
        "accounts: { A: { jetstream: { max_file: 200000 }, users: [{ user: a, password: b }] } }";
    let account = ["--set", account, "--set", "no_auth_user: a"];
    let stream: [&str; 0] = [];
    for (set, says) in [(&account[..], "resource"), (&stream[..], "maximum bytes exceeded")] {
        let Some(broker) = Broker::start("nats", set) else { return };
        let nats = Nats::new(broker.get("plain"));
        let stream = nats.stream_with("storage", |config: &mut Config| {
            if set.is_empty() {
                config.max_bytes = 100_000;
                config.discard = DiscardPolicy::New;
            }
        });
        let mut lines = Lines::to(&nats, &format!("subject: {stream}.a"));
        lines.add((0..300).map(|number| large(number, 1_000)));
        lines.flow.says(says);
        let mut numbers = std::collections::BTreeSet::new();
        eventually(&format!("all of them\n{}", lines.flow.log()), || {
            numbers.extend(nats.take(&stream).iter().filter_map(|it| number(it)));
            (numbers.len() >= 300).then_some(())
        });
        assert!(lines.flow.out().is_empty(), "{:?}", lines.flow.out());
        lines.stop();
    }
}

#[test]
fn a_disk_that_is_full_loses_nothing_that_was_acknowledged() {
    let Some(disk) = SmallDisk::new(8) else { return };
    let folder = tempfile::tempdir_in(disk.path()).unwrap();
    let Some(mut broker) = Broker::start_in(folder, "nats", &[]) else { return };
    let nats = Nats::new(broker.get("plain"));
    let stream = nats.stream("disk");
    let mut lines = Lines::to(&nats, &format!("subject: {stream}.a, timeout: 1s"));
    lines.add((0..400).map(|number| large(number, 30_000)));
    eventually(&format!("a full disk\n{}", lines.flow.log()), || {
        let log = lines.flow.log();
        (log.contains("cannot take the message now") || log.contains("not confirmed the message"))
            .then_some(())
    });
    disk.resize(64);
    // JetStream has turned itself off.
    broker.order("stop 1");
    broker.order("start 1");
    eventually(&format!("all of them\n{}", lines.flow.log()), || {
        let payloads = nats.try_messages(&stream)?;
        let mut numbers: Vec<_> = payloads.iter().filter_map(|it| number(it)).collect();
        numbers.sort_unstable();
        numbers.dedup();
        numbers.into_iter().eq(0..400).then_some(())
    });
    assert!(lines.flow.out().is_empty(), "{:?}", lines.flow.out());
    lines.stop();
}

#[test]
fn a_server_that_is_paused_gets_everything() {
    let Some(mut broker) = Broker::start("nats", &[]) else { return };
    let nats = Nats::new(broker.get("plain"));
    let stream = nats.stream("paused");
    for jetstream in [true, false] {
        let stream = if jetstream { stream.clone() } else { nats.stream("core") };
        let keys = format!("subject: {stream}.a, jetstream: {jetstream}, timeout: 1s");
        let mut lines = Lines::to(&nats, &keys);
        lines.add((0..100).map(record));
        has(&nats, &stream, 100);
        broker.order("pause 1");
        lines.add((100..1_000).map(record));
        lines.flow.says(if jetstream { "not confirmed" } else { "does not answer in time" });
        broker.order("resume 1");
        has_all(&nats, &stream, 1_000, &lines);
        assert!(lines.flow.out().is_empty());
        lines.stop();
    }
}

#[test]
fn a_way_that_is_cut_and_slow_loses_nothing_with_streams_and_without() {
    let Some(broker) = Broker::start("nats", &[]) else { return };
    let nats = Nats::new(broker.get("plain"));
    for jetstream in [true, false] {
        let stream = nats.stream("way");
        let proxy = Proxy::new();
        proxy.lead_to(broker.get("plain"));
        let keys = format!("subject: {stream}.a, jetstream: {jetstream}");
        let mut lines = Lines::to_address(&proxy.address(), &keys);
        for round in 0..6 {
            lines.add((round * 1_000..(round + 1) * 1_000).map(record));
            // While some are under way.
            has(&nats, &stream, round as u64 * 1_000 + 1);
            proxy.set(Way::Cut);
            proxy.set(if round == 3 { Way::Slow(20) } else { Way::Open });
        }
        has_all(&nats, &stream, 6_000, &lines);
        assert!(lines.flow.out().is_empty());
        lines.stop();
    }
}

#[test]
fn a_way_that_is_silent_counts_as_lost_and_loses_nothing() {
    let Some(broker) = Broker::start("nats", &[]) else { return };
    let nats = Nats::new(broker.get("plain"));
    let proxy = Proxy::new();
    proxy.lead_to(broker.get("plain"));
    // It takes connections, and nothing comes back.
    proxy.set(Way::Silent);
    let mut both = [true, false].map(|jetstream| {
        let stream = nats.stream("silent");
        let keys = format!("subject: {stream}.a, jetstream: {jetstream}, timeout: 1s");
        let mut lines = Lines::to_address(&proxy.address(), &keys);
        lines.add((0..1_000).map(record));
        (stream, lines)
    });
    for (_, lines) in &both {
        lines.flow.says("answers: timed out");
    }
    proxy.set(Way::Open);
    for (stream, lines) in &mut both {
        has_all(&nats, stream, 1_000, lines);
    }
    // And once it is connected.
    proxy.set(Way::Silent);
    for (_, lines) in &mut both {
        lines.add((1_000..2_000).map(record));
    }
    for (_, lines) in &both {
        lines.flow.says("connection to the server is lost");
    }
    proxy.set(Way::Cut);
    proxy.set(Way::Open);
    for (stream, lines) in both {
        has_all(&nats, &stream, 2_000, &lines);
        assert!(lines.flow.out().is_empty());
        lines.stop();
    }
}

#[test]
fn without_jetstream_what_a_user_may_not_publish_goes_to_err_too() {
    let Some(broker) = Broker::start("nats", &["--secure"]) else { return };
    let (address, ca) = (broker.get("tls"), broker.get("ca_file"));
    let [user, password] = ["limited_user", "limited_password"].map(|it| broker.get(it));
    let running = Flow::run(&format!(
        "connectors:\n  \
           clock: {{ type: metronome, config: {{ interval_ms: 20 }} }}\n  \
           output: {{ type: nats_producer, codec: json, config: {{ servers: ['{address}'], jetstream: false, \
             subject: forbidden, tls: {{ ca_file: '{ca}' }}, auth: {{ user: {user}, password: {password} }} }} }}\n  \
           refused: {STDOUT}\n\
         links: [clock -> output, output/err -> refused]\n"
    ));
    eventually(&format!("events at err\n{}", running.log()), || {
        (running.out().len() >= 2).then_some(())
    });
}

#[test]
fn a_subject_that_a_user_may_not_read_fails_the_flow() {
    let who = "authorization: { users: [{ user: a, password: b, permissions: { subscribe: { deny: [secret] } } }] }";
    let Some(broker) = Broker::start("nats", &["--set", who]) else { return };
    let address = broker.get("plain");
    let mut running = Flow::run(&format!(
        "connectors:\n  \
           input: {{ type: nats_consumer, codec: json, config: {{ servers: ['{address}'], subjects: [secret], \
             auth: {{ user: a, password: b }} }} }}\n  \
           output: {STDOUT}\n\
         links: [input -> output]\n"
    ));
    assert!(!running.wait().success());
    let log = running.log();
    assert!(log.contains("does not let this user subscribe to `secret`"), "{log}");
}
