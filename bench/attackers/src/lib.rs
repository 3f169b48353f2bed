//! Attacks on connectors that strangers can reach. An attacker is a peer of such a connector that
//! tries to use much of the memory or processor time of the process.
//!
//! Each [`Attack`] has a flow with the attacked connector. The test `fair_share` of the runtime and
//! `cargo xtask faults` run that flow together with a second flow, and judge whether the second flow
//! still works.

pub mod peer;
pub mod table;

use std::{
    fs, io,
    net::{Ipv4Addr, SocketAddr, TcpListener, UdpSocket},
    path::Path,
    process,
    sync::atomic::{AtomicBool, AtomicU16, AtomicUsize, Ordering},
    thread,
    time::Duration,
};

pub use self::{peer::Peer, table::ATTACKS};

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

/// Returns an address of the loopback interface with a port that is free for TCP and for UDP.
///
/// The port is below the range from which systems give ports to sockets (from 32,768 on Linux, from 49,152 on
/// macOS), so that no other socket gets it, and no client connects to itself before a server listens.
///
/// # Errors
/// No port is free.
pub fn free_address() -> io::Result<SocketAddr> {
    const FIRST: u16 = 10_000;
    const COUNT: u16 = 20_000;
    static TRIED: AtomicU16 = AtomicU16::new(0);
    // Processes that run at the same time try other ports first.
    let [a, b, ..] = process::id().wrapping_mul(97).to_ne_bytes();
    let start = u16::from_ne_bytes([a, b]);
    for _ in 0..COUNT {
        let port = FIRST + start.wrapping_add(TRIED.fetch_add(1, Ordering::Relaxed)) % COUNT;
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        if TcpListener::bind(address).is_ok() && UdpSocket::bind(address).is_ok() {
            return Ok(address);
        }
    }
    Err(io::ErrorKind::AddrInUse.into())
}
