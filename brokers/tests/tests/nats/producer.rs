//! Tests of `nats_producer`.

use std::fs;

use async_nats::jetstream::stream::Config;
use broker_tests::{
    eventually,
    flow::Flow,
    lines::Lines,
    nats::{Nats, numbers, record, unique},
};

use super::{STDOUT, nats};

/// Starts a flow to a server, with these keys of the sink's configuration.
pub(super) fn flow_to(address: &str, keys: &str) -> Lines {
    Lines::to(&format!(
        "{{ type: nats_producer, codec: json, in_flight: 4, config: {{ servers: ['{address}'], {keys} }} }}"
    ))
}

/// Returns the numbers of the messages in a stream, in order.
pub(super) fn written(nats: &Nats, stream: &str) -> Vec<u64> {
    let payloads: Vec<_> = nats.messages(stream).into_iter().map(|(_, _, it)| it).collect();
    numbers(&payloads)
}

pub(super) fn has(nats: &Nats, stream: &str, count: u64) {
    eventually(format_args!("{count} messages"), || (nats.count(stream) >= count).then_some(()));
}

#[test]
fn stream_gets_every_event_once_in_order() {
    let Some(nats) = nats() else { return };
    let stream = nats.stream("written");
    let mut lines = flow_to(&nats.address(), &format!("subject: {stream}.a"));
    lines.add((0..5_000).map(record));
    has(&nats, &stream, 5_000);
    lines.stop();
    assert!(written(&nats, &stream).into_iter().eq(0..5_000));
}

#[test]
fn too_large_messages_go_to_err_and_others_are_written() {
    let Some(nats) = nats() else { return };
    let stream = nats.stream_with("large", |config: &mut Config| config.max_message_size = 1_000);
    let mut lines = flow_to(&nats.address(), &format!("subject: {stream}.a"));
    // A message of 2,000 bytes is too large for the stream, and a message of 2 MiB for the server.
    let long = |bytes: usize| format!("{{\"x\":\"{}\"}}", "x".repeat(bytes));
    lines.add([record(0), long(2_000), record(1), long(2 << 20), record(2)]);
    assert_eq!(lines.rejects(2).len(), 2);
    has(&nats, &stream, 3);
    lines.stop();
    assert_eq!(written(&nats, &stream), [0, 1, 2]);
}

#[test]
fn events_without_stream_go_to_err_with_reason() {
    let Some(nats) = nats() else { return };
    let mut lines = flow_to(&nats.address(), &format!("subject: {}", unique("nobody")));
    lines.add([record(0)]);
    let refused = lines.rejects(1);
    assert!(refused[0].contains("no stream stores it"), "{refused:?}");
    lines.stop();
}

#[test]
fn full_stream_blocks_flow_and_nothing_goes_to_err() {
    let Some(nats) = nats() else { return };
    let stream = nats.stream_with("full", |config: &mut Config| {
        config.max_messages = 2;
        config.discard = async_nats::jetstream::stream::DiscardPolicy::New;
        config.retention = async_nats::jetstream::stream::RetentionPolicy::WorkQueue;
    });
    let mut lines = flow_to(&nats.address(), &format!("subject: {stream}.a"));
    lines.add((0..4).map(record));
    has(&nats, &stream, 2);
    lines.flow.says("maximum messages exceeded");
    let address = nats.address();
    let reader = Flow::run(&format!(
        "connectors:\n  \
           input: {{ type: nats_consumer, codec: json, \
             config: {{ servers: ['{address}'], stream: {stream}, consumer: c }} }}\n  \
           output: {STDOUT}\n\
         links: [input -> output]\n"
    ));
    eventually(format_args!("all four events\n{}", lines.flow), || {
        (reader.out().len() >= 4).then_some(())
    });
    let mut found = numbers(&reader.out());
    found.sort_unstable();
    assert_eq!(found, [0, 1, 2, 3]);
    assert!(lines.flow.out().is_empty());
    lines.stop();
}

#[test]
fn metadata_set_subject_headers_and_message_id() {
    let Some(nats) = nats() else { return };
    let from = nats.stream("from");
    let core = unique("core");
    let address = nats.address();
    // The flow reads messages of core NATS and writes them to the stream. Their metadata determines
    // the subject and the headers.
    let running = Flow::run(&format!(
        "connectors:\n  \
           input: {{ type: nats_consumer, codec: json, \
             config: {{ servers: ['{address}'], subjects: ['{core}'] }} }}\n  \
           output: {{ type: nats_producer, codec: json, config: {{ servers: ['{address}'], \
             subject: {from}.copy, message_id: '%nats.headers.id' }} }}\n\
         links: [input -> output]\n"
    ));
    let mut headers = async_nats::HeaderMap::new();
    headers.append("id", "one");
    headers.append("A", "1");
    headers.append("A", "2");
    eventually("the first message", || {
        nats.publish_core(&core, &headers, &[record(0)]);
        (nats.count(&from) >= 1).then_some(())
    });
    nats.publish_core(&core, &headers, &[record(0), record(0)]);
    headers.insert("id", "two");
    nats.publish_core(&core, &headers, &[record(1)]);
    has(&nats, &from, 2);
    let (status, log) = running.stop();
    assert!(status.success(), "{log}");
    let messages = nats.messages(&from);
    assert_eq!(written(&nats, &from), [0, 1]);
    let (_, headers, _) = &messages[0];
    let filter = "{ field: '%nats.headers.A', equals: ['1', '2'] }";
    let reader = Flow::run(&format!(
        "connectors:\n  \
           input: {{ type: nats_consumer, codec: json, \
             config: {{ servers: ['{address}'], stream: {from}, consumer: c }} }}\n  \
           output: {STDOUT}\n\
         pipelines:\n  \
           meta: {{ operators: [{{ type: filter, config: {filter} }}] }}\n\
         links: [input -> meta -> output]\n"
    ));
    eventually("all values of the header", || (reader.out().len() >= 2).then_some(()));
    assert_eq!(headers.get("Nats-Msg-Id").map(|it| it.as_str().to_owned()), Some("one".to_owned()));
}

#[test]
fn subscribers_get_events_without_jetstream() {
    let Some(nats) = nats() else { return };
    // The stream stores the messages, because a stream subscribes to its subjects like other subscribers.
    let stream = nats.stream("core");
    let mut lines = flow_to(&nats.address(), &format!("subject: {stream}.a, jetstream: false"));
    lines.add((0..1_000).map(record));
    has(&nats, &stream, 1_000);
    lines.stop();
    assert!(written(&nats, &stream).into_iter().eq(0..1_000));
}

/// The process is killed while the queue is delivered. The stream recognizes the messages that are sent again.
#[test]
fn each_event_of_a_disk_queue_is_a_message_once_after_kills() {
    const EVENTS: u32 = 5_000;
    const KILLS: u32 = 5;
    let Some(nats) = nats() else { return };
    let (stream, folder) = (nats.stream("identified"), tempfile::tempdir().unwrap());
    let path = |name: &str| folder.path().join(name).display().to_string();
    let lines: String = (0..EVENTS).map(|it| record(it.into()) + "\n").collect();
    fs::write(path("in"), lines).unwrap();
    fs::write(path("nothing"), "").unwrap();
    let run = |input: &str, address: &str| {
        let (input, queue) = (path(input), path("queue"));
        let text = format!(
            "connectors:\n  \
               input: {{ type: file, codec: json, preprocessors: [lines], \
                 config: {{ path: '{input}', mode: read, follow: true }} }}\n  \
               output: {{ type: nats_producer, codec: json, batch: {{ max_events: 50 }}, \
                 queue: {{ disk: {{ path: '{queue}', max_bytes: 16MiB, identify: true }} }}, \
                 config: {{ servers: ['{address}'], subject: {stream}.a, message_id: '%queue.id' }} }}\n\
             links: [input -> output]\n"
        );
        Flow::run_in(tempfile::tempdir().unwrap(), &text, &["--api", "127.0.0.1:0"])
    };
    let filled = run("in", "127.0.0.1:1");
    eventually(format_args!("all events on disk\n{filled}"), || {
        let stored = filled.metric("tremor_stored_events");
        (stored == Some(f64::from(EVENTS))).then_some(())
    });
    filled.kill();
    for kill in 1..=KILLS {
        let killed = run("nothing", &nats.address());
        has(&nats, &stream, u64::from(kill * EVENTS / (KILLS + 1)));
        killed.kill();
    }
    let last = run("nothing", &nats.address());
    eventually(format_args!("an empty queue\n{last}"), || {
        (last.metric("tremor_stored_events") == Some(0.0)).then_some(())
    });
    let (status, log) = last.stop();
    assert!(status.success(), "{log}");
    assert!(written(&nats, &stream).into_iter().eq(0..u64::from(EVENTS)));
}
