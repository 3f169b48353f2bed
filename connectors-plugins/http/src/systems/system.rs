//! The connector of each system.

use std::sync::Arc;

use tremor_pdk::{NoSource, prelude::*, schemars::JsonSchema, serde::de::DeserializeOwned};

use crate::exchange::{JsonPosts, Pool, Protocol};

/// A system to which events are sent, with the validated configuration of its connector.
pub(crate) trait System: Protocol + Sized + 'static {
    /// See [`Component::NAME`].
    const NAME: &'static str;
    /// See [`Component::DESCRIPTION`].
    const DESCRIPTION: &'static str;
    /// See [`Component::Config`].
    type Config: DeserializeOwned + JsonSchema;

    /// Validates the configuration.
    ///
    /// # Errors
    /// An error of the kind configuration, with the key, the value and the expected value. Secrets are never shown.
    fn new(config: &Self::Config, host: &Host) -> Result<Self>;
}

/// Sends events to a system.
pub(crate) struct Sends<S> {
    system: Arc<S>,
    context: ComponentContext,
}

impl<S: System> Component for Sends<S> {
    const NAME: &'static str = S::NAME;
    const DESCRIPTION: &'static str = S::DESCRIPTION;
    type Config = S::Config;

    fn new(config: S::Config, context: ComponentContext) -> Result<Self> {
        Ok(Self { system: Arc::new(S::new(&config, &context)?), context })
    }
}

impl<S: System> Connector for Sends<S> {
    type Source = NoSource;
    type Sink = JsonPosts;

    /// Creates the pool of connections. Does not connect yet: each request takes a connection from the pool, or makes a
    /// new one.
    async fn connect(&mut self, _wanted: Sides) -> Result<Halves<NoSource, JsonPosts>> {
        let pool = Pool::new(&self.context, self.system.common().endpoint.clone()).await?;
        Ok(Halves::sink(JsonPosts::new(&self.context, pool, self.system.clone())))
    }
}

impl<S: System> std::fmt::Debug for Sends<S> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}({})", S::NAME, self.system.common().endpoint.url)
    }
}
