//! An HTTP server that receives the events of a flow, and rejects requests as a test sets it.

use std::{
    collections::BTreeMap,
    io::{BufRead, BufReader, Read, Write},
    net::{TcpListener, TcpStream},
    sync::{Arc, Mutex, PoisonError},
    thread,
};

use flate2::read::GzDecoder;
use serde_json::Value;

use crate::peer::wait_until;

/// A server that receives the lines of requests as events, until the test ends.
pub(super) struct Collector {
    address: String,
    state: Arc<Mutex<State>>,
}

/// Returns the status of the response to a request with these events.
type Status = Box<dyn Fn(&[Value]) -> u16 + Send>;

struct State {
    status: Status,
    /// Number of responses by their status.
    responses: BTreeMap<u16, usize>,
    /// Events of the requests that were answered with 200.
    events: Vec<Value>,
}

impl Collector {
    /// Starts a server that answers each request with `status`.
    pub(super) fn start(status: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let status: Status = Box::new(move |_| status);
        let state = State { status, responses: BTreeMap::new(), events: Vec::new() };
        let state = Arc::new(Mutex::new(state));
        let served = state.clone();
        thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let state = served.clone();
                thread::spawn(move || serve(stream, &state));
            }
        });
        Self { address, state }
    }

    pub(super) fn address(&self) -> &str {
        &self.address
    }

    /// Answers each further request with `status`.
    pub(super) fn answer(&self, status: u16) {
        self.answer_by(move |_| status);
    }

    /// Answers each further request with the status that `status` returns for its events.
    pub(super) fn answer_by(&self, status: impl Fn(&[Value]) -> u16 + Send + 'static) {
        self.with(|state| state.status = Box::new(status));
    }

    /// Waits until a request was answered with `status`.
    pub(super) fn until_answered(&self, status: u16) {
        wait_until(|| self.with(|state| state.responses.contains_key(&status)));
    }

    /// Waits until the server has accepted events for which `is_all` returns `true`, and returns these events.
    pub(super) fn until(&self, is_all: impl Fn(&[Value]) -> bool) -> Vec<Value> {
        wait_until(|| self.with(|state| is_all(&state.events)));
        self.with(|state| state.events.clone())
    }

    fn with<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        change(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Answers the requests of a connection until the connection ends.
fn serve(stream: TcpStream, state: &Mutex<State>) {
    let mut stream = BufReader::new(stream);
    while let Some(body) = body(&mut stream) {
        let lines = body.lines().map(|line| serde_json::from_str(line).unwrap());
        let events: Vec<Value> = lines.collect();
        let status = {
            let mut state = state.lock().unwrap_or_else(PoisonError::into_inner);
            let status = (state.status)(&events);
            *state.responses.entry(status).or_default() += 1;
            if status == 200 {
                state.events.extend(events);
            }
            status
        };
        let response = format!("HTTP/1.1 {status} X\r\nContent-Length: 0\r\n\r\n");
        if stream.get_mut().write_all(response.as_bytes()).is_err() {
            return;
        }
    }
}

/// Returns the decompressed body of the next request; `None` if the connection ends before.
fn body(stream: &mut BufReader<TcpStream>) -> Option<String> {
    let (mut length, mut is_compressed) = (0, false);
    loop {
        let mut line = String::new();
        if stream.read_line(&mut line).ok()? == 0 {
            return None;
        }
        let line = line.trim_end().to_ascii_lowercase();
        if let Some(text) = line.strip_prefix("content-length:") {
            length = text.trim().parse().unwrap();
        }
        is_compressed |= line == "content-encoding: gzip";
        if line.is_empty() {
            let mut body = vec![0; length];
            stream.read_exact(&mut body).ok()?;
            let mut text = String::new();
            if is_compressed {
                GzDecoder::new(&*body).read_to_string(&mut text).unwrap();
            } else {
                text = String::from_utf8(body).unwrap();
            }
            return Some(text);
        }
    }
}
