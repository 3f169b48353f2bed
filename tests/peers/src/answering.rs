//! An HTTP peer that receives lines and answers on demand. Events without an answer stay in flight in the flow.

use std::{
    sync::{Arc, Condvar, Mutex},
    time::Instant,
};

use crate::{
    PATIENCE,
    http::{Request, Server, response},
};

/// A peer that answers until it is dropped.
#[derive(Clone)]
pub struct Peer {
    shared: Arc<Shared>,
    server: Arc<Server>,
}

struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

struct State {
    /// Returns whether the answer to a line is delayed.
    is_delayed: Box<dyn Fn(&str) -> bool + Send>,
    /// Lines that were received, answered or not.
    received: Vec<String>,
    /// Lines that were answered.
    answered: Vec<String>,
}

impl Default for Peer {
    fn default() -> Self {
        Self::new()
    }
}

impl Peer {
    /// Starts a peer that answers immediately.
    pub fn new() -> Self {
        let state =
            State { is_delayed: Box::new(|_| false), received: Vec::new(), answered: Vec::new() };
        let shared = Arc::new(Shared { state: Mutex::new(state), changed: Condvar::new() });
        let own = shared.clone();
        let server = Server::start(move |request| own.answer(request));
        Self { shared, server: Arc::new(server) }
    }

    /// Returns a sink, in the notation of a flow file, that sends each event to the peer as a request.
    pub fn sink(&self) -> String {
        let address = self.server.address();
        format!(
            "{{ type: http_client, codec: json, in_flight: 16, batch: {{ max_events: 1 }}, \
             config: {{ url: 'http://{address}/', max_connections: 16, timeout: 5m }} }}"
        )
    }

    /// Delays the answers to the lines for which `which` returns `true`. All other lines are answered, including the
    /// lines that were delayed before.
    pub fn delay_answers(&self, which: impl Fn(&str) -> bool + Send + 'static) {
        self.shared.state.lock().unwrap().is_delayed = Box::new(which);
        self.shared.changed.notify_all();
    }

    /// Answers all lines.
    pub fn answer_all(&self) {
        self.delay_answers(|_| false);
    }

    /// Returns the lines received so far, answered or not.
    pub fn received(&self) -> Vec<String> {
        self.shared.state.lock().unwrap().received.clone()
    }

    /// Returns the lines answered so far.
    pub fn answered(&self) -> Vec<String> {
        self.shared.state.lock().unwrap().answered.clone()
    }

    /// Waits until `condition` returns `true` for the received lines. `what` describes this condition in the message of
    /// a panic.
    pub fn receives(&self, what: &str, condition: impl Fn(&[String]) -> bool) {
        let start = Instant::now();
        let mut state = self.shared.state.lock().unwrap();
        while !condition(&state.received) {
            let left = PATIENCE.checked_sub(start.elapsed());
            let left = left.unwrap_or_else(|| panic!("{what}: received only {:?}", state.received));
            state = self.shared.changed.wait_timeout(state, left).unwrap().0;
        }
    }
}

impl Shared {
    fn answer(&self, request: &Request) -> Vec<u8> {
        let lines: Vec<String> = request.text().lines().map(str::to_owned).collect();
        let mut state = self.state.lock().unwrap();
        state.received.extend_from_slice(&lines);
        self.changed.notify_all();
        while lines.iter().any(|line| (state.is_delayed)(line)) {
            state = self.changed.wait(state).unwrap();
        }
        state.answered.extend(lines);
        response("200 OK", "")
    }
}
