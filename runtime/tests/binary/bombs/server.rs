//! A hostile server for clients.

use std::{
    io::{self, Read, Write},
    net::TcpStream,
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use hostile_peers::{
    Acceptor, PATIENCE,
    connection::{limited, reset},
    http::read_head,
};
use rustls::ServerConfig;

use super::{
    row::{Peer, Then},
    tls,
};

/// Maximum time of a read or a write, so that a client that does nothing cannot block the test.
const LIMIT: Duration = Duration::from_secs(5);

/// Function that returns the first bytes of an answer for the head of a request. These bytes are not sent before an
/// answer that is an HTTP response. `None` for protocols without a request.
pub(super) type Greet = Option<fn(&str) -> Vec<u8>>;

/// Form in which a TLS server sends a bomb.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// The bomb is sent as a whole, through TLS if the server uses TLS.
    Whole,
    /// The bomb is sent instead of the server's messages of the TLS handshake.
    Handshake,
    /// After the handshake, half of the record that contains the bomb is sent.
    HalfRecord,
}

/// Behaviour of a hostile server.
pub(super) struct Behaviour {
    pub(super) greet: Greet,
    pub(super) tls: Option<Arc<ServerConfig>>,
    pub(super) form: Form,
}

/// A server that gives the same answer to all clients, on a free port.
pub(super) struct Server {
    shared: Arc<Shared>,
    bomb: Vec<u8>,
    form: Form,
    /// Returns the answer with the valid event of a given number.
    good: fn(usize) -> Vec<u8>,
    address: String,
    _acceptor: Acceptor,
}

struct Shared {
    state: Mutex<State>,
    /// Notified when a connection got the answer.
    changed: Condvar,
}

struct State {
    answer: Answer,
    /// `true` if a connection got the answer.
    is_served: bool,
    /// The last connection, if it stays open.
    open: Option<TcpStream>,
}

#[derive(Clone)]
struct Answer {
    /// Number of earlier answers.
    number: usize,
    bytes: Vec<u8>,
    form: Form,
    then: Then,
}

impl Server {
    pub(super) fn start(behaviour: Behaviour, bomb: Vec<u8>, good: fn(usize) -> Vec<u8>) -> Self {
        let form = behaviour.form;
        let (number, bytes, then) = (0, Vec::new(), Then::Closes);
        let answer = Answer { number, bytes, form: Form::Whole, then };
        let state = Mutex::new(State { answer, is_served: false, open: None });
        let shared = Arc::new(Shared { state, changed: Condvar::new() });
        let serving = shared.clone();
        let serve = move |stream| serving.serve(stream, &behaviour);
        let (acceptor, address) = Acceptor::tcp(serve).unwrap();
        Self { shared, bomb, form, good, address: address.to_string(), _acceptor: acceptor }
    }

    /// Returns the address at which the server listens.
    pub(super) fn address(&self) -> &str {
        &self.address
    }

    fn set(&self, bytes: &[u8], form: Form, then: Then) {
        let mut state = self.shared.state();
        let number = state.answer.number + 1;
        state.answer = Answer { number, bytes: bytes.to_vec(), form, then };
        state.is_served = false;
        // A client that waits on the last connection has to reconnect.
        state.open = None;
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn serve(&self, stream: TcpStream, behaviour: &Behaviour) {
        let mut number = self.state().answer.number;
        // Ignore errors, because the client may close its connection at any time.
        let open = self.answer(stream, behaviour, &mut number).unwrap_or(None);
        let mut state = self.state();
        // The answer may have changed meanwhile.
        if number == state.answer.number {
            state.open = open;
            state.is_served = true;
            self.changed.notify_all();
        }
    }

    fn answer(
        &self,
        mut stream: TcpStream,
        behaviour: &Behaviour,
        number: &mut usize,
    ) -> io::Result<Option<TcpStream>> {
        stream = limited(stream, LIMIT)?;
        let mut answer = || {
            let answer = self.state().answer.clone();
            *number = answer.number;
            (answer.bytes, answer.form, answer.then)
        };
        let (bytes, form, mut then) = answer();
        stream = match &behaviour.tls {
            Some(_) if form == Form::Handshake => {
                stream.write_all(&bytes)?;
                stream
            }
            Some(config) => {
                let mut stream = tls::accept(stream, config.clone())?;
                let greeting = greeting(behaviour, &mut stream)?;
                let (bytes, form, now) = answer();
                then = now;
                if form == Form::Whole {
                    stream.write_all(&answer_of(&greeting, &bytes))?;
                } else {
                    stream.write_all(&greeting)?;
                    tls::send_half(&mut stream, &bytes[..bytes.len().min(tls::RECORD)])?;
                }
                if then == Then::Closes {
                    stream.conn.send_close_notify();
                }
                stream.flush()?;
                stream.sock
            }
            None => {
                let greeting = greeting(behaviour, &mut stream)?;
                let (bytes, _, now) = answer();
                then = now;
                stream.write_all(&answer_of(&greeting, &bytes))?;
                stream
            }
        };
        if then == Then::Breaks {
            reset(&stream)?;
        }
        Ok((then == Then::Stays).then_some(stream))
    }
}

/// Reads the head of a request, if the protocol has requests, and returns the first bytes of the answer.
fn greeting(behaviour: &Behaviour, stream: &mut impl Read) -> io::Result<Vec<u8>> {
    behaviour.greet.map_or(Ok(Vec::new()), |greet| Ok(greet(&read_head(stream)?)))
}

/// Returns the complete answer: the first bytes for the request, unless the answer is an HTTP response, and the answer.
fn answer_of(greeting: &[u8], bytes: &[u8]) -> Vec<u8> {
    if bytes.starts_with(b"HTTP/") { bytes.to_vec() } else { [greeting, bytes].concat() }
}

impl Peer for Server {
    fn attack(&mut self, then: Then) {
        let half = &self.bomb[..self.bomb.len() / 2];
        self.set(if then == Then::Breaks { half } else { &self.bomb }, self.form, then);
        let state = self.shared.state();
        let waited = self.shared.changed.wait_timeout_while(state, PATIENCE, |it| !it.is_served);
        let (state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        assert!(state.is_served, "no client got the bomb within {PATIENCE:?}");
    }

    fn send_good(&mut self, number: usize) {
        self.set(&(self.good)(number), Form::Whole, Then::Closes);
    }
}
