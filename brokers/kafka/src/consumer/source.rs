//! The source: the records of the partitions that are ours.

use std::{
    future::poll_fn,
    sync::Arc,
    task::{Context, Poll},
};

use rdkafka::{consumer::Consumer, types::RDKafkaErrorCode};
use tremor_pdk::{Acks, Begin, PositionWriter, Raw, Task, prelude::*};

use super::{
    client::Record,
    member::commit_now,
    partitions::Place,
    record,
    shared::{Shared, State},
};

/// How many records are taken from librdkafka at a time.
const RECORDS: usize = 1_000;

/// The source of one connection of the runtime's.
pub struct Records {
    shared: Arc<Shared>,
    /// The member of the group; none after the end.
    member: Option<Task>,
}

impl Records {
    pub(super) fn new(shared: Arc<Shared>, member: Task) -> Self {
        Self { shared, member: Some(member) }
    }

    fn end(&mut self) {
        self.member = None;
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

    /// Commits what is acknowledged, and leaves the group.
    async fn close(&mut self) -> Result<()> {
        // From here on nobody else commits.
        self.member = None;
        let (client, positions) = {
            let mut state = self.shared.state();
            Shared::hear(&mut state);
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
    loop {
        if let Some(error) = state.failed.take() {
            return Poll::Ready(Err(error));
        }
        Shared::hear(&mut state);
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
        // There was nothing: something may have come since.
        if client.records().poll(context).is_pending() {
            return Poll::Pending;
        }
    }
}

/// Adds records of one partition to the batch, until it is full, or another partition's are next, or there are
/// none.
///
/// Of one: whatever holds up one partition, such as a slow delivery, then holds up no other. Batches that have
/// a stream in common are delivered one after the other, and a pull is acknowledged as a whole.
fn fill(
    shared: &Shared,
    state: &mut State,
    mut writer: PositionWriter<'_, i64, Raw>,
) -> Result<()> {
    let State { client, partitions, records, failed } = state;
    let mut run: Option<Run> = None;
    let mut result = Ok(());
    while result.is_ok() && !writer.is_full() {
        let Some(record) = records.first() else {
            // Topics are known by their names only until all records are done with.
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
                    // The records that were read belong to the offsets that end here.
                    break;
                }
                // Otherwise the next member that has it looks.
                if let Some(place) = partitions.find(topic, partition) {
                    shared.offsets_begin_anew(topic, partition, record.offset(), &text);
                    partitions.stop(place);
                    // The member goes on with it.
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
            // The next pull answers it, or this one where it has nothing.
            break;
        }
        if let Some(run) = &mut run {
            if !run.is_of(record) {
                break;
            }
            if record.offset() >= run.to {
                result = run.push(&mut writer, record);
            }
        } else if let Some(place) = partitions.find(record.topic(), record.partition())
            && !partitions.has(place, record.offset())
        {
            let first = run.insert(Run::new(place, partitions.stream(place), record));
            result = first.push(&mut writer, record);
        } else {
            // Of a partition that is ours no more, or not for long: the next member reads it. Or it was
            // brought already.
        }
        records.pop();
    }
    if let Some(Run { place, from, to, .. }) = run {
        partitions.set_read(place, from, to);
    }
    result
}

/// Records of one partition, one after the other.
struct Run {
    place: Place,
    stream: u64,
    topic_handle: usize,
    partition: i32,
    from: i64,
    /// The offset after the last.
    to: i64,
}

impl Run {
    fn new(place: Place, stream: u64, first: Record<'_>) -> Self {
        Self {
            place,
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
