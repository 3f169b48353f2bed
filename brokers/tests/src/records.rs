//! Reads records and topics of a cluster with a client that is independent of the tested connectors.

use std::time::Duration;

use rdkafka::{
    ClientConfig, Message, Offset, TopicPartitionList,
    admin::{AdminClient, AdminOptions, NewTopic, TopicReplication},
    client::DefaultClientContext,
    consumer::{BaseConsumer, Consumer},
};

use crate::{REQUEST, eventually, kafka::block_on};

/// Returns the payloads of all current records of a partition, in order.
pub fn payloads(address: &str, topic: &str, partition: i32) -> Vec<String> {
    let mut config = ClientConfig::new();
    config.set("bootstrap.servers", address).set("group.id", "records");
    let consumer: BaseConsumer = config.create().unwrap();
    let (_, end) = eventually("the end of a partition", || {
        consumer.fetch_watermarks(topic, partition, Duration::from_secs(5)).ok()
    });
    let mut list = TopicPartitionList::new();
    list.add_partition_offset(topic, partition, Offset::Beginning).unwrap();
    consumer.assign(&list).unwrap();
    let mut payloads = Vec::new();
    let mut next = 0;
    while next < end {
        let read = eventually("a record", || consumer.poll(Duration::from_millis(100))?.ok());
        next = read.offset() + 1;
        payloads.push(String::from_utf8(read.payload().unwrap_or_default().to_vec()).unwrap());
    }
    payloads
}

/// Returns the offset after the last record of a partition; `None` if the brokers do not answer.
pub fn end(address: &str, topic: &str, partition: i32) -> Option<i64> {
    let mut config = ClientConfig::new();
    config.set("bootstrap.servers", address).set("group.id", "records");
    let consumer: BaseConsumer = config.create().unwrap();
    let end = consumer.fetch_watermarks(topic, partition, Duration::from_secs(5));
    end.ok().map(|(_, end)| end)
}

/// Creates a topic with one partition, `replicas` replicas and these settings.
pub fn make(address: &str, topic: &str, replicas: i32, settings: &[(&str, &str)]) {
    let admin = admin(address);
    let mut new = NewTopic::new(topic, 1, TopicReplication::Fixed(replicas));
    for (key, value) in settings {
        new = new.set(key, value);
    }
    eventually("a topic", || {
        let made = block_on(admin.create_topics([&new], &AdminOptions::new())).ok()?;
        made.into_iter().all(|it| it.is_ok()).then_some(())
    });
    eventually("the leader of a topic", || leader(address, topic));
}

/// Returns the node that leads partition 0.
pub fn leader(address: &str, topic: &str) -> Option<i32> {
    let metadata = admin(address).inner().fetch_metadata(Some(topic), REQUEST).ok()?;
    let leader = metadata.topics().first()?.partitions().first()?.leader();
    (leader >= 0).then_some(leader)
}

fn admin(address: &str) -> AdminClient<DefaultClientContext> {
    let mut config = ClientConfig::new();
    config.set("bootstrap.servers", address).set("reconnect.backoff.max.ms", "500");
    config.create().unwrap()
}
