//! Where to begin with partitions.

use std::{sync::Arc, time::Duration};

use rdkafka::{
    Offset, TopicPartitionList,
    consumer::{CommitMode, Consumer},
    error::{KafkaError, KafkaResult},
};
use tremor_pdk::prelude::*;

use super::{client::Client, config::Start, context::Name};
use crate::client::explain;

/// How long the brokers may take to answer.
const ANSWER: Duration = Duration::from_secs(5);

/// The partitions, each with the place from where it is read.
///
/// Where the group has committed nothing of a partition, and does not begin with its oldest record, the place
/// is committed: otherwise a member that gets the partition before the first commit would begin anew, after
/// records that this one has read and not acknowledged.
///
/// # Errors
/// The brokers do not answer, or not as expected. Time may mend that.
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
    let doing = "to find where to begin with partitions";
    list.await?.map_err(|error: KafkaError| explain(&error, "").context(doing))
}

/// Finds the places of those of which nothing is committed.
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

/// The first records of these times or later; where there is none, the end.
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
