//! Test of the position of a source after a drain that its sink did not complete.

use std::{
    net::SocketAddr,
    process::Command,
    sync::{
        atomic::{AtomicUsize, Ordering::Relaxed},
        mpsc::{Receiver, channel},
    },
};

use hostile_peers::{
    PATIENCE,
    http::{Server, response},
};

use crate::tremor::{Run, Scene, finish};

/// Number of lines in the input. `LENGTH` is the length of a line in bytes, including the line feed.
const LINES: usize = 10_000;
const LENGTH: usize = 40;
/// Number of requests that the peer answers before it hangs.
const ANSWERED: usize = 6_492;
/// A peer that answers a given number of requests and hangs at the next one.
struct Peer {
    server: Server,
    /// Receiver of the line of each request.
    lines: Receiver<usize>,
}

impl Peer {
    fn start(answers: usize) -> Self {
        let (sender, lines) = channel();
        let left = AtomicUsize::new(answers);
        let server = Server::start(move |request| {
            let _ = sender.send(request.text().trim().parse().unwrap());
            let one_less = |left: usize| left.checked_sub(1);
            match left.fetch_update(Relaxed, Relaxed, one_less) {
                Ok(_) => response("200 OK", ""),
                Err(_) => Vec::new(),
            }
        });
        Self { server, lines }
    }

    fn line(&self) -> usize {
        self.lines.recv_timeout(PATIENCE).expect("the peer receives another request")
    }
}

/// Returns a flow whose sink has one delivery of `events` events in flight.
fn flow(address: SocketAddr, events: usize) -> String {
    format!(
        "connectors:
  input:
    type: file
    preprocessors: [lines]
    codec: string
    config: {{ path: in, mode: read, checkpoint: at }}
  output:
    type: http_client
    codec: string
    in_flight: 1
    batch: {{ max_events: {events}, linger: 0ms }}
    config: {{ url: 'http://{address}/', format: raw, max_connections: 1 }}
links: [input -> output]"
    )
}

/// Stops a flow whose peer hangs after it has answered [`ANSWERED`] requests. The next run has to begin with the first line
/// of the delivery that was not answered.
#[track_caller]
fn expect_exact_position(events: usize) {
    let width = LENGTH - 1;
    let lines: Vec<_> = (0..LINES).map(|line| format!("{line:>width$}\n")).collect();
    let hangs = Peer::start(ANSWERED);
    let text = flow(hangs.server.address(), events);
    let scene = Scene::new(&text).write("in", lines.concat().as_bytes());
    let arguments = ["run", "--drain-timeout", "1", "flow.yaml"];
    let child = scene.command(&arguments).spawn().unwrap();
    while hangs.line() < ANSWERED {}
    Command::new("kill").args(["-TERM", &child.id().to_string()]).status().unwrap();
    let run = Run::of(&finish(child));
    assert!(run.stderr.contains("cut_off=true"), "{}", run.stderr);

    let answers = Peer::start(usize::MAX);
    let scene = scene.write("flow.yaml", flow(answers.server.address(), events).as_bytes());
    scene.run().expect(0, &[" out"]);
    drop(hangs);
    let first = answers.line();
    let unanswered = ANSWERED + 1 - events..=ANSWERED;
    assert!(unanswered.contains(&first), "line {first}, deliveries of {events} events");
    assert_eq!(answers.lines.try_iter().last(), Some(LINES - 1));
}

#[test]
fn drain_that_times_out_repeats_no_answered_delivery() {
    expect_exact_position(1);
    expect_exact_position(100);
}
