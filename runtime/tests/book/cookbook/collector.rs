//! An HTTP server that receives the events of a flow, and rejects requests as a test sets it.

use std::{
    collections::BTreeMap,
    io::Read,
    sync::{Arc, Mutex, PoisonError},
};

use flate2::read::GzDecoder;
use hostile_peers::http::{Request, Server, response};
use serde_json::Value;

use crate::peer::wait_until;

/// A server that receives the lines of requests as events, until the test ends.
pub(super) struct Collector {
    address: String,
    state: Arc<Mutex<State>>,
    _server: Server,
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
        let status: Status = Box::new(move |_| status);
        let state = State { status, responses: BTreeMap::new(), events: Vec::new() };
        let state = Arc::new(Mutex::new(state));
        let served = state.clone();
        let server = Server::start(move |request| answer(request, &served));
        Self { address: server.address().to_string(), state, _server: server }
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

/// Returns the response to a request, and keeps its events.
fn answer(request: &Request, state: &Mutex<State>) -> Vec<u8> {
    let lines = body(request);
    let events: Vec<Value> =
        lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let mut state = state.lock().unwrap_or_else(PoisonError::into_inner);
    let status = (state.status)(&events);
    *state.responses.entry(status).or_default() += 1;
    if status == 200 {
        state.events.extend(events);
    }
    response(&format!("{status} X"), "")
}

/// Returns the decompressed body of a request.
pub(super) fn body(request: &Request) -> String {
    if request.header("content-encoding") != Some("gzip") {
        return request.text();
    }
    let mut text = String::new();
    GzDecoder::new(&*request.body).read_to_string(&mut text).unwrap();
    text
}
