//! Tests of streams of several sources in one pipeline.

use std::{
    io::Write,
    net::{TcpListener, TcpStream},
    os::unix::net::UnixListener,
};

use hostile_peers::{PATIENCE, acceptor::accept_within};

use crate::{running::Running, tremor::Scene};

/// The first connections of both servers have the same stream number.
#[test]
fn streams_of_two_sources_are_not_mixed() {
    let scene = Scene::new(
        "connectors:
  a: &server
    type: tcp_server
    preprocessors: [lines]
    codec: string
    config: { listen: '127.0.0.1:0' }
  b: *server
  output: { type: stdio, codec: json, postprocessors: [lines] }
pipelines: { main: { operators: [paragraphs] } }
links: [a -> main, b -> main, a -> output, b -> output, main -> output]",
    );
    let mut run = Running::of(scene, &["flow.yaml"], |command| command);
    let mut peers = [(); 2].map(|()| TcpStream::connect(run.listens().0).unwrap());
    // Send the lines alternately: each line reaches the pipeline before the other peer sends its next line.
    for line in ["one", "two"] {
        for (peer, name) in peers.iter_mut().zip(["first", "second"]) {
            writeln!(peer, "{name} {line}").unwrap();
            assert_eq!(run.event(), format!("\"{name} {line}\""));
        }
    }
    run.signal(&["TERM"]);
    let mut paragraphs = [run.event(), run.event()];
    paragraphs.sort();
    assert_eq!(paragraphs, [r#""first one\nfirst two\n""#, r#""second one\nsecond two\n""#]);
    run.end().expect(0, &["4 events in"]);
}

/// Returns a flow that joins the lines of each stream of this source.
fn paragraphs(source: &str) -> String {
    format!(
        "connectors:
  input: {{ {source}, preprocessors: [lines], codec: string }}
  output: {{ type: stdio, codec: json, postprocessors: [lines] }}
pipelines: {{ main: {{ operators: [paragraphs] }} }}
links: [input -> main, input -> output, main -> output]"
    )
}

/// Runs a flow whose source connects to two peers, one after the other. `accept` returns the connection of the next
/// peer, which sends a line and disconnects.
fn expect_stream_for_each_peer<S: Write>(scene: Scene, accept: impl Fn() -> S) {
    let run = Running::of(scene, &["flow.yaml"], |command| command);
    for line in ["one", "two"] {
        writeln!(accept(), "{line}").unwrap();
        assert_eq!(run.event(), format!("\"{line}\""));
    }
    run.signal(&["TERM"]);
    assert_eq!([run.event(), run.event()], [r#""one\n""#, r#""two\n""#]);
    run.end().expect(0, &["2 events in"]);
}

#[test]
fn each_connection_of_tcp_client_is_a_stream() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let source = format!("type: tcp_client, config: {{ address: '{address}' }}");
    expect_stream_for_each_peer(Scene::new(&paragraphs(&source)), || {
        accept_within(&listener, PATIENCE).unwrap()
    });
}

#[test]
fn each_connection_of_unix_client_is_a_stream() {
    let scene = Scene::new(&paragraphs("type: unix_client, config: { path: socket }"));
    let listener = UnixListener::bind(scene.path().join("socket")).unwrap();
    expect_stream_for_each_peer(scene, || listener.accept().unwrap().0);
}

#[test]
fn each_process_of_exec_is_a_stream() {
    let script = "test -e second && exec echo two; touch second; echo one; exit 1";
    let source = format!("type: exec, config: {{ command: sh, args: [-c, '{script}'] }}");
    let run = Scene::new(&paragraphs(&source)).run();
    run.expect(0, &["2 events in"]);
    let mut lines: Vec<_> = run.stdout.lines().collect();
    lines.sort_unstable();
    assert_eq!(lines, [r#""one""#, r#""one\n""#, r#""two""#, r#""two\n""#]);
}
