//! Telemetry over HTTP: scrapes of Prometheus' format, and requests of OpenTelemetry.

use std::{
    env,
    ffi::{OsStr, OsString},
    fs,
    io::{Read, Write},
    net::{TcpListener, TcpStream},
    path::Path,
    process::Command,
};

use serde_json::Value;

use crate::{running::Running, support::workspace, tremor::Scene};

fn free_address() -> String {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string()
}

fn event(run: &Running) -> Value {
    serde_json::from_str(&run.event()).unwrap()
}

#[test]
fn a_scrape_of_its_own_admin_api_is_an_event_of_each_sample() {
    let address = free_address();
    let flow = format!(
        "connectors:
  scrape:
    type: http_client
    preprocessors: [prometheus]
    codec: prometheus
    config: {{ url: 'http://{address}/metrics', interval: 10ms }}
  output: {{ type: stdio, codec: json, postprocessors: [lines] }}
links: [scrape -> output, scrape/err -> output]"
    );
    let arguments = ["--api", &*address, "flow.yaml"];
    let run = Running::of(Scene::new(&flow), &arguments, |command| command);
    let mut events = Vec::new();
    // A second scrape counts the events of the first.
    while !events.iter().any(|event: &Value| {
        event["name"] == "tremor_events_total" && event["value"].as_f64().unwrap() > 10.0
    }) {
        events.push(event(&run));
    }
    let first = &events[0];
    assert_eq!((&first["name"], &first["type"]), (&"tremor_build_info".into(), &"gauge".into()));
    assert!(events.iter().all(|event| event["labels"].is_object()), "{events:?}");
    run.signal(&["TERM"]);
    run.end().expect(0, &[" 0 dead-lettered"]);
}

/// A body that an exporter has sent, and the event that it is.
fn request(signal: &str) -> (Vec<u8>, Value) {
    let folder = workspace().join("codecs-plugins/otlp/fixtures");
    let json = fs::read_to_string(folder.join(format!("{signal}.json"))).unwrap();
    let body = fs::read(folder.join(format!("{signal}.pb"))).unwrap();
    (body, serde_json::from_str(&json).unwrap())
}

/// Posts a request of logs; the first line of the answer, its content type and its body.
fn post(address: &str, content_type: &str, body: &[u8]) -> [String; 3] {
    let mut stream = TcpStream::connect(address).unwrap();
    let head = format!(
        "POST /v1/logs HTTP/1.1\r\nHost: a\r\nContent-Type: {content_type}\r\n\
         Content-Length: {}\r\nConnection: close\r\n\r\n",
        body.len()
    );
    stream.write_all(&[head.as_bytes(), body].concat()).unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    let answer = String::from_utf8(answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    let content_type = head.lines().find_map(|line| line.strip_prefix("content-type: "));
    [head.lines().next().unwrap(), content_type.unwrap_or_default(), body].map(str::to_owned)
}

const PROTOBUF: &str = "application/x-protobuf";
const JSON: &str = "application/json";

#[test]
fn an_export_request_is_received_sent_on_and_received_again_as_the_same_event() {
    let next = free_address();
    let flow = format!(
        "connectors:
  first:
    type: http_server
    codec: {{ otlp: {{ signal: logs, encoding: any }} }}
    config: {{ listen: '127.0.0.1:0', preset: {{ otlp: logs }}, respond: delivered }}
  sender:
    type: http_client
    codec: {{ otlp: {{ signal: logs }} }}
    config:
      url: 'http://{next}'
      preset: {{ otlp: logs }}
      compression: gzip
  second:
    type: http_server
    codec: {{ otlp: {{ signal: logs }} }}
    config: {{ listen: '{next}', preset: {{ otlp: logs }}, respond: delivered }}
  output: {{ type: stdio, codec: json, postprocessors: [lines] }}
links: [first -> sender, second -> output]"
    );
    let mut run = Running::of(Scene::new(&flow), &["flow.yaml"], |command| command);
    let addresses = [(); 2].map(|()| run.listens().0);
    let first = addresses.iter().find(|address| **address != next).unwrap();
    let (body, expected) = request("logs");
    assert_eq!(post(first, PROTOBUF, &body), ["HTTP/1.1 200 OK", PROTOBUF, ""]);
    assert_eq!(event(&run), expected);
    let json = expected.to_string();
    assert_eq!(post(first, JSON, json.as_bytes()), ["HTTP/1.1 200 OK", JSON, "{}"]);
    assert_eq!(event(&run), expected);
    // Half of it is none: a `Status` says so in the request's own encoding.
    let [status, content_type, status_body] = post(first, PROTOBUF, &body[..body.len() / 2]);
    assert_eq!([&*status, &*content_type], ["HTTP/1.1 400 Bad Request", PROTOBUF]);
    assert!(
        status_body.starts_with('\x12') && status_body.contains("cannot be decoded"),
        "{status_body}"
    );
    let [status, content_type, status_body] = post(first, JSON, &json.as_bytes()[..json.len() / 2]);
    assert_eq!([&*status, &*content_type], ["HTTP/1.1 400 Bad Request", JSON]);
    let status: Value = serde_json::from_str(&status_body).unwrap();
    assert!(status["message"].as_str().unwrap().contains("cannot be decoded"), "{status}");
    let [status, ..] = post(first, "text/plain", &body);
    assert_eq!(status, "HTTP/1.1 415 Unsupported Media Type");
    run.signal(&["TERM"]);
    run.end().expect(0, &[]);
}

/// The SDK and an exporter for Python, if they are there: `TREMOR_OTLP_PYTHON` names an interpreter that has the
/// package `opentelemetry-sdk`, and those of the exporters.
fn python_with(exporter: &str) -> Option<OsString> {
    let python = env::var_os("TREMOR_OTLP_PYTHON").filter(|it| Path::new(it).exists());
    let has_it = |python: &OsString| {
        let imports =
            format!("import opentelemetry.sdk, opentelemetry.exporter.otlp.{exporter}.http");
        let output = Command::new(python).args(["-c", &imports]).output();
        output.unwrap().status.success()
    };
    let found = python.filter(has_it);
    if found.is_none() {
        eprintln!(
            "SKIPPED: TREMOR_OTLP_PYTHON names no Python that has `opentelemetry-sdk` and \
             `opentelemetry-exporter-otlp-{exporter}-http`"
        );
    }
    found
}

#[test]
fn an_exporter_of_opentelemetry_sends_protobuf_to_us() {
    if let Some(python) = python_with("proto") {
        receive_from(&python, "protobuf");
    }
}

#[test]
fn an_exporter_of_opentelemetry_sends_json_to_us() {
    if let Some(python) = python_with("json") {
        receive_from(&python, "json");
    }
}

/// Has an exporter send a request of each signal to a server with the preset for it.
fn receive_from(python: &OsStr, encoding: &str) {
    let script = workspace().join("codecs-plugins/otlp/scripts/record.py");
    let signals = ["logs", "metrics", "traces"];
    let servers = signals.map(|signal| {
        format!(
            "  {signal}:
    type: http_server
    codec: {{ otlp: {{ signal: {signal}, encoding: any }} }}
    config: {{ listen: '127.0.0.1:0', preset: {{ otlp: {signal} }}, respond: delivered }}
"
        )
    });
    let links = signals.map(|signal| format!("  - {signal} -> output\n"));
    let flow = format!(
        "connectors:
{}  output: {{ type: stdio, codec: json, postprocessors: [lines] }}
links:
{}",
        servers.concat(),
        links.concat()
    );
    let mut run = Running::of(Scene::new(&flow), &["flow.yaml"], |command| command);
    let mut command = Command::new(python);
    command.arg(script).args(["--send", encoding]);
    for _ in signals {
        let (address, component) = run.listens();
        let signal = signals.iter().find(|signal| component.contains(**signal)).unwrap();
        command.arg(format!("{signal}=http://{address}/v1/{signal}"));
    }
    let output = command.output().unwrap();
    // It says nothing else of an answer that it does not take.
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && !said.contains("Failed to export"), "{said}");
    let mut events = [(); 3].map(|()| event(&run));
    events.sort_by_key(|event| event.as_object().unwrap().keys().next().unwrap().clone());
    for (pointer, expected) in [
        ("/resourceLogs/0/scopeLogs/0/logRecords/0/body/stringValue", "paid 12 € \"twice\""),
        ("/resourceMetrics/0/scopeMetrics/0/metrics/0/sum/dataPoints/0/asInt", "3"),
        ("/resourceSpans/0/scopeSpans/0/spans/0/traceId", "5b8efff798038103d269b633813fc60c"),
    ] {
        let found = events.iter().find_map(|event| event.pointer(pointer));
        assert_eq!(found.and_then(Value::as_str), Some(expected), "{events:?}");
    }
    run.signal(&["TERM"]);
    run.end().expect(0, &["3 events in, 3 out"]);
}
