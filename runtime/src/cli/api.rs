//! The options of the admin API.

use std::{net::SocketAddr, path::PathBuf};

use clap::Args;
use tremor_runtime::{
    api::{Access, Error, Server, Token},
    run::RunHandle,
};

use super::Failure;

#[derive(Args)]
pub(super) struct Arguments {
    /// Address at which the admin API of the run listens, such as 127.0.0.1:9898: see "Monitoring and control"
    /// in the book. An address that is not loopback needs `--api-token-file`.
    #[arg(long = "api", value_name = "ADDR")]
    address: Option<SocketAddr>,
    /// File with the token that requests have to contain. Only its owner and its group may be able to read it.
    #[arg(long = "api-token-file", value_name = "F", requires = "address")]
    token_file: Option<PathBuf>,
}

impl Arguments {
    /// Starts the API of a run of `flows` flows, if an address is set.
    pub(super) fn start(&self, run: &RunHandle, flows: usize) -> Result<Option<Server>, Failure> {
        let Some(address) = self.address else { return Ok(None) };
        let start = || -> Result<Server, Error> {
            let token = self.token_file.as_deref().map(Token::read).transpose()?;
            Server::start(address, Access::with(token), run.clone(), flows)
        };
        let server = start().map_err(|error| Failure::of_usage(format_args!("error: {error}")))?;
        tracing::info!(address = %server.address(), "the admin API listens");
        Ok(Some(server))
    }
}
