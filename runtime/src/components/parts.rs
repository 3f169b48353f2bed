//! Creates the components of flows.

use std::sync::Arc;

use tremor_pdk::{Error, ErrorPolicy, Postprocessor, Preprocessor, Result, Value};

use super::{
    BuiltIn, Components,
    built_in::factory,
    carried::CarryingCodec,
    codec::{Chosen, PluginCodec},
    supervised::{Maker, Supervised, SupervisedPostprocessor, SupervisedPreprocessor},
    wrong,
};
use crate::{
    clock::Clock,
    codec::MakeCodec,
    dynamic::{BoxFuture, CodecRequirement},
    engine::{Connection, ConnectorType, MakePreprocessor, OperatorInstance, PartRestarts, Parts},
    flow::{self, Component, Flow, Kind},
    log,
    memory::{FlowMemory, Loan},
    plugin::{ComponentFactory, ConnectorFactory, HostContext, HostServices, Jobs, Library},
    run_handle::RunHandle,
    watchdog::{Call, Calls, Limit, Watched, WatchedCodec},
};

/// Components of one flow.
#[derive(Clone, Copy)]
pub(crate) struct FlowParts<'r> {
    pub(crate) components: &'r Components,
    pub(crate) flow: &'r Flow,
    pub(crate) run: &'r RunHandle,
    /// Records of the calls to plugins of the flow.
    pub(crate) calls: &'r Arc<Calls>,
    pub(crate) memory: &'r FlowMemory,
    /// Clock of the components.
    pub(crate) clock: &'r Clock,
}

impl Parts for FlowParts<'_> {
    fn connector(&self, connector: &flow::Connector) -> Result<ConnectorType, flow::Diagnostic> {
        if let Some(memory) = self.components.isolated_memory(connector) {
            return self.isolated_connector(connector, memory);
        }
        let Self { components, flow, calls, .. } = *self;
        let kind = &connector.component.name;
        let codec = self.codec(connector)?;
        let has_codec = codec.is_some();
        let library = self.library(Kind::Connector, &connector.component)?;
        let factory = ConnectorFactory::load(library, &kind.value, components.policy)
            .map_err(|error| flow.error(kind.at, error.to_string()))?;
        let name = connector.name.value.clone();
        let (config, folder) = (connector.component.config.clone(), flow.folder().to_owned());
        let host = self.host(&name, &connector.component);
        let calls = (*calls).clone();
        let make = move |connection: &Arc<Connection>, limit: Limit| {
            // Source and sink may be called at the same time as the connector, so each of them has a record of its own.
            let (calls, of) = (calls.clone(), name.clone());
            let watch = move || calls.watch_limited(&of, limit.clone());
            let watched = watch();
            let host = host(Some(connection.clone()));
            // A file may have changed since the last instance was created.
            let config = config
                .read_again(&folder)
                .map_err(|error| error.with_policy(ErrorPolicy::RESTART))?;
            let connector = watched.call(Call::New, || factory.create(&config, &host))?;
            check_codec_requirement(connector.codec_requirement(), has_codec)?;
            Ok(watched.connector(connector, watch))
        };
        Ok(ConnectorType { codec, make: Box::new(make) })
    }

    fn codec(
        &self,
        connector: &flow::Connector,
    ) -> Result<Option<Box<dyn MakeCodec>>, flow::Diagnostic> {
        let codec: Box<dyn MakeCodec> = match self.components.codec_of(self.flow, connector)? {
            None => return Ok(None),
            Some(Chosen::BuiltIn(codec)) => Box::new(codec),
            Some(Chosen::Plugin(component)) => {
                let factory = self.component(Kind::Codec, component)?;
                let (config, host) =
                    (component.config.exact().clone(), self.host(&connector.name.value, component));
                let make = Box::new(move || factory.codec(&config, &host(None)));
                let (calls, connector) = (self.calls.clone(), connector.name.value.clone());
                let part = part(Kind::Codec, component);
                let codec = PluginCodec::new(self.maker(&connector, &part, make));
                let watch = move || calls.watch(&connector, Some(&part));
                Box::new(WatchedCodec { codec, watch })
            }
        };
        Ok(Some(match self.components.template_fields(connector) {
            Some(fields) => Box::new(CarryingCodec { codec, fields }),
            None => codec,
        }))
    }

    fn operator(
        &self,
        pipeline: &str,
        component: &flow::Component,
    ) -> Result<OperatorInstance, flow::Diagnostic> {
        let factory = self.component(Kind::Operator, component)?;
        let wrong = |error: Error| wrong(self.flow, Kind::Operator, component, &error);
        let config = component.config.exact().clone();
        let host = self.host(pipeline, component);
        let make = Arc::new(move || factory.operator(&config, &host(None)));
        let is_built_in = BuiltIn::find(Kind::Operator, &component.name.value).is_some();
        let (calls, of) = (self.calls.clone(), pipeline.to_owned());
        let part = part(Kind::Operator, component);
        // Instances may be called at the same time, so each of them has a record of its own.
        let make_instance = move || {
            let watched = (!is_built_in).then(|| calls.watch(&of, Some(&part)));
            let make = make.clone();
            let make = move || make_recorded(watched.as_ref(), &*make, Watched::operator);
            let operator = make()?;
            let ports = operator.ports();
            let make = (!is_built_in).then(|| Box::new(make) as _);
            Ok(OperatorInstance { operator, ports, make, another: None })
        };
        let instance = make_instance().map_err(wrong)?;
        let another = self.is_stateless(component).then(|| Box::new(make_instance) as _);
        Ok(OperatorInstance { another, ..instance })
    }

    fn is_stateless(&self, operator: &Component) -> bool {
        let name = &operator.name.value;
        if let Some(built_in) = BuiltIn::find(Kind::Operator, name) {
            return built_in.is_stateless();
        }
        let kind = Kind::Operator.as_str();
        let library = self.components.registry.find(kind, name).ok().flatten();
        let metadata = library.and_then(|library| library.artefact(kind, name));
        metadata.is_some_and(|metadata| metadata.stateless)
    }

    fn preprocessor(
        &self,
        connector: &str,
        component: &Component,
    ) -> Result<(Box<dyn Preprocessor>, MakePreprocessor), flow::Diagnostic> {
        let make = self.processor(
            Kind::Preprocessor,
            component,
            connector,
            ComponentFactory::preprocessor,
            Watched::preprocessor,
        )?;
        let wrong = |error| wrong(self.flow, Kind::Preprocessor, component, &error);
        if BuiltIn::find(Kind::Preprocessor, &component.name.value).is_some() {
            return Ok((make().map_err(wrong)?, Box::new(make)));
        }
        let part = part(Kind::Preprocessor, component);
        let maker = Arc::new(self.maker(connector, &part, Box::new(make)));
        let restarts = Arc::<PartRestarts>::default();
        let make = move || -> Result<Box<dyn Preprocessor>> {
            let supervised = Supervised::new(maker.clone(), restarts.clone())?;
            Ok(Box::new(SupervisedPreprocessor::new(supervised)))
        };
        Ok((make().map_err(wrong)?, Box::new(make)))
    }

    fn postprocessor(
        &self,
        connector: &str,
        component: &Component,
    ) -> Result<Box<dyn Postprocessor>, flow::Diagnostic> {
        let make = self.processor(
            Kind::Postprocessor,
            component,
            connector,
            ComponentFactory::postprocessor,
            Watched::postprocessor,
        )?;
        let wrong = |error| wrong(self.flow, Kind::Postprocessor, component, &error);
        if BuiltIn::find(Kind::Postprocessor, &component.name.value).is_some() {
            return make().map_err(wrong);
        }
        let part = part(Kind::Postprocessor, component);
        let maker = Arc::new(self.maker(connector, &part, Box::new(make)));
        let supervised = Supervised::new(maker, Arc::default()).map_err(wrong)?;
        Ok(Box::new(SupervisedPostprocessor::new(supervised)))
    }
}

impl FlowParts<'_> {
    /// Returns a function that creates contexts for instances of a component of the connector or pipeline `of`.
    pub(super) fn host(
        &self,
        of: &str,
        component: &Component,
    ) -> impl Fn(Option<Arc<Connection>>) -> Arc<HostContext> + Send + Sync + 'static {
        let folder = self.flow.folder().to_string_lossy().into_owned();
        let (run, calls) = (self.run.clone(), self.calls.clone());
        let account = self.memory.account(of);
        let (loan, clock) = (Arc::new(Loan::new(account.clone())), self.clock.clone());
        let component_name = of.into();
        let services =
            Services { connection: None, run, calls, component: component_name, loan, clock };
        let (flow, kind) = (self.flow.name().to_owned(), component.name.value.clone());
        // The jobs are kept across restarts, because jobs of an earlier instance may still block threads.
        let jobs = Jobs::default();
        self.calls.add_blocking(of, jobs.progress());
        move |connection| {
            if connection.is_some() {
                jobs.discard_waiting();
            }
            let loan = Arc::new(Loan::new(account.clone()));
            let services = Services { connection, loan, ..services.clone() };
            let component = &*services.component;
            let host = HostContext::with_jobs(component, &*folder, services.clone(), jobs.clone());
            services.run.metrics().add(&flow, &kind, &host);
            host
        }
    }

    /// Returns the maker of the instances of a part of `connector`.
    fn maker<T>(
        &self,
        connector: &str,
        part: &str,
        make: Box<dyn Fn() -> Result<T> + Send + Sync>,
    ) -> Maker<T> {
        let (calls, clock) = (self.calls.clone(), self.clock.clone());
        Maker { connector: connector.to_owned(), part: part.to_owned(), make, calls, clock }
    }

    /// Returns a function that creates instances of a preprocessor or a postprocessor of a connector.
    fn processor<T>(
        &self,
        kind: Kind,
        component: &Component,
        connector: &str,
        make: fn(&ComponentFactory, &Value<'static>, &Arc<HostContext>) -> Result<T>,
        record: fn(&Watched, T) -> T,
    ) -> Result<impl Fn() -> Result<T> + Send + Sync + 'static, flow::Diagnostic>
    where
        T: 'static,
    {
        let factory = self.component(kind, component)?;
        let watched = self.watched(kind, component, connector);
        let host = self.host(connector, component);
        let config = component.config.exact().clone();
        Ok(move || make_recorded(watched.as_ref(), || make(&factory, &config, &host(None)), record))
    }

    /// Returns the factory of a component that is neither a connector nor a built-in codec. Loads the library if a
    /// plugin provides the component.
    fn component(
        &self,
        kind: Kind,
        component: &Component,
    ) -> Result<ComponentFactory, flow::Diagnostic> {
        let name = &component.name;
        if let Some(factory) = factory(kind, &name.value) {
            return Ok(factory);
        }
        let library = self.library(kind, component)?;
        ComponentFactory::load(library, kind.as_str(), &name.value, self.components.policy)
            .map_err(|error| self.flow.error(name.at, error.to_string()))
    }

    /// Returns the library of a component of a plugin.
    pub(super) fn library(
        &self,
        kind: Kind,
        component: &Component,
    ) -> Result<&Library, flow::Diagnostic> {
        let name = &component.name;
        let found = self.components.registry.find(kind.as_str(), &name.value);
        found
            .map_err(|error| self.flow.error(name.at, error.to_string()))?
            .ok_or_else(|| self.flow.error(name.at, format!("unknown {}", kind.named(&name.value))))
    }

    /// Returns the record for the calls to a component of a plugin. Returns `None` for a built-in component. `of` is
    /// the connector or the pipeline that contains the component.
    fn watched(&self, kind: Kind, component: &Component, of: &str) -> Option<Watched> {
        let is_built_in = BuiltIn::find(kind, &component.name.value).is_some();
        (!is_built_in).then(|| self.calls.watch(of, Some(&part(kind, component))))
    }
}

/// Returns a description of a component within a connector or a pipeline, for messages.
fn part(kind: Kind, component: &Component) -> String {
    format!("{kind} `{}`", component.name.value)
}

/// Creates an instance. If there is a record, the calls of the instance are recorded.
fn make_recorded<T>(
    watched: Option<&Watched>,
    make: impl FnOnce() -> Result<T>,
    record: impl FnOnce(&Watched, T) -> T,
) -> Result<T> {
    match watched {
        Some(watched) => watched.call(Call::New, make).map(|made| record(watched, made)),
        None => make(),
    }
}

/// Checks that the codec requirement of the instance agrees with the flow, because the connector would lose events
/// otherwise.
pub(super) fn check_codec_requirement(
    requirement: CodecRequirement,
    has_codec: bool,
) -> Result<()> {
    let fits = match requirement {
        CodecRequirement::Required | CodecRequirement::Optional(_) => has_codec,
        CodecRequirement::Structured => !has_codec,
    };
    if fits {
        return Ok(());
    }
    Err(Error::configuration(format_args!(
        "the connector requires {requirement:?}, which contradicts its metadata: the flow gives it {}; this \
         is a fault of the plugin",
        if has_codec { "a codec" } else { "no codec" }
    )))
}

/// The services that a flow provides to an instance.
#[derive(Clone)]
struct Services {
    /// Connection of the connector; `None` for other components.
    connection: Option<Arc<Connection>>,
    run: RunHandle,
    calls: Arc<Calls>,
    component: Arc<str>,
    /// Memory that the instance has borrowed.
    loan: Arc<Loan>,
    clock: Clock,
}

impl HostServices for Services {
    fn connection_lost(&self) {
        if let Some(connection) = &self.connection {
            connection.break_off();
        }
    }

    fn set_problem(&self, name: &str, problem: Option<Error>) {
        if let Some(connection) = &self.connection {
            connection.set_problem(name, problem, self.clock.now());
        }
    }

    fn request_stop(&self, graceful: bool, reason: &str) {
        let component = &*self.component;
        log::within(self.calls.flow(), || {
            tracing::info!(component, reason, graceful, "a component ends the run");
        });
        if graceful {
            self.run.drain();
        } else {
            self.run.stop();
        }
    }

    fn memory_take(&self, bytes: usize) -> bool {
        self.loan.take(bytes)
    }

    fn memory_return(&self, bytes: usize) {
        self.loan.give_back(bytes);
    }

    fn memory_charge(&self, bytes: usize) {
        self.loan.charge(bytes);
    }

    fn memory_discharge(&self, bytes: usize) {
        self.loan.discharge(bytes);
    }

    fn clock(&self) -> Clock {
        self.clock.clone()
    }

    fn is_draining(&self) -> bool {
        self.run.is_draining(self.calls.flow())
    }

    fn flow(&self) -> Option<Arc<str>> {
        Some(self.calls.flow().clone())
    }

    fn task(&self, name: &str, task: BoxFuture<'static, ()>) -> BoxFuture<'static, ()> {
        let part = format!("task `{name}`");
        Box::pin(self.calls.watch(&self.component, Some(&part)).task(task))
    }
}
