//! The limits that apply to a sink's deliveries. They result from the demand of the sink and the keys of the flow.

use std::num::{NonZeroU64, NonZeroUsize};

use tremor_pdk::{BatchSize, Demand, Grant};

use crate::{
    engine::sink::{SinkSide, lane::Batching},
    flow::{self, SINK_BATCH_BYTES, SINK_BATCH_EVENTS, SINK_BATCH_LINGER},
};

/// Keys of the flow for the deliveries of a sink. If a key is `None`, the sink's demand applies.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Terms {
    /// Maximum number of deliveries in flight.
    pub(crate) in_flight: Option<usize>,
    /// `true` if the batches of a stream are delivered one after the other.
    pub(crate) ordered: Option<bool>,
    /// Limits of a delivery.
    pub(crate) batch: Option<flow::Batch>,
}

impl Terms {
    /// Returns the grant for a sink with this demand, and the limits of its deliveries.
    pub(super) fn grant(&self, demand: Demand) -> (Grant, Option<Batching>) {
        let limit = usize::try_from(flow::MOST_IN_FLIGHT).unwrap_or(usize::MAX);
        let most = demand.most_in_flight.clamp(1, limit);
        let in_flight = self.in_flight.unwrap_or(demand.in_flight).clamp(1, most);
        let ordered = self.ordered.unwrap_or(demand.ordered);
        let batching = self.batching(demand);
        let size = batching.map(|it| BatchSize {
            max_events: it.max_events.get(),
            max_bytes: it.max_bytes.get(),
            linger: it.linger,
        });
        (Grant::new(in_flight, ordered, size), batching)
    }

    /// Returns the limits of a delivery, or `None` if neither the flow nor the sink sets one. Keys of the flow take
    /// precedence over the demand, and the demand takes precedence over the defaults.
    fn batching(&self, demand: Demand) -> Option<Batching> {
        let asks = demand.max_events.is_some() || demand.max_bytes.is_some();
        if self.batch.is_none() && !asks && demand.linger.is_none() {
            return None;
        }
        let set = self.batch.unwrap_or_default();
        let whole =
            |set: Option<NonZeroU64>, demand: Option<usize>, default: NonZeroUsize| match set {
                Some(set) => NonZeroUsize::try_from(set).unwrap_or(NonZeroUsize::MAX),
                None => demand.and_then(NonZeroUsize::new).unwrap_or(default),
            };
        let max_bytes = whole(set.max_bytes, demand.max_bytes, SINK_BATCH_BYTES);
        let most_bytes = usize::try_from(flow::MOST_BATCH_BYTES).ok().and_then(NonZeroUsize::new);
        Some(Batching {
            max_events: whole(set.max_events, demand.max_events, SINK_BATCH_EVENTS),
            max_bytes: most_bytes.map_or(max_bytes, |most| most.min(max_bytes)),
            linger: set
                .linger
                .or(demand.linger)
                .unwrap_or(SINK_BATCH_LINGER)
                .min(flow::MOST_LINGER),
        })
    }
}

impl SinkSide {
    /// Logs, at most once for each sink, that the sink gets fewer deliveries in flight than it asks for or than the
    /// flow sets.
    pub(super) fn log_grant(&mut self, demand: Demand, grant: Grant) {
        let (component, granted) = (self.handle.name(), grant.in_flight);
        let by_flow = self.terms.in_flight.filter(|set| *set > granted);
        if self.is_grant_logged || (granted >= demand.in_flight && by_flow.is_none()) {
            return;
        }
        self.is_grant_logged = true;
        if let Some(in_flight) = by_flow {
            tracing::info!(
                %component, in_flight, granted,
                "the sink supports fewer deliveries in flight than the flow sets"
            );
        } else {
            let (wanted, supported) = (demand.in_flight, demand.most_in_flight);
            if wanted > supported {
                tracing::warn!(
                    %component, wanted, supported, granted,
                    "the sink asks for more deliveries in flight than it supports: a fault of the plugin"
                );
            } else {
                tracing::info!(
                    %component, wanted, granted,
                    "the sink asks for more deliveries in flight than it gets"
                );
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{num::NonZeroU64, time::Duration};

    use tremor_pdk::{BatchSize, Demand, Grant};

    use super::Terms;
    use crate::flow;

    fn granted(terms: Terms, demand: Demand) -> Grant {
        terms.grant(demand).0
    }

    #[test]
    fn sink_sets_limits_that_the_flow_does_not_set() {
        let terms = Terms::default();
        assert_eq!(granted(terms, Demand::new()), Grant::new(1, true, None));
        assert_eq!(granted(terms, Demand::gather(64)), Grant::new(64, false, None));
        assert_eq!(granted(terms, Demand::gather(64).at_most(8)).in_flight, 8);
        assert_eq!(
            granted(terms, Demand::gather(1 << 20)).in_flight,
            1_024,
            "the limit of the key"
        );
    }

    #[test]
    fn limits_of_the_flow_override_those_of_the_sink() {
        let terms = Terms { in_flight: Some(4), ordered: Some(true), batch: None };
        assert_eq!(granted(terms, Demand::gather(64)), Grant::new(4, true, None));
        assert_eq!(granted(terms, Demand::new().at_most(2)).in_flight, 2);
    }

    #[test]
    fn batch_limits_come_from_flow_then_sink_then_default() {
        let batch = flow::Batch { max_events: NonZeroU64::new(7), ..flow::Batch::default() };
        let terms = Terms { batch: Some(batch), ..Terms::default() };
        let demand = Demand::new().max_events(5_000).max_bytes(1 << 16);
        let (max_bytes, linger) = (1 << 16, Duration::from_millis(50));
        let expected = BatchSize { max_events: 7, max_bytes, linger };
        assert_eq!(granted(terms, demand).batch, Some(expected));
        let expected = BatchSize { max_events: 5_000, ..expected };
        assert_eq!(granted(Terms::default(), demand).batch, Some(expected));
    }
}
