//! What authors implement: connectors, their sources and their sinks, in plain Rust.

use std::{future::Future, time::Duration};

use crate::{Batch, Component, Result};

/// A component that talks to the world: a source of events, a sink for them, or both.
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
    /// Its source; [`NoSource`] where it has none.
    type Source: Source;
    /// Its sink; [`NoSink`] where it has none.
    type Sink: Sink;

    /// What it exchanges with the runtime: bytes, through a codec, or values.
    const CODEC: CodecRequirement = CodecRequirement::Required;

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

/// What a connector exchanges with the runtime.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CodecRequirement {
    /// Bytes; the flow must name a codec.
    Required,
    /// Bytes; where the flow names no codec, this one is used.
    Optional(&'static str),
    /// Values; a codec in the flow is an error.
    Structured,
}

/// What a pull came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pull {
    /// What there is lies in the batch; pull again.
    Events,
    /// Nothing just now: pull again after this time, or when the runtime sees fit.
    Idle(Duration),
    /// There is nothing more and there never will be: all streams end.
    Finished,
}

/// Brings events in.
pub trait Source: Send + 'static {
    /// Adds what there is to `batch`, which is empty, and returns as soon as there is something,
    /// or once [`Batch::is_full`]. Waits without blocking the thread: see [`Host::blocking`] and
    /// [`Host::readable`].
    ///
    /// The future may be dropped at any `await` (a pause, an acknowledgement); what is in the
    /// batch by then stays there. So put what was read into the batch, or into `self`, before
    /// the next `await`.
    ///
    /// # Errors
    /// Kind connection lost: the runtime reconnects. Kind bad data: it is counted and the next
    /// pull follows. Others: the connector fails, and is restarted where that may help.
    fn pull(&mut self, batch: &mut Batch) -> impl Future<Output = Result<Pull>> + Send;

    /// Whether [`ack`](Source::ack) and [`fail`](Source::fail) mean anything to it.
    fn is_transactional(&self) -> bool {
        false
    }

    /// Every event of pull number `pull` (they count from 1 in each connection) is done with:
    /// delivered, dead-lettered or discarded on purpose.
    ///
    /// # Errors
    /// As [`pull`](Source::pull).
    fn ack(&mut self, pull: u64) -> Result<()> {
        let _ = pull;
        Ok(())
    }

    /// An event of pull number `pull` could not be delivered.
    ///
    /// # Errors
    /// As [`pull`](Source::pull).
    fn fail(&mut self, pull: u64) -> Result<()> {
        let _ = pull;
        Ok(())
    }

    /// A sink downstream is down (`true`): pulling is of no use until it is back (`false`).
    ///
    /// # Errors
    /// As [`pull`](Source::pull).
    fn on_circuit_breaker(&mut self, open: bool) -> Result<()> {
        let _ = open;
        Ok(())
    }
}

/// What became of a delivery: everything was delivered, except what is said otherwise here.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Delivery {
    pub(crate) exceptions: Vec<Exception>,
}

/// A run of events that was not delivered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exception {
    /// The positions of the events in the batch.
    pub events: std::ops::Range<usize>,
    /// Whether the runtime is to deliver them again, or send them to the dead letters.
    pub retry: bool,
    /// Why.
    pub error: crate::Error,
}

impl Delivery {
    /// Everything was delivered.
    pub fn done() -> Self {
        Self::default()
    }

    /// The events at these positions cannot be delivered: they go to the dead letters. Ranges
    /// come in order and do not overlap.
    pub fn failed(&mut self, events: std::ops::Range<usize>, error: crate::Error) {
        self.exceptions.push(Exception { events, retry: false, error });
    }

    /// The events at these positions are to be delivered again: at once where the others of the
    /// batch were delivered, after a while where there are no others.
    pub fn retry(&mut self, events: std::ops::Range<usize>, error: crate::Error) {
        self.exceptions.push(Exception { events, retry: true, error });
    }

    /// This, if it can be about so many events: its ranges are in order, do not overlap and lie within
    /// the batch.
    ///
    /// # Errors
    /// Kind internal: nothing of it can be believed.
    pub(crate) fn about(self, events: usize) -> Result<Self> {
        let mut free = 0;
        for std::ops::Range { start, end } in self.exceptions.iter().map(|it| &it.events) {
            if *start < free || end < start || *end > events {
                return Err(crate::Error::internal(format_args!(
                    "the sink answered a delivery of {events} events with what became of events \
                     {start} to {end}, after those up to {free}"
                )));
            }
            free = *end;
        }
        Ok(self)
    }

    /// What was not delivered, to be dealt with.
    pub fn into_exceptions(self) -> Vec<Exception> {
        self.exceptions
    }

    /// What was not delivered.
    pub fn exceptions(&self) -> &[Exception] {
        &self.exceptions
    }
}

/// What a sink is told besides events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Signal {
    /// Some time has passed: a chance for what is due.
    Tick,
    /// No event follows: the sink sends what it holds back.
    Drain,
}

/// Takes events out.
pub trait Sink: Send + 'static {
    /// Delivers the events of `batch`: encoded messages ([`Batch::raw`]) where the connector asked
    /// for a codec, values ([`Batch::value`]) where it is structured. Answering `Ok` says that the
    /// peer has them: dropping is not delivering.
    ///
    /// The future is polled to its end, unless the connection ends first: what has not been
    /// answered for by then is delivered again, to the sink of the next one.
    ///
    /// # Errors
    /// The whole batch was not delivered. Kinds timeout and full: it is delivered again after a
    /// while, as often as the flow says. Kind connection lost: again after a reconnect. Kind bad
    /// data: it goes to the dead letters. Others: the connector fails, and is restarted where that
    /// may help.
    fn deliver(&mut self, batch: &Batch) -> impl Future<Output = Result<Delivery>> + Send;

    /// Something other than events.
    ///
    /// # Errors
    /// As [`deliver`](Sink::deliver).
    fn on_signal(&mut self, signal: Signal) -> impl Future<Output = Result<()>> + Send {
        let _ = signal;
        async { Ok(()) }
    }
}

/// The source of a connector that is only a sink. There is no value of this type.
#[derive(Clone, Copy, Debug)]
pub enum NoSource {}

impl Source for NoSource {
    async fn pull(&mut self, _batch: &mut Batch) -> Result<Pull> {
        match *self {}
    }
}

/// The sink of a connector that is only a source. There is no value of this type.
#[derive(Clone, Copy, Debug)]
pub enum NoSink {}

impl Sink for NoSink {
    async fn deliver(&mut self, _batch: &Batch) -> Result<Delivery> {
        match *self {}
    }
}

#[cfg(test)]
mod tests {
    use super::Delivery;
    use crate::{Error, ErrorKind};

    #[test]
    fn a_delivery_is_about_events_that_there_are_in_their_order() {
        let delivery = |ranges: &[(usize, usize)]| {
            let mut delivery = Delivery::done();
            ranges.iter().for_each(|&(start, end)| delivery.failed(start..end, Error::full("")));
            delivery.about(4)
        };
        for good in [&[][..], &[(0, 4)], &[(0, 1), (1, 3), (3, 3)]] {
            assert!(delivery(good).is_ok(), "{good:?}");
        }
        for bad in
            [&[(0, 5)][..], &[(4, 5)], &[(1, 3), (2, 4)], &[(2, 3), (0, 1)], &[(3, 2)], &[(9, 9)]]
        {
            assert_eq!(delivery(bad).unwrap_err().kind(), ErrorKind::INTERNAL, "{bad:?}");
        }
    }
}
