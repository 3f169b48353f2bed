//! Options of commands that query a running process.

use std::path::PathBuf;

use clap::Args;
use tremor_runtime::api::{Token, client::Client};

use super::Failure;

#[derive(Args)]
pub(super) struct Remote {
    /// URL of the process's admin API, which `tremor run --api` started.
    #[arg(long, value_name = "URL", default_value = "http://127.0.0.1:9898")]
    api: String,
    /// File with the token, if the API needs one.
    #[arg(long, value_name = "F")]
    api_token_file: Option<PathBuf>,
}

impl Remote {
    pub(super) fn client(&self) -> Result<Client, Failure> {
        let usage =
            |error: &dyn std::fmt::Display| Failure::of_usage(format_args!("error: {error}"));
        let token = self.api_token_file.as_deref().map(Token::read).transpose();
        Client::new(&self.api, token.map_err(|error| usage(&error))?).map_err(|error| usage(&error))
    }
}
