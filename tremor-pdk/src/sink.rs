//! What authors implement to take events out: sinks.

use std::future::Future;

use crate::{
    Batch, CodecRequirement, Error, ParallelSinkDriver, Result, SinkDriver, dynamic::DynSink,
};

/// What a delivery came to: `Ok(())` says that the peer has every event.
pub type Delivery = Result<(), Undelivered>;

/// What was not delivered. An [`Error`], as `?` gives it, is about the whole batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Undelivered {
    /// The whole batch, for one reason.
    All(Error),
    /// The peer does not have some events of the delivery, and has all others. At least one event must be named, or the answer is an error of the
    /// kind internal. `exceptions.into()` makes a [`Delivery`] that is `Ok(())` if no event is named.
    Some(Exceptions),
}

impl Undelivered {
    /// Why; where there are several reasons, the first.
    pub fn into_error(self) -> Error {
        match self {
            Self::All(error) => error,
            Self::Some(exceptions) => exceptions.exceptions.into_iter().next().map_or_else(
                || Error::internal("events were not delivered, and none was named"),
                |exception| exception.error,
            ),
        }
    }
}

impl From<Error> for Undelivered {
    fn from(error: Error) -> Self {
        Self::All(error)
    }
}

impl From<std::io::Error> for Undelivered {
    fn from(error: std::io::Error) -> Self {
        Self::All(error.into())
    }
}

/// The events of a batch that were not delivered.
///
/// ```
/// # use tremor_pdk::{Delivery, Error, Exceptions};
/// # fn answer() -> Delivery {
/// let mut exceptions = Exceptions::none();
/// exceptions.push(2..3, Error::bad_data("the table has no column `colour`"));
/// exceptions.into() // `Ok(())` where there are none
/// # }
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Exceptions {
    pub(crate) exceptions: Vec<Exception>,
}

/// Events, one after the other, that were not delivered for one reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exception {
    /// The positions of the events in the batch.
    pub events: std::ops::Range<usize>,
    /// Why. Where its policy is to retry or to reconnect, they are delivered again;
    /// otherwise they go to the dead letters.
    pub error: Error,
}

impl Exceptions {
    /// None: everything was delivered.
    pub fn none() -> Self {
        Self::default()
    }

    /// The events at these positions were not delivered. Where the error's policy is to retry, they are
    /// delivered again: at once where others of the batch were delivered, after a while where none was.
    /// Where it is to reconnect, they are delivered on the next connection. With any other policy they go
    /// to the dead letters. Ranges come in order and do not overlap.
    pub fn push(&mut self, events: std::ops::Range<usize>, error: Error) {
        self.exceptions.push(Exception { events, error });
    }

    /// This, if it can be about so many events: its ranges are in order, do not overlap and lie within
    /// the batch.
    ///
    /// # Errors
    /// Kind internal: nothing of it can be believed.
    #[doc(hidden)]
    pub fn about(self, events: usize) -> Result<Self> {
        let mut free = 0;
        for std::ops::Range { start, end } in self.exceptions.iter().map(|it| &it.events) {
            if *start < free || end < start || *end > events {
                return Err(Error::internal(format_args!(
                    "the sink answered a delivery of {events} events with what became of events \
                     {start} to {end}, after those up to {free}"
                )));
            }
            free = *end;
        }
        Ok(self)
    }

    /// Returns whether an event is named. Ranges may be empty.
    pub(crate) fn name_events(&self) -> bool {
        self.exceptions.iter().any(|exception| !exception.events.is_empty())
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

/// Of events by themselves, each with its position, in any order: those after one another with the same error are
/// one exception.
impl FromIterator<(usize, Error)> for Exceptions {
    fn from_iter<I: IntoIterator<Item = (usize, Error)>>(events: I) -> Self {
        let mut events: Vec<_> = events.into_iter().collect();
        events.sort_by_key(|(position, _)| *position);
        let mut exceptions: Vec<Exception> = Vec::new();
        for (position, error) in events {
            match exceptions.last_mut() {
                Some(last) if last.events.end == position && last.error == error => {
                    last.events.end += 1;
                }
                _ => exceptions.push(Exception { events: position..position + 1, error }),
            }
        }
        Self { exceptions }
    }
}

impl From<Exceptions> for Delivery {
    fn from(exceptions: Exceptions) -> Self {
        if exceptions.name_events() { Err(Undelivered::Some(exceptions)) } else { Ok(()) }
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
///
/// A type that is a [`Component`](crate::Component) as well needs no [`Connector`](crate::Connector):
/// `export! { sinks: [T] }`. Each instance is then used for one connection, and where that is lost, the
/// next is made anew.
pub trait Sink: Send + 'static {
    /// What it exchanges with the runtime: values, or bytes through a codec.
    const CODEC: CodecRequirement = CodecRequirement::Structured;

    /// Whether there is one: [`NoSink`] is none.
    #[doc(hidden)]
    const EXISTS: bool = true;

    /// Delivers the events of `batch`: encoded messages ([`Batch::raw`]) where [`Sink::CODEC`] asks
    /// for a codec, values ([`Batch::value`]) where it is structured. `Ok(())` says that the peer has
    /// them: dropping is not delivering. Where it has some of them, the others are [`Exceptions`].
    ///
    /// The future is polled to its end, unless the connection ends first: what has not been
    /// answered for by then is delivered again, to the sink of the next one.
    ///
    /// # Errors
    /// The whole batch was not delivered, and the error's [policy](crate::ErrorPolicy) says what is done:
    /// it is delivered again after a while, as often as the flow says, or after a reconnect or a restart;
    /// or it goes to the dead letters; or the flow fails.
    fn deliver(&mut self, batch: &Batch) -> impl Future<Output = Delivery> + Send;

    /// Something other than events: [`Signal::Tick`] once a second, and [`Signal::Drain`] after the last
    /// event. A sink takes one call at a time: a tick that is due while a delivery is under way comes when that
    /// is over. One that has to keep time meanwhile, to send what it holds back or a sign of life to its peer, is a
    /// [`ParallelSink`], or has a task of its own ([`Host::spawn`](crate::Host::spawn)).
    ///
    /// # Errors
    /// What is not a reconnect is a failure of the connector, which is restarted where that may help.
    fn on_signal(&mut self, signal: Signal) -> impl Future<Output = Result<()>> + Send {
        let _ = signal;
        async { Ok(()) }
    }

    /// The sink as the runtime drives it.
    #[doc(hidden)]
    fn into_driver(self) -> Box<dyn DynSink>
    where
        Self: Sized,
    {
        Box::new(SinkDriver::new(self))
    }
}

/// Takes events out, several batches at a time.
///
/// It is a [`Sink`], wherever one is asked for: a flow says with `in_flight: N` how many deliveries it may
/// have under way, and gets as many as the sink allows. Their order is the runtime's affair.
pub trait ParallelSink: Send + Sync + 'static {
    /// As [`Sink::CODEC`].
    const CODEC: CodecRequirement = CodecRequirement::Structured;

    /// How many deliveries it can have under way at a time, where the flow wants so many. Asked once.
    fn most_in_flight(&self) -> usize {
        usize::MAX
    }

    /// Delivers the events of `batch`, as [`Sink::deliver`] does, while other deliveries may be under way.
    ///
    /// # Errors
    /// As [`Sink::deliver`].
    fn deliver(&self, batch: &Batch) -> impl Future<Output = Delivery> + Send;

    /// Something other than events. [`Signal::Tick`] comes once a second, also while deliveries are under way,
    /// however many the flow wants at a time, unless [`most_in_flight`](Self::most_in_flight) is one. Deliveries do
    /// not move on before this has answered: it must not wait for one of them. [`Signal::Drain`] comes after the
    /// last.
    ///
    /// # Errors
    /// As [`Sink::on_signal`].
    fn on_signal(&self, signal: Signal) -> impl Future<Output = Result<()>> + Send {
        let _ = signal;
        async { Ok(()) }
    }
}

impl<S: ParallelSink> Sink for S {
    const CODEC: CodecRequirement = S::CODEC;

    async fn deliver(&mut self, batch: &Batch) -> Delivery {
        ParallelSink::deliver(self, batch).await
    }

    async fn on_signal(&mut self, signal: Signal) -> Result<()> {
        ParallelSink::on_signal(self, signal).await
    }

    fn into_driver(self) -> Box<dyn DynSink> {
        Box::new(ParallelSinkDriver::new(self))
    }
}

/// The sink of a connector that is only a source. There is no value of this type.
#[derive(Clone, Copy, Debug)]
pub enum NoSink {}

impl Sink for NoSink {
    const EXISTS: bool = false;

    async fn deliver(&mut self, _batch: &Batch) -> Delivery {
        match *self {}
    }
}

#[cfg(test)]
mod tests {
    use super::{Exception, Exceptions};
    use crate::{Error, ErrorKind};

    #[test]
    fn exceptions_are_of_events_that_there_are_in_their_order() {
        let exceptions = |ranges: &[(usize, usize)]| {
            let mut exceptions = Exceptions::none();
            ranges.iter().for_each(|&(start, end)| exceptions.push(start..end, Error::full("")));
            exceptions.about(4)
        };
        for good in [&[][..], &[(0, 4)], &[(0, 1), (1, 3), (3, 3)]] {
            assert!(exceptions(good).is_ok(), "{good:?}");
        }
        for bad in
            [&[(0, 5)][..], &[(4, 5)], &[(1, 3), (2, 4)], &[(2, 3), (0, 1)], &[(3, 2)], &[(9, 9)]]
        {
            assert_eq!(exceptions(bad).unwrap_err().kind(), ErrorKind::INTERNAL, "{bad:?}");
        }
    }

    #[test]
    fn events_after_one_another_with_the_same_error_are_one_exception() {
        let [late, bad] = [Error::timeout("late"), Error::bad_data("bad")];
        let events = [
            (7, bad.clone()),
            (2, late.clone()),
            (3, late.clone()),
            (5, late.clone()),
            (4, bad.clone()),
        ];
        let exceptions = Exceptions::from_iter(events).into_exceptions();
        let expected = [(2..4, &late), (4..5, &bad), (5..6, &late), (7..8, &bad)];
        let expected = expected.map(|(events, error)| Exception { events, error: error.clone() });
        assert_eq!(exceptions, expected);
        assert_eq!(Exceptions::from_iter([]), Exceptions::none());
    }
}
