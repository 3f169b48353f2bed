//! Support for tests that call connectors directly, as the engine does.

use std::{
    future::poll_fn,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
};

use serde_json::Value;
use tremor_abi::{batch::HostBatch, connector::Hook};
use tremor_pdk::{Batch, ErrorKind, Exception, Halves, Pull, Result};
use tremor_runtime::{
    clock::Clock,
    dynamic::{DynConnector, DynSink, DynSource},
    executor::block_on,
    plugin::{ConnectorFactory, HostContext, HostServices, Library, Policy},
};

/// Counts the requests that a component makes to the host.
#[derive(Clone, Debug, Default)]
pub(crate) struct Asked {
    pub(crate) lost: Arc<AtomicU32>,
    pub(crate) stops: Arc<AtomicU32>,
    clock: Clock,
}

impl HostServices for Asked {
    fn connection_lost(&self) {
        self.lost.fetch_add(1, Ordering::Relaxed);
    }

    fn request_stop(&self, _graceful: bool, _reason: &str) {
        self.stops.fetch_add(1, Ordering::Relaxed);
    }

    fn clock(&self) -> Clock {
        self.clock.clone()
    }
}

pub(crate) fn host(id: &str) -> Arc<HostContext> {
    HostContext::new(id, "/", Asked::default())
}

/// Creates a host with a clock that only the test advances, so that a call of the plugin waits until then.
pub(crate) fn timed_host(id: &str, clock: &Clock) -> Arc<HostContext> {
    HostContext::new(id, "/", Asked { clock: clock.clone(), ..Asked::default() })
}

pub(crate) fn factory(library: &Path, name: &str) -> ConnectorFactory {
    let library = Library::inspect(library).unwrap();
    ConnectorFactory::load(&library, name, Policy::default()).unwrap()
}

/// A connector that is connected and started, like one of the engine before the first event.
pub(crate) struct Instance {
    pub(crate) connector: Box<dyn DynConnector>,
    pub(crate) source: Option<Box<dyn DynSource>>,
    pub(crate) sink: Option<Box<dyn DynSink>>,
}

impl Instance {
    pub(crate) fn start(
        factory: &ConnectorFactory,
        config: &Value,
        host: &Arc<HostContext>,
    ) -> Result<Self> {
        let mut connector = factory.create(config, host)?;
        block_on(async {
            let wanted = connector.sides();
            let mut attempts = 1;
            let Halves { source, sink } = loop {
                match connector.connect(wanted).await {
                    Err(error) if error.kind() == ErrorKind::CONNECTION_REFUSED && attempts < 3 => {
                        attempts += 1;
                    }
                    connected => break connected?,
                }
            };
            connector.hook(Hook::START).await?;
            Ok(Self { connector, source, sink })
        })
    }

    pub(crate) fn pull(&mut self, batch: &mut Batch) -> Result<Pull> {
        let source = self.source.as_mut().expect("a source");
        block_on(poll_fn(|context| source.poll_pull(context, batch)))
    }

    /// Pulls until the source is finished, and returns the texts of all messages.
    pub(crate) fn pull_all(&mut self) -> Result<Vec<String>> {
        let mut messages = Vec::new();
        loop {
            let mut batch = Batch::new();
            let pull = self.pull(&mut batch)?;
            let text = |event| String::from_utf8_lossy(batch.raw(event).unwrap()).into_owned();
            messages.extend(batch.events().iter().map(text));
            if pull == Pull::Finished {
                return Ok(messages);
            }
        }
    }

    pub(crate) fn deliver(&mut self, messages: &[&str]) -> Result<Vec<Exception>> {
        let mut batch = Batch::new();
        for message in messages {
            batch.push_message(message.as_bytes());
        }
        let sink = self.sink.as_mut().expect("a sink");
        block_on(poll_fn(|context| sink.poll_deliver(context, 0, &mut batch)))
    }
}
