//! The trait that components of all kinds implement: name, configuration and constructor.

use std::{ops::Deref, sync::Arc};

use schemars::JsonSchema;
use serde::{Serialize, de::DeserializeOwned};
use tremor_abi::host::HostHandle;

use crate::{Host, Result, config};

/// A component that a plugin exports: its name, configuration and constructor.
///
/// The component also implements the trait of its kind: [`Connector`](crate::Connector), [`Source`](crate::Source),
/// [`Sink`](crate::Sink), [`Operator`](crate::Operator), [`Codec`](crate::Codec),
/// [`Preprocessor`](crate::Preprocessor), [`StreamSplitter`](crate::StreamSplitter) or
/// [`Postprocessor`](crate::Postprocessor).
pub trait Component: Sized + Send + 'static {
    /// The name by which flow files refer to the component.
    const NAME: &'static str;
    /// The purpose of the component, in one line.
    const DESCRIPTION: &'static str = "";
    /// Whether an operator is stateless: whether the result for an event depends only on the event and on the
    /// configuration, and not on other events, on the batch that contains the event, or on the instance.
    ///
    /// The runtime may create several instances of a stateless operator for one pipeline, and call them in parallel
    /// with different batches. The results leave in the order of the events, as with one instance. A stateless operator
    /// must not buffer events, and keeps the default implementations of [`due`](crate::Operator::due),
    /// [`on_time`](crate::Operator::on_time) and [`flush`](crate::Operator::flush). It may keep caches and metrics.
    ///
    /// Only operators are stateless or not; the runtime ignores the constant of other components.
    const STATELESS: bool = false;

    /// The type of the `config` in the flow file, usually a struct with the attribute
    /// [`config`](macro@crate::config).
    ///
    /// `tremor check` validates the configuration against the JSON Schema of this type before it calls
    /// [`new`](Component::new).
    type Config: DeserializeOwned + JsonSchema;

    /// Creates an instance, and checks the constraints of the configuration that the schema cannot express.
    ///
    /// `tremor check` also creates an instance, in a separate process, and drops it. Therefore `new` may only prepare:
    /// it may log, register metrics, create a [`Memory`](crate::Memory), resolve paths and get the time, and it may read
    /// files that are part of the configuration, such as a schema. It must not connect to a peer, wait, start a task, a
    /// thread or a timer, or keep a file open. Do everything else in [`connect`](crate::Connector::connect), or in the
    /// first call of a component that does not connect.
    ///
    /// # Errors
    /// Return an error of the kind configuration that names the key, the value that was found, and the remedy.
    fn new(config: Self::Config, context: ComponentContext) -> Result<Self>;
}

/// The [`Host`], and the name of the component in the flow.
#[derive(Clone, Debug)]
pub struct ComponentContext {
    id: Arc<str>,
    host: Host,
}

impl ComponentContext {
    pub(crate) fn new(id: &str, host: HostHandle) -> Self {
        Self { id: id.into(), host: Host::new(host) }
    }

    /// Returns the name of the component in the flow. For an operator, this is the name of its pipeline; for a codec or
    /// processor, the name of its connector.
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

/// Creates an instance of a component from its configuration, which the host passes as a JSON value.
pub(crate) fn make<T: Component>(id: &str, config: impl Serialize, host: HostHandle) -> Result<T> {
    T::new(config::read(config)?, ComponentContext::new(id, host))
}
