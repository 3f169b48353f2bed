//! Attacks on connectors that strangers can reach. An attacker is a peer of such a connector that tries to use much of
//! the memory or processor time of the process.
//!
//! Each [`Attack`] has a flow with the attacked connector. The test `fair_share` of the runtime and `cargo xtask
//! faults` run that flow together with a second flow, and judge whether the second flow still works.

use std::{
    fs, io,
    path::Path,
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    thread::{self, JoinHandle},
    time::Duration,
};

use crate::{Peer, table};

/// Pause before the next attempt if the flow does not listen yet.
const PAUSE: Duration = Duration::from_millis(5);

/// An attack, and the flow with the attacked connector.
#[derive(Debug)]
pub struct Attack {
    /// Name, which contains the connector and the kind of attack.
    pub name: &'static str,
    /// The flow file. `LISTEN` and `DATAGRAMS` are replaced by addresses that are reserved for a server of the flow,
    /// and `PEER` by the address at which the attacker listens.
    pub(crate) flow: &'static str,
    /// A round of the attack, which ends after a bounded time and is repeated.
    pub(crate) round: fn(&mut Peer) -> io::Result<()>,
}

impl Attack {
    /// Writes the flow file and the files that the flow reads to `folder`, and returns the peer of that flow.
    ///
    /// # Errors
    /// A file cannot be written, or no port is free.
    pub fn prepare(&self, folder: &Path, flow_file: &str) -> io::Result<Peer> {
        let peer = Peer::new(folder.join("socket"))?;
        let flow = self
            .flow
            .replace("LISTEN", &peer.streams.address())
            .replace("DATAGRAMS", &peer.datagrams.address())
            .replace("PEER", &peer.listener.local_addr()?.to_string());
        fs::write(folder.join(flow_file), flow)?;
        table::link_folders_to_each_other(folder)?;
        Ok(peer)
    }

    /// Attacks on a thread of its own until the attacker ends.
    #[must_use]
    pub fn start(&'static self, mut peer: Peer) -> Attacker {
        let progress = peer.progress.clone();
        let thread = thread::spawn(move || {
            while !peer.progress.is_over() {
                match (self.round)(&mut peer) {
                    Err(error) if is_absent(&error) => peer.progress.pause(PAUSE),
                    _ => peer.progress.count(),
                }
            }
        });
        Attacker { progress, thread: Some(thread) }
    }
}

/// Returns whether an error means that nothing listens at the address, or that the flow has not connected.
fn is_absent(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionRefused, NotFound, TimedOut};
    matches!(error.kind(), ConnectionRefused | NotFound | TimedOut)
}

/// An attack that continues until this value is dropped.
#[derive(Debug)]
pub struct Attacker {
    progress: Arc<Progress>,
    thread: Option<JoinHandle<()>>,
}

impl Attacker {
    /// Waits until a round of the attack is over. A round counts even if the flow closed its connection, but not if
    /// nothing listened at the address.
    ///
    /// # Panics
    /// No round is over within `limit`.
    pub fn wait_for_round(&self, limit: Duration) {
        let state = self.progress.state();
        let waited = self.progress.changed.wait_timeout_while(state, limit, |it| it.rounds == 0);
        let (state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        assert!(state.rounds > 0, "the attacker did not reach the flow within {limit:?}");
    }

    /// Ends the attack.
    ///
    /// # Errors
    /// The attacker panicked.
    pub fn end(mut self) -> thread::Result<()> {
        self.stop()
    }

    fn stop(&mut self) -> thread::Result<()> {
        self.progress.state().is_over = true;
        self.progress.changed.notify_all();
        self.thread.take().map_or(Ok(()), JoinHandle::join)
    }
}

impl Drop for Attacker {
    fn drop(&mut self) {
        let ended = self.stop();
        assert!(thread::panicking() || ended.is_ok());
    }
}

/// Progress of an attack, which the attacker and the test share.
#[derive(Debug, Default)]
pub(crate) struct Progress {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    rounds: usize,
    is_over: bool,
}

impl Progress {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_over(&self) -> bool {
        self.state().is_over
    }

    fn count(&self) {
        self.state().rounds += 1;
        self.changed.notify_all();
    }

    /// Waits for `time`, or until the attack ends.
    pub(crate) fn pause(&self, time: Duration) {
        let waited = self.changed.wait_timeout_while(self.state(), time, |it| !it.is_over);
        drop(waited.unwrap_or_else(PoisonError::into_inner));
    }
}
