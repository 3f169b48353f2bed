//! The peer of the sink: it answers to deliveries, or it does not, as it is told.

use std::fs;
use std::io::{ErrorKind, Read, Write};
use std::net::Shutdown;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use serde::Serialize;

use super::books::Books;

/// How long it takes for a delivery that it answers at once.
const DELIVERY: Duration = Duration::from_millis(20);
/// How often it looks for connections.
const LOOK: Duration = Duration::from_millis(1);
/// No delivery has more bytes.
const MOST: usize = 64 << 20;

/// How it behaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Manner {
    /// It takes each delivery, and answers after 20 ms.
    Answers,
    /// There is no socket, and all connections are closed.
    Stopped,
    /// It answers that it takes nothing now.
    Refuses,
    /// It takes each delivery, and answers late.
    Slow,
    /// It accepts connections, and reads nothing. These connections stay as they are.
    Silent,
}

impl Manner {
    /// Its name in tables.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Answers => "answers",
            Self::Stopped => "stopped",
            Self::Refuses => "refuses",
            Self::Slow => "slow",
            Self::Silent => "silent",
        }
    }
}

/// The peer, with its threads.
pub(super) struct Peer {
    shared: Arc<Shared>,
    accepts: Option<JoinHandle<Result<()>>>,
}

struct Shared {
    path: PathBuf,
    /// How long an answer takes where it is slow.
    slow: Duration,
    state: Mutex<State>,
    changed: Condvar,
}

struct State {
    manner: Manner,
    has_ended: bool,
    books: Books,
    /// When the first delivery came since it answers.
    first: Option<Instant>,
    /// To close them.
    connections: Vec<UnixStream>,
    /// How often it has become silent: connections of before then stay silent.
    silences: usize,
}

impl Peer {
    /// A peer that has not begun to listen.
    pub(super) fn new(path: &Path, slow: Duration, books: Books) -> Self {
        let (manner, connections) = (Manner::Stopped, Vec::new());
        let (has_ended, first, silences) = (false, None, 0);
        let state = State { manner, has_ended, books, first, connections, silences };
        let (path, state) = (path.to_owned(), Mutex::new(state));
        let shared = Arc::new(Shared { path, slow, state, changed: Condvar::new() });
        let accepts = thread::spawn({
            let shared = shared.clone();
            move || shared.accept()
        });
        Self { shared, accepts: Some(accepts) }
    }

    /// It behaves like this from now on.
    pub(super) fn turn(&self, manner: Manner) {
        let mut state = self.shared.state();
        state.manner = manner;
        state.first = None;
        match manner {
            Manner::Stopped => state.close(),
            Manner::Silent => state.silences += 1,
            _ => {}
        }
        self.shared.changed.notify_all();
    }

    /// When the first delivery came since it answers.
    pub(super) fn first(&self) -> Option<Instant> {
        self.shared.state().first
    }

    /// What is asked of its books.
    pub(super) fn ask<T>(&self, question: impl FnOnce(&Books) -> T) -> T {
        question(&self.shared.state().books)
    }

    /// # Errors
    /// It could not listen.
    pub(super) fn end(mut self) -> Result<()> {
        self.close();
        match self.accepts.take().map(JoinHandle::join) {
            Some(Ok(result)) => result,
            _ => Ok(()),
        }
    }

    fn close(&self) {
        let mut state = self.shared.state();
        state.has_ended = true;
        state.close();
        self.shared.changed.notify_all();
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        self.close();
    }
}

impl State {
    fn close(&mut self) {
        for connection in self.connections.drain(..) {
            // The other side may have closed it.
            let _ = connection.shutdown(Shutdown::Both);
        }
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Accepts connections while there is a socket, and until the end.
    fn accept(self: &Arc<Self>) -> Result<()> {
        let mut listener: Option<UnixListener> = None;
        loop {
            let mut state = self.state();
            if state.has_ended {
                return Ok(());
            }
            if state.manner == Manner::Stopped {
                listener = None;
                let _ = fs::remove_file(&self.path);
                drop(self.changed.wait(state));
                continue;
            }
            let listens = match &listener {
                Some(listens) => listens,
                None => listener.insert(self.listen()?),
            };
            match listens.accept() {
                Ok((connection, _)) => {
                    connection.set_nonblocking(false)?;
                    state.connections.push(connection.try_clone()?);
                    // One that is accepted now is of a time before the next that answers.
                    let is_silent = state.manner == Manner::Silent;
                    let since = state.silences - usize::from(is_silent);
                    let shared = self.clone();
                    thread::spawn(move || shared.serve(&connection, since));
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    drop(state);
                    thread::sleep(LOOK);
                }
                Err(error) => return Err(error).context("the peer cannot accept"),
            }
        }
    }

    fn listen(&self) -> Result<UnixListener> {
        let listener = UnixListener::bind(&self.path).context("the peer cannot listen")?;
        listener.set_nonblocking(true)?;
        Ok(listener)
    }

    /// Sees to the deliveries of a connection, to its end. A connection that was silent once stays so, and
    /// open: its other half is with those to be closed.
    fn serve(&self, mut connection: &UnixStream, silences: usize) {
        while let Some(delivery) = read(connection) {
            let Some(answer) = self.answer(&delivery, silences) else { return };
            if connection.write_all(&[answer]).is_err() {
                return;
            }
        }
    }

    /// What is answered to a delivery on a connection from after so many silences, and when; none if nothing
    /// is.
    fn answer(&self, delivery: &[u8], silences: usize) -> Option<u8> {
        let mut state = self.state();
        if state.silences != silences {
            return None;
        }
        match state.manner {
            Manner::Answers => _ = state.first.get_or_insert_with(Instant::now),
            Manner::Slow => {}
            Manner::Refuses => return Some(b'-'),
            Manner::Silent | Manner::Stopped => return None,
        }
        state.books.enter(delivery);
        let begun = Instant::now();
        while state.silences == silences {
            let takes = match state.manner {
                Manner::Slow => self.slow,
                Manner::Answers | Manner::Refuses => DELIVERY,
                Manner::Silent | Manner::Stopped => return None,
            };
            let left = takes.saturating_sub(begun.elapsed());
            if left.is_zero() {
                return Some(b'+');
            }
            let waited = self.changed.wait_timeout(state, left);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        None
    }
}

/// The next delivery; none at the end.
fn read(mut connection: &UnixStream) -> Option<Vec<u8>> {
    let mut length = [0; 4];
    connection.read_exact(&mut length).ok()?;
    let length = usize::try_from(u32::from_le_bytes(length)).ok().filter(|it| *it <= MOST)?;
    let mut delivery = vec![0; length];
    connection.read_exact(&mut delivery).ok()?;
    Some(delivery)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A record of eight bytes is its number.
    fn delivery(number: u64) -> Vec<u8> {
        [&8_u32.to_le_bytes()[..], &number.to_le_bytes()].concat()
    }

    fn connect(path: &Path) -> UnixStream {
        loop {
            // It may not listen yet.
            if let Ok(connection) = UnixStream::connect(path) {
                return connection;
            }
            thread::yield_now();
        }
    }

    /// What comes back for a delivery; none if the connection ends.
    fn send(mut connection: &UnixStream, number: u64) -> Option<u8> {
        connection.write_all(&delivery(number)).ok()?;
        let mut answer = [0];
        connection.read_exact(&mut answer).ok().map(|()| answer[0])
    }

    #[test]
    fn a_peer_has_what_it_does_not_refuse_and_a_stopped_one_closes_connections() -> Result<()> {
        let path = std::env::temp_dir().join(format!("outage-peer-{}", std::process::id()));
        let peer = Peer::new(&path, Duration::from_millis(1), Books::new(8, 1));
        assert!(UnixStream::connect(&path).is_err());
        peer.turn(Manner::Slow);
        let connection = connect(&path);
        assert_eq!((send(&connection, 0), peer.first()), (Some(b'+'), None));
        peer.turn(Manner::Refuses);
        assert_eq!(send(&connection, 1), Some(b'-'));
        peer.turn(Manner::Answers);
        assert_eq!(send(&connection, 1), Some(b'+'));
        assert!(peer.first().is_some());
        peer.turn(Manner::Stopped);
        assert_eq!(send(&connection, 2), None);
        peer.turn(Manner::Answers);
        assert_eq!(send(&connect(&path), 2), Some(b'+'));
        assert_eq!(peer.ask(|books| (books.missing(3), books.again)), (0, 0));
        peer.end()
    }

    #[test]
    fn a_silent_peer_takes_nothing_and_a_connection_of_that_time_stays_silent() -> Result<()> {
        let path = std::env::temp_dir().join(format!("outage-silent-{}", std::process::id()));
        let peer = Peer::new(&path, Duration::from_millis(1), Books::new(8, 1));
        peer.turn(Manner::Silent);
        let (mut silent, time) = (connect(&path), Some(Duration::from_millis(50)));
        silent.write_all(&delivery(7))?;
        while peer.shared.state().connections.is_empty() {
            thread::yield_now();
        }
        silent.set_read_timeout(time)?;
        assert!(silent.read(&mut [0]).is_err(), "no answer");
        peer.turn(Manner::Answers);
        assert!(silent.read(&mut [0]).is_err(), "and none later");
        assert_eq!(send(&connect(&path), 0), Some(b'+'));
        assert_eq!(peer.ask(|books| (books.missing(1), books.missing(8))), (0, 7));
        peer.end()
    }
}
