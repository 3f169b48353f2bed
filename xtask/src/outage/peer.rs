//! The peer of the sink, which answers deliveries or fails according to its current behaviour.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use std::{fs, net::Shutdown, thread};

use anyhow::{Context, Result};
use hostile_peers::Acceptor;
use serde::Serialize;

use super::received::Received;

/// Maximum size of a delivery, in bytes.
const MAX_DELIVERY: usize = 64 << 20;

/// The way in which the peer handles connections and deliveries.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Behaviour {
    /// The peer accepts each delivery, and answers after its usual time.
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
    pub(crate) fn name(self) -> String {
        format!("{self:?}").to_lowercase()
    }
}

/// The peer, which ends when it is dropped.
pub(crate) struct Peer {
    path: PathBuf,
    shared: Arc<Shared>,
    /// The listener, unless the peer is stopped.
    acceptor: Option<Acceptor>,
}

/// Times from a delivery to its answer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pace {
    pub(crate) usual: Duration,
    /// Time while the peer is slow.
    pub(crate) slow: Duration,
}

struct Shared {
    pace: Pace,
    state: Mutex<State>,
    /// Notified when the behaviour changes, and when a connection is accepted.
    changed: Condvar,
}

struct State {
    behaviour: Behaviour,
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
    pub(crate) fn new(path: &Path, pace: Pace, received: Received) -> Self {
        let (behaviour, connections) = (Behaviour::Stopped, Vec::new());
        let (first, silences) = (None, 0);
        let state = Mutex::new(State { behaviour, received, first, connections, silences });
        let shared = Arc::new(Shared { pace, state, changed: Condvar::new() });
        Self { path: path.to_owned(), shared, acceptor: None }
    }

    /// Changes the behaviour.
    ///
    /// # Errors
    /// The peer cannot listen.
    pub(crate) fn turn(&mut self, behaviour: Behaviour) -> Result<()> {
        let mut state = self.shared.state();
        state.behaviour = behaviour;
        state.first = None;
        state.silences += usize::from(behaviour == Behaviour::Silent);
        self.shared.changed.notify_all();
        drop(state);
        if behaviour == Behaviour::Stopped {
            self.acceptor = None;
            let _ = fs::remove_file(&self.path);
            self.shared.state().close();
        } else if self.acceptor.is_none() {
            let shared = self.shared.clone();
            let acceptor = Acceptor::unix(&self.path, move |connection| shared.accept(connection));
            self.acceptor = Some(acceptor.context("the peer cannot listen")?);
        }
        Ok(())
    }

    /// Returns the time of the first delivery since the peer last began to answer.
    pub(crate) fn first(&self) -> Option<Instant> {
        self.shared.state().first
    }

    /// Calls `question` with the received records, and returns its result.
    pub(crate) fn ask<T>(&self, question: impl FnOnce(&Received) -> T) -> T {
        question(&self.shared.state().received)
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        // Only a new listener can fail, and a stopped peer has none.
        let _ = self.turn(Behaviour::Stopped);
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

    fn accept(self: &Arc<Self>, connection: UnixStream) {
        let mut state = self.state();
        // Without another descriptor, the connection is closed.
        let Ok(other) = connection.try_clone() else { return };
        state.connections.push(other);
        self.changed.notify_all();
        // A connection that is accepted during a silence counts as accepted before that silence, so it stays silent.
        let since = state.silences - usize::from(state.behaviour == Behaviour::Silent);
        let shared = self.clone();
        thread::spawn(move || shared.serve(&connection, since));
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
        let mut state = self.state();
        loop {
            let takes = match state.behaviour {
                _ if state.silences != silences => return None,
                Behaviour::Silent | Behaviour::Stopped => return None,
                Behaviour::Refuses if !is_accepted => return Some(b'-'),
                Behaviour::Slow => self.pace.slow,
                Behaviour::Answers | Behaviour::Refuses => self.pace.usual,
            };
            if !is_accepted {
                is_accepted = true;
                state.received.add(delivery);
                let is_first = state.behaviour == Behaviour::Answers;
                state.first = state.first.or(is_first.then(Instant::now));
            }
            let Some(left) = takes.checked_sub(begun.elapsed()).filter(|left| !left.is_zero())
            else {
                return Some(b'+');
            };
            let waited = self.changed.wait_timeout(state, left);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
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
    use hostile_peers::PATIENCE;

    use super::*;
    use crate::outage::received::Form;

    const PACE: Pace = Pace { usual: Duration::from_millis(1), slow: Duration::from_millis(1) };

    /// Returns a delivery of one record, whose eight bytes are its number.
    fn delivery(number: u64) -> Vec<u8> {
        [&8_u32.to_le_bytes()[..], &number.to_le_bytes()].concat()
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
        let mut peer = Peer::new(&path, PACE, Received::new(Form::Binary(8), 1));
        assert!(UnixStream::connect(&path).is_err());
        peer.turn(Behaviour::Slow)?;
        let connection = UnixStream::connect(&path)?;
        assert_eq!((send(&connection, 0), peer.first()), (Some(b'+'), None));
        peer.turn(Behaviour::Refuses)?;
        assert_eq!(send(&connection, 1), Some(b'-'));
        peer.turn(Behaviour::Answers)?;
        assert_eq!(send(&connection, 1), Some(b'+'));
        assert!(peer.first().is_some());
        peer.turn(Behaviour::Stopped)?;
        assert_eq!(send(&connection, 2), None);
        peer.turn(Behaviour::Answers)?;
        assert_eq!(send(&UnixStream::connect(&path)?, 2), Some(b'+'));
        assert_eq!(peer.ask(|received| (received.missing(3), received.again)), (0, 0));
        Ok(())
    }

    #[test]
    fn connection_of_a_silent_peer_stays_silent() -> Result<()> {
        let path = std::env::temp_dir().join(format!("outage-silent-{}", std::process::id()));
        let mut peer = Peer::new(&path, PACE, Received::new(Form::Binary(8), 1));
        peer.turn(Behaviour::Silent)?;
        let (mut silent, time) = (UnixStream::connect(&path)?, Some(Duration::from_millis(50)));
        silent.write_all(&delivery(7))?;
        let (shared, is_alone) = (&peer.shared, |it: &mut State| it.connections.is_empty());
        let accepted = shared.changed.wait_timeout_while(shared.state(), PATIENCE, is_alone);
        assert!(!accepted.expect("the peer did not panic").1.timed_out(), "no connection");
        silent.set_read_timeout(time)?;
        assert!(silent.read(&mut [0]).is_err(), "no answer");
        peer.turn(Behaviour::Answers)?;
        assert!(silent.read(&mut [0]).is_err(), "and none later");
        assert_eq!(send(&UnixStream::connect(&path)?, 0), Some(b'+'));
        assert_eq!(peer.ask(|received| (received.missing(1), received.missing(8))), (0, 7));
        Ok(())
    }
}
