//! The driver of a connector.

use tremor_abi::connector::{Hook, Sides};

use super::SourceDriver;
use crate::{
    CodecRequirement, Connector, Halves, Result, Sink, connector,
    dynamic::{BoxFuture, DynConnector, DynHalves, DynSource},
};

/// Drives a connector. Its futures are allocated on the heap, because none of them is on the data path.
pub struct ConnectorDriver<C: Connector>(C);

impl<C: Connector> ConnectorDriver<C> {
    /// A driver of this connector.
    pub fn new(connector: C) -> Self {
        Self(connector)
    }
}

impl<C: Connector> DynConnector for ConnectorDriver<C> {
    fn codec_requirement(&self) -> CodecRequirement {
        const { connector::codec::<C>() }
    }

    fn sides(&self) -> Sides {
        self.0.sides()
    }

    fn connect(&mut self, wanted: Sides) -> BoxFuture<'_, Result<DynHalves>> {
        Box::pin(async move {
            let Halves { source, sink } = self.0.connect(wanted).await?;
            let halves = Halves {
                source: source.filter(|_| wanted.has_source()),
                sink: sink.filter(|_| wanted.has_sink()),
            };
            let source = |source| Box::new(SourceDriver::new(source)) as Box<dyn DynSource>;
            Ok(halves.map(source, Sink::into_driver))
        })
    }

    fn hook(&mut self, hook: Hook) -> BoxFuture<'_, Result<()>> {
        match hook {
            Hook::START => Box::pin(self.0.on_start()),
            Hook::PAUSE => Box::pin(self.0.on_pause()),
            Hook::RESUME => Box::pin(self.0.on_resume()),
            Hook::CLOSE => Box::pin(self.0.close()),
            // A hook of a later minor version, which this plugin cannot know.
            _ => Box::pin(async { Ok(()) }),
        }
    }
}
