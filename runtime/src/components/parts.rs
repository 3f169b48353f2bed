//! Making what a flow is made of.

use std::sync::Arc;

use tremor_pdk::CodecRequirement;

use super::{CONNECTOR, Components};
use crate::{
    engine::{Connection, ConnectorType, OperatorInstance, Parts},
    flow::{self, Flow},
    operator,
    plugin::{ConnectorFactory, HostContext, HostServices},
    run::Stopper,
};

/// The components of one flow.
#[derive(Clone, Copy)]
pub(crate) struct FlowParts<'r> {
    pub(crate) components: &'r Components,
    pub(crate) flow: &'r Flow,
    pub(crate) stopper: &'r Stopper,
}

impl Parts for FlowParts<'_> {
    fn connector(&self, connector: &flow::Connector) -> Result<ConnectorType, flow::Diagnostic> {
        let Self { components, flow, stopper } = *self;
        let kind = &connector.component.name;
        let codec = components.codec_of(flow, connector)?;
        let unusable = |error: String| flow.error(kind.at, error);
        let library = components
            .registry
            .find(CONNECTOR, &kind.value)
            .map_err(|error| unusable(error.to_string()))?
            .ok_or_else(|| unusable(format!("there is no connector `{}`", kind.value)))?;
        let factory = ConnectorFactory::load(library, &kind.value, components.policy)
            .map_err(|error| unusable(error.to_string()))?;
        let name = connector.name.value.clone();
        let config = connector.component.config.value().clone();
        let folder = flow.folder().to_string_lossy().into_owned();
        let stopper = stopper.clone();
        let make = move |connection: &Arc<Connection>| {
            let services = Services { connection: connection.clone(), stopper: stopper.clone() };
            let host = HostContext::new(&*name, &*folder, services);
            let made = factory.create(&name, &config, host)?;
            agree(made.codec_requirement(), codec.is_some())?;
            Ok(made)
        };
        Ok(ConnectorType { codec, make: Box::new(make) })
    }

    fn operator(
        &self,
        _pipeline: &str,
        component: &flow::Component,
    ) -> Result<OperatorInstance, flow::Diagnostic> {
        let (name, config) = (&component.name.value, component.config.value());
        let made = operator::operator(name, config).and_then(|operator| {
            Ok(OperatorInstance { operator, ports: operator::ports(name, config)? })
        });
        made.map_err(|error| self.flow.error(component.config.at(), error))
    }
}

/// A connector that says one thing in its metadata and another when asked would lose events.
fn agree(requirement: CodecRequirement, has_codec: bool) -> tremor_pdk::Result<()> {
    let fits = match requirement {
        CodecRequirement::Required | CodecRequirement::Optional(_) => has_codec,
        CodecRequirement::Structured => !has_codec,
    };
    if fits {
        return Ok(());
    }
    Err(tremor_pdk::Error::configuration(format_args!(
        "the connector's codec requirement is {requirement:?}; its flow {} one, and its metadata \
         does not tell",
        if has_codec { "gives it" } else { "does not give it" }
    )))
}

/// What a connector's instance may ask of its flow.
struct Services {
    connection: Arc<Connection>,
    stopper: Stopper,
}

impl HostServices for Services {
    fn connection_lost(&self) {
        self.connection.break_off();
    }

    fn request_stop(&self, graceful: bool, reason: &str) {
        tracing::info!(reason, graceful, "a component ends the run");
        if graceful {
            self.stopper.drain();
        } else {
            self.stopper.stop();
        }
    }
}
