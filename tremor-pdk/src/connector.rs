//! The trait of connectors: components that connect to an external system.

use std::future::Future;

use tremor_abi::connector::Sides;

use crate::{AnyBatch, Component, Result, Sink, Source, codec::CodecRequirement};

/// A component that connects to an external system, and has a source of events, a sink for events, or both.
///
/// A component that has only a [`Source`] or only a [`Sink`] can implement [`Component`] without a connector.
///
/// The runtime calls [`Component::new`], then [`connect`](Connector::connect) until it succeeds, then
/// [`on_start`](Connector::on_start), and then the source and the sink that `connect` returned. If the connection is
/// lost, the runtime drops both and calls [`connect`](Connector::connect) again.
///
/// The connector does not have to store the connection. Put state that both halves share into an `Arc`, and keep in
/// `self` only the state that must survive the connection. A flow may have many instances of one connector, so do not
/// keep state in a `static`.
///
/// A panic in any of these methods is an error of this instance; the process continues.
pub trait Connector: Component {
    /// The source, or [`NoSource`](crate::NoSource) if the connector never has a source.
    type Source: Source;
    /// The sink, or [`NoSink`](crate::NoSink) if the connector never has a sink.
    type Sink: Sink;

    /// Returns the sides (source, sink or both) that the connector has with its configuration.
    ///
    /// `tremor check` rejects a flow that uses a side that is not returned. The runtime calls this method once, before
    /// [`connect`](Connector::connect).
    ///
    /// By default, a connector has a source unless its type is [`NoSource`](crate::NoSource), and a sink unless its
    /// type is [`NoSink`](crate::NoSink).
    fn sides(&self) -> Sides {
        Sides::new(Self::Source::EXISTS, Self::Sink::EXISTS)
    }

    /// Connects to the peer, and returns the source and the sink of the connection.
    ///
    /// `wanted` contains the sides that the flow uses. When the sink reconnects after the source has finished, the
    /// source is not wanted. If `connect` returns a half that is not in `wanted`, the runtime drops that half at once.
    ///
    /// # Errors
    /// The runtime retries with backoff after an error whose [policy](crate::ErrorPolicy) is to retry or to
    /// reconnect, such as [`Error::connection_refused`](crate::Error::connection_refused). An error of the kind
    /// configuration, authentication or unsupported fails the flow. After any other error, the runtime replaces the
    /// instance.
    fn connect(
        &mut self,
        wanted: Sides,
    ) -> impl Future<Output = Result<Halves<Self::Source, Self::Sink>>> + Send;

    /// Called once for each instance, after its first connection and before the first event.
    fn on_start(&mut self) -> impl Future<Output = Result<()>> + Send {
        async { Ok(()) }
    }

    /// Called when the connector is paused. The runtime then neither pulls nor delivers until
    /// [`on_resume`](Connector::on_resume).
    fn on_pause(&mut self) -> impl Future<Output = Result<()>> + Send {
        async { Ok(()) }
    }

    /// Called when the connector is resumed, before the next pull and the next delivery.
    fn on_resume(&mut self) -> impl Future<Output = Result<()>> + Send {
        async { Ok(()) }
    }

    /// Closes the connector. This is the last call, after both halves were dropped.
    ///
    /// The runtime waits for the result for at most five seconds.
    fn close(&mut self) -> impl Future<Output = Result<()>> + Send {
        async { Ok(()) }
    }
}

/// The source and the sink of one connection. The runtime drops them when the connection ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Halves<R, W> {
    /// The reading half, if the connection has one.
    pub source: Option<R>,
    /// The writing half, if the connection has one.
    pub sink: Option<W>,
}

impl<R, W> Halves<R, W> {
    /// Creates the halves of a connection with a source and a sink.
    pub const fn both(source: R, sink: W) -> Self {
        Self { source: Some(source), sink: Some(sink) }
    }

    /// Creates the halves of a connection with a source only.
    pub const fn source(source: R) -> Self {
        Self { source: Some(source), sink: None }
    }

    /// Creates the halves of a connection with a sink only.
    pub const fn sink(sink: W) -> Self {
        Self { source: None, sink: Some(sink) }
    }

    /// Converts both halves.
    pub(crate) fn map<S, T>(
        self,
        source: impl FnOnce(R) -> S,
        sink: impl FnOnce(W) -> T,
    ) -> Halves<S, T> {
        Halves { source: self.source.map(source), sink: self.sink.map(sink) }
    }
}

/// Returns the codec requirement of a connector, which follows from the batches of its source and its sink.
pub(crate) const fn codec<C: Connector>() -> CodecRequirement {
    let source = requirement::<<C::Source as Source>::Batch>(C::Source::DEFAULT_CODEC);
    let sink = requirement::<<C::Sink as Sink>::Batch>(C::Sink::DEFAULT_CODEC);
    assert!(
        !C::Source::EXISTS || !C::Sink::EXISTS || source.is_same(sink),
        "the source and the sink of a connector have the same `Batch` and `DEFAULT_CODEC`: a flow names one codec"
    );
    if C::Source::EXISTS { source } else { sink }
}

const fn requirement<B: AnyBatch>(default: Option<&'static str>) -> CodecRequirement {
    match default {
        Some(codec) => {
            assert!(B::IS_RAW, "a `StructuredBatch` needs no codec: remove `DEFAULT_CODEC`");
            CodecRequirement::Optional(codec)
        }
        None if B::IS_RAW => CodecRequirement::Required,
        None => CodecRequirement::Structured,
    }
}
