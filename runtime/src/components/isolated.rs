//! Creates connectors whose plugins run in processes of their own.

use std::sync::Arc;

use tremor_pdk::{ErrorPolicy, Result, Sides};

use super::{
    Components,
    parts::{FlowParts, check_codec_requirement},
};
use crate::{
    engine::{Connection, ConnectorType, HANG_LIMIT, Replaced},
    flow::{self, Flow, Isolation, Kind, Resolver},
    plugin::{ISOLATED_MEMORY, IsolatedFactory, Library},
    watchdog::{Call, Limit},
};

impl FlowParts<'_> {
    /// Returns the type of a connector that runs in processes of its own, with at most `memory` bytes of memory. Loads no
    /// library into this process.
    ///
    /// # Errors
    /// Returns the reason why the connector cannot be created, with its location in the flow file.
    pub(super) fn isolated_connector(
        &self,
        connector: &flow::Connector,
        memory: u64,
    ) -> Result<ConnectorType, flow::Diagnostic> {
        use crate::engine::Parts;
        let Self { components, flow, calls, .. } = *self;
        let kind = &connector.component.name;
        let codec = self.codec(connector)?;
        let has_codec = codec.is_some();
        let library = self.library(Kind::Connector, &connector.component)?;
        let config = &connector.component.config;
        let sides = components.sides(flow, &kind.value, config.value()).unwrap_or(Sides::BOTH);
        let hang_limit = connector.hang_limit.unwrap_or(HANG_LIMIT);
        let describer = &components.describer;
        let factory =
            IsolatedFactory::new(describer, library, &kind.value, sides, memory, hang_limit)
                .map_err(|error| flow.error(kind.at, error.to_string()))?;
        let (name, folder) = (connector.name.value.clone(), flow.folder().to_owned());
        let (config, calls) = (config.clone(), (*calls).clone());
        let host = self.host(&name, &connector.component);
        // A call that blocks a thread of the process delays nothing else, so it has no limit.
        let make = move |connection: &Arc<Connection>, _: Limit| {
            let (calls, of) = (calls.clone(), name.clone());
            let watch = move || calls.watch(&of, None);
            let watched = watch();
            let host = host(Some(connection.clone()));
            // A file may have changed since the last instance was created.
            let config = config
                .read_again(&folder)
                .map_err(|error| error.with_policy(ErrorPolicy::RESTART))?;
            let connection = connection.clone();
            let on_end = move |error| connection.replace(Replaced::Because(error));
            let connector = watched.call(Call::New, || factory.create(&config, &host, on_end))?;
            check_codec_requirement(connector.codec_requirement(), has_codec)?;
            Ok(watched.connector(connector, watch))
        };
        Ok(ConnectorType { codec, make: Box::new(make) })
    }
}

impl Components {
    /// Returns the maximum number of bytes of memory of a connector's processes, or `None` if the connector runs in this
    /// process.
    pub(super) fn isolated_memory(&self, connector: &flow::Connector) -> Option<u64> {
        let library = self.library(Kind::Connector, &connector.component.name.value);
        let is_executable = library.is_some_and(|library| library.executable().is_some());
        match connector.isolation {
            Some(Isolation::Process { memory }) => Some(memory.map_or(ISOLATED_MEMORY, u64::from)),
            _ if is_executable => Some(ISOLATED_MEMORY),
            Some(Isolation::None) | None => None,
        }
    }

    /// Checks that a connector can run where the key `isolation` says.
    ///
    /// # Errors
    /// The connector should run in a process of its own, and is linked into this program or needs the standard input and
    /// output of this program. Or it should run in this process, and is an executable.
    pub(super) fn check_isolation(
        &self,
        flow: &Flow,
        connector: &flow::Connector,
    ) -> Result<(), flow::Diagnostic> {
        let kind = &connector.component.name;
        let library = self.library(Kind::Connector, &kind.value);
        let is_linked = library.is_some_and(Library::is_linked);
        let is_executable = library.is_some_and(|library| library.executable().is_some());
        let (isolation, why) = match (connector.isolation, &*kind.value) {
            (Some(Isolation::Process { .. }), "stdio") => {
                ("process", "uses the standard input and output of this program")
            }
            (Some(Isolation::Process { .. }), _) if is_linked => {
                ("process", "is a part of this program")
            }
            (Some(Isolation::None), _) if is_executable => {
                ("none", "is an executable, which always runs in a process of its own")
            }
            _ => return Ok(()),
        };
        let message = format!(
            "connector `{}` cannot have `isolation: {isolation}`: `{}` {why}",
            connector.name.value, kind.value
        );
        Err(flow.error(kind.at, message).help("remove `isolation`"))
    }
}
