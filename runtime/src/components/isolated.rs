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
    /// Returns the type of a connector with `isolation: process`. Loads no library into this process.
    ///
    /// # Errors
    /// Returns the reason why the connector cannot be created, with its location in the flow file.
    pub(super) fn isolated_connector(
        &self,
        connector: &flow::Connector,
        isolation: Isolation,
    ) -> Result<ConnectorType, flow::Diagnostic> {
        use crate::engine::Parts;
        let Self { components, flow, calls, .. } = *self;
        let kind = &connector.component.name;
        let codec = self.codec(connector)?;
        let has_codec = codec.is_some();
        let library = self.library(Kind::Connector, &connector.component)?;
        let config = &connector.component.config;
        let sides = components.sides(flow, &kind.value, config.value()).unwrap_or(Sides::BOTH);
        let memory = isolation.memory.map_or(ISOLATED_MEMORY, u64::from);
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
    /// Checks that a connector with `isolation: process` can work in a process of its own.
    ///
    /// # Errors
    /// The connector is linked into this program, or needs the standard input and output of this program.
    pub(super) fn check_isolation(
        &self,
        flow: &Flow,
        connector: &flow::Connector,
    ) -> Result<(), flow::Diagnostic> {
        let kind = &connector.component.name;
        let library = self.library(Kind::Connector, &kind.value);
        let is_linked = library.is_some_and(Library::is_linked);
        let why = match &*kind.value {
            _ if connector.isolation.is_none() => return Ok(()),
            "stdio" => "uses the standard input and output of this program",
            _ if is_linked => "is a part of this program",
            _ => return Ok(()),
        };
        let message = format!(
            "connector `{}` cannot have `isolation: process`: `{}` {why}",
            connector.name.value, kind.value
        );
        Err(flow.error(kind.at, message).help("remove `isolation`"))
    }
}
