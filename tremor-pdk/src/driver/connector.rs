//! The driver of a connector.

use super::SourceDriver;
use crate::{
    CodecRequirement, Connector, Result, Sink, connector,
    dynamic::{BoxFuture, DynConnector, DynSink, DynSource},
};

/// Drives a connector: its futures go to the heap, since none of them is on the data path.
pub struct ConnectorDriver<C: Connector>(C);

impl<C: Connector> ConnectorDriver<C> {
    /// A driver of this connector.
    pub fn new(connector: C) -> Self {
        Self(connector)
    }
}

macro_rules! forward {
    ($($method:ident,)*) => {
        $(fn $method(&mut self) -> BoxFuture<'_, Result<()>> {
            Box::pin(self.0.$method())
        })*
    };
}

impl<C: Connector> DynConnector for ConnectorDriver<C> {
    fn codec_requirement(&self) -> CodecRequirement {
        const { connector::codec::<C>() }
    }

    fn connect(&mut self, attempt: u64) -> BoxFuture<'_, Result<bool>> {
        Box::pin(self.0.connect(attempt))
    }

    fn create_source(&mut self) -> BoxFuture<'_, Result<Option<Box<dyn DynSource>>>> {
        Box::pin(async {
            let source = self.0.create_source().await?;
            Ok(source.map(|source| Box::new(SourceDriver::new(source)) as Box<dyn DynSource>))
        })
    }

    fn create_sink(&mut self) -> BoxFuture<'_, Result<Option<Box<dyn DynSink>>>> {
        Box::pin(async {
            let sink = self.0.create_sink().await?;
            Ok(sink.map(Sink::into_driver))
        })
    }

    forward! {
        on_start,
        on_pause,
        on_resume,
        on_drain,
        on_stop,
        on_connection_lost,
        on_connection_established,
    }
}
