//! The peer of the sink, which answers deliveries or fails according to its current behaviour.

use std::io::{ErrorKind, Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};
use std::{fs, net::Shutdown};

use anyhow::{Context, Result, anyhow};
use serde::Serialize;

use super::received::Received;

/// Time from a delivery to an answer that is not slow.
const DELIVERY: Duration = Duration::from_millis(20);
/// Time between two checks for new connections and for changes of the behaviour.
const CHECK: Duration = Duration::from_millis(1);
/// Maximum size of a delivery, in bytes.
const MAX_DELIVERY: usize = 64 << 20;

/// The way in which the peer handles connections and deliveries.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Behaviour {
    /// The peer accepts each delivery, and answers after 20 ms.
    Answers,
    /// The peer has no socket, and has closed all connections.
    Stopped,
    /// The peer rejects each delivery.
    Refuses,
    /// The peer accepts each delivery, and answers late.
    Slow,
    /// The peer accepts connections, and reads nothing from them, also when its behaviour has changed again.
    Silent,
}

impl Behaviour {
    /// Returns the name of the behaviour in lower case, for tables.
    pub(super) fn name(self) -> String {
        format!("{self:?}").to_lowercase()
    }
}

/// The peer, with its threads.
pub(super) struct Peer {
    shared: Arc<Shared>,
    accepts: JoinHandle<Result<()>>,
}

struct Shared {
    path: PathBuf,
    /// Time from a delivery to its answer while the peer is slow.
    slow: Duration,
    state: Mutex<State>,
}

struct State {
    behaviour: Behaviour,
    has_ended: bool,
    received: Received,
    /// Time of the first delivery since the peer last began to answer.
    first: Option<Instant>,
    /// Open connections, which are closed when the peer stops.
    connections: Vec<UnixStream>,
    /// Number of times that the peer became silent. Connections that were accepted before the last time stay silent.
    silences: usize,
}

impl Peer {
    /// Creates a peer that does not listen yet.
    pub(super) fn new(path: &Path, slow: Duration, received: Received) -> Self {
        let (behaviour, connections) = (Behaviour::Stopped, Vec::new());
        let (has_ended, first, silences) = (false, None, 0);
        let state = State { behaviour, has_ended, received, first, connections, silences };
        let shared = Arc::new(Shared { path: path.to_owned(), slow, state: Mutex::new(state) });
        let accepting = shared.clone();
        Self { shared, accepts: thread::spawn(move || accepting.accept()) }
    }

    /// Changes the behaviour.
    pub(super) fn turn(&self, behaviour: Behaviour) {
        let mut state = self.shared.state();
        state.behaviour = behaviour;
        state.first = None;
        match behaviour {
            Behaviour::Stopped => state.close(),
            Behaviour::Silent => state.silences += 1,
            _ => {}
        }
    }

    /// Returns the time of the first delivery since the peer last began to answer.
    pub(super) fn first(&self) -> Option<Instant> {
        self.shared.state().first
    }

    /// Calls `question` with the received records, and returns its result.
    pub(super) fn ask<T>(&self, question: impl FnOnce(&Received) -> T) -> T {
        question(&self.shared.state().received)
    }

    /// Ends the peer.
    ///
    /// # Errors
    /// The peer could not listen or accept connections.
    pub(super) fn end(self) -> Result<()> {
        self.turn(Behaviour::Stopped);
        self.shared.state().has_ended = true;
        self.accepts.join().map_err(|_| anyhow!("the peer panicked"))?
    }
}

impl State {
    fn close(&mut self) {
        for connection in self.connections.drain(..) {
            // Shutdown fails if the sink has closed the connection.
            let _ = connection.shutdown(Shutdown::Both);
        }
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Accepts connections until the peer ends, except while it is stopped.
    fn accept(self: &Arc<Self>) -> Result<()> {
        let mut listener: Option<UnixListener> = None;
        loop {
            let mut state = self.state();
            if state.has_ended {
                return Ok(());
            }
            if state.behaviour == Behaviour::Stopped {
                listener = None;
                let _ = fs::remove_file(&self.path);
            } else if listener.is_none() {
                listener = Some(self.listen()?);
            }
            let accepted = listener.as_ref().map(UnixListener::accept).transpose();
            match accepted {
                Ok(Some((connection, _))) => {
                    connection.set_nonblocking(false)?;
                    state.connections.push(connection.try_clone()?);
                    // A connection that is accepted during a silence counts as accepted before that silence, so it stays
                    // silent.
                    let is_silent = state.behaviour == Behaviour::Silent;
                    let since = state.silences - usize::from(is_silent);
                    let shared = self.clone();
                    thread::spawn(move || shared.serve(&connection, since));
                }
                Err(error) if error.kind() != ErrorKind::WouldBlock => {
                    return Err(error).context("the peer cannot accept");
                }
                _ => {
                    drop(state);
                    thread::sleep(CHECK);
                }
            }
        }
    }

    fn listen(&self) -> Result<UnixListener> {
        let listener = UnixListener::bind(&self.path).context("the peer cannot listen")?;
        listener.set_nonblocking(true)?;
        Ok(listener)
    }

    /// Answers the deliveries of a connection until it ends or falls silent. A silent connection stays open, because
    /// `connections` has another descriptor of it.
    fn serve(&self, mut connection: &UnixStream, silences: usize) {
        while let Some(delivery) = read(connection) {
            let Some(answer) = self.answer(&delivery, silences) else { return };
            if connection.write_all(&[answer]).is_err() {
                return;
            }
        }
    }

    /// Waits for the time that an answer takes, and returns the answer; `None` if the peer does not answer.
    ///
    /// `silences` is the number of silences before the connection was accepted.
    fn answer(&self, delivery: &[u8], silences: usize) -> Option<u8> {
        let begun = Instant::now();
        let mut is_accepted = false;
        loop {
            let mut state = self.state();
            let takes = match state.behaviour {
                _ if state.silences != silences => return None,
                Behaviour::Silent | Behaviour::Stopped => return None,
                Behaviour::Refuses if !is_accepted => return Some(b'-'),
                Behaviour::Slow => self.slow,
                Behaviour::Answers | Behaviour::Refuses => DELIVERY,
            };
            if !is_accepted {
                is_accepted = true;
                state.received.add(delivery);
                let is_first = state.behaviour == Behaviour::Answers;
                state.first = state.first.or(is_first.then(Instant::now));
            }
            drop(state);
            if begun.elapsed() >= takes {
                return Some(b'+');
            }
            thread::sleep(CHECK);
        }
    }
}

/// Reads the next delivery. Returns `None` at the end of the connection.
fn read(mut connection: &UnixStream) -> Option<Vec<u8>> {
    let mut length = [0; 4];
    connection.read_exact(&mut length).ok()?;
    let length =
        usize::try_from(u32::from_le_bytes(length)).ok().filter(|it| *it <= MAX_DELIVERY)?;
    let mut delivery = vec![0; length];
    connection.read_exact(&mut delivery).ok()?;
    Some(delivery)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a delivery of one record, whose eight bytes are its number.
    fn delivery(number: u64) -> Vec<u8> {
        [&8_u32.to_le_bytes()[..], &number.to_le_bytes()].concat()
    }

    fn connect(path: &Path) -> UnixStream {
        loop {
            // The peer may not listen yet.
            if let Ok(connection) = UnixStream::connect(path) {
                return connection;
            }
            thread::yield_now();
        }
    }

    /// Sends a delivery, and returns the answer; `None` if the connection ends.
    fn send(mut connection: &UnixStream, number: u64) -> Option<u8> {
        connection.write_all(&delivery(number)).ok()?;
        let mut answer = [0];
        connection.read_exact(&mut answer).ok().map(|()| answer[0])
    }

    #[test]
    fn peer_keeps_accepted_records_and_closes_when_stopped() -> Result<()> {
        let path = std::env::temp_dir().join(format!("outage-peer-{}", std::process::id()));
        let peer = Peer::new(&path, Duration::from_millis(1), Received::new(8, 1));
        assert!(UnixStream::connect(&path).is_err());
        peer.turn(Behaviour::Slow);
        let connection = connect(&path);
        assert_eq!((send(&connection, 0), peer.first()), (Some(b'+'), None));
        peer.turn(Behaviour::Refuses);
        assert_eq!(send(&connection, 1), Some(b'-'));
        peer.turn(Behaviour::Answers);
        assert_eq!(send(&connection, 1), Some(b'+'));
        assert!(peer.first().is_some());
        peer.turn(Behaviour::Stopped);
        assert_eq!(send(&connection, 2), None);
        peer.turn(Behaviour::Answers);
        assert_eq!(send(&connect(&path), 2), Some(b'+'));
        assert_eq!(peer.ask(|received| (received.missing(3), received.again)), (0, 0));
        peer.end()
    }

    #[test]
    fn connection_of_a_silent_peer_stays_silent() -> Result<()> {
        let path = std::env::temp_dir().join(format!("outage-silent-{}", std::process::id()));
        let peer = Peer::new(&path, Duration::from_millis(1), Received::new(8, 1));
        peer.turn(Behaviour::Silent);
        let (mut silent, time) = (connect(&path), Some(Duration::from_millis(50)));
        silent.write_all(&delivery(7))?;
        while peer.shared.state().connections.is_empty() {
            thread::yield_now();
        }
        silent.set_read_timeout(time)?;
        assert!(silent.read(&mut [0]).is_err(), "no answer");
        peer.turn(Behaviour::Answers);
        assert!(silent.read(&mut [0]).is_err(), "and none later");
        assert_eq!(send(&connect(&path), 0), Some(b'+'));
        assert_eq!(peer.ask(|received| (received.missing(1), received.missing(8))), (0, 7));
        peer.end()
    }
}
