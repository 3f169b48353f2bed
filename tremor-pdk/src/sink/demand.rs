//! The deliveries that a sink asks for, and those that it is granted.

use std::time::Duration;

use tremor_abi::connector::{Deliveries, DeliveryFlags};

/// The deliveries that a sink asks for. The keys `in_flight`, `ordered` and `batch` of a flow take precedence.
///
/// ```
/// use std::time::Duration;
/// use tremor_pdk::Demand;
///
/// // A sink whose connection takes one batch at a time, of up to 5,000 events.
/// let copy = Demand::new().at_most(1).max_events(5_000).linger(Duration::from_millis(200));
///
/// // A sink that makes one object of several deliveries.
/// let objects = Demand::gather(64).max_bytes(1 << 20);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
#[non_exhaustive]
pub struct Demand {
    /// Number of deliveries at a time, unless the flow sets another.
    pub in_flight: usize,
    /// Maximum number of deliveries at a time that the sink supports.
    pub most_in_flight: usize,
    /// `true` if batches of one stream are delivered one after the other, unless the flow sets `ordered`.
    pub ordered: bool,
    /// `true` if the sink answers several deliveries together.
    pub gathers: bool,
    /// Maximum number of events of a delivery.
    pub max_events: Option<usize>,
    /// Maximum number of bytes of a delivery.
    pub max_bytes: Option<usize>,
    /// Maximum time that an event waits for others.
    pub linger: Option<Duration>,
}

impl Default for Demand {
    fn default() -> Self {
        Self::new()
    }
}

impl Demand {
    /// Asks for one delivery at a time, or for as many as the flow sets, in the order of each stream, with batches as
    /// they come.
    pub const fn new() -> Self {
        Self {
            in_flight: 1,
            most_in_flight: usize::MAX,
            ordered: true,
            gathers: false,
            max_events: None,
            max_bytes: None,
            linger: None,
        }
    }

    /// Asks for `in_flight` deliveries at a time, in any order, because the sink answers several of them together: it
    /// is [flushed](crate::ParallelSink::flush) if the input has ended, or if nothing can follow before one of the
    /// deliveries in flight is answered. A source that waits because of its own limit of events in flight is not a
    /// reason for a flush, so give the sink a maximum age of what it gathers.
    ///
    /// Deliveries begin in the order in which their events came. This order is lost if a delivery fails with the policy
    /// to retry, and kept if it fails with the policy to reconnect.
    pub const fn gather(in_flight: usize) -> Self {
        Self { in_flight, ordered: false, gathers: true, ..Self::new() }
    }

    /// Sets the number of deliveries at a time that the sink gets if the flow does not set `in_flight`.
    pub const fn in_flight(self, in_flight: usize) -> Self {
        Self { in_flight, ..self }
    }

    /// Sets the maximum number of deliveries at a time that the sink supports.
    pub const fn at_most(self, most_in_flight: usize) -> Self {
        Self { most_in_flight, ..self }
    }

    /// Sets whether batches of one stream are delivered one after the other if the flow does not set `ordered`. A
    /// source with one stream then has one delivery in flight.
    pub const fn ordered(self, ordered: bool) -> Self {
        Self { ordered, ..self }
    }

    /// Sets the maximum number of events of a delivery. Batches are put together and divided, as they are with the key
    /// `batch` of the flow.
    pub const fn max_events(self, max_events: usize) -> Self {
        Self { max_events: Some(max_events), ..self }
    }

    /// Sets the maximum number of bytes of a delivery, unless a single event has more. Batches are put together and
    /// divided, as they are with the key `batch` of the flow.
    pub const fn max_bytes(self, max_bytes: usize) -> Self {
        Self { max_bytes: Some(max_bytes), ..self }
    }

    /// Sets the maximum time that an event waits for others of its delivery. Batches are put together and divided, as
    /// they are with the key `batch` of the flow.
    pub const fn linger(self, linger: Duration) -> Self {
        Self { linger: Some(linger), ..self }
    }
}

/// The deliveries that a sink gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Grant {
    /// Maximum number of deliveries at a time; 1 or more.
    pub in_flight: usize,
    /// `true` if batches of one stream are delivered one after the other.
    pub ordered: bool,
    /// Limits of each delivery; `None` if batches are delivered as they come.
    pub batch: Option<BatchSize>,
}

impl Grant {
    /// Returns a grant of up to `in_flight` deliveries, as the runtime makes it.
    pub const fn new(in_flight: usize, ordered: bool, batch: Option<BatchSize>) -> Self {
        Self { in_flight, ordered, batch }
    }
}

/// The limits within which batches are put together for a sink, or divided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BatchSize {
    /// Maximum number of events of a delivery.
    pub max_events: usize,
    /// Maximum number of bytes of a delivery, unless a single event has more.
    pub max_bytes: usize,
    /// Maximum time that an event waits for others.
    pub linger: Duration,
}

impl From<Demand> for Deliveries {
    fn from(demand: Demand) -> Self {
        let ordered = if demand.ordered { DeliveryFlags::ORDERED.0 } else { 0 };
        let gathers = if demand.gathers { DeliveryFlags::GATHERS.0 } else { 0 };
        Self {
            in_flight: narrow(demand.in_flight),
            most_in_flight: narrow(demand.most_in_flight),
            max_events: demand.max_events.map_or(0, |events| events as u64),
            max_bytes: demand.max_bytes.map_or(0, |bytes| bytes as u64),
            linger_ns: demand.linger.map_or(Self::NO_LINGER, nanos),
            flags: DeliveryFlags(ordered | gathers),
            reserved: 0,
        }
    }
}

impl From<Deliveries> for Demand {
    fn from(raw: Deliveries) -> Self {
        let limit = |limit: u64| (limit > 0).then(|| wide(limit));
        let has_linger = raw.linger_ns != Deliveries::NO_LINGER;
        Self {
            in_flight: raw.in_flight as usize,
            most_in_flight: raw.most_in_flight as usize,
            ordered: raw.flags.contains(DeliveryFlags::ORDERED),
            gathers: raw.flags.contains(DeliveryFlags::GATHERS),
            max_events: limit(raw.max_events),
            max_bytes: limit(raw.max_bytes),
            linger: has_linger.then(|| Duration::from_nanos(raw.linger_ns)),
        }
    }
}

impl From<Grant> for Deliveries {
    fn from(grant: Grant) -> Self {
        let ordered = if grant.ordered { DeliveryFlags::ORDERED.0 } else { 0 };
        let batched = if grant.batch.is_some() { DeliveryFlags::BATCHED.0 } else { 0 };
        let in_flight = narrow(grant.in_flight);
        Self {
            in_flight,
            most_in_flight: in_flight,
            max_events: grant.batch.map_or(0, |batch| batch.max_events as u64),
            max_bytes: grant.batch.map_or(0, |batch| batch.max_bytes as u64),
            linger_ns: grant.batch.map_or(Self::NO_LINGER, |batch| nanos(batch.linger)),
            flags: DeliveryFlags(ordered | batched),
            reserved: 0,
        }
    }
}

impl From<Deliveries> for Grant {
    fn from(raw: Deliveries) -> Self {
        let batch = BatchSize {
            max_events: wide(raw.max_events),
            max_bytes: wide(raw.max_bytes),
            linger: Duration::from_nanos(raw.linger_ns),
        };
        let is_batched = raw.flags.contains(DeliveryFlags::BATCHED);
        Self {
            in_flight: raw.in_flight as usize,
            ordered: raw.flags.contains(DeliveryFlags::ORDERED),
            batch: is_batched.then_some(batch),
        }
    }
}

fn narrow(number: usize) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

fn wide(number: u64) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tremor_abi::connector::Deliveries;

    use super::{BatchSize, Demand, Grant};

    #[test]
    fn demands_and_grants_cross_the_boundary_unchanged() {
        let all = Demand::gather(64).at_most(100).max_events(7).max_bytes(1 << 20);
        for demand in [
            Demand::new().at_most(3),
            Demand::gather(2).at_most(9).ordered(true),
            all.linger(Duration::ZERO),
        ] {
            assert_eq!(Demand::from(Deliveries::from(demand)), demand);
        }
        let (max_events, max_bytes, linger) = (7, 1 << 20, Duration::from_millis(50));
        let batch = BatchSize { max_events, max_bytes, linger };
        for grant in [Grant::new(1, true, None), Grant::new(64, false, Some(batch))] {
            assert_eq!(Grant::from(Deliveries::from(grant)), grant);
        }
    }
}
