//! Streams of several sources in one pipeline.

use std::{io::Write, net::TcpStream};

use crate::{running::Running, tremor::Scene};

/// Both servers number their first connection alike.
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
    // Each line has reached the pipeline before the other peer sends its own.
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
