//! Attacks on connectors that strangers can reach. An attacker is a peer of such a connector that
//! tries to use much of the memory or processor time of the process.
//!
//! Each [`Attack`] has a flow with the attacked connector. The test `fair_share` of the runtime and
//! `cargo xtask faults` run that flow together with a second flow, and judge whether the second flow
//! still works.

mod free;
pub mod peer;
pub mod table;

use std::{
    fs, io,
    path::Path,
    sync::atomic::{AtomicBool, AtomicUsize, Ordering},
    thread,
    time::Duration,
};

pub use self::{free::free_address, peer::Peer, table::ATTACKS};

/// Pause before the next attempt if the flow does not listen yet.
const PAUSE: Duration = Duration::from_millis(5);

/// An attack, and the flow with the attacked connector.
#[derive(Debug)]
pub struct Attack {
    /// Name, which contains the connector and the kind of attack.
    pub name: &'static str,
    /// The flow file. `ADDRESS` is replaced by an address of the loopback interface.
    flow: &'static str,
    /// A round of the attack, which ends after a bounded time and is repeated.
    round: fn(&mut Peer) -> io::Result<()>,
}

impl Attack {
    /// Writes the flow file and the files that the flow reads to `folder`, and returns the peer of that flow.
    ///
    /// # Errors
    /// A file cannot be written, or no port is free.
    pub fn prepare(&self, folder: &Path, flow_file: &str) -> io::Result<Peer> {
        let address = free_address()?;
        fs::write(folder.join(flow_file), self.flow.replace("ADDRESS", &address.to_string()))?;
        table::link_folders_to_each_other(folder)?;
        Ok(Peer::new(address, folder.join("socket")))
    }

    /// Attacks until `is_over` is set, and counts the rounds in `rounds`. A round counts even if the flow
    /// closed its connection, but not if nothing listened at the address.
    pub fn run(&self, mut peer: Peer, rounds: &AtomicUsize, is_over: &AtomicBool) {
        while !is_over.load(Ordering::Relaxed) {
            match (self.round)(&mut peer) {
                Err(error) if is_absent(&error) => thread::sleep(PAUSE),
                _ => drop(rounds.fetch_add(1, Ordering::Relaxed)),
            }
        }
    }
}

/// Returns whether an error means that nothing listens at the address.
fn is_absent(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::ConnectionRefused | io::ErrorKind::NotFound)
}
