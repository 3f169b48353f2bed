//! `nats_producer`.

use std::{fs::File, io::Write};

use async_nats::jetstream::stream::Config;
use broker_tests::{
    broker::Broker,
    eventually,
    flow::Flow,
    nats::{Nats, numbers, record, unique},
};

use super::{STDOUT, nats};

/// A flow from the lines that a test adds, to subjects, with what is refused on standard output.
pub(super) struct Lines {
    pub(super) flow: Flow,
    input: File,
    _folder: tempfile::TempDir,
}

impl Lines {
    pub(super) fn to(nats: &Nats, keys: &str) -> Self {
        Self::to_address(&nats.address(), keys)
    }

    /// The same to a server that is reached otherwise.
    pub(super) fn to_address(address: &str, keys: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("input");
        let input = File::create(&path).unwrap();
        let path = path.display();
        let flow = Flow::run(&format!(
            "connectors:\n  \
               input: {{ type: file, codec: json, preprocessors: [lines], config: {{ path: '{path}', mode: read, \
                 follow: true, poll_interval: 10ms }} }}\n  \
               output: {{ type: nats_producer, codec: json, in_flight: 4, \
                 config: {{ servers: ['{address}'], {keys} }} }}\n  \
               refused: {STDOUT}\n\
             links: [input -> output, output/err -> refused]\n"
        ));
        Self { flow, input, _folder: folder }
    }

    pub(super) fn add(&mut self, lines: impl IntoIterator<Item = String>) {
        let text: String = lines.into_iter().flat_map(|line| [line, "\n".to_owned()]).collect();
        self.input.write_all(text.as_bytes()).unwrap();
    }

    pub(super) fn refuses(&self, count: usize) -> Vec<String> {
        eventually(&format!("{count} at err\n{}", self.flow.log()), || {
            Some(self.flow.out()).filter(|out| out.len() >= count)
        })
    }

    pub(super) fn stop(self) {
        let (status, log) = self.flow.stop();
        assert!(status.success(), "{log}");
    }
}

/// The numbers that a stream has, in its order.
pub(super) fn written(nats: &Nats, stream: &str) -> Vec<usize> {
    let payloads: Vec<_> = nats.messages(stream).into_iter().map(|(_, _, it)| it).collect();
    numbers(&payloads)
}

pub(super) fn has(nats: &Nats, stream: &str, count: u64) {
    eventually(&format!("{count} messages"), || (nats.count(stream) >= count).then_some(()));
}

#[test]
fn a_stream_has_every_event_once_and_in_order() {
    let Some(nats) = nats() else { return };
    let stream = nats.stream("written");
    let mut lines = Lines::to(&nats, &format!("subject: {stream}.a"));
    lines.add((0..5_000).map(record));
    has(&nats, &stream, 5_000);
    lines.stop();
    assert!(written(&nats, &stream).into_iter().eq(0..5_000));
}

#[test]
fn a_message_that_is_too_large_goes_to_err_and_the_others_are_written() {
    let Some(nats) = nats() else { return };
    let stream = nats.stream_with("large", |config: &mut Config| config.max_message_size = 1_000);
    let mut lines = Lines::to(&nats, &format!("subject: {stream}.a"));
    // The one is too large for the stream, and the other for the server.
    let long = |bytes: usize| format!("{{\"x\":\"{}\"}}", "x".repeat(bytes));
    lines.add([record(0), long(2_000), record(1), long(2 << 20), record(2)]);
    assert_eq!(lines.refuses(2).len(), 2);
    has(&nats, &stream, 3);
    lines.stop();
    assert_eq!(written(&nats, &stream), [0, 1, 2]);
}

#[test]
fn what_no_stream_takes_goes_to_err_with_the_reason() {
    let Some(nats) = nats() else { return };
    let mut lines = Lines::to(&nats, &format!("subject: {}", unique("nobody")));
    lines.add([record(0)]);
    let refused = lines.refuses(1);
    assert!(refused[0].contains("no stream takes it"), "{refused:?}");
    lines.stop();
}

#[test]
fn a_full_stream_is_waited_for_and_nothing_goes_to_err() {
    let Some(nats) = nats() else { return };
    let stream = nats.stream_with("full", |config: &mut Config| {
        config.max_messages = 2;
        config.discard = async_nats::jetstream::stream::DiscardPolicy::New;
        config.retention = async_nats::jetstream::stream::RetentionPolicy::WorkQueue;
    });
    let mut lines = Lines::to(&nats, &format!("subject: {stream}.a"));
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
    eventually(&format!("all four\n{}", lines.flow.log()), || {
        (reader.out().len() >= 4).then_some(())
    });
    let mut found = numbers(&reader.out());
    found.sort_unstable();
    assert_eq!(found, [0, 1, 2, 3]);
    assert!(lines.flow.out().is_empty());
    lines.stop();
}

#[test]
fn metadata_make_subject_headers_and_the_id_by_which_a_stream_drops_duplicates() {
    let Some(nats) = nats() else { return };
    let from = nats.stream("from");
    let core = unique("core");
    let address = nats.address();
    // A message of core NATS brings subject and headers, which are those of the message of the stream.
    let running = Flow::run(&format!(
        "connectors:\n  \
           input: {{ type: nats_consumer, codec: json, \
             config: {{ servers: ['{address}'], subjects: ['{core}'] }} }}\n  \
           output: {{ type: nats_producer, codec: json, config: {{ servers: ['{address}'], \
             subject: {from}.copy, message_id: '%headers.id' }} }}\n\
         links: [input -> output]\n"
    ));
    let mut headers = async_nats::HeaderMap::new();
    headers.append("id", "one");
    headers.append("A", "1");
    headers.append("A", "2");
    eventually("the first", || {
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
    let filter = "{ field: '%headers.A', equals: ['1', '2'] }";
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
fn without_jetstream_each_subscriber_gets_the_events() {
    let Some(nats) = nats() else { return };
    // A stream listens like any other.
    let stream = nats.stream("core");
    let mut lines = Lines::to(&nats, &format!("subject: {stream}.a, jetstream: false"));
    lines.add((0..1_000).map(record));
    has(&nats, &stream, 1_000);
    lines.stop();
    assert!(written(&nats, &stream).into_iter().eq(0..1_000));
}

#[test]
fn a_server_that_is_killed_and_started_again_has_all_events() {
    let Some(mut broker) = Broker::start("nats", &[]) else { return };
    let nats = Nats::new(broker.get("plain"));
    let stream = nats.stream("outage");
    let mut lines = Lines::to(&nats, &format!("subject: {stream}.a"));
    lines.add((0..1_000).map(record));
    has(&nats, &stream, 1);
    broker.order("kill 1");
    lines.add((1_000..2_000).map(record));
    lines.flow.says("connection to the server is lost");
    broker.order("start 1");
    lines.add((2_000..3_000).map(record));
    let found = || {
        let mut found = written(&nats, &stream);
        found.sort_unstable();
        found.dedup();
        found
    };
    eventually(&format!("all\n{}", lines.flow.log()), || (found().len() >= 3_000).then_some(()));
    assert!(found().into_iter().eq(0..3_000));
    assert!(lines.flow.out().is_empty());
    lines.stop();
}
