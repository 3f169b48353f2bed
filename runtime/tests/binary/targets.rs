//! Tests of `http_client` with URLs, headers and bodies that depend on events.

use std::sync::{Arc, Mutex};

use hostile_peers::http::{Request, Server, response};

use crate::tremor::Scene;

/// Starts a server that answers requests to `/in/bad/…` with 404 and all others with 200, and records the first line,
/// the header `x-tenant` and the body of each.
fn server() -> (Server, Arc<Mutex<Vec<String>>>) {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let recorded = seen.clone();
    let server = Server::start(move |request: &Request| {
        let line = request.head.lines().next().unwrap_or_default();
        let line = line.trim_start_matches("POST ").trim_end_matches(" HTTP/1.1");
        let tenant = request.header("x-tenant").unwrap_or_default();
        let text = format!("{line} {tenant} {}", request.text());
        recorded.lock().unwrap().push(text);
        response(if line.starts_with("/in/bad/") { "404 Not Found" } else { "200 OK" }, "")
    });
    (server, seen)
}

#[test]
fn events_reach_their_targets_and_others_go_to_err() {
    let (server, seen) = server();
    let flow = format!(
        "connectors:
  input: {{ type: file, preprocessors: [lines], codec: json, config: {{ path: in, mode: read }} }}
  output:
    type: http_client
    codec: json
    batch: {{ max_events: 100, linger: 10s }}
    config:
      url: 'http://{}/in/{{%host}}/_bulk'
      headers: {{ x-tenant: '{{%tenant:-none}}' }}
      format: ndjson
      body: {{ before_event: \"{{{{\\\"host\\\":\\\"{{%host}}\\\"}}}}\\n\" }}
  dead: {{ type: file, codec: json, postprocessors: [lines], config: {{ path: dead, mode: write }} }}
pipelines:
  targets:
    operators:
      - type: set
        config: {{ edits: [{{ field: '%host', copy: h }}, {{ field: '%tenant', copy: t }}] }}
links: [input -> targets -> output, output/err -> dead]",
        server.address()
    );
    let input = concat!(
        "{\"h\":\"a\",\"n\":1}\n",
        "{\"h\":\"bad\",\"n\":2}\n",
        "{\"h\":\"../b\\n\",\"t\":\"t1\",\"n\":3}\n",
        "{\"h\":\"..\",\"n\":4}\n",
        "{\"n\":5}\n",
        "{\"h\":\"a\",\"n\":6}\n",
        "{\"h\":\"a\",\"t\":\"x\\r\\ny: z\",\"n\":7}\n",
    );
    let scene = Scene::new(&flow).write("in", input.as_bytes());
    scene.run().expect(0, &["7 events in, 3 out, 4 dead-lettered"]);
    let mut seen = seen.lock().unwrap().clone();
    seen.retain(|it| !it.starts_with("/in/bad/"));
    let expected = [
        concat!(
            "/in/a/_bulk none {\"host\":\"a\"}\n{\"h\":\"a\",\"n\":1}\n",
            "{\"host\":\"a\"}\n{\"h\":\"a\",\"n\":6}\n"
        ),
        concat!(
            "/in/..%2Fb%0A/_bulk t1 {\"host\":\"../b\\n\"}\n",
            "{\"h\":\"../b\\n\",\"t\":\"t1\",\"n\":3}\n"
        ),
    ];
    assert_eq!(seen, expected);
    let dead = scene.read("dead");
    for part in [
        "answered with 404 Not Found",
        "segment `.` or `..`",
        "as `%host`, found no such field",
        "cannot use `headers.x-tenant`",
    ] {
        assert_eq!(dead.matches(part).count(), 1, "{part}: {dead}");
    }
}

#[test]
fn check_names_invalid_targets() {
    for (config, parts) in [
        ("url: 'http://{host}/'", &["invalid `url`", "the host and the port cannot depend"][..]),
        ("url: 'http://a/{host'", &["invalid `url`: invalid template", "at offset 14"]),
        ("url: 'http://a/{:+%!}'", &["invalid `url`: invalid template"]),
        ("url: http://a/, headers: { X-Tenant: '{' }", &["invalid `headers.X-Tenant`"]),
        ("url: http://a/, headers: { Host: '{x}' }", &["invalid `headers.host`"]),
        ("url: http://a/, body: { prefix: '{' }", &["body.prefix", "invalid template"]),
        ("url: http://a/, body: { separator: ',' }", &["invalid `body.separator`"]),
        ("url: 'http://a/{x}', preset: { otlp: logs }", &["`url`", "`{x}`"]),
    ] {
        let flow = format!(
            "connectors:
  input: {{ type: metronome, config: {{ interval_ms: 1 }} }}
  output: {{ type: http_client, codec: json, config: {{ {config} }} }}
links: [input -> output]"
        );
        let run = Scene::new(&flow).tremor(&["check", "flow.yaml"]);
        run.expect(2, &[&["flow.yaml:3:"][..], parts].concat());
    }
}
