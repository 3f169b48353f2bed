//! The admin API: asks a running process how its flows stand, and pauses, resumes and watches their
//! parts.
//!
//! It runs on a thread of its own, so that it answers although plugins hold the executor's threads, and
//! reads what flows count for themselves: while nobody asks, it costs nothing.
//! `docs/decisions/0015-admin-api.md` says why it is built on hyper.

mod access;
mod body;
pub mod client;
mod flows;
mod io;
mod metrics;
mod places;
mod problem;
mod routes;
mod server;
mod tap;
#[cfg(test)]
mod tests;
mod text;

pub use self::{
    access::{Access, Token},
    server::Server,
};

/// Why there is no admin API.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// It would be open to everybody.
    #[error(
        "the admin API listens at {address}, which others can reach\n  help: give `--api-token-file`, \
         or a loopback address such as 127.0.0.1:9898"
    )]
    Open {
        /// Where it would listen.
        address: std::net::SocketAddr,
    },
    /// It cannot listen there.
    #[error(
        "the admin API cannot listen at {address}: {error}\n  help: give `--api` another address"
    )]
    Listen {
        /// Where it would listen.
        address: std::net::SocketAddr,
        /// The operating system's reason.
        error: std::io::Error,
    },
    /// There is no thread for it.
    #[error("the system gives the admin API no thread: {0}")]
    Thread(std::io::Error),
    /// The token cannot be used.
    #[error("the token of the admin API, {}: {problem}", path.display())]
    Token {
        /// Where it is.
        path: std::path::PathBuf,
        /// What is wrong with it, and what to do.
        problem: String,
    },
}
