//! A hostile server for clients.

use std::{
    io::{self, Read, Write},
    net::{TcpListener, TcpStream},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed},
    },
    thread,
    time::Duration,
};

use rustix::net::sockopt::set_socket_linger;
use rustls::ServerConfig;

use super::{
    row::{Peer, Then},
    tls,
};
use crate::peer::wait_until;

/// Maximum time of a read or a write, so that a client that does nothing cannot block the test.
const LIMIT: Duration = Duration::from_secs(5);

/// Pause between checks for a new connection.
const PAUSE: Duration = Duration::from_millis(2);

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

/// A server that gives the same answer to all clients.
pub(super) struct Server {
    shared: Arc<Shared>,
    bomb: Vec<u8>,
    form: Form,
    /// Returns the answer with the valid event of a given number.
    good: fn(usize) -> Vec<u8>,
    thread: Option<thread::JoinHandle<()>>,
}

struct Shared {
    answer: Mutex<Answer>,
    /// Number of connections that got the current answer.
    served: AtomicUsize,
    is_over: AtomicBool,
}

struct Answer {
    bytes: Vec<u8>,
    form: Form,
    then: Then,
}

impl Server {
    pub(super) fn start(
        address: &str,
        behaviour: Behaviour,
        bomb: Vec<u8>,
        good: fn(usize) -> Vec<u8>,
    ) -> Self {
        let form = behaviour.form;
        let answer = Answer { bytes: Vec::new(), form: Form::Whole, then: Then::Closes };
        let answer = Mutex::new(answer);
        let served = AtomicUsize::new(0);
        let shared = Arc::new(Shared { answer, served, is_over: AtomicBool::new(false) });
        let listener = TcpListener::bind(address).unwrap();
        listener.set_nonblocking(true).unwrap();
        let serving = shared.clone();
        let thread = Some(thread::spawn(move || serving.serve(&listener, &behaviour)));
        Self { shared, bomb, form, good, thread }
    }

    fn set(&self, bytes: &[u8], form: Form, then: Then) {
        let mut answer = self.shared.answer.lock().unwrap_or_else(PoisonError::into_inner);
        *answer = Answer { bytes: bytes.to_vec(), form, then };
        self.shared.served.store(0, Relaxed);
    }
}

impl Shared {
    fn serve(&self, listener: &TcpListener, behaviour: &Behaviour) {
        let mut _open = None;
        while !self.is_over.load(Relaxed) {
            if self.served.load(Relaxed) == 0 {
                // The answer has changed, so close the last connection. A client that waits on it has to reconnect.
                _open = None;
            }
            let Ok((stream, _)) = listener.accept() else {
                thread::sleep(PAUSE);
                continue;
            };
            // Ignore errors, because the client may close its connection at any time.
            _open = self.answer(stream, behaviour).unwrap_or(None);
            self.served.fetch_add(1, Relaxed);
        }
    }

    fn answer(
        &self,
        mut stream: TcpStream,
        behaviour: &Behaviour,
    ) -> io::Result<Option<TcpStream>> {
        stream.set_nonblocking(false)?;
        stream.set_read_timeout(Some(LIMIT))?;
        stream.set_write_timeout(Some(LIMIT))?;
        let answer = || {
            let answer = self.answer.lock().unwrap_or_else(PoisonError::into_inner);
            (answer.bytes.clone(), answer.form, answer.then)
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
            set_socket_linger(&stream, Some(Duration::ZERO))?;
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

fn read_head(stream: &mut impl Read) -> io::Result<String> {
    let (mut head, mut byte) = (Vec::new(), [0]);
    while !head.ends_with(b"\r\n\r\n") {
        stream.read_exact(&mut byte)?;
        head.push(byte[0]);
    }
    Ok(String::from_utf8_lossy(&head).into_owned())
}

impl Peer for Server {
    fn attack(&mut self, then: Then) {
        let half = &self.bomb[..self.bomb.len() / 2];
        self.set(if then == Then::Breaks { half } else { &self.bomb }, self.form, then);
        wait_until(|| self.shared.served.load(Relaxed) > 0);
    }

    fn send_good(&mut self, number: usize) {
        self.set(&(self.good)(number), Form::Whole, Then::Closes);
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.shared.is_over.store(true, Relaxed);
        let ended = self.thread.take().map(thread::JoinHandle::join);
        assert!(thread::panicking() || ended.is_some_and(|ended| ended.is_ok()));
    }
}
