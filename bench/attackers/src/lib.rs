//! Peers that try to take more than their share of a process: a table of attacks on the connectors that
//! strangers can reach.
//!
//! An [`Attack`] has the flow that it is made on. The test `fair_share` of the runtime and `cargo xtask faults` run
//! that flow beside another one, and judge the other one.

pub mod peer;
pub mod table;

use std::{
    fs, io,
    net::{Ipv4Addr, SocketAddr, TcpListener, UdpSocket},
    path::Path,
    sync::atomic::{AtomicBool, AtomicUsize, Ordering},
    thread,
    time::Duration,
};

pub use self::{peer::Peer, table::ATTACKS};

/// Pause before the next attempt if the flow does not listen yet.
const PAUSE: Duration = Duration::from_millis(5);

/// A peer that tries to take more than its share, and the flow that it is a peer of.
#[derive(Debug)]
pub struct Attack {
    /// Connector and kind of attack.
    pub name: &'static str,
    /// The flow file. `ADDRESS` stands for an address of the loopback interface.
    flow: &'static str,
    /// A bounded part of the attack, which is repeated until the end.
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

    /// Attacks until `is_over`, and counts the rounds. A round that the flow ended early counts as well, but not a
    /// round that found nobody who listens.
    pub fn run(&self, mut peer: Peer, rounds: &AtomicUsize, is_over: &AtomicBool) {
        while !is_over.load(Ordering::Relaxed) {
            match (self.round)(&mut peer) {
                Err(error) if is_absent(&error) => thread::sleep(PAUSE),
                _ => drop(rounds.fetch_add(1, Ordering::Relaxed)),
            }
        }
    }
}

/// Returns whether an error says that nobody listens.
fn is_absent(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::ConnectionRefused | io::ErrorKind::NotFound)
}

/// Returns an address of the loopback interface with a port that is free for TCP and for UDP.
fn free_address() -> io::Result<SocketAddr> {
    loop {
        let address = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?;
        if UdpSocket::bind(address).is_ok() {
            return Ok(address);
        }
    }
}
