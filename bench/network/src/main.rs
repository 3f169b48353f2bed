//! Programs for the measurement of network connectors: clients that send load to a server, and
//! servers for the comparison that do the same work without this project. `cargo xtask network`
//! starts them.
//!
//! A client prints `ready` once it is connected, and starts when it reads a line from its input.
//! The program prints its result as a line of JSON. It ends after that, or when its standard input ends.

#![allow(clippy::print_stderr)] // people read the output

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

/// Result of a role. Every error ends the measurement and is printed.
type Result<T = (), E = Box<dyn std::error::Error + Send + Sync>> = std::result::Result<T, E>;

#[derive(Debug, Parser)]
#[command(
    name = "network-bench",
    about = "Clients and servers for measurements of network connectors",
    version
)]
struct Arguments {
    #[command(subcommand)]
    role: Role,
}

#[derive(Debug, Subcommand)]
enum Role {
    /// Create a CA and a certificate for this machine
    Certificates(Certificates),
    /// Run a server that writes the lines of many connections to a file, with plain tokio
    ToFile(to_file::ToFile),
    /// Run a server that writes the bytes of one connection to a file
    Bytes(bytes::Bytes),
    /// Run hyper's hello-world server, extended to read the body of each request
    Hello(hello::Hello),
    /// Run a server that forwards the bytes of one connection to another
    Forward(forward::Forward),
    /// Open connections that send a line from time to time
    Trickle(trickle::Trickle),
    /// Open idle connections
    Idle(idle::Idle),
    /// Open connections that send as much as they can
    Busy(busy::Busy),
    /// Count the lines of each connection in the input
    Shares(shares::Shares),
    /// Send HTTP requests, each after the response to the previous request
    Requests(requests::Requests),
    /// Open one connection that sends as much as it can, with or without TLS
    Send(send::Send),
    /// Measure the latency of lines, as client and as destination of the measured server
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
    fn command_line_is_consistent() {
        super::Arguments::command().debug_assert();
    }
}
