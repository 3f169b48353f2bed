//! A peer over HTTP that takes lines, and answers when it is told to: what it has not answered is under way in
//! the flow.

use std::{
    io::{BufRead, BufReader, Read, Write},
    net::{TcpListener, TcpStream},
    sync::{Arc, Condvar, Mutex},
    thread,
    time::Instant,
};

use crate::PATIENCE;

const ANSWER: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n";

/// It, until the test ends.
#[derive(Clone)]
pub struct Peer(Arc<Shared>);

struct Shared {
    address: String,
    state: Mutex<State>,
    changed: Condvar,
}

struct State {
    /// Which lines wait for their answer.
    holds: Box<dyn Fn(&str) -> bool + Send>,
    /// The lines that have come, answered or not.
    came: Vec<String>,
    /// Those that are answered.
    answered: Vec<String>,
}

impl Default for Peer {
    fn default() -> Self {
        Self::new()
    }
}

impl Peer {
    /// One that answers at once.
    pub fn new() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let state = State { holds: Box::new(|_| false), came: Vec::new(), answered: Vec::new() };
        let peer =
            Self(Arc::new(Shared { address, state: Mutex::new(state), changed: Condvar::new() }));
        let own = peer.clone();
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let own = own.clone();
                thread::spawn(move || own.serve(stream));
            }
        });
        peer
    }

    /// The sink of a flow that sends there: each event is a request.
    pub fn sink(&self) -> String {
        let address = &self.0.address;
        format!(
            "{{ type: http_client, codec: json, in_flight: 16, batch: {{ max_events: 1 }}, \
             config: {{ url: 'http://{address}/', max_connections: 16, timeout: 5m }} }}"
        )
    }

    /// From here on such lines wait for their answer, and others do not.
    pub fn hold(&self, which: impl Fn(&str) -> bool + Send + 'static) {
        self.0.state.lock().unwrap().holds = Box::new(which);
        self.0.changed.notify_all();
    }

    /// From here on none does.
    pub fn release(&self) {
        self.hold(|_| false);
    }

    /// The lines that have come so far, answered or not.
    pub fn came(&self) -> Vec<String> {
        self.0.state.lock().unwrap().came.clone()
    }

    /// The lines that were answered so far.
    pub fn answered(&self) -> Vec<String> {
        self.0.state.lock().unwrap().answered.clone()
    }

    /// Waits until this holds for the lines that have come.
    pub fn comes(&self, what: &str, holds: impl Fn(&[String]) -> bool) {
        let start = Instant::now();
        let mut state = self.0.state.lock().unwrap();
        while !holds(&state.came) {
            let left = PATIENCE.checked_sub(start.elapsed());
            let left = left.unwrap_or_else(|| panic!("{what}: only {:?} came", state.came));
            state = self.0.changed.wait_timeout(state, left).unwrap().0;
        }
    }

    fn serve(&self, stream: TcpStream) -> Option<()> {
        let mut input = BufReader::new(stream.try_clone().ok()?);
        let mut output = stream;
        loop {
            let mut length = 0;
            loop {
                let mut line = String::new();
                if input.read_line(&mut line).ok()? == 0 {
                    return None;
                }
                let line = line.trim().to_ascii_lowercase();
                if let Some(found) = line.strip_prefix("content-length:") {
                    length = found.trim().parse().ok()?;
                }
                if line.is_empty() {
                    break;
                }
            }
            let mut body = vec![0; length];
            input.read_exact(&mut body).ok()?;
            let body = String::from_utf8(body).ok()?;
            let lines: Vec<String> = body.lines().map(str::to_owned).collect();
            let mut state = self.0.state.lock().unwrap();
            state.came.extend_from_slice(&lines);
            self.0.changed.notify_all();
            while lines.iter().any(|line| (state.holds)(line)) {
                state = self.0.changed.wait(state).unwrap();
            }
            state.answered.extend(lines);
            drop(state);
            output.write_all(ANSWER).ok()?;
        }
    }
}
