//! State that the source, the group member and the connector share.

use std::{
    sync::{Arc, Mutex, MutexGuard},
    task::{Context, Poll},
    time::Duration,
};

use rdkafka::{
    Offset, TopicPartitionList, consumer::Consumer, error::KafkaError,
    types::RDKafkaErrorCode as Code,
};
use tremor_pdk::{Counter, Gauge, Rewind, Watermarks, lock, prelude::*, warn};

use super::{
    client::{Client, Records},
    config::Settings,
    partitions::{Partitions, Position},
};
use crate::client::explain;

/// State of one connection.
pub(super) struct Shared {
    pub(super) host: Host,
    pub(super) settings: Arc<Settings>,
    pub(super) meters: Meters,
    /// Acknowledgements of the partitions, received from the runtime.
    pub(super) watermarks: Watermarks<i64>,
    state: Mutex<State>,
}

/// Mutable state of a connection. The state is locked for at most the time that it takes to fill a batch.
pub(super) struct State {
    /// `None` once the connection has ended.
    pub(super) client: Option<Arc<Client>>,
    pub(super) partitions: Partitions,
    /// Records that were fetched and did not fit into the last batch.
    pub(super) records: Records,
    /// Error that the next pull returns.
    pub(super) failed: Option<Error>,
    /// Number of polls of pulls, which shows whether the source is pulled.
    pub(super) pulls: u64,
}

/// Metrics of the consumer.
pub(super) struct Meters {
    pub(super) partitions: Gauge,
    pub(super) rebalances: Counter,
    pub(super) lost: Counter,
    pub(super) drains_timed_out: Counter,
    pub(super) commits: Counter,
    pub(super) commits_failed: Counter,
    pub(super) read_again: Counter,
    lag: Gauge,
}

impl Meters {
    /// Sets the metric `partitions`.
    pub(super) fn set_partitions(&self, partitions: &Partitions) {
        self.partitions.set_integer(partitions.len());
    }

    /// Sets the metric `lag`: the number of records that are not acknowledged.
    pub(super) fn set_lag(&self, records: i64) {
        self.lag.set_integer(records);
    }

    fn new(host: &Host) -> Self {
        Self {
            partitions: host.gauge("partitions", "Partitions that are assigned to this member."),
            rebalances: host.counter("rebalances", "Assignments and revocations of partitions."),
            lost: host.counter(
                "partitions_lost",
                "Partitions that the group took away without a drain because it considered this member dead.",
            ),
            drains_timed_out: host.counter(
                "drains_timed_out",
                "Revocations whose records were not all acknowledged within `drain_timeout`.",
            ),
            commits: host.counter("commits", "Commits that the group accepted."),
            commits_failed: host.counter("commits_failed", "Commits that were rejected or not answered."),
            read_again: host.counter("read_again", "Partitions that were read again after a failure."),
            lag: host.gauge("lag", "Records in the partitions of this member that are not acknowledged."),
        }
    }
}

impl Shared {
    pub(super) fn new(host: Host, settings: Arc<Settings>, client: Arc<Client>) -> Self {
        let meters = Meters::new(&host);
        let partitions = Partitions::default();
        let watermarks = partitions.watermarks().clone();
        let state = State {
            client: Some(client),
            partitions,
            records: Records::default(),
            failed: None,
            pulls: 0,
        };
        Self { host, settings, meters, watermarks, state: Mutex::new(state) }
    }

    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }

    /// Returns the client, unless the connection has ended.
    pub(super) fn client(&self) -> Option<Arc<Client>> {
        self.state().client.clone()
    }

    /// Makes the next pull return `error`, unless another error is already pending, and wakes the pull.
    pub(super) fn fail(&self, error: Error) {
        let client = {
            let mut state = self.state();
            state.failed.get_or_insert(error);
            state.client.clone()
        };
        client.iter().for_each(|client| client.records().set());
    }

    /// Applies the results of earlier pulls. If one of them has failed, wakes the current pull, which rewinds the
    /// partition.
    pub(super) fn apply_acks(state: &mut State) {
        if state.partitions.apply_acks() {
            Self::wake_pull(state);
        }
    }

    /// Waits for results of pulls, and applies them.
    pub(super) fn poll_acks(state: &mut State, context: &mut Context<'_>) -> Poll<()> {
        state.partitions.poll_acks(context).map(|has_failed| {
            if has_failed {
                Self::wake_pull(state);
            }
        })
    }

    /// Wakes the pull, which then rewinds partitions whose pulls have failed.
    fn wake_pull(state: &State) {
        state.client.iter().for_each(|client| client.records().set());
    }

    /// Rewinds the partitions whose pulls have failed, so that their records are read again.
    pub(super) fn rewind(&self, state: &mut State, streams: Vec<Rewind<i64>>) {
        let positions = state.partitions.rewind(streams);
        self.read_again(state, &positions);
    }

    /// Discards fetched records of these partitions and seeks to `positions`.
    fn read_again(&self, state: &mut State, positions: &[Position]) {
        if positions.is_empty() {
            return;
        }
        // The records that are discarded here are fetched again after the seek.
        self.meters.read_again.add(positions.len() as u64);
        state.records.retain(|record| {
            !positions
                .iter()
                .any(|it| it.name.1 == record.partition() && &*it.name.0 == record.topic())
        });
        let Some(client) = &state.client else { return };
        let list = list(positions);
        // After a seek, librdkafka does not deliver records that it fetched before the seek.
        if let Err(error) = list.and_then(|list| client.seek_partitions(list, Duration::ZERO)) {
            let error = explain(&error, "").context("cannot read undelivered records again");
            state.failed.get_or_insert(error);
        }
    }

    /// Logs an error that librdkafka delivered like a record of a partition. Returns the error for the pull if retrying
    /// cannot resolve it. Does not lock the state, because the caller has locked it while it reads records.
    pub(super) fn partition_failed(
        &self,
        topic: &str,
        partition: i32,
        code: Code,
        text: &str,
    ) -> Option<Error> {
        let error = explain(&KafkaError::MessageConsumption(code), text);
        warn!(self.host, "partition {partition} of `{topic}`: {error}");
        error.is_final().then(|| error.context(format!("partition {partition} of `{topic}`")))
    }

    /// Logs that a partition has no record at its offset, and is therefore read from its oldest record.
    pub(super) fn log_restart(&self, topic: &str, partition: i32, offset: i64, text: &str) {
        let at = if offset < 0 { String::new() } else { format!(" at offset {offset}") };
        warn!(
            self.host,
            "partition {partition} of `{topic}` has no record{at} ({text}), because its topic was recreated or \
             unread records have expired: it is read from its oldest record"
        );
    }

    /// Drops the client and its records.
    pub(super) fn end(&self) {
        let (client, records) = {
            let mut state = self.state();
            (state.client.take(), std::mem::take(&mut state.records))
        };
        self.meters.partitions.set(0.0);
        self.meters.set_lag(0);
        drop((records, client));
    }
}

/// Converts positions to a list of librdkafka.
pub(super) fn list(positions: &[Position]) -> Result<TopicPartitionList, KafkaError> {
    let mut list = TopicPartitionList::with_capacity(positions.len());
    for Position { name: (topic, partition), offset } in positions {
        list.add_partition_offset(topic, *partition, Offset::Offset(*offset))?;
    }
    Ok(list)
}
