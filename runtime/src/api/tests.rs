//! Valid and invalid requests to a server without flows.

use std::{
    io::{ErrorKind, Read, Write},
    net::{SocketAddr, TcpStream},
    os::unix::fs::PermissionsExt,
    time::{Duration, Instant},
};

use super::{Access, Error, Server, Token, server::CONNECTIONS};
use crate::{
    clock::Clock,
    reloads::{
        Change, ConnectorChange, FlowChange, Outcome, Progress, ReloadResult, ReloadStatus, Step,
    },
    run::RunHandle,
};

const ANYWHERE: &str = "127.0.0.1:0";

/// Starts a server whose time limits end only if the test advances `clock`.
fn server_with(access: Access, clock: &Clock) -> Server {
    let address = ANYWHERE.parse().unwrap();
    Server::start_with(address, access, RunHandle::default(), 0, clock.clone()).unwrap()
}

fn server() -> Server {
    server_with(Access::default(), &Clock::simulated(0))
}

fn token() -> Token {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), "0123456789abcdef-token").unwrap();
    std::fs::set_permissions(file.path(), std::fs::Permissions::from_mode(0o600)).unwrap();
    Token::read(file.path()).unwrap()
}

/// Sends bytes and returns everything that the server sends until the connection ends.
fn exchange(address: SocketAddr, bytes: &[u8]) -> String {
    let mut connection = TcpStream::connect(address).unwrap();
    // The server may reject the request before it was sent completely.
    _ = connection.write_all(bytes);
    rest(connection)
}

fn rest(mut connection: TcpStream) -> String {
    let mut answer = Vec::new();
    match connection.read_to_end(&mut answer) {
        Ok(_) => {}
        Err(error) => assert_eq!(error.kind(), ErrorKind::ConnectionReset),
    }
    String::from_utf8(answer).unwrap()
}

/// Returns the response to a request with this request line and these headers.
fn ask(address: SocketAddr, first: &str, headers: &str) -> String {
    let headers = format!("{headers}connection: close\r\n");
    exchange(address, format!("{first} HTTP/1.1\r\nhost: localhost\r\n{headers}\r\n").as_bytes())
}

#[track_caller]
fn expect(answer: &str, status: u16, parts: &[&str]) {
    assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{answer}");
    for part in parts {
        assert!(answer.contains(part), "`{part}` is not in {answer}");
    }
}

#[test]
fn responses_have_content_type_and_are_not_cached() {
    let server = server();
    for (path, content_type) in [
        ("/healthz", "application/json"),
        ("/v1/flows", "application/json"),
        ("/v1/openapi.json", "application/json"),
        ("/metrics", "text/plain; version=0.0.4"),
    ] {
        let answer = ask(server.address(), &format!("GET {path}"), "");
        expect(
            &answer,
            200,
            &[&format!("content-type: {content_type}"), "cache-control: no-store"],
        );
    }
    let answer = ask(server.address(), "HEAD /v1/flows", "");
    expect(&answer, 200, &["content-length: 75"]);
    assert!(answer.ends_with("\r\n\r\n"), "{answer}");
}

#[test]
fn probe_of_http_1_0_without_host_is_answered() {
    let server = server();
    for path in ["/healthz", "/readyz", "/readyz?x=1", "/metrics"] {
        for method in ["GET", "HEAD"] {
            let request = format!("{method} {path} HTTP/1.0\r\n\r\n");
            let answer = exchange(server.address(), request.as_bytes());
            assert!(answer.starts_with("HTTP/1.0 200 OK\r\n"), "{request}{answer}");
        }
    }
}

#[test]
fn errors_are_problem_details_with_advice() {
    let server = server();
    let json = "content-type: application/problem+json";
    let ask = |first: &str| ask(server.address(), first, "");
    expect(&ask("GET /"), 404, &[json, "/v1/openapi.json"]);
    expect(&ask("GET /v1/flows/"), 404, &["there is no flow ``; available: none"]);
    expect(&ask("GET /v1/flows/a%20b"), 404, &["there is no flow `a b`"]);
    expect(&ask("POST /v1/flows/a/connectors/b/pause"), 404, &["there is no flow `a`"]);
    expect(&ask("DELETE /v1/flows"), 405, &[json, "allow: GET, HEAD"]);
    expect(&ask("GET /v1/flows/a/connectors/b/pause"), 405, &[json, "allow: POST"]);
}

#[test]
fn run_without_started_flows_is_not_ready() {
    let address = ANYWHERE.parse().unwrap();
    let server = Server::start(address, Access::default(), RunHandle::default(), 1).unwrap();
    expect(&ask(server.address(), "GET /readyz", ""), 503, &["the flows are starting"]);
    expect(&ask(server.address(), "GET /v1/flows/a", ""), 503, &["have not started; try again"]);
}

#[test]
fn only_probes_need_no_token() {
    let server = server_with(Access::with(Some(token())), &Clock::simulated(0));
    for path in ["/healthz", "/readyz"] {
        expect(&ask(server.address(), &format!("GET {path}"), ""), 200, &[]);
    }
    for path in ["/metrics", "/v1/flows", "/v1/openapi.json", "/nothing"] {
        let answer = ask(server.address(), &format!("GET {path}"), "");
        expect(&answer, 401, &["www-authenticate: Bearer", "--api-token-file"]);
    }
    let good = "authorization: Bearer 0123456789abcdef-token\r\n";
    expect(&ask(server.address(), "GET /v1/flows", good), 200, &[]);
    let wrong = "authorization: Bearer 0123456789abcdef-wrong\r\n";
    expect(&ask(server.address(), "GET /v1/flows", wrong), 401, &[]);
}

#[test]
fn public_address_needs_a_token() {
    let address: SocketAddr = "0.0.0.0:0".parse().unwrap();
    let refused = Server::start(address, Access::default(), RunHandle::default(), 0).unwrap_err();
    assert!(matches!(refused, Error::Open { .. }) && refused.to_string().contains("127.0.0.1"));
    let access = Access::with(Some(token()));
    Server::start(address, access, RunHandle::default(), 0).unwrap();
}

#[test]
fn error_names_address_in_use() {
    let server = server();
    let address = server.address();
    let error = Server::start(address, Access::default(), RunHandle::default(), 0).unwrap_err();
    assert!(error.to_string().contains(&address.to_string()), "{error}");
}

#[test]
fn foreign_hosts_are_rejected_also_for_probes() {
    let server = server();
    let request = b"GET /healthz HTTP/1.1\r\nhost: example.org\r\nconnection: close\r\n\r\n";
    expect(&exchange(server.address(), request), 421, &["foreign `Host`"]);
    let request = b"GET /healthz HTTP/1.1\r\nconnection: close\r\n\r\n";
    expect(&exchange(server.address(), request), 400, &["no `Host`"]);
}

#[test]
fn invalid_and_too_large_requests_are_rejected() {
    let server = server();
    expect(&exchange(server.address(), b"\x16\x03\x01\x02\r\n\r\n"), 400, &[]);
    let long = format!("x: {}\r\n", "x".repeat(64 << 10));
    expect(&ask(server.address(), "GET /v1/flows", &long), 431, &[]);
    let many = "x: x\r\n".repeat(100);
    expect(&ask(server.address(), "GET /v1/flows", &many), 431, &[]);
    let path = format!("GET /{}", "x".repeat(64 << 10));
    let answer = ask(server.address(), &path, "");
    assert!(
        ["414", "431"].iter().any(|it| answer.starts_with(&format!("HTTP/1.1 {it}"))),
        "{answer}"
    );
}

#[test]
fn body_is_ignored_and_limited() {
    let server = server();
    let post = |body: &str| {
        let length = format!("content-length: {}\r\nconnection: close\r\n\r\n{body}", body.len());
        let first = "POST /v1/flows/a/connectors/b/pause HTTP/1.1\r\nhost: localhost\r\n";
        exchange(server.address(), format!("{first}{length}").as_bytes())
    };
    expect(&post("{}"), 404, &["there is no flow"]);
    let answer = post(&"x".repeat(1 << 20));
    // The server may close the connection while the client is still sending.
    assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 413 "), "{answer}");
    expect(&ask(server.address(), "GET /healthz", ""), 200, &[]);
}

#[test]
fn incomplete_request_and_idle_connection_time_out() {
    let clock = Clock::simulated(0);
    let server = server_with(Access::default(), &clock);
    for (request, response) in [
        ("", ""),
        ("GET /healthz HTTP/1.1\r\nhost: loc", ""),
        ("GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n", "{\"healthy\":true}\n"),
    ] {
        let mut connection = TcpStream::connect(server.address()).unwrap();
        connection.write_all(request.as_bytes()).unwrap();
        let mut text = String::new();
        while !text.ends_with(response) || text.len() < response.len() {
            let mut part = [0; 1 << 10];
            let length = connection.read(&mut part).unwrap();
            text.push_str(std::str::from_utf8(&part[..length]).unwrap());
        }
        // The connection waits for the head of a request for at most 10 s.
        while clock.next_timer() != Some(Duration::from_secs(10)) {
            std::thread::yield_now();
        }
        connection.set_nonblocking(true).unwrap();
        // The time limit of a further head may begin only after the clock was advanced, so advance it until the end.
        while connection.read(&mut [0]).is_err_and(|it| it.kind() == ErrorKind::WouldBlock) {
            clock.advance(Duration::from_secs(10));
            std::thread::yield_now();
        }
    }
}

#[test]
fn idle_connections_are_replaced() {
    let server = server();
    let connect = || TcpStream::connect(server.address()).unwrap();
    let mut idle: Vec<_> = (0..1_000).map(|_| connect()).collect();
    expect(&ask(server.address(), "GET /healthz", ""), 200, &[]);
    // The connections that were opened last still have a slot.
    let last = idle.split_off(idle.len() - CONNECTIONS / 2);
    idle.into_iter().take(1_000 - CONNECTIONS).for_each(|other| assert_eq!(rest(other), ""));
    for mut connection in last {
        connection.write_all(b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n").unwrap();
        connection.write_all(b"connection: close\r\n\r\n").unwrap();
        expect(&rest(connection), 200, &[]);
    }
}

#[test]
fn requests_without_token_occupy_no_slots() {
    let server = server_with(Access::with(Some(token())), &Clock::simulated(0));
    let strangers: Vec<_> = (0..CONNECTIONS)
        .map(|_| {
            let mut connection = TcpStream::connect(server.address()).unwrap();
            let request = b"GET /v1/flows HTTP/1.1\r\nhost: localhost\r\n\r\n";
            connection.write_all(request).unwrap();
            connection.read_exact(&mut [0; 12]).unwrap();
            connection
        })
        .collect();
    let good = "authorization: Bearer 0123456789abcdef-token\r\n";
    expect(&ask(server.address(), "GET /v1/flows", good), 200, &[]);
    drop(strangers);
}

#[test]
fn busy_server_asks_clients_to_retry() {
    let server = server();
    let head = "POST /v1/flows/a/drain HTTP/1.1\r\nhost: localhost\r\ncontent-length: 9\r\n\r\n";
    let mut answered = Vec::new();
    // A connection is idle until its request has arrived. A new connection may replace it until then.
    let refusal = loop {
        let mut connection = TcpStream::connect(server.address()).unwrap();
        connection.write_all(head.as_bytes()).unwrap();
        answered.push(connection);
        let other = ask(server.address(), "GET /healthz", "");
        if other.starts_with("HTTP/1.1 503 ") {
            break other;
        }
    };
    expect(&refusal, 503, &["retry-after: 1", "content-length: 101", "close some of them"]);
    drop(answered);
    while !ask(server.address(), "GET /healthz", "").starts_with("HTTP/1.1 200 ") {}
}

#[test]
fn server_ends_with_its_run() {
    let server = server();
    let address = server.address();
    let idle = TcpStream::connect(address).unwrap();
    expect(&ask(address, "GET /healthz", ""), 200, &[]);
    drop(server);
    assert_eq!(rest(idle), "");
    assert!(TcpStream::connect(address).is_err());
}

/// Returns the description of the API, with schemas that permit only the properties that they describe.
fn openapi() -> serde_json::Value {
    fn close(value: &mut serde_json::Value) {
        match value {
            serde_json::Value::Object(map) => {
                map.values_mut().for_each(close);
                if map.contains_key("properties") {
                    map.entry("additionalProperties").or_insert(false.into());
                }
            }
            serde_json::Value::Array(items) => items.iter_mut().for_each(close),
            _ => {}
        }
    }
    let mut openapi = serde_json::from_str(include_str!("openapi.json")).unwrap();
    close(&mut openapi);
    openapi
}

/// Checks a value against a schema of the description.
#[track_caller]
fn conforms(name: &str, value: &impl serde::Serialize) {
    let mut schema = openapi()["components"].take();
    schema =
        serde_json::json!({ "$ref": format!("#/components/schemas/{name}"), "components": schema });
    let value = serde_json::to_value(value).unwrap();
    let validator = jsonschema::draft202012::new(&schema).unwrap();
    let errors: Vec<_> = validator.iter_errors(&value).map(|error| error.to_string()).collect();
    assert!(errors.is_empty(), "{errors:?} in {value}");
}

#[test]
fn described_paths_and_methods_are_served() {
    let server = server();
    let openapi = openapi();
    let paths = openapi["paths"].as_object().unwrap();
    assert!(paths.len() > 8);
    for (path, methods) in paths {
        let path = path.split('/').map(|part| if part.starts_with('{') { "x" } else { part });
        let path = path.collect::<Vec<_>>().join("/");
        for method in ["get", "post", "put"] {
            let answer = ask(server.address(), &format!("{} {path}", method.to_uppercase()), "");
            let is_there = methods.get(method).is_some();
            assert_eq!(answer.starts_with("HTTP/1.1 405 "), !is_there, "{method} {path}: {answer}");
            assert!(!answer.contains("unknown path"), "{method} {path}");
            let described = &methods[method]["responses"];
            let status = answer.split(' ').nth(1).unwrap();
            assert!(!is_there || described.get(status).is_some(), "{method} {path}: {answer}");
            let (head, body) = answer.split_once("\r\n\r\n").unwrap();
            if head.contains("problem+json") {
                let body: serde_json::Value = serde_json::from_str(body).unwrap();
                conforms("Problem", &body);
            }
        }
    }
}

#[test]
fn possible_error_statuses_are_described() {
    let openapi = openapi();
    for (path, methods) in openapi["paths"].as_object().unwrap() {
        let calls = ["get", "post"].into_iter().filter_map(|method| methods.get(method));
        for call in calls {
            let described = |status: &str| call["responses"].get(status).is_some();
            assert!(described("403") && described("421") && described("503"), "{path}");
            let is_probe = ["/healthz", "/readyz"].contains(&path.as_str());
            assert_eq!(described("401"), !is_probe, "{path}");
            assert_eq!(described("404"), path.contains('{'), "{path}");
            let of_what_runs = ["/pause", "/resume", "/restart", "/{port}", "/reload"];
            let conflicts = of_what_runs.iter().any(|end| path.ends_with(end));
            assert_eq!(described("409"), conflicts, "{path}");
        }
    }
}

/// Returns the status after a reload that replaced a flow, and a connector of another flow, and was undone, and during
/// another reload.
fn reloaded() -> ReloadStatus {
    let reason = Some("`links` has changed".to_owned());
    let (connector, change) = ("c".to_owned(), Change::Replaced);
    let connectors = vec![ConnectorChange { connector, change, reason: reason.clone() }];
    let flows = vec![
        FlowChange { flow: "f".to_owned(), change, reason, connectors: Vec::new() },
        FlowChange { flow: "g".to_owned(), change: Change::Changed, reason: None, connectors },
    ];
    let errors = vec!["error: flow `f` failed".to_owned()];
    let result = ReloadResult::Restored;
    let last = Outcome { result, flows, errors, confirm_seconds: Some(60) };
    let now = Instant::now();
    let (step, flow) = (Step::Draining, Some("f".to_owned()));
    ReloadStatus {
        generation: 1,
        failed: 1,
        returned: 0,
        last: Some((last, now)),
        in_progress: Some(Progress { since: now, step, flow, step_since: now }),
        confirm_until: Some(now + Duration::from_mins(1)),
        waiting: 1,
    }
}

#[test]
fn status_of_flows_matches_description() {
    let flow = super::metrics::tests::flow();
    let mut failed = flow.clone();
    let error = tremor_pdk::Error::bad_data("no");
    failed.failure = Some(crate::engine::Failure { component: "c".to_owned(), error });
    failed.connectors[0].error = Some("no".to_owned());
    for flow in [flow, failed] {
        conforms("Connector", &super::flows::ConnectorJson::from(&flow.connectors[0]));
        let flows = vec![super::flows::FlowJson::from(&flow)];
        conforms("Flow", &flows[0]);
        conforms("Flows", &super::flows::FlowsJson { flows, reload: (&reloaded()).into() });
    }
}
