//! Tests of telemetry over HTTP: scrapes in the format of Prometheus, and OTLP requests.

use std::{
    env,
    ffi::{OsStr, OsString},
    fs,
    io::{Read, Write},
    net::TcpStream,
    path::Path,
    process::Command,
};

use serde_json::Value;

use crate::{
    network::example_flow, peer::free_address, running::Running, support::workspace, tremor::Scene,
};

fn event(run: &Running) -> Value {
    serde_json::from_str(&run.event()).unwrap()
}

#[test]
fn scrape_of_own_admin_api_emits_an_event_for_each_sample() {
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
    // Wait for a second scrape, whose counters include the events of the first one.
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

/// Returns the body of an exporter's request, and the event that it is decoded to.
fn request(signal: &str) -> (Vec<u8>, Value) {
    let folder = workspace().join("codecs-plugins/otlp/fixtures");
    let json = fs::read_to_string(folder.join(format!("{signal}.json"))).unwrap();
    let body = fs::read(folder.join(format!("{signal}.pb"))).unwrap();
    (body, serde_json::from_str(&json).unwrap())
}

/// Posts a request with logs. Returns the first line, the content type and the body of the response.
fn post(address: &str, content_type: &str, body: &[u8]) -> [String; 3] {
    post_to("/v1/logs", address, content_type, body)
}

fn post_to(path: &str, address: &str, content_type: &str, body: &[u8]) -> [String; 3] {
    let mut stream = TcpStream::connect(address).unwrap();
    let head = format!(
        "POST {path} HTTP/1.1\r\nHost: a\r\nContent-Type: {content_type}\r\n\
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
fn export_request_survives_a_round_trip() {
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
    // Half of a request is invalid. The response reports that with a `Status` in the encoding of the request.
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

const SIGNALS: [&str; 3] = ["logs", "metrics", "traces"];

#[test]
fn one_server_and_one_client_handle_every_signal() {
    let next = free_address();
    let flow = format!(
        "connectors:
  first:
    type: http_server
    codec: {{ otlp: {{ signal: any, encoding: any }} }}
    config: {{ listen: '127.0.0.1:0', preset: {{ otlp: any }}, respond: delivered }}
  sender:
    type: http_client
    codec: {{ otlp: {{ signal: any }} }}
    config: {{ url: 'http://{next}', preset: {{ otlp: any }}, compression: zstd }}
  second:
    type: http_server
    codec: {{ otlp: {{ signal: any, encoding: any }} }}
    config: {{ listen: '{next}', preset: {{ otlp: any }}, respond: delivered }}
  output: {{ type: stdio, codec: json, postprocessors: [lines] }}
links: [first -> sender, second -> output]"
    );
    let mut run = Running::of(Scene::new(&flow), &["flow.yaml"], |command| command);
    let addresses = [(); 2].map(|()| run.listens().0);
    let first = addresses.iter().find(|address| **address != next).unwrap();
    for signal in SIGNALS {
        let path = format!("/v1/{signal}");
        let (body, expected) = request(signal);
        let answer = post_to(&path, first, PROTOBUF, &body);
        assert_eq!(answer, ["HTTP/1.1 200 OK", PROTOBUF, ""], "{signal}");
        assert_eq!(event(&run), expected, "{signal}");
        let answer = post_to(&path, first, JSON, expected.to_string().as_bytes());
        assert_eq!(answer, ["HTTP/1.1 200 OK", JSON, "{}"], "{signal}");
        assert_eq!(event(&run), expected, "{signal}");
        let [status, _, why] = post_to(&path, first, PROTOBUF, &body[..body.len() / 2]);
        assert!(status == "HTTP/1.1 400 Bad Request" && why.contains("cannot be decoded"), "{why}");
    }
    let [status, ..] = post_to("/v1/profiles", first, JSON, b"{}");
    assert_eq!(status, "HTTP/1.1 404 Not Found");
    run.signal(&["TERM"]);
    run.end().expect(0, &[]);
}

/// A sink that passes requests on has nothing to deliver either.
#[test]
fn request_without_data_is_answered_with_success() {
    let next = free_address();
    let flow = |signal: &str| {
        format!(
            "connectors:
  first:
    type: http_server
    codec: {{ otlp: {{ signal: {signal}, encoding: any }} }}
    config: {{ listen: '127.0.0.1:0', preset: {{ otlp: {signal} }}, respond: delivered }}
  sender:
    type: http_client
    codec: {{ otlp: {{ signal: {signal} }} }}
    retry: {{ attempts: 0 }}
    config: {{ url: 'http://{next}', preset: {{ otlp: {signal} }} }}
links: [first -> sender]"
        )
    };
    for signal in ["any", "logs"] {
        let mut run = Running::of(Scene::new(&flow(signal)), &["flow.yaml"], |command| command);
        let (address, _) = run.listens();
        for path in SIGNALS.iter().filter(|it| signal == "any" || **it == signal) {
            let path = format!("/v1/{path}");
            let answer = post_to(&path, &address, PROTOBUF, b"");
            assert_eq!(answer, ["HTTP/1.1 200 OK", PROTOBUF, ""], "{path}");
            let key = match &*path {
                "/v1/logs" => "resourceLogs",
                "/v1/metrics" => "resourceMetrics",
                _ => "resourceSpans",
            };
            for body in ["{}", &format!("{{\"{key}\":[]}}"), ""] {
                let answer = post_to(&path, &address, JSON, body.as_bytes());
                assert_eq!(answer, ["HTTP/1.1 200 OK", JSON, "{}"], "{path} {body}");
            }
        }
        run.signal(&["TERM"]);
        run.end().expect(0, &[" 0 events in, 0 out, 0 dead-lettered"]);
    }
}

#[test]
fn collector_example_writes_a_file_for_each_signal() {
    let scene = Scene::new(&example_flow("otlp-collector.yaml"));
    let mut run =
        Running::of(scene, &["flow.yaml"], |command| command.env("ADDRESS", "127.0.0.1:0"));
    let (address, _) = run.listens();
    for signal in SIGNALS {
        let (body, expected) = request(signal);
        // Wait for the response: the events of acknowledged requests are in the file of the sink.
        let [status, ..] = post_to(&format!("/v1/{signal}"), &address, PROTOBUF, &body);
        assert_eq!(status, "HTTP/1.1 200 OK");
        let written = run.scene.read(&format!("{signal}.jsonl"));
        assert_eq!(serde_json::from_str::<Value>(&written).unwrap(), expected);
    }
    run.signal(&["TERM"]);
    run.end().expect(0, &["3 events in, 3 out"]);
}

/// Returns a Python interpreter that has OpenTelemetry's SDK and this exporter, if there is one. `TREMOR_OTLP_PYTHON`
/// is the path of an interpreter with the packages `opentelemetry-sdk` and those of the exporters.
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
fn opentelemetry_exporter_sends_protobuf_to_server() {
    if let Some(python) = python_with("proto") {
        receive_from(&python, "protobuf", &SIGNALS);
        receive_from(&python, "protobuf", &["any"]);
    }
}

#[test]
fn opentelemetry_exporter_sends_json_to_server() {
    if let Some(python) = python_with("json") {
        receive_from(&python, "json", &SIGNALS);
        receive_from(&python, "json", &["any"]);
    }
}

/// Runs an exporter that sends a request of each signal. The requests go to servers with these presets: one for each
/// signal, or one for all signals.
fn receive_from(python: &OsStr, encoding: &str, presets: &[&str]) {
    let script = workspace().join("codecs-plugins/otlp/scripts/record.py");
    let servers = presets.iter().map(|signal| {
        format!(
            "  {signal}_in:
    type: http_server
    codec: {{ otlp: {{ signal: {signal}, encoding: any }} }}
    config: {{ listen: '127.0.0.1:0', preset: {{ otlp: {signal} }}, respond: delivered }}
"
        )
    });
    let links = presets.iter().map(|signal| format!("  - {signal}_in -> output\n"));
    let flow = format!(
        "connectors:
{}  output: {{ type: stdio, codec: json, postprocessors: [lines] }}
links:
{}",
        servers.collect::<Vec<_>>().concat(),
        links.collect::<Vec<_>>().concat()
    );
    let mut run = Running::of(Scene::new(&flow), &["flow.yaml"], |command| command);
    let mut command = Command::new(python);
    command.arg(script).args(["--send", encoding]);
    for _ in presets {
        let (address, component) = run.listens();
        for signal in SIGNALS {
            if component.contains(&format!("{signal}_in")) || component.contains("any_in") {
                command.arg(format!("{signal}=http://{address}/v1/{signal}"));
            }
        }
    }
    let output = command.output().unwrap();
    // Search the output, because the exporter reports a rejected response only there.
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
