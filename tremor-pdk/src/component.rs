//! What every component has, whatever its kind: a name, a configuration, a constructor.

use std::{ops::Deref, sync::Arc};

use schemars::JsonSchema;
use serde::{Serialize, de::DeserializeOwned};
use tremor_abi::host::HostHandle;

use crate::{Host, Result, config};

/// A component that a plugin offers, of any kind: what it is. What it does is said with the trait of its
/// kind: [`Connector`](crate::Connector), [`Operator`](crate::Operator), [`Codec`](crate::Codec),
/// [`Preprocessor`](crate::Preprocessor) or [`Postprocessor`](crate::Postprocessor).
pub trait Component: Sized + Send + 'static {
    /// The name that flow files know it by.
    const NAME: &'static str;
    /// What it is for, in a line.
    const DESCRIPTION: &'static str = "";

    /// Its configuration: the `config` of the flow file, as [`config`](macro@crate::config) makes one.
    /// The JSON Schema of this type is the first that `tremor check` checks against.
    type Config: DeserializeOwned + JsonSchema;

    /// Makes an instance, or says what is wrong with its configuration beyond what the schema tells.
    ///
    /// `tremor check` makes one as well, in a process of its own, and drops it. So nothing in here
    /// reaches outside: no connection, no file but those that are part of the configuration, no task, no
    /// timer and no waiting. That is for [`connect`](crate::Connector::connect) and for what follows it.
    ///
    /// # Errors
    /// Kind configuration: the key, what was found, and what to do.
    fn new(config: Self::Config, context: ComponentContext) -> Result<Self>;
}

/// What a component is made with: the [`Host`], and its name in the flow.
#[derive(Clone, Debug)]
pub struct ComponentContext {
    id: Arc<str>,
    host: Host,
}

impl ComponentContext {
    pub(crate) fn new(id: &str, host: HostHandle) -> Self {
        Self { id: id.into(), host: Host::new(host) }
    }

    /// The name in the flow: of a connector its own, of all others that of the connector or the pipeline
    /// that they are part of.
    pub fn id(&self) -> &str {
        &self.id
    }
}

impl Deref for ComponentContext {
    type Target = Host;

    fn deref(&self) -> &Host {
        &self.host
    }
}

impl From<ComponentContext> for Host {
    fn from(context: ComponentContext) -> Self {
        context.host
    }
}

/// An instance of a component, from the form that the host has its configuration in.
pub(crate) fn make<T: Component>(id: &str, config: impl Serialize, host: HostHandle) -> Result<T> {
    T::new(config::read(config)?, ComponentContext::new(id, host))
}
