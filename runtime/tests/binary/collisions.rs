//! Tests of `tremor check` for connectors that need the same resource, and for placeholders that nothing replaces.

use std::fmt::Write;

use crate::tremor::{Run, Scene};

/// Checks a flow with these connectors, of which each is linked to a sink of its own.
fn check(connectors: &[(&str, &str)]) -> Run {
    let (mut all, mut links) = (String::new(), Vec::new());
    for (number, (kind, config)) in connectors.iter().enumerate() {
        let parts = match *kind {
            "tcp_server" | "unix_server" | "file" => "preprocessors: [lines], codec: string,",
            "journald" => "",
            _ => "codec: string,",
        };
        writeln!(all, "  c{number}: {{ type: {kind}, {parts} config: {{ {config} }} }}").unwrap();
        writeln!(all, "  out{number}: {{ type: 'null' }}").unwrap();
        links.push(format!("c{number} -> out{number}"));
    }
    let flow = format!("connectors:\n{all}links: [{}]", links.join(", "));
    Scene::new(&flow).tremor(&["check", "flow.yaml"])
}

#[test]
fn connectors_with_the_same_resource_are_rejected() {
    for (first, second, what) in [
        (
            ("tcp_server", "listen: '127.0.0.1:5514'"),
            ("tcp_server", "listen: '127.0.0.1:5514'"),
            "TCP port",
        ),
        (
            ("tcp_server", "listen: '0.0.0.0:5514'"),
            ("http_server", "listen: '127.0.0.1:5514'"),
            "TCP port",
        ),
        (
            ("ws_server", "listen: '127.0.0.1:5514'"),
            ("http_server", "listen: '[::]:5514'"),
            "TCP port",
        ),
        (
            ("ws_server", "listen: 'localhost:5514'"),
            ("ws_server", "listen: 'LOCALHOST:5514'"),
            "TCP port",
        ),
        (
            ("tcp_server", "listen: '[::ffff:127.0.0.1]:5514'"),
            ("ws_server", "listen: '127.0.0.1:5514'"),
            "TCP port",
        ),
        (
            ("tcp_server", "listen: '127.0.0.1:5514', reuse_port: true"),
            ("tcp_server", "listen: '127.0.0.1:5514'"),
            "TCP port",
        ),
        (
            ("udp_server", "listen: '0.0.0.0:5514'"),
            ("udp_server", "listen: '0.0.0.0:5514'"),
            "UDP port",
        ),
        (("unix_server", "listen: socket"), ("unix_server", "listen: ./socket"), "file"),
        (
            ("file", "path: a.log, mode: read, checkpoint: at"),
            ("file", "path: b.log, mode: read, checkpoint: at"),
            "file",
        ),
        (
            ("file", "path: a.log, mode: read, checkpoint: at"),
            ("journald", "checkpoint: at"),
            "file",
        ),
    ] {
        let run = check(&[first, second]);
        let key = if second.1.contains("checkpoint") { "checkpoint" } else { "listen" };
        let collide = format!("need the same {what}: `c0.{key}` and `c1.{key}` collide");
        run.expect(2, &["connectors `c0` and `c1` ", &collide, "`c0` needs it as well"]);
    }
}

#[test]
fn connectors_with_different_resources_are_accepted() {
    for (first, second) in [
        (("tcp_server", "listen: '127.0.0.1:5514'"), ("udp_server", "listen: '127.0.0.1:5514'")),
        (("tcp_server", "listen: '127.0.0.1:5514'"), ("tcp_server", "listen: '127.0.0.2:5514'")),
        (("tcp_server", "listen: '127.0.0.1:5514'"), ("tcp_server", "listen: '[::1]:5514'")),
        (("tcp_server", "listen: '127.0.0.1:0'"), ("tcp_server", "listen: '127.0.0.1:0'")),
        (("tcp_server", "listen: '0.0.0.0:5514'"), ("tcp_server", "listen: '0.0.0.0:5515'")),
        (
            ("tcp_server", "listen: '127.0.0.1:5514', reuse_port: true"),
            ("tcp_server", "listen: '0.0.0.0:5514', reuse_port: true"),
        ),
        (("unix_server", "listen: one"), ("unix_server", "listen: two")),
        (
            ("file", "path: a.log, mode: read, checkpoint: at"),
            ("file", "path: b.log, mode: read, checkpoint: to"),
        ),
        (("file", "path: a.log, mode: read"), ("file", "path: a.log, mode: read")),
    ] {
        check(&[first, second]).expect(0, &[]);
    }
}

/// A connector that no link uses does not run.
#[test]
fn unlinked_connector_collides_with_none() {
    let server = "{ type: http_server, codec: string, config: { listen: '127.0.0.1:5514' } }";
    let flow = format!(
        "connectors:\n  a: {server}\n  b: {server}\n  out: {{ type: 'null' }}\nlinks: [a -> out]"
    );
    Scene::new(&flow).tremor(&["check", "flow.yaml"]).expect(0, &["`b` is in no link"]);
}

#[test]
fn placeholder_is_rejected_with_the_key_and_the_remedy() {
    for (kind, config, key) in [
        ("file", "path: 'logs/{hostname}.log', mode: read", "path"),
        ("file", "path: in, mode: read, checkpoint: 'at/{hostname}'", "checkpoint"),
        ("file", "path: '*.log', mode: read, exclude: ['{hostname}*']", "exclude"),
        ("http_client", "url: 'http://127.0.0.1:9/{hostname}', interval: 1s", "url"),
        ("http_client", "url: 'http://{hostname}:9/', interval: 1s", "url"),
        (
            "http_client",
            "url: 'http://127.0.0.1:9/', interval: 1s, headers: { X-Host: '{hostname}' }",
            "headers.X-Host",
        ),
        ("http_server", "listen: '127.0.0.1:0', path: '/{hostname}'", "path"),
        ("ws_client", "url: 'ws://127.0.0.1:9/{hostname}'", "url"),
        (
            "ws_client",
            "url: 'ws://127.0.0.1:9/', headers: { X-Host: '{hostname}' }",
            "headers.X-Host",
        ),
        ("ws_server", "listen: '127.0.0.1:0', path: '/{hostname}'", "path"),
        ("tcp_server", "listen: '{hostname}:5514'", "listen"),
        ("udp_server", "listen: '{hostname}:5514'", "listen"),
        ("unix_server", "listen: '/run/{hostname}'", "listen"),
        ("unix_client", "path: '/run/{hostname}'", "path"),
        ("journald", "checkpoint: '{hostname}.at'", "checkpoint"),
        ("journald", "directory: '{hostname}'", "directory"),
    ] {
        let run = check(&[(kind, config)]);
        let key = format!("`{key}`: ");
        run.expect(2, &[&key, "{hostname}", "`${env:HOSTNAME}`", "flow.yaml:2:"]);
    }
}

#[test]
fn braces_that_are_no_placeholder_are_accepted() {
    for (kind, config) in [
        ("file", "path: 'logs/{a,b}.log', mode: read, follow: true"),
        ("file", "path: '{{hostname}}.log', mode: read, follow: true"),
        ("http_client", "url: 'http://127.0.0.1:9/a%7Bhost%7D?q={{host}}', interval: 1s"),
        (
            "http_client",
            r#"url: 'http://127.0.0.1:9/', interval: 1s, headers: { X: '{"host": {"name": 1}}', Y: '{1,2}' }"#,
        ),
    ] {
        check(&[(kind, config)]).expect(0, &[]);
    }
}

#[test]
fn doubled_braces_are_the_braces_of_a_path() {
    let scene = Scene::new(
        "connectors:
  input: { type: file, preprocessors: [lines], codec: string, config: { path: in, mode: read } }
  output: { type: file, codec: string, postprocessors: [lines], config: { path: 'out-{{host}}', mode: write } }
links: [input -> output]",
    );
    let scene = scene.write("in", b"one\n");
    scene.run().expect(0, &[]);
    assert_eq!(scene.read("out-{host}"), "one\n");
}
