//! `kafka_producer`.

use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::ops::Range;

use broker_tests::{eventually, flow::Flow, kafka::unique, records};

use super::kafka;

/// A flow from lines that a test adds, to a topic; what the sink gives up goes to standard output.
pub(super) struct Lines {
    pub(super) flow: Flow,
    input: File,
}

/// A line of a test.
pub(super) fn line(number: u64) -> String {
    format!("{{\"n\":{number}}}")
}

impl Lines {
    /// With these keys of the sink's configuration, and of the sink.
    pub(super) fn to(brokers: &str, keys: &str, sink: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("input");
        fs::write(&path, "").unwrap();
        let input = OpenOptions::new().append(true).open(path).unwrap();
        let flow = format!(
            "connectors:\n  \
               input: {{ type: file, codec: json, preprocessors: [lines], config: {{ path: input, mode: read, \
                 follow: true, poll_interval: 10ms, checkpoint: place }} }}\n  \
               output: {{ type: kafka_producer, codec: json, {sink} config: {{ brokers: [{brokers}], {keys} }} }}\n  \
               errors: {{ type: stdio, codec: json, postprocessors: [lines] }}\n\
             links: [input -> output, output/err -> errors]\n"
        );
        let flow = Flow::run_in(folder, &flow, &["--api", "127.0.0.1:0"]);
        Self { flow, input }
    }

    /// Adds lines with these numbers.
    pub(super) fn add(&mut self, numbers: Range<u64>) {
        let lines: String = numbers.map(|number| line(number) + "\n").collect();
        self.input.write_all(lines.as_bytes()).unwrap();
    }

    /// Adds lines with these numbers, of some 1,000 bytes each.
    pub(super) fn add_long(&mut self, numbers: Range<u64>) {
        let text = "x".repeat(980);
        let mut input = std::io::BufWriter::new(&self.input);
        for number in numbers {
            writeln!(input, "{{\"n\":{number},\"x\":\"{text}\"}}").unwrap();
        }
        input.flush().unwrap();
    }

    /// Waits until a partition has so many records at least.
    pub(super) fn arrive(&self, address: &str, topic: &str, count: i64) {
        let look = || records::end(address, topic, 0).filter(|end| *end >= count).map(drop);
        eventually(&format!("{count} records; the log:\n{}", self.flow.log()), look);
    }

    /// Ends the run well.
    pub(super) fn stop(self) -> String {
        let (status, log) = self.flow.stop();
        assert!(status.success(), "{log}");
        log
    }
}

/// Whether these are the numbers up to that one, each as often as it may be, and in order when they first come.
#[track_caller]
pub(super) fn complete(payloads: &[String], count: u64) {
    let mut next = 0;
    for payload in payloads {
        let value: serde_json::Value = serde_json::from_str(payload).unwrap();
        let number = value["n"].as_u64().unwrap();
        assert!(number <= next, "{number} comes before {next}");
        next = next.max(number + 1);
    }
    assert_eq!(next, count);
}

#[test]
fn each_event_is_a_record_once_and_in_order_however_it_is_compressed() {
    let Some(kafka) = kafka() else { return };
    for compression in ["none", "gzip", "snappy", "lz4", "zstd"] {
        let topic = kafka.topic(compression, 1);
        let keys = format!("topic: {topic}, compression: {compression}");
        let mut lines = Lines::to(kafka.address(), &keys, "in_flight: 4,");
        lines.add(0..2_000);
        lines.arrive(kafka.address(), &topic, 2_000);
        lines.stop();
        let expected: Vec<_> = (0..2_000).map(line).collect();
        assert_eq!(records::payloads(kafka.address(), &topic, 0), expected);
    }
}

#[test]
fn what_the_topic_does_not_take_goes_to_err_with_the_word_of_the_broker_and_the_rest_goes_on() {
    let Some(kafka) = kafka() else { return };
    let topic = unique("small");
    records::make(kafka.address(), &topic, 1, &[("max.message.bytes", "1000")]);
    let mut lines = Lines::to(kafka.address(), &format!("topic: {topic}"), "");
    lines.add(0..100);
    let large = format!("{{\"n\":\"{}\"}}\n", "x".repeat(3_000));
    lines.input.write_all(large.as_bytes()).unwrap();
    lines.add(100..200);
    lines.arrive(kafka.address(), &topic, 200);
    eventually("the one that is too large", || (lines.flow.out().len() == 1).then_some(()));
    let refused = &lines.flow.out()[0];
    assert!(refused.contains("Broker: Message size too large"), "{refused}");
    lines.stop();
    let mut all = records::payloads(kafka.address(), &topic, 0);
    all.sort_unstable();
    let mut expected: Vec<_> = (0..200).map(line).collect();
    expected.sort_unstable();
    assert_eq!(all, expected);
}
