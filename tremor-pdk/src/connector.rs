//! What authors implement to connect to something: connectors.

use std::future::Future;

use crate::{CodecRequirement, Component, Result, Sink, Source};

/// A component that connects to something, or has two sides: makes a source of events, a sink for
/// them, or both. Where there is nothing to connect to, a [`Source`] or a [`Sink`] is a component by
/// itself.
///
/// The order of calls: [`Component::new`], [`connect`](Connector::connect) until it answers
/// `true`, [`create_source`](Connector::create_source) and
/// [`create_sink`](Connector::create_sink), [`on_start`](Connector::on_start), then the data path
/// of both. A source and a sink live as long as one connection; what must survive a reconnect
/// lives in the connector. A flow may have many instances of one connector: state belongs into
/// `self`, never into a static.
///
/// A panic in any of these methods becomes an error of this instance; the process goes on.
pub trait Connector: Component {
    /// Its source; [`NoSource`](crate::NoSource) where it has none.
    type Source: Source;
    /// Its sink; [`NoSink`](crate::NoSink) where it has none.
    type Sink: Sink;

    /// Connects to the peer; `attempt` counts from 1 and starts again once connected. `false`
    /// means "not yet". The runtime tries again with backoff after `false` and after errors that
    /// time may mend; configuration, authentication and unsupported are final.
    fn connect(&mut self, attempt: u64) -> impl Future<Output = Result<bool>> + Send {
        let _ = attempt;
        async { Ok(true) }
    }

    /// Makes the source of this connection.
    fn create_source(&mut self) -> impl Future<Output = Result<Option<Self::Source>>> + Send {
        async { Ok(None) }
    }

    /// Makes the sink of this connection.
    fn create_sink(&mut self) -> impl Future<Output = Result<Option<Self::Sink>>> + Send {
        async { Ok(None) }
    }

    /// Events are about to flow.
    fn on_start(&mut self) -> impl Future<Output = Result<()>> + Send {
        async { Ok(()) }
    }

    /// No event flows until [`on_resume`](Connector::on_resume).
    fn on_pause(&mut self) -> impl Future<Output = Result<()>> + Send {
        async { Ok(()) }
    }

    /// Events flow again.
    fn on_resume(&mut self) -> impl Future<Output = Result<()>> + Send {
        async { Ok(()) }
    }

    /// The source is not pulled any more; what is under way still arrives at the sink.
    fn on_drain(&mut self) -> impl Future<Output = Result<()>> + Send {
        async { Ok(()) }
    }

    /// The end: source and sink are gone.
    fn on_stop(&mut self) -> impl Future<Output = Result<()>> + Send {
        async { Ok(()) }
    }

    /// The connection is gone; [`connect`](Connector::connect) follows.
    fn on_connection_lost(&mut self) -> impl Future<Output = Result<()>> + Send {
        async { Ok(()) }
    }

    /// [`connect`](Connector::connect) succeeded.
    fn on_connection_established(&mut self) -> impl Future<Output = Result<()>> + Send {
        async { Ok(()) }
    }
}

/// What a connector exchanges with the runtime: what its source and its sink do.
pub(crate) const fn codec<C: Connector>() -> CodecRequirement {
    match (C::Source::EXISTS, C::Sink::EXISTS) {
        (true, true) => {
            assert!(
                C::Source::CODEC.is_same(C::Sink::CODEC),
                "the source and the sink of a connector have the same `CODEC`: a flow names one codec"
            );
            C::Source::CODEC
        }
        (true, false) => C::Source::CODEC,
        (false, _) => C::Sink::CODEC,
    }
}
