//! A hostile server of clients.

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

use super::row::{Peer, Then};
use crate::peer::wait_until;

/// Longest time that a read or a write may take, so that a client that does nothing delays nothing for long.
const LIMIT: Duration = Duration::from_secs(5);

/// Pause of a server that nobody connects to.
const PAUSE: Duration = Duration::from_millis(2);

/// Makes the first bytes of an answer from the head of a request, unless the answer is a response of HTTP itself. `None`
/// for protocols without a request.
pub(super) type Greet = Option<fn(&str) -> Vec<u8>>;

/// A server that gives the same answer to all clients.
pub(super) struct Server {
    shared: Arc<Shared>,
    bomb: Vec<u8>,
    /// Makes the answer with the good event of this number.
    good: fn(usize) -> Vec<u8>,
    thread: Option<thread::JoinHandle<()>>,
}

struct Shared {
    answer: Mutex<Answer>,
    /// Number of connections that got the answer, since that was set.
    served: AtomicUsize,
    is_over: AtomicBool,
}

struct Answer {
    bytes: Vec<u8>,
    then: Then,
}

impl Server {
    pub(super) fn start(
        address: &str,
        greet: Greet,
        bomb: Vec<u8>,
        good: fn(usize) -> Vec<u8>,
    ) -> Self {
        let answer = Mutex::new(Answer { bytes: Vec::new(), then: Then::Closes });
        let served = AtomicUsize::new(0);
        let shared = Arc::new(Shared { answer, served, is_over: AtomicBool::new(false) });
        let listener = TcpListener::bind(address).unwrap();
        listener.set_nonblocking(true).unwrap();
        let serving = shared.clone();
        let thread = Some(thread::spawn(move || serving.serve(&listener, greet)));
        Self { shared, bomb, good, thread }
    }

    fn set(&self, bytes: &[u8], then: Then) {
        let mut answer = self.shared.answer.lock().unwrap_or_else(PoisonError::into_inner);
        *answer = Answer { bytes: bytes.to_vec(), then };
        self.shared.served.store(0, Relaxed);
    }
}

impl Shared {
    fn serve(&self, listener: &TcpListener, greet: Greet) {
        let mut _open = None;
        while !self.is_over.load(Relaxed) {
            if self.served.load(Relaxed) == 0 {
                // The answer has changed: a client that still waits on an earlier connection connects again.
                _open = None;
            }
            let Ok((stream, _)) = listener.accept() else {
                thread::sleep(PAUSE);
                continue;
            };
            // The client may close its connection at any time.
            _open = self.answer(stream, greet).unwrap_or(None);
            self.served.fetch_add(1, Relaxed);
        }
    }

    fn answer(&self, mut stream: TcpStream, greet: Greet) -> io::Result<Option<TcpStream>> {
        stream.set_nonblocking(false)?;
        stream.set_read_timeout(Some(LIMIT))?;
        stream.set_write_timeout(Some(LIMIT))?;
        let greeting = match greet {
            Some(greet) => greet(&read_head(&mut stream)?),
            None => Vec::new(),
        };
        let (bytes, then) = {
            let answer = self.answer.lock().unwrap_or_else(PoisonError::into_inner);
            (answer.bytes.clone(), answer.then)
        };
        if !bytes.starts_with(b"HTTP/") {
            stream.write_all(&greeting)?;
        }
        stream.write_all(&bytes)?;
        if then == Then::Breaks {
            set_socket_linger(&stream, Some(Duration::ZERO))?;
        }
        Ok((then == Then::Stays).then_some(stream))
    }
}

fn read_head(stream: &mut TcpStream) -> io::Result<String> {
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
        self.set(if then == Then::Breaks { half } else { &self.bomb }, then);
        wait_until(|| self.shared.served.load(Relaxed) > 0);
    }

    fn send_good(&mut self, number: usize) {
        self.set(&(self.good)(number), Then::Closes);
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.shared.is_over.store(true, Relaxed);
        let ended = self.thread.take().map(thread::JoinHandle::join);
        assert!(thread::panicking() || ended.is_some_and(|ended| ended.is_ok()));
    }
}
