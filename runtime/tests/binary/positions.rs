//! Test of the position of a source after a drain that its sink did not complete.

use std::{
    io::{BufRead, BufReader, Read, Write},
    net::{TcpListener, TcpStream},
    process::Command,
    sync::mpsc::{Receiver, Sender, channel},
    thread,
};

use crate::tremor::{Run, Scene, finish};

/// Number of lines in the input. `LENGTH` is the length of a line in bytes, including the line feed.
const LINES: usize = 10_000;
const LENGTH: usize = 40;
/// Number of requests that the peer answers before it hangs.
const ANSWERED: usize = 6_492;
/// Number of lines in a pull. A pull is acknowledged as a whole.
const PULL: usize = (64 << 10) / LENGTH;

/// A peer that answers a given number of requests and hangs at the next one.
struct Peer {
    address: String,
    /// Receiver of the line of each request.
    lines: Receiver<usize>,
}

impl Peer {
    fn start(answers: usize) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let (sender, lines) = channel();
        thread::spawn(move || {
            let mut left = answers;
            for stream in listener.incoming() {
                let Ok(stream) = stream else { return };
                serve(&stream, &mut left, &sender);
            }
        });
        Self { address, lines }
    }

    fn line(&self) -> usize {
        self.lines.recv().unwrap()
    }
}

/// Serves one connection until it ends.
fn serve(mut stream: &TcpStream, left: &mut usize, lines: &Sender<usize>) {
    let mut requests = BufReader::new(stream);
    loop {
        let mut length = 0;
        loop {
            let mut line = String::new();
            if requests.read_line(&mut line).unwrap_or(0) == 0 {
                return;
            }
            let line = line.trim().to_ascii_lowercase();
            if let Some(value) = line.strip_prefix("content-length:") {
                length = value.trim().parse().unwrap();
            }
            if line.is_empty() {
                break;
            }
        }
        let mut body = vec![0; length];
        requests.read_exact(&mut body).unwrap();
        let _ = lines.send(String::from_utf8(body).unwrap().trim().parse().unwrap());
        if *left == 0 {
            continue;
        }
        *left -= 1;
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
    }
}

fn flow(address: &str) -> String {
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
    config: {{ url: 'http://{address}/', format: raw }}
links: [input -> output]"
    )
}

#[test]
fn drain_that_times_out_keeps_delivered_positions() {
    let width = LENGTH - 1;
    let lines: Vec<_> = (0..LINES).map(|line| format!("{line:>width$}\n")).collect();
    let hangs = Peer::start(ANSWERED);
    let scene = Scene::new(&flow(&hangs.address)).write("in", lines.concat().as_bytes());
    let arguments = ["run", "--drain-timeout", "1", "flow.yaml"];
    let child = scene.command(&arguments).spawn().unwrap();
    while hangs.line() < ANSWERED {}
    Command::new("kill").args(["-TERM", &child.id().to_string()]).status().unwrap();
    let run = Run::of(&finish(child));
    assert!(run.stderr.contains("cut_off=true"), "{}", run.stderr);

    let answers = Peer::start(usize::MAX);
    let scene = scene.write("flow.yaml", flow(&answers.address).as_bytes());
    scene.run().expect(0, &[" out"]);
    drop(hangs);
    let first = answers.line();
    let behind = ANSWERED.checked_sub(first).expect("no line is lost");
    assert!(behind <= PULL, "{behind} answered lines are read again:\n{}", run.stderr);
    assert_eq!(answers.lines.try_iter().last(), Some(LINES - 1));
}
