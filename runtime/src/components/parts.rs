//! Making what a flow is made of.

use std::sync::Arc;

use tremor_pdk::{CodecRequirement, Postprocessor, Preprocessor, dynamic::BoxFuture};

use super::{
    CONNECTOR, Components, artefact_kind,
    codec::{Chosen, PluginCodec},
    is_built_in,
};
use crate::{
    codec::MakeCodec,
    engine::{Connection, ConnectorType, OperatorInstance, Parts},
    flow::{self, Component, Flow, Kind},
    operator,
    plugin::{ComponentFactory, ConnectorFactory, HostContext, HostServices},
    processor,
    stop::Stopper,
    watchdog::{Call, Calls, WatchedCodec},
};

/// The components of one flow.
#[derive(Clone, Copy)]
pub(crate) struct FlowParts<'r> {
    pub(crate) components: &'r Components,
    pub(crate) flow: &'r Flow,
    pub(crate) stopper: &'r Stopper,
    /// Where the calls to its plugins are recorded.
    pub(crate) calls: &'r Arc<Calls>,
}

impl Parts for FlowParts<'_> {
    fn connector(&self, connector: &flow::Connector) -> Result<ConnectorType, flow::Diagnostic> {
        let Self { components, flow, calls, .. } = *self;
        let kind = &connector.component.name;
        let codec = self.codec(connector)?;
        let has_codec = codec.is_some();
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
        let folder = self.folder();
        let services = self.services(&name);
        // Either side is called while the connector is.
        let [watched, source, sink] = [(); 3].map(|()| calls.watch(&name, None));
        let make = move |connection: &Arc<Connection>| {
            let services = Services { connection: Some(connection.clone()), ..services.clone() };
            let host = HostContext::new(&*name, &*folder, services);
            let made = watched.call(Call::New, || factory.create(&name, &config, host))?;
            agree(made.codec_requirement(), has_codec)?;
            Ok(watched.connector(made, &source, &sink))
        };
        Ok(ConnectorType { codec, make: Box::new(make) })
    }

    fn codec(
        &self,
        connector: &flow::Connector,
    ) -> Result<Option<Box<dyn MakeCodec>>, flow::Diagnostic> {
        Ok(match self.components.codec_of(self.flow, connector)? {
            None => None,
            Some(Chosen::BuiltIn(codec)) => Some(Box::new(codec)),
            Some(Chosen::Plugin(component)) => {
                let factory = self.component(Kind::Codec, component)?;
                let codec = PluginCodec { factory, config: component.config.value().clone() };
                let (calls, connector) = (self.calls.clone(), connector.name.value.clone());
                let part = format!("codec `{}`", component.name.value);
                let watch = move || calls.watch(&connector, Some(&part));
                Some(Box::new(WatchedCodec { codec, watch }))
            }
        })
    }

    fn operator(
        &self,
        pipeline: &str,
        component: &flow::Component,
    ) -> Result<OperatorInstance, flow::Diagnostic> {
        let (name, config) = (&*component.name.value, component.config.value());
        let wrong = |error: String| self.flow.error(component.config.at(), error);
        if is_built_in(Kind::Operator, name) {
            let ports = operator::ports(name, config).map_err(wrong)?;
            let operator = operator::operator(name, config).map_err(wrong)?;
            return Ok(OperatorInstance { operator, ports, make: None });
        }
        let factory = self.component(Kind::Operator, component)?;
        let ports = factory.operator_ports(config).map_err(|error| wrong(error.to_string()))?;
        let (pipeline, config) = (pipeline.to_owned(), config.clone());
        let (folder, services) = (self.folder(), self.services(&pipeline));
        let watched = self.calls.watch(&pipeline, Some(&format!("operator `{name}`")));
        let make = move || {
            let host = HostContext::new(&*pipeline, &*folder, services.clone());
            let make = || factory.operator(&pipeline, &config, host);
            watched.call(Call::New, make).map(|made| watched.operator(made))
        };
        let operator = make().map_err(|error| wrong(error.to_string()))?;
        Ok(OperatorInstance { operator, ports, make: Some(Box::new(make)) })
    }

    fn is_stateless(&self, operator: &flow::Component) -> bool {
        let name = &*operator.name.value;
        is_built_in(Kind::Operator, name) && operator::is_stateless(name)
    }

    fn preprocessor(
        &self,
        connector: &str,
        component: &Component,
    ) -> Result<Box<dyn Preprocessor>, flow::Diagnostic> {
        let (name, config) = (&*component.name.value, component.config.value());
        let made = if is_built_in(Kind::Preprocessor, name) {
            processor::preprocessor(name, config)
        } else {
            let factory = self.component(Kind::Preprocessor, component)?;
            let watched = self.calls.watch(connector, Some(&format!("preprocessor `{name}`")));
            let made = watched.call(Call::New, || factory.preprocessor(config));
            made.map(|made| watched.preprocessor(made)).map_err(|error| error.to_string())
        };
        made.map_err(|error| self.flow.error(component.config.at(), error))
    }

    fn postprocessor(
        &self,
        connector: &str,
        component: &Component,
    ) -> Result<Box<dyn Postprocessor>, flow::Diagnostic> {
        let (name, config) = (&*component.name.value, component.config.value());
        let made = if is_built_in(Kind::Postprocessor, name) {
            processor::postprocessor(name, config)
        } else {
            let factory = self.component(Kind::Postprocessor, component)?;
            let watched = self.calls.watch(connector, Some(&format!("postprocessor `{name}`")));
            let made = watched.call(Call::New, || factory.postprocessor(config));
            made.map(|made| watched.postprocessor(made)).map_err(|error| error.to_string())
        };
        made.map_err(|error| self.flow.error(component.config.at(), error))
    }
}

impl FlowParts<'_> {
    /// What an instance of this component may ask for.
    fn services(&self, component: &str) -> Services {
        Services {
            connection: None,
            stopper: self.stopper.clone(),
            calls: self.calls.clone(),
            component: component.into(),
        }
    }

    fn folder(&self) -> String {
        self.flow.folder().to_string_lossy().into_owned()
    }

    /// Loads the library of a component that is neither a connector nor built in.
    fn component(
        &self,
        kind: Kind,
        component: &flow::Component,
    ) -> Result<ComponentFactory, flow::Diagnostic> {
        let Component { name, .. } = component;
        let unusable = |error: String| self.flow.error(name.at, error);
        let found = self.components.registry.find(artefact_kind(kind), &name.value);
        let library = found
            .map_err(|error| unusable(error.to_string()))?
            .ok_or_else(|| unusable(format!("there is no {kind} `{}`", name.value)))?;
        let (kind, policy) = (artefact_kind(kind), self.components.policy);
        ComponentFactory::load(library, kind, &name.value, policy)
            .map_err(|error| unusable(error.to_string()))
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

/// What an instance may ask of its flow.
#[derive(Clone)]
struct Services {
    /// None for components without one.
    connection: Option<Arc<Connection>>,
    stopper: Stopper,
    calls: Arc<Calls>,
    component: Arc<str>,
}

impl HostServices for Services {
    fn connection_lost(&self) {
        if let Some(connection) = &self.connection {
            connection.break_off();
        }
    }

    fn request_stop(&self, graceful: bool, reason: &str) {
        tracing::info!(reason, graceful, "a component ends the run");
        if graceful {
            self.stopper.drain();
        } else {
            self.stopper.stop();
        }
    }

    fn task(&self, name: &str, task: BoxFuture<'static, ()>) -> BoxFuture<'static, ()> {
        let part = format!("task `{name}`");
        Box::pin(self.calls.watch(&self.component, Some(&part)).task(task))
    }
}
