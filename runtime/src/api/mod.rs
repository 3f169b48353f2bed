//! The admin API: shows the status of the flows of a running process, and pauses, resumes and taps their
//! components.
//!
//! The API runs on a thread of its own, so that it answers even if plugins block the threads of the executor. It only
//! reads counters that the flows update anyway, so flows do no additional work while there are no requests.
//! `docs/decisions/0015-admin-api.md` explains why the API uses hyper.

mod access;
mod body;
pub mod client;
mod flows;
mod io;
mod log;
mod metrics;
mod problem;
mod reload;
mod routes;
mod server;
mod slots;
mod tap;
#[cfg(test)]
mod tests;
mod text;

pub use self::{
    access::{Access, Token},
    server::Server,
};

/// Reason why the admin API cannot start.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Other machines could reach the API, which has no token.
    #[error(
        "cannot listen at {address} without a token: other machines can reach this address\n  help: give `--api-token-file`, \
         or a loopback address such as 127.0.0.1:9898"
    )]
    Open {
        /// Address to listen at.
        address: std::net::SocketAddr,
    },
    /// The server cannot listen at the address.
    #[error(
        "the admin API cannot listen at {address}: {error}\n  help: give `--api` another address"
    )]
    Listen {
        /// Address to listen at.
        address: std::net::SocketAddr,
        /// Error of the operating system.
        error: std::io::Error,
    },
    /// The thread of the API cannot be started.
    #[error("cannot start the thread of the admin API: {0}")]
    Thread(std::io::Error),
    /// The token cannot be used.
    #[error("cannot use the token of the admin API, {}: {problem}", path.display())]
    Token {
        /// Path of the file with the token.
        path: std::path::PathBuf,
        /// Description of what is wrong with the token, with advice.
        problem: String,
    },
}
