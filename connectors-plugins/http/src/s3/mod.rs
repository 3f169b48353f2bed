//! The `s3` connector: stores events as objects in S3, or in a store with the same interface.
//!
//! ```yaml
//! connectors:
//!   archive:
//!     type: s3
//!     codec: json
//!     postprocessors: [lines]
//!     config:
//!       bucket: logs
//!       key: '{:+%Y/%m/%d/%H}/events.ndjson.gz'
//!       region: eu-central-1
//!       state: archive.state
//! ```
//!
//! Each event names its object by the template `key`. An object gathers the events of several deliveries, until it
//! reaches its length or its age; then its task stores it, and the deliveries are answered. A long object is uploaded
//! in parts while it grows. The state file names each upload before it begins, so that an upload that was interrupted is
//! aborted later.

mod answer;
mod cleaner;
mod config;
mod credentials;
mod encoder;
mod keys;
mod limit;
mod object;
mod objects;
mod requests;
mod settings;
mod sign;
mod sink;
mod state;
#[cfg(test)]
mod tests;
mod time;
mod xml;

use std::sync::Arc;

use tremor_pdk::{Descriptors, NoSource, prelude::*};

pub use self::{
    config::{
        AccessKeys, Checksum, Compression, Config, Credentials, CredentialsFile, Encryption,
        Instance, Rotate,
    },
    sink::Archive,
};
use self::{credentials::Provider, requests::Client, settings::Settings, state::State};
use crate::exchange::Pool;

/// Stores events as objects in S3.
pub struct S3 {
    settings: Arc<Settings>,
    context: ComponentContext,
    /// The state file, which is kept across connections; `None` before the first connection.
    state: Option<Arc<State>>,
}

impl Component for S3 {
    const NAME: &str = "s3";
    const DESCRIPTION: &str =
        "Stores events as objects in S3, or in a store with the same interface.";
    type Config = Config;

    fn new(config: Config, context: ComponentContext) -> Result<Self> {
        Provider::check(config.credentials.as_ref())?;
        Ok(Self { settings: Arc::new(Settings::new(config, &context)?), context, state: None })
    }
}

impl Connector for S3 {
    type Source = NoSource;
    type Sink = Archive;

    /// Opens the state file, and creates the pool of connections. Does not connect yet: each request takes a connection
    /// from the pool, or makes a new one.
    async fn connect(&mut self, _wanted: Sides) -> Result<Halves<NoSource, Archive>> {
        let Self { settings, context, state } = self;
        if let (None, Some(path)) = (&state, &settings.state) {
            let path = path.clone();
            *state = Some(Arc::new(context.blocking(move || State::open(&path)).await??));
        }
        let descriptors = Descriptors::new(context)?;
        let credentials = Provider::new(
            settings.config.credentials.as_ref(),
            &settings.region,
            context,
            &descriptors,
        )?;
        let pool = Pool::new(context, settings.endpoint.clone()).await?;
        let client = Client::new(context, settings.clone(), pool, credentials);
        Ok(Halves::sink(Archive::new(context, client, state.clone())))
    }
}

impl std::fmt::Debug for S3 {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "S3({})", self.settings.config.bucket)
    }
}
