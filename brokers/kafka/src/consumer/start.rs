//! Start offsets of newly assigned partitions.

use std::{sync::Arc, time::Duration};

use rdkafka::{
    Offset, TopicPartitionList,
    consumer::{CommitMode, Consumer},
    error::{KafkaError, KafkaResult},
};
use tremor_pdk::prelude::*;

use super::{client::Client, config::Start, context::Name};
use crate::client::explain;

/// Maximum time that the brokers may take to answer.
const ANSWER: Duration = Duration::from_secs(5);

/// Returns the partitions with their start offsets.
///
/// If the group has not committed an offset of a partition and `start` is not `earliest`, the start offset is committed
/// before the first record is read. Otherwise another member that gets the partition before the first commit could
/// determine a later start offset. It would then skip records that this member has read and not acknowledged.
///
/// # Errors
/// The brokers did not answer, or rejected a request. Retrying may help.
pub(super) async fn find(
    host: &Host,
    client: &Arc<Client>,
    names: &[Name],
    start: Start,
) -> Result<TopicPartitionList> {
    let (client, names) = (client.clone(), names.to_vec());
    let list = host.blocking(move || {
        let mut list = TopicPartitionList::with_capacity(names.len());
        for (topic, partition) in &names {
            list.add_partition(topic, *partition);
        }
        let committed = client.committed_offsets(list, ANSWER)?;
        complete(&client, &committed, start)
    });
    let doing = "cannot find the start offsets of partitions";
    list.await?.map_err(|error: KafkaError| explain(&error, "").context(doing))
}

/// Finds the start offsets of partitions without a committed offset.
fn complete(
    client: &Client,
    committed: &TopicPartitionList,
    start: Start,
) -> KafkaResult<TopicPartitionList> {
    let (mut all, mut new) = (TopicPartitionList::new(), TopicPartitionList::new());
    for element in committed.elements() {
        element.error()?;
        let (topic, partition) = (element.topic(), element.partition());
        if let Offset::Offset(offset) = element.offset() {
            all.add_partition_offset(topic, partition, Offset::Offset(offset))?;
        } else if start == Start::Earliest {
            all.add_partition_offset(topic, partition, Offset::Beginning)?;
        } else if let Start::Time(ms) = start {
            new.add_partition_offset(topic, partition, Offset::Offset(ms))?;
        } else {
            let (_, end) = client.fetch_watermarks(topic, partition, ANSWER)?;
            new.add_partition_offset(topic, partition, Offset::Offset(end))?;
        }
    }
    if new.count() == 0 {
        return Ok(all);
    }
    if matches!(start, Start::Time(_)) {
        new = at_time(client, new)?;
    }
    client.commit(&new, CommitMode::Sync)?;
    for element in new.elements() {
        all.add_partition_offset(element.topic(), element.partition(), element.offset())?;
    }
    Ok(all)
}

/// Returns for each partition the offset of the first record at its time in `times` or later, or the end of the
/// partition if it has no such record.
fn at_time(client: &Client, times: TopicPartitionList) -> KafkaResult<TopicPartitionList> {
    let mut found = TopicPartitionList::new();
    for element in client.offsets_for_times(times, ANSWER)?.elements() {
        element.error()?;
        let (topic, partition) = (element.topic(), element.partition());
        let offset = match element.offset() {
            Offset::Offset(offset) => offset,
            _ => client.fetch_watermarks(topic, partition, ANSWER)?.1,
        };
        found.add_partition_offset(topic, partition, Offset::Offset(offset))?;
    }
    Ok(found)
}
