//! The source: the records of the partitions that are ours.

use std::{
    future::poll_fn,
    sync::Arc,
    task::{Context as TaskContext, Poll},
};

use rdkafka::consumer::Consumer;
use tremor_pdk::{Task, prelude::*};

use super::{
    client::Record,
    member::commit_now,
    partitions::Place,
    record,
    shared::{Shared, State},
};

/// How many records are taken from librdkafka at a time.
const RECORDS: usize = 256;

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
    const CODEC: CodecRequirement = CodecRequirement::Required;

    async fn pull(&mut self, batch: &mut Batch) -> Result<Pull> {
        poll_fn(|context| poll_pull(&self.shared, context, batch)).await?;
        Ok(Pull::Events)
    }

    fn acks(&mut self) -> Option<Box<dyn Acks>> {
        Some(Box::new(self.shared.state().partitions.watermarks().clone()))
    }

    /// Commits what is acknowledged, and leaves the group.
    async fn close(&mut self) -> Result<()> {
        // From here on nobody else commits.
        self.member = None;
        let (client, positions) = {
            let mut state = self.shared.state();
            self.shared.hear(&mut state);
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

fn poll_pull(shared: &Shared, context: &TaskContext<'_>, batch: &mut Batch) -> Poll<Result<()>> {
    let mut state = shared.state();
    loop {
        if let Some(error) = state.failed.take() {
            return Poll::Ready(Err(error));
        }
        shared.hear(&mut state);
        let filled = fill(shared, &mut state, batch);
        if filled.is_err() || !batch.is_empty() {
            return Poll::Ready(filled);
        }
        let Some(client) = state.client.clone() else { return Poll::Pending };
        // There was nothing: something may have come since.
        if client.records().poll(context).is_pending() {
            return Poll::Pending;
        }
    }
}

/// Adds records to the batch until it is full or there are no more.
fn fill(shared: &Shared, state: &mut State, batch: &mut Batch) -> Result<()> {
    let pull = batch.pull();
    let mut run = None;
    let State { client, partitions, records, .. } = state;
    let mut result = Ok(());
    while result.is_ok() && !batch.is_full() {
        let Some(record) = records.first() else {
            let Some(client) = client else { break };
            // Its handle on a topic is good as long as its records are.
            Run::end(&mut run, partitions, pull);
            client.take(RECORDS, records);
            if records.is_empty() {
                break;
            }
            continue;
        };
        if let Some((code, text)) = record.error() {
            shared.partition_failed(record.topic(), record.partition(), code, &text);
        } else {
            if run.as_ref().is_some_and(|run: &Run| !run.is_of(record)) {
                Run::end(&mut run, partitions, pull);
            }
            if run.is_none() {
                run = partitions
                    .find(record.topic(), record.partition())
                    .map(|place| Run::begin(place, partitions.stream(place), record));
            }
            // One of a partition that is ours no more, or not for long, is for whoever has it next.
            if let Some(run) = &mut run {
                result = record::push(batch, run.stream, record);
                run.to = record.offset() + 1;
            }
        }
        records.pop();
    }
    Run::end(&mut run, partitions, pull);
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
    fn begin(place: Place, stream: u64, first: Record<'_>) -> Self {
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

    fn end(run: &mut Option<Self>, partitions: &mut super::partitions::Partitions, pull: u64) {
        if let Some(run) = run.take() {
            partitions.brought(pull, run.place, run.from, run.to);
        }
    }
}
