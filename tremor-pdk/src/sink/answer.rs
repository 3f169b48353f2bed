//! The answer of a sink to a delivery.

use std::ops::Range;

use tremor_abi::batch::HostBatch;

use crate::{Error, EventRef};

/// The answer to a delivery. `Ok(())` states that the peer has received every event of the batch.
pub type Delivery = Result<(), Undelivered>;

/// Events that were not delivered. An [`Error`] that is returned with `?` covers the whole batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Undelivered {
    /// No event of the batch counts as delivered.
    All(Error),
    /// Some events were not delivered; the peer has received all others. The ranges are in ascending order and do not
    /// overlap, and each contains at least one event.
    ///
    /// Create this variant with [`Exceptions`]. It cannot be constructed directly, so that a failure always names an
    /// event:
    ///
    /// ```compile_fail,E0639
    /// # use tremor_pdk::{Delivery, Undelivered};
    /// let nothing: Delivery = Err(Undelivered::Some { exceptions: Vec::new() });
    /// ```
    #[non_exhaustive]
    Some {
        /// Ranges of events with their errors; at least one range.
        exceptions: Vec<Exception>,
        /// The batch that the events belong to, so that an answer that names events of another batch is detected.
        batch: BatchId,
    },
}

impl Undelivered {
    /// Returns the error. If events failed for different reasons, returns the error of the first range.
    pub fn into_error(self) -> Error {
        match self {
            Self::All(error) => error,
            Self::Some { exceptions, .. } => exceptions.into_iter().next().map_or_else(
                || {
                    Error::internal(
                        "the sink reported events that were not delivered, but named no event",
                    )
                },
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

/// Identifies a batch among all batches that exist at the same time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BatchId(Events);

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Events {
    #[default]
    OfNoBatch,
    /// The address of the batch's first event, which stays the same while the batch is moved.
    At(usize),
    OfSeveralBatches,
}

impl BatchId {
    pub(crate) fn of(batch: &crate::Batch) -> Self {
        Self(Events::At(batch.events().as_ptr().addr()))
    }

    /// Adds an event. The result identifies a batch only if all events belong to that batch.
    fn add(&mut self, event: EventRef<'_>) {
        let id = Self::of(event.batch());
        *self = match self.0 {
            Events::OfNoBatch => id,
            Events::At(_) if *self == id => id,
            _ => Self(Events::OfSeveralBatches),
        };
    }
}

/// Consecutive events that were not delivered for the same reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exception {
    /// Positions of the events in the batch.
    pub events: Range<usize>,
    /// The reason. If its policy is to retry or to reconnect, the events are delivered again; otherwise they go to
    /// the dead letters.
    pub error: Error,
}

/// Collects the events of a batch that were not delivered. Events can be added in any order.
///
/// ```
/// # use tremor_pdk::{Delivery, Error, Exceptions, RawBatch};
/// # fn answer(batch: &RawBatch) -> Delivery {
/// let mut exceptions = Exceptions::none();
/// for event in batch {
///     if event.raw().is_empty() {
///         exceptions.reject(event, Error::bad_data("the message is empty"));
///     }
/// }
/// exceptions.into() // `Ok(())` if no event was rejected
/// # }
/// ```
#[derive(Clone, Debug, Default)]
pub struct Exceptions {
    /// Positions of events, with their errors.
    rejected: Vec<(usize, Error)>,
    batch: BatchId,
}

impl Exceptions {
    /// Creates an empty collection, which states that every event was delivered.
    pub fn none() -> Self {
        Self::default()
    }

    /// Reports that `event` was not delivered. `event` must belong to the batch that is being delivered.
    ///
    /// If an event is rejected more than once, the first error counts. If an event belongs to another batch, or to a
    /// copy of this batch, the whole delivery fails with an error of the kind internal.
    ///
    /// If the policy of `error` is to retry, the event is delivered again: at once if other events of the batch were
    /// delivered, otherwise after a delay. If the policy is to reconnect, the event is delivered on the next
    /// connection. With any other policy, the event goes to the dead letters.
    pub fn reject<'b>(&mut self, event: impl Into<EventRef<'b>>, error: Error) {
        let event = event.into();
        self.batch.add(event);
        self.rejected.push((event.position(), error));
    }

    /// Reports that `events` were not delivered, all because of `error`: see [`reject`](Self::reject).
    pub fn reject_all<'b>(
        &mut self,
        events: impl IntoIterator<Item: Into<EventRef<'b>>>,
        error: &Error,
    ) {
        self.extend(events.into_iter().map(|event| (event, error.clone())));
    }

    /// Returns `true` if no event was rejected.
    pub fn is_empty(&self) -> bool {
        self.rejected.is_empty()
    }

    /// Joins consecutive events with equal errors into ranges.
    fn into_ranges(self) -> Vec<Exception> {
        let mut events = self.rejected;
        if !events.is_sorted_by_key(|(position, _)| *position) {
            // The sort is stable, so that the first error of an event stays the first.
            events.sort_by_key(|(position, _)| *position);
        }
        let mut ranges: Vec<Exception> = Vec::new();
        for (position, error) in events {
            match ranges.last_mut() {
                Some(last) if last.events.end > position => {}
                Some(last) if last.events.end == position && last.error == error => {
                    last.events.end += 1;
                }
                _ => ranges.push(Exception { events: position..position + 1, error }),
            }
        }
        ranges
    }
}

impl<'b, E: Into<EventRef<'b>>> Extend<(E, Error)> for Exceptions {
    fn extend<I: IntoIterator<Item = (E, Error)>>(&mut self, events: I) {
        events.into_iter().for_each(|(event, error)| self.reject(event, error));
    }
}

impl<'b, E: Into<EventRef<'b>>> FromIterator<(E, Error)> for Exceptions {
    fn from_iter<I: IntoIterator<Item = (E, Error)>>(events: I) -> Self {
        let mut exceptions = Self::none();
        exceptions.extend(events);
        exceptions
    }
}

impl From<Exceptions> for Delivery {
    fn from(exceptions: Exceptions) -> Self {
        if exceptions.is_empty() {
            return Ok(());
        }
        let batch = exceptions.batch;
        Err(Undelivered::Some { exceptions: exceptions.into_ranges(), batch })
    }
}

#[cfg(test)]
mod tests {
    use super::{Delivery, Exception, Exceptions, Undelivered};
    use crate::{Batch, Error};

    fn ranges(rejected: &[(usize, &Error)]) -> Vec<Exception> {
        let mut batch = Batch::new();
        (0..9).for_each(|_| batch.push_message(b"event"));
        let mut exceptions = Exceptions::none();
        for (position, error) in rejected {
            exceptions.reject(batch.get(*position).unwrap(), (*error).clone());
        }
        match Delivery::from(exceptions) {
            Ok(()) => Vec::new(),
            Err(Undelivered::Some { exceptions: ranges, .. }) => ranges,
            Err(Undelivered::All(error)) => panic!("{error}"),
        }
    }

    #[test]
    fn exceptions_without_an_event_are_success() {
        assert_eq!(Delivery::from(Exceptions::none()), Ok(()));
    }

    #[test]
    fn rejected_events_become_ordered_ranges() {
        let [late, bad] = [&Error::timeout("late"), &Error::bad_data("bad")];
        let rejected = [(7, bad), (2, late), (3, late), (5, late), (4, bad)];
        let expected = [(2..4, late), (4..5, bad), (5..6, late), (7..8, bad)];
        let expected = expected.map(|(events, error)| Exception { events, error: error.clone() });
        assert_eq!(ranges(&rejected), expected);
    }

    #[test]
    fn first_error_of_an_event_counts() {
        let [late, bad] = [&Error::timeout("late"), &Error::bad_data("bad")];
        let rejected = [(3, late), (2, bad), (3, bad), (3, late)];
        let expected = [(2..3, bad), (3..4, late)];
        let expected = expected.map(|(events, error)| Exception { events, error: error.clone() });
        assert_eq!(ranges(&rejected), expected);
    }
}
