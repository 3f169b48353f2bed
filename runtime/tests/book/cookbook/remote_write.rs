//! Tests of the page "Scrapes to remote write".

use std::{collections::BTreeSet, fs};

use serde_json::Value;

use super::{Kitchen, flows, prometheus::exporter};
use crate::{running::Running, support::workspace, tremor::Scene};

/// A flow that receives write requests.
const RECEIVER: &str = "connectors:
  input:
    type: prometheus_remote_write
    config: { listen: '127.0.0.1:0', respond: delivered, non_finite: text }
  output: { type: stdio, codec: json, postprocessors: [lines] }
links: [input -> output]";

#[test]
fn samples_of_both_machines_reach_the_receiver() {
    let metrics = fs::read_to_string(workspace().join("examples/scrape.prom")).unwrap();
    let samples = metrics.lines().filter(|line| !line.starts_with('#') && !line.is_empty()).count();
    let machines = [exporter(&metrics), exporter(&metrics)];
    let addresses = machines.each_ref().map(|machine| machine.address().to_string());
    let mut receiver = Running::of(Scene::new(RECEIVER), &["flow.yaml"], |command| command);
    let (address, _) = receiver.listens();
    let replaced = [
        ("node-1.example.com:9100", &*addresses[0]),
        ("node-2.example.com:9100", &*addresses[1]),
        ("prometheus.example.com:9090", &*address),
    ];
    let kitchen = Kitchen::new();
    let running = kitchen.start(&flows("remote-write.md")[0], &replaced, &[]);
    let mut found = BTreeSet::new();
    while found.len() < 2 * samples {
        let event: Value = serde_json::from_str(&receiver.event()).unwrap();
        assert_eq!(event["labels"]["job"], "node", "{event}");
        assert!(event["timestamp"].is_i64() && event["name"].is_string(), "{event}");
        let (name, labels) = (&event["name"], &event["labels"]);
        found.insert(format!("{name}{labels}"));
    }
    for address in &addresses {
        let of_machine = found.iter().filter(|series| series.contains(&**address)).count();
        assert_eq!(of_machine, samples, "{found:?}");
    }
    running.signal(&["TERM"]);
    running.end().expect(0, &[" 0 dead-lettered"]);
    receiver.signal(&["TERM"]);
    receiver.end().expect(0, &[]);
}
