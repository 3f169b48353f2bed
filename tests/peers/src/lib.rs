//! Peers for tests of connectors: the one harness for everything that misbehaves on a socket.
//!
//! | module | contents |
//! |---|---|
//! | [`acceptor`] | a listener on a free port, which hands each connection to a function until it is dropped |
//! | [`connection`] | a client over TCP, UDP or a Unix socket, which can stop in the middle and reset its connection |
//! | [`reserved`] | a port for a server in another process, which no third process can take meanwhile |
//! | [`http`] | requests of HTTP, and a server that answers them with what a test returns |
//! | [`answering`] | an HTTP server that answers when the test wants it to |
//! | [`proxy`] | a proxy that delays, silences and cuts connections |
//! | [`attack`], [`table`] | attacks on connectors that strangers can reach, each with the attacked flow |
//!
//! Waits of a test end with a panic or an error that says what was awaited. Threads of a peer end with the peer or with
//! their connection.

// The crate is test code, which handles few errors.
#![allow(clippy::unwrap_used, clippy::missing_panics_doc)]

pub mod acceptor;
pub mod answering;
pub mod attack;
mod attacker;
pub mod connection;
pub mod http;
pub mod proxy;
pub mod reserved;
pub mod table;

use std::time::Duration;

pub use self::{
    acceptor::Acceptor,
    attack::{Attack, Attacker},
    attacker::Peer,
    connection::{Address, Connection},
    reserved::Reserved,
    table::ATTACKS,
};

/// Maximum time that a test waits for a peer.
pub const PATIENCE: Duration = Duration::from_mins(1);
