//! Tests of the page "Prometheus to OpenTelemetry".

use std::fs;

use hostile_peers::http::Server;
use serde_json::{Value, json};

use super::{Kitchen, flows};
use crate::{
    running::Running,
    support::workspace,
    tremor::{Scene, with_vrl},
};

/// A flow that receives requests of OTLP.
const COLLECTOR: &str = "connectors:
  input:
    type: http_server
    codec: { otlp: { signal: metrics } }
    config: { listen: '127.0.0.1:0', preset: { otlp: metrics }, respond: delivered }
  output: { type: stdio, codec: json, postprocessors: [lines] }
links: [input -> output]";

/// Series that the flow drops.
const DROPPED: &str = "# TYPE go_goroutines gauge\ngo_goroutines 7\n";

/// Starts a server that answers each request with these metrics.
pub(super) fn exporter(metrics: &str) -> Server {
    let head = "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nConnection: close\r\n";
    let answer = format!("{head}Content-Length: {}\r\n\r\n{metrics}", metrics.len());
    Server::start(move |_| answer.clone().into_bytes())
}

#[test]
#[ignore = "builds the plugin `vrl` with its 400 packages, which takes minutes: `cargo xtask ci` does"]
fn vrl_makes_one_request_of_the_series_of_a_scrape() {
    let metrics = fs::read_to_string(workspace().join("examples/scrape.prom")).unwrap();
    let exporter = exporter(&format!("{metrics}{DROPPED}"));
    let mut collector = Running::of(Scene::new(COLLECTOR), &["flow.yaml"], |command| command);
    let (address, _) = collector.listens();
    let replaced = [
        ("node-1.example.com:9100", &*exporter.address().to_string()),
        ("collector.example.com:4318", &*address),
    ];
    let kitchen = Kitchen::new();
    let scene = kitchen.flow(&flows("prometheus.md")[0], &replaced);
    scene.tremor_with_vrl(&["check", "--deny-warnings", "flow.yaml"]).expect(0, &[]);
    let running = Running::of(scene, &["flow.yaml"], with_vrl);
    let request: Value = serde_json::from_str(&collector.event()).unwrap();
    running.signal(&["TERM"]);
    running.end().expect(0, &[" 0 dead-lettered"]);
    collector.signal(&["TERM"]);
    collector.end().expect(0, &[]);

    let resource = &request["resourceMetrics"][0];
    let service = json!([{ "key": "service.name", "value": { "stringValue": "node-1" } }]);
    assert_eq!(resource["resource"]["attributes"], service);
    let metrics = resource["scopeMetrics"][0]["metrics"].as_array().unwrap();
    let names: Vec<_> = metrics.iter().map(|metric| metric["name"].as_str().unwrap()).collect();
    let expected = [
        "http_requests_total",
        "http_requests_total",
        "http_request_duration_seconds_bucket",
        "http_request_duration_seconds_bucket",
        "http_request_duration_seconds_bucket",
        "http_request_duration_seconds_sum",
        "http_request_duration_seconds_count",
        "queue_wait_seconds_sum",
        "queue_wait_seconds_count",
    ];
    assert_eq!(names, expected);
    // The page shows this metric.
    let page = fs::read_to_string(workspace().join("docs/guide/cookbook/prometheus.md")).unwrap();
    let (_, shown) = page.split_once("```json\n").unwrap();
    let shown: Value = serde_json::from_str(shown.split("```").next().unwrap()).unwrap();
    assert_eq!(metrics[0], shown);
    assert_eq!(metrics[2]["sum"]["dataPoints"][0]["attributes"][0]["key"], "le");
    assert!(metrics[8]["gauge"].is_object(), "{}", metrics[8]);
}
