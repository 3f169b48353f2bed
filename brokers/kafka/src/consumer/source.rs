//! The source of `kafka_consumer`: reads the records of the assigned partitions.

use std::{
    future::poll_fn,
    sync::Arc,
    task::{Context, Poll},
};

use rdkafka::{consumer::Consumer, types::RDKafkaErrorCode};
use tremor_pdk::{Acks, Begin, PositionWriter, Raw, Task, Upkeep, prelude::*};

use super::{
    client::Record,
    lag::Lag,
    member::commit_now,
    partitions::Index,
    record,
    shared::{Shared, State},
};

/// Maximum number of records taken from librdkafka at once.
const RECORDS: usize = 1_000;

/// Source of one connection.
pub struct Records {
    shared: Arc<Shared>,
    /// Task of the group member; `None` once the connection has ended.
    member: Option<Task>,
    /// Task that updates the metric `lag`; `None` once the connection has ended.
    lag: Option<Upkeep<Lag>>,
}

impl Records {
    pub(super) fn new(shared: Arc<Shared>, member: Task) -> Self {
        let lag = Some(Lag::start(&shared));
        Self { shared, member: Some(member), lag }
    }

    fn end(&mut self) {
        self.member = None;
        self.lag = None;
        self.shared.end();
    }
}

impl Source for Records {
    type Batch = RawBatch;

    async fn pull(&mut self, batch: &mut RawBatch) -> Result<Pull> {
        poll_fn(|context| poll_pull(&self.shared, context, batch)).await?;
        Ok(Pull::Events)
    }

    fn acks(&mut self) -> Option<Box<dyn Acks>> {
        Some(Box::new(self.shared.watermarks.clone()))
    }

    /// Commits acknowledged records, and leaves the group.
    async fn close(&mut self) -> Result<()> {
        // Stop the task of the group member, so that it starts no further commits.
        self.member = None;
        let (client, positions) = {
            let mut state = self.shared.state();
            Shared::apply_acks(&mut state);
            let names = state.partitions.names();
            (state.client.clone(), state.partitions.release(&names))
        };
        let result = match client {
            Some(client) if !positions.is_empty() && !client.assignment_lost() => {
                commit_now(&self.shared.host, &client, &positions).await
            }
            _ => Ok(()),
        };
        self.end();
        result
    }
}

impl Drop for Records {
    fn drop(&mut self) {
        self.end();
    }
}

impl std::fmt::Debug for Records {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Records")
    }
}

fn poll_pull(shared: &Shared, context: &Context<'_>, batch: &mut RawBatch) -> Poll<Result<()>> {
    let mut state = shared.state();
    state.pulls = state.pulls.wrapping_add(1);
    loop {
        if let Some(error) = state.failed.take() {
            return Poll::Ready(Err(error));
        }
        Shared::apply_acks(&mut state);
        let filled = match shared.watermarks.begin(batch) {
            Begin::Write(writer) => fill(shared, &mut state, writer),
            Begin::Rewind(streams) => {
                shared.rewind(&mut state, streams);
                continue;
            }
        };
        if filled.is_err() || !batch.is_empty() {
            return Poll::Ready(filled);
        }
        if state.failed.is_some() {
            continue;
        }
        let Some(client) = state.client.clone() else { return Poll::Pending };
        // The queue was empty. Records may have arrived since then, so wait only if the signal is not set.
        if client.records().poll(context).is_pending() {
            return Poll::Pending;
        }
    }
}

/// Adds records of one partition to the batch, until the batch is full, the next record is of another
/// partition, or no more records are available.
///
/// A batch has records of only one partition, so that a slow delivery does not delay other partitions: batches with a
/// common stream are delivered one after the other, and a pull is acknowledged as a whole.
fn fill(
    shared: &Shared,
    state: &mut State,
    mut writer: PositionWriter<'_, i64, Raw>,
) -> Result<()> {
    let State { client, partitions, records, failed, .. } = state;
    let mut run: Option<Run> = None;
    let mut result = Ok(());
    while result.is_ok() && !writer.is_full() {
        let Some(record) = records.first() else {
            // Take no more records during a run, because a run identifies its topic by a handle
            // that is valid only as long as its records.
            let Some(client) = client.as_ref().filter(|_| run.is_none()) else { break };
            client.take(RECORDS, records);
            if records.is_empty() {
                break;
            }
            continue;
        };
        if let Some((code, text)) = record.error() {
            let (topic, partition) = (record.topic(), record.partition());
            if code == RDKafkaErrorCode::AutoOffsetReset {
                if run.is_some() {
                    // End the batch here, because its records have offsets from before the restart.
                    break;
                }
                // If the partition is no longer assigned, the member that gets it starts to read it again.
                if let Some(index) = partitions.find(topic, partition) {
                    shared.log_restart(topic, partition, record.offset(), &text);
                    partitions.stop(index);
                    // Wake the task of the group member, which restarts the partition.
                    client.iter().for_each(|client| client.context().signal.set());
                }
                records.pop();
                continue;
            }
            let error = shared.partition_failed(topic, partition, code, &text);
            records.pop();
            match error {
                None => continue,
                Some(error) => failed.get_or_insert(error),
            };
            // This pull returns the error if the batch is empty, and otherwise the next pull.
            break;
        }
        if let Some(run) = &mut run {
            if !run.is_of(record) {
                break;
            }
            if record.offset() >= run.to {
                result = run.push(&mut writer, record);
            }
        } else if let Some(index) = partitions.find(record.topic(), record.partition())
            && !partitions.was_read(index, record.offset())
        {
            let first = run.insert(Run::new(index, partitions.stream(index), record));
            result = first.push(&mut writer, record);
        } else {
            // Skip the record. The partition was revoked, so another member reads the record, or the record was read
            // before.
        }
        records.pop();
    }
    if let Some(Run { index, from, to, .. }) = run {
        partitions.set_read(index, from, to);
    }
    result
}

/// Consecutive records of one partition in a batch.
struct Run {
    index: Index,
    stream: u64,
    topic_handle: usize,
    partition: i32,
    from: i64,
    /// Offset after the last record.
    to: i64,
}

impl Run {
    fn new(index: Index, stream: u64, first: Record<'_>) -> Self {
        Self {
            index,
            stream,
            topic_handle: first.topic_handle(),
            partition: first.partition(),
            from: first.offset(),
            to: first.offset(),
        }
    }

    fn is_of(&self, record: Record<'_>) -> bool {
        self.partition == record.partition() && self.topic_handle == record.topic_handle()
    }

    fn push(
        &mut self,
        writer: &mut PositionWriter<'_, i64, Raw>,
        record: Record<'_>,
    ) -> Result<()> {
        self.to = record.offset() + 1;
        record::push(writer, self.stream, record)
    }
}
