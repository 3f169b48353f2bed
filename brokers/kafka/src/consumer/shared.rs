//! What the source, the member of the group and the connector share.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Context, Poll},
    time::Duration,
};

use rdkafka::{
    Offset, TopicPartitionList, consumer::Consumer, error::KafkaError,
    types::RDKafkaErrorCode as Code,
};
use tremor_pdk::{Counter, Gauge, Rewind, Watermarks, prelude::*, warn};

use super::{
    client::{Client, Records},
    config::Settings,
    partitions::{Partitions, Position},
};
use crate::client::explain;

/// One connection of the runtime's.
pub(super) struct Shared {
    pub(super) host: Host,
    pub(super) settings: Arc<Settings>,
    pub(super) meters: Meters,
    /// The acknowledgements of the partitions, for the source.
    pub(super) watermarks: Watermarks<i64>,
    state: Mutex<State>,
}

/// What changes. The lock is held for as long as it takes to fill a batch, at most.
pub(super) struct State {
    /// None after the end.
    pub(super) client: Option<Arc<Client>>,
    pub(super) partitions: Partitions,
    /// What was taken from the client and did not fit a batch.
    pub(super) records: Records,
    /// What the next pull is to answer.
    pub(super) failed: Option<Error>,
}

/// What operators see.
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
    /// Shows how many partitions there are.
    pub(super) fn count(&self, partitions: &Partitions) {
        self.partitions.set_integer(partitions.len());
    }

    /// Sets the metric `lag`: how many records are not acknowledged.
    pub(super) fn lags(&self, records: i64) {
        self.lag.set_integer(records);
    }

    fn new(host: &Host) -> Self {
        Self {
            partitions: host.gauge("partitions", "Partitions that this member has."),
            rebalances: host.counter("rebalances", "Assignments and revocations of partitions."),
            lost: host.counter(
                "partitions_lost",
                "Partitions that the group took away without asking, as from a member that it held for dead.",
            ),
            drains_timed_out: host.counter(
                "drains_timed_out",
                "Revocations of which not everything was acknowledged within `drain_timeout`.",
            ),
            commits: host.counter("commits", "Commits that the group has."),
            commits_failed: host.counter("commits_failed", "Commits that were refused or not answered."),
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
        let state =
            State { client: Some(client), partitions, records: Records::default(), failed: None };
        Self { host, settings, meters, watermarks, state: Mutex::new(state) }
    }

    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The client, before the end.
    pub(super) fn client(&self) -> Option<Arc<Client>> {
        self.state().client.clone()
    }

    /// The next pull is to answer that.
    pub(super) fn fail(&self, error: Error) {
        let client = {
            let mut state = self.state();
            state.failed.get_or_insert(error);
            state.client.clone()
        };
        client.iter().for_each(|client| client.records().set());
    }

    /// Applies the ends of pulls.
    pub(super) fn hear(state: &mut State) {
        if state.partitions.hear() {
            Self::wake_pull(state);
        }
    }

    /// Waits for ends of pulls, and applies them.
    pub(super) fn poll_hear(state: &mut State, context: &mut Context<'_>) -> Poll<()> {
        state.partitions.poll_hear(context).map(|has_failed| {
            if has_failed {
                Self::wake_pull(state);
            }
        })
    }

    /// Wakes the pull, which goes back in partitions of which pulls have failed.
    fn wake_pull(state: &State) {
        state.client.iter().for_each(|client| client.records().set());
    }

    /// Goes back in partitions of which pulls have failed.
    pub(super) fn rewind(&self, state: &mut State, streams: Vec<Rewind<i64>>) {
        let positions = state.partitions.rewind(streams);
        self.read_again(state, &positions);
    }

    /// Reads partitions again that something has failed of.
    fn read_again(&self, state: &mut State, places: &[Position]) {
        if places.is_empty() {
            return;
        }
        // Records that were taken of these partitions come again.
        self.meters.read_again.add(places.len() as u64);
        state.records.retain(|record| {
            !places
                .iter()
                .any(|it| it.name.1 == record.partition() && &*it.name.0 == record.topic())
        });
        let Some(client) = &state.client else { return };
        let list = list(places);
        // From here on nothing comes of them that was fetched before.
        if let Err(error) = list.and_then(|list| client.seek_partitions(list, Duration::ZERO)) {
            let error = explain(&error, "").context("to read again what was not delivered");
            state.failed.get_or_insert(error);
        }
    }

    /// An error of a partition, which came in the place of a record. Gives what the pull is to answer, if time
    /// does not mend it. Takes no lock: the one that reads records has it.
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

    /// There is nothing in a partition where it is read.
    pub(super) fn offsets_begin_anew(&self, topic: &str, partition: i32, offset: i64, text: &str) {
        let at = if offset < 0 { String::new() } else { format!(" at offset {offset}") };
        warn!(
            self.host,
            "partition {partition} of `{topic}` has no record{at} ({text}), as after its topic was deleted and made \
             again, or what was not read has expired: it is read from its oldest record"
        );
    }

    /// Lets go of the client.
    pub(super) fn end(&self) {
        let (client, records) = {
            let mut state = self.state();
            (state.client.take(), std::mem::take(&mut state.records))
        };
        self.meters.partitions.set(0.0);
        self.meters.lags(0);
        drop((records, client));
    }
}

/// As a list of librdkafka's.
pub(super) fn list(positions: &[Position]) -> Result<TopicPartitionList, KafkaError> {
    let mut list = TopicPartitionList::with_capacity(positions.len());
    for Position { name: (topic, partition), offset } in positions {
        list.add_partition_offset(topic, *partition, Offset::Offset(*offset))?;
    }
    Ok(list)
}
