//! The metric `lag`.

use std::{collections::HashMap, sync::Arc, time::Duration};

use rdkafka::{Offset, TopicPartitionList, consumer::Consumer, error::KafkaResult};
use tremor_pdk::{Upkeep, debug};

use super::{client::Client, context::Name, shared::Shared};

/// Interval between two updates.
const EVERY: Duration = Duration::from_secs(1);

/// Maximum time that the brokers may take to answer. The end of the connection waits for the answer.
const ANSWER: Duration = Duration::from_secs(1);

/// State of the task that updates the metric.
pub(super) struct Lag {
    shared: Arc<Shared>,
    /// Number of pulls at the last update.
    pulls: u64,
}

impl Lag {
    /// Starts a task that updates the metric until the returned value is dropped. The task does not depend on pulls and
    /// commits, so that the metric is also true while the source is not pulled.
    pub(super) fn start(shared: &Arc<Shared>) -> Upkeep<Self> {
        let lag = Self { shared: shared.clone(), pulls: 0 };
        shared.host.upkeep("lag", EVERY, lag, |lag| {
            lag.update();
            Ok(())
        })
    }

    fn update(&mut self) {
        let (client, names) = {
            let state = self.shared.state();
            let Some(client) = state.client.clone() else { return };
            let is_pulled = std::mem::replace(&mut self.pulls, state.pulls) != state.pulls;
            let has_unread = !state.records.is_empty() || client.has_records();
            // librdkafka learns the ends of partitions with the records that it fetches, and fetches none once
            // `prefetch` is reached.
            let names =
                if !is_pulled && has_unread { state.partitions.names() } else { Vec::new() };
            (client, names)
        };
        let known = watermarks(&client, &names).unwrap_or_else(|error| {
            debug!(self.shared.host, "cannot ask for the ends of partitions: {error}");
            HashMap::new()
        });
        let mut state = self.shared.state();
        if state.client.is_none() {
            return;
        }
        Shared::apply_acks(&mut state);
        let lag = state.partitions.lag(|name| {
            known.get(name).copied().or_else(|| client.cached_watermarks(&name.0, name.1))
        });
        self.shared.meters.set_lag(lag);
    }
}

/// Asks the brokers for the oldest offset of each partition and the offset after its newest record. Partitions of which
/// the brokers do not know both are left out.
fn watermarks(client: &Client, names: &[Name]) -> KafkaResult<HashMap<Name, (i64, i64)>> {
    if names.is_empty() {
        return Ok(HashMap::new());
    }
    // These offsets are special times in this request, which needs one message for each broker.
    let find = |time: Offset| {
        let mut times = TopicPartitionList::with_capacity(names.len());
        for (topic, partition) in names {
            times.add_partition_offset(topic, *partition, time)?;
        }
        let found = client.offsets_for_times(times, ANSWER)?;
        let offset = |(topic, partition): &Name| {
            let element = found.find_partition(topic, *partition)?;
            element.error().ok()?;
            match element.offset() {
                Offset::Offset(offset) => Some(offset),
                _ => None,
            }
        };
        KafkaResult::Ok(names.iter().map(offset).collect::<Vec<_>>())
    };
    let (oldest, ends) = (find(Offset::Beginning)?, find(Offset::End)?);
    let both = oldest.into_iter().zip(ends).map(|(oldest, end)| oldest.zip(end));
    Ok(names.iter().cloned().zip(both).filter_map(|(name, both)| Some((name, both?))).collect())
}
