//! What connectors of the network are measured with: clients that load them, and servers that do the same work
//! without this project. `cargo xtask network` starts them by turns.
//!
//! A client says `ready` once it is connected, and begins when it is told to, by a line of its input. What it has
//! found is a line of JSON. It ends when its input does, or when it is done.

#![allow(clippy::print_stderr)] // people read it

mod certificates;
mod clients;
mod descriptors;
mod lines;
mod parent;
mod poll;
mod servers;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

use crate::{
    certificates::Certificates,
    clients::{busy, idle, latency, requests, send, shares, trickle},
    servers::{bytes, forward, hello, to_file},
};

/// Whatever goes wrong ends a measurement, and is told.
type Result<T = (), E = Box<dyn std::error::Error + Send + Sync>> = std::result::Result<T, E>;

#[derive(Debug, Parser)]
#[command(
    name = "network-bench",
    about = "What connectors of the network are measured with",
    version
)]
struct Arguments {
    #[command(subcommand)]
    role: Role,
}

#[derive(Debug, Subcommand)]
enum Role {
    /// Makes a CA, and a certificate for this machine
    Certificates(Certificates),
    /// A server: lines of many connections to a file, in plain tokio
    ToFile(to_file::ToFile),
    /// A server: the bytes of one connection to a file, and nothing else
    Bytes(bytes::Bytes),
    /// A server: hyper's hello-world, which takes the body of each request
    Hello(hello::Hello),
    /// A server: the bytes of one connection to another, and nothing else
    Forward(forward::Forward),
    /// A client: connections that send a line from time to time
    Trickle(trickle::Trickle),
    /// A client: connections that say nothing
    Idle(idle::Idle),
    /// A client: connections that send as much as they can
    Busy(busy::Busy),
    /// What the lines of its input say of the connections that they come from
    Shares(shares::Shares),
    /// A client: requests of HTTP, the next when the last one is answered
    Requests(requests::Requests),
    /// A client: one connection that sends as much as it can, with TLS or without
    Send(send::Send),
    /// A client and the server after the one that is measured: how long lines take between them
    Latency(latency::Latency),
}

fn main() -> ExitCode {
    let result = match Arguments::parse().role {
        Role::Certificates(role) => role.run(),
        Role::ToFile(role) => role.run(),
        Role::Bytes(role) => role.run(),
        Role::Hello(role) => role.run(),
        Role::Forward(role) => role.run(),
        Role::Trickle(role) => role.run(),
        Role::Idle(role) => role.run(),
        Role::Busy(role) => role.run(),
        Role::Shares(role) => role.run(),
        Role::Requests(role) => role.run(),
        Role::Send(role) => role.run(),
        Role::Latency(role) => role.run(),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_consistent() {
        super::Arguments::command().debug_assert();
    }
}
