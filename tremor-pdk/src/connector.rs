//! Trait for components that connect to a system outside: connectors.

use std::future::Future;

use tremor_abi::connector::Sides;

use crate::{AnyBatch, Component, Result, Sink, Source, codec::CodecRequirement};

/// A component that connects to a peer, or has two sides: a source of events, a sink for them, or both. If
/// there is no peer to connect to, a [`Source`] or a [`Sink`] is a component by itself.
///
/// The order of calls: [`Component::new`], [`connect`](Connector::connect) until it succeeds,
/// [`on_start`](Connector::on_start), then the data path of both halves. If the connection is lost, both halves
/// are dropped and [`connect`](Connector::connect) follows. Nothing of the connection has to be stored in the
/// connector: put what both halves share into an `Arc` of your own, and keep in `self` only what must survive the
/// connection. A flow may have many instances of one connector: state belongs into `self`, never into a static.
///
/// A panic in any of these methods becomes an error of this instance; the process continues.
pub trait Connector: Component {
    /// The source; [`NoSource`](crate::NoSource) if the connector never has one.
    type Source: Source;
    /// The sink; [`NoSink`](crate::NoSink) if the connector never has one.
    type Sink: Sink;

    /// Returns the sides that the connector has in its configuration. `tremor check` refuses a flow that uses
    /// another one. Called once, before [`connect`](Connector::connect).
    ///
    /// The default has the source unless it is [`NoSource`](crate::NoSource), and the sink unless it is
    /// [`NoSink`](crate::NoSink).
    fn sides(&self) -> Sides {
        Sides::new(Self::Source::EXISTS, Self::Sink::EXISTS)
    }

    /// Connects to the peer, and returns the halves of the connection.
    ///
    /// `wanted` has the sides that the flow uses of this connection. A source that has finished is not wanted
    /// again when the sink reconnects. A half that is returned without being wanted is dropped at once.
    ///
    /// # Errors
    /// The runtime tries again with backoff after an error whose [policy](crate::ErrorPolicy) is to retry or to
    /// reconnect, such as [`Error::connection_refused`](crate::Error::connection_refused). An error of the kind
    /// configuration, authentication or unsupported fails the flow. After any other, the instance is replaced.
    fn connect(
        &mut self,
        wanted: Sides,
    ) -> impl Future<Output = Result<Halves<Self::Source, Self::Sink>>> + Send;

    /// Called once for an instance, after its first connection: events are about to flow.
    fn on_start(&mut self) -> impl Future<Output = Result<()>> + Send {
        async { Ok(()) }
    }

    /// Called when the connector is paused: no event flows until [`on_resume`](Connector::on_resume).
    fn on_pause(&mut self) -> impl Future<Output = Result<()>> + Send {
        async { Ok(()) }
    }

    /// Called when events flow again.
    fn on_resume(&mut self) -> impl Future<Output = Result<()>> + Send {
        async { Ok(()) }
    }

    /// Ends the connector. The last call, after both halves were dropped. The runtime waits for five seconds at
    /// most.
    fn close(&mut self) -> impl Future<Output = Result<()>> + Send {
        async { Ok(()) }
    }
}

/// The halves of one connection, which live as long as the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Halves<R, W> {
    /// The reading half, if the connection has one.
    pub source: Option<R>,
    /// The writing half, if the connection has one.
    pub sink: Option<W>,
}

impl<R, W> Halves<R, W> {
    /// A source and a sink.
    pub const fn both(source: R, sink: W) -> Self {
        Self { source: Some(source), sink: Some(sink) }
    }

    /// A source alone.
    pub const fn source(source: R) -> Self {
        Self { source: Some(source), sink: None }
    }

    /// A sink alone.
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
