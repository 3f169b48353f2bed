//! The delivery limits that a sink asks for, and those that the runtime grants.

use std::time::Duration;

use tremor_abi::connector::{Deliveries, DeliveryFlags};

/// Delivery limits that a sink asks for. The keys `in_flight`, `ordered` and `batch` of a flow take precedence.
///
/// ```
/// use std::time::Duration;
/// use tremor_pdk::Demand;
///
/// // A sink whose connection accepts one batch at a time, of up to 5,000 events.
/// let copy = Demand::new().at_most(1).max_events(5_000).linger(Duration::from_millis(200));
///
/// // A sink that combines several deliveries into one object.
/// let objects = Demand::gather(64).max_bytes(1 << 20);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
#[non_exhaustive]
pub struct Demand {
    /// Number of deliveries that may be in flight, unless the flow sets `in_flight`.
    pub in_flight: usize,
    /// Maximum number of deliveries in flight that the sink supports. The flow cannot raise this number.
    pub most_in_flight: usize,
    /// `true` if batches of one stream are delivered one after the other, unless the flow sets `ordered`.
    pub ordered: bool,
    /// `true` if the sink may wait for further deliveries before it answers a delivery.
    pub gathers: bool,
    /// Maximum number of events of a delivery.
    pub max_events: Option<usize>,
    /// Maximum number of bytes of a delivery.
    pub max_bytes: Option<usize>,
    /// Maximum time that an event waits for further events of the same delivery.
    pub linger: Option<Duration>,
}

impl Default for Demand {
    fn default() -> Self {
        Self::new()
    }
}

impl Demand {
    /// Creates a demand for one delivery at a time unless the flow sets `in_flight`, for the order of each stream, and
    /// for batches of unchanged size.
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

    /// Creates a demand for up to `in_flight` deliveries at a time, for a sink that answers several deliveries
    /// together, in any order.
    ///
    /// The runtime [flushes](crate::ParallelSink::flush) the sink if the input has ended, or if no further delivery can
    /// begin until one of those in flight is answered. The runtime does not flush when a source has reached its own
    /// limit of events in flight, so the sink must limit the time for which it gathers deliveries.
    ///
    /// Deliveries begin in the order of their events. If a delivery fails with the policy to retry, it begins again
    /// after later deliveries. If a delivery fails with the policy to reconnect, the order is kept.
    pub const fn gather(in_flight: usize) -> Self {
        Self { in_flight, ordered: false, gathers: true, ..Self::new() }
    }

    /// Sets the number of deliveries that may be in flight if the flow does not set `in_flight`.
    pub const fn in_flight(self, in_flight: usize) -> Self {
        Self { in_flight, ..self }
    }

    /// Sets the maximum number of deliveries in flight that the sink supports.
    pub const fn at_most(self, most_in_flight: usize) -> Self {
        Self { most_in_flight, ..self }
    }

    /// Sets whether batches of one stream are delivered one after the other if the flow does not set `ordered`.
    ///
    /// If `true`, the events of a source with a single stream have only one delivery in flight.
    pub const fn ordered(self, ordered: bool) -> Self {
        Self { ordered, ..self }
    }

    /// Sets the maximum number of events of a delivery.
    ///
    /// Batches are joined and split to fit, as with the key `batch` of the flow.
    pub const fn max_events(self, max_events: usize) -> Self {
        Self { max_events: Some(max_events), ..self }
    }

    /// Sets the maximum number of bytes of a delivery. A single event that is larger is delivered alone.
    ///
    /// Batches are joined and split to fit, as with the key `batch` of the flow.
    pub const fn max_bytes(self, max_bytes: usize) -> Self {
        Self { max_bytes: Some(max_bytes), ..self }
    }

    /// Sets the maximum time that an event waits for further events of the same delivery.
    ///
    /// Batches are joined and split, as with the key `batch` of the flow.
    pub const fn linger(self, linger: Duration) -> Self {
        Self { linger: Some(linger), ..self }
    }
}

/// Delivery limits that the runtime has set for a sink.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Grant {
    /// Maximum number of deliveries in flight; 1 or more.
    pub in_flight: usize,
    /// `true` if batches of one stream are delivered one after the other.
    pub ordered: bool,
    /// Limits of each delivery; `None` if batches are delivered unchanged.
    pub batch: Option<BatchSize>,
}

impl Grant {
    /// Creates a grant, as the runtime does.
    pub const fn new(in_flight: usize, ordered: bool, batch: Option<BatchSize>) -> Self {
        Self { in_flight, ordered, batch }
    }
}

/// Limits within which batches are joined or split for a sink.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BatchSize {
    /// Maximum number of events of a delivery.
    pub max_events: usize,
    /// Maximum number of bytes of a delivery. A single event that is larger is delivered alone.
    pub max_bytes: usize,
    /// Maximum time that an event waits for further events of the same delivery.
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
