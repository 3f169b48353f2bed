//! Tests of `nats_producer` during faults and changes of the flow.

use async_nats::jetstream::stream::{Config, DiscardPolicy};
use broker_tests::{
    broker::Broker,
    eventually,
    flow::Flow,
    lines::{have_all, long_line},
    nats::{Nats, record, unique},
    proxy::{Proxy, Way},
};

use super::{
    STDOUT, nats,
    producer::{flow_to, has},
};

/// Runs a flow until its connector `input` is running.
fn run(flow: &str) -> Flow {
    let flow = Flow::run_in(tempfile::tempdir().unwrap(), flow, &["--api", "127.0.0.1:0"]);
    flow.is("input", "running");
    flow
}

#[test]
fn server_headers_are_sent_only_if_configured() {
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
        // This header would delete all earlier messages of the stream.
        headers.append("Nats-Rollup", "all");
        headers.append("A", "1");
        nats.publish_core(&core, &headers, &[record(2)]);
        eventually(format_args!("the copied message\n{running}"), || {
            (nats.last(&to)?.2 == record(2)).then_some(())
        });
        let (_, headers, _) = nats.last(&to).unwrap();
        assert_eq!(headers.get("A").map(|it| it.as_str().to_owned()), Some("1".to_owned()));
        assert_eq!(nats.count(&to), left);
        running.kill();
    }
}

#[test]
fn events_answered_by_another_service_go_to_err() {
    let Some(nats) = nats() else { return };
    let subject = unique("service");
    nats.service(&subject, "hello");
    let mut lines = flow_to(&nats.address(), &format!("subject: {subject}"));
    lines.add([record(0)]);
    let refused = lines.rejects(1);
    assert!(refused[0].contains("the reply did not come from a stream"), "{refused:?}");
    lines.stop();
}

#[test]
fn too_long_subject_goes_to_err_and_others_are_written() {
    let Some(nats) = nats() else { return };
    let (stream, core) = (nats.stream("subjects"), unique("core"));
    let address = nats.address();
    let running = run(&format!(
        "connectors:\n  \
           input: {{ type: nats_consumer, codec: json, config: {{ servers: ['{address}'], subjects: ['{core}'] }} }}\n  \
           output: {{ type: nats_producer, codec: json, \
             config: {{ servers: ['{address}'], subject: '%nats.headers.to' }} }}\n  \
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
    eventually("two events at err", || (running.out().len() == 2).then_some(()));
    assert!(!running.log().contains("connection to the server is lost"), "{}", running.log());
}

#[test]
fn full_storage_blocks_flow_and_nothing_goes_to_err() {
    // Test the storage limit of a stream and that of an account.
    let account =
        "accounts: { A: { jetstream: { max_file: 200000 }, users: [{ user: a, password: b }] } }";
    let account = ["--set", account, "--set", "no_auth_user: a"];
    let stream: [&str; 0] = [];
    for (set, error) in [(&account[..], "resource"), (&stream[..], "maximum bytes exceeded")] {
        let Some(broker) = Broker::start("nats", set) else { return };
        let nats = Nats::new(broker.get("plain"));
        let stream = nats.stream_with("storage", |config: &mut Config| {
            if set.is_empty() {
                config.max_bytes = 100_000;
                config.discard = DiscardPolicy::New;
            }
        });
        let mut lines = flow_to(&nats.address(), &format!("subject: {stream}.a"));
        lines.add((0..300).map(|number| long_line(number, 1_000)));
        lines.flow.says(error);
        let mut taken = Vec::new();
        eventually(format_args!("all events\n{}", lines.flow), || {
            taken.extend(nats.take(&stream));
            have_all(&taken, 300).then_some(())
        });
        assert!(lines.flow.out().is_empty(), "{:?}", lines.flow.out());
        lines.stop();
    }
}

#[test]
fn start_waits_for_silent_server() {
    let Some(broker) = Broker::start("nats", &[]) else { return };
    let nats = Nats::new(broker.get("plain"));
    let proxy = Proxy::new();
    proxy.lead_to(broker.get("plain"));
    // The proxy accepts connections, but passes no bytes.
    proxy.set(Way::Silent);
    let both = [true, false].map(|jetstream| {
        let stream = nats.stream("silent");
        let keys = format!("subject: {stream}.a, jetstream: {jetstream}, timeout: 1s");
        let mut lines = flow_to(&proxy.address(), &keys);
        lines.add((0..1_000).map(record));
        (stream, lines)
    });
    for (_, lines) in &both {
        lines.flow.says("`: timed out");
    }
    proxy.set(Way::Open);
    for (stream, lines) in both {
        eventually(format_args!("all events\n{}", lines.flow), || {
            have_all(&nats.try_messages(&stream)?, 1_000).then_some(())
        });
        assert!(lines.flow.out().is_empty());
        lines.stop();
    }
}

#[test]
fn denied_core_messages_go_to_err() {
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
    eventually(format_args!("events at err\n{running}"), || {
        (running.out().len() >= 2).then_some(())
    });
}

#[test]
fn denied_subscription_fails_flow() {
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
    assert!(log.contains("cannot subscribe to `secret`"), "{log}");
}
