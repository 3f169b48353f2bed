//! Kafka, as another client sees it.

use std::{
    future::Future,
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    task::{Context, Poll, Wake, Waker},
    thread::{self, Thread},
    time::Duration,
};

use rdkafka::{
    ClientConfig, Offset, TopicPartitionList,
    admin::{AdminClient, AdminOptions, NewTopic, TopicReplication},
    client::DefaultClientContext,
    consumer::{BaseConsumer, CommitMode, Consumer},
    producer::{BaseProducer, BaseRecord, DefaultProducerContext, Producer},
};

use crate::{PATIENCE, eventually};

/// A cluster, at an address without TLS and passwords.
pub struct Kafka {
    address: String,
    producer: BaseProducer<DefaultProducerContext>,
    admin: AdminClient<DefaultClientContext>,
}

/// A name that no other test has.
pub fn unique(name: &str) -> String {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    format!("{name}-{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed))
}

impl Kafka {
    /// The cluster at this address.
    pub fn new(address: &str) -> Self {
        let mut config = ClientConfig::new();
        config.set("bootstrap.servers", address).set("reconnect.backoff.max.ms", "500");
        // A record is written once, and in order, also where the broker is away for a while.
        config.set("message.timeout.ms", "120000").set("enable.idempotence", "true");
        Self {
            address: address.to_owned(),
            producer: config.create().unwrap(),
            admin: config.create().unwrap(),
        }
    }

    /// Its address.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// Makes a topic, with a name that begins so.
    pub fn topic(&self, name: &str, partitions: i32) -> String {
        let name = unique(name);
        self.make_topic(&name, partitions);
        name
    }

    /// Makes a topic of this name.
    pub fn make_topic(&self, name: &str, partitions: i32) {
        self.make_topic_with(name, partitions, &[]);
    }

    /// The same with settings of its own.
    pub fn make_topic_with(&self, name: &str, partitions: i32, settings: &[(&str, &str)]) {
        let mut new = NewTopic::new(name, partitions, TopicReplication::Fixed(1));
        for (key, value) in settings {
            new = new.set(key, value);
        }
        let options = AdminOptions::new();
        // One that is being deleted is there for a while.
        eventually("a topic", || {
            let made = block_on(self.admin.create_topics([&new], &options)).ok()?;
            made.into_iter().all(|it| it.is_ok()).then_some(())
        });
        eventually("the leaders of a topic", || {
            let metadata = self.admin.inner().fetch_metadata(Some(name), PATIENCE).ok()?;
            let partitions_found = metadata.topics().first()?.partitions();
            let all = partitions_found.len() == usize::try_from(partitions).unwrap();
            (all && partitions_found.iter().all(|it| it.leader() >= 0)).then_some(())
        });
    }

    /// Deletes a topic.
    pub fn delete_topic(&self, name: &str) {
        let deleted = block_on(self.admin.delete_topics(&[name], &AdminOptions::new())).unwrap();
        assert!(deleted.iter().all(Result::is_ok), "{deleted:?}");
    }

    /// Writes these records to each of these partitions: `{"p":PARTITION,"n":NUMBER}`. They are there when that
    /// returns.
    pub fn write(
        &self,
        topic: &str,
        partitions: impl IntoIterator<Item = i32>,
        numbers: std::ops::Range<u64>,
    ) {
        for partition in partitions {
            for number in numbers.clone() {
                let payload = record(partition, number);
                self.send(BaseRecord::to(topic).partition(partition).payload(&payload));
            }
        }
        self.flush();
    }

    /// Writes a record, some time.
    pub fn send(&self, mut record: BaseRecord<'_, str, str>) {
        while let Err((_, again)) = self.producer.send(record) {
            // It has as many as it keeps.
            self.producer.poll(Duration::from_millis(10));
            record = again;
        }
        self.producer.poll(Duration::ZERO);
    }

    /// Waits until all records are there.
    pub fn flush(&self) {
        self.producer.flush(PATIENCE).unwrap();
    }

    /// What a group has committed of a partition.
    pub fn committed(&self, group: &str, topic: &str, partition: i32) -> Option<i64> {
        let mut list = TopicPartitionList::new();
        list.add_partition(topic, partition);
        let found = self.member(group).committed_offsets(list, PATIENCE).ok()?;
        match found.elements().first()?.offset() {
            Offset::Offset(offset) => Some(offset),
            _ => None,
        }
    }

    /// Waits until a group has committed that of a partition.
    pub fn commits(&self, group: &str, topic: &str, partition: i32, offset: i64) {
        let what = format!("{offset} committed of partition {partition}");
        eventually(&what, || {
            (self.committed(group, topic, partition) == Some(offset)).then_some(())
        });
    }

    /// Commits for a group without members.
    pub fn commit(&self, group: &str, topic: &str, partition: i32, offset: i64) {
        let mut list = TopicPartitionList::new();
        list.add_partition_offset(topic, partition, Offset::Offset(offset)).unwrap();
        self.member(group).commit(&list, CommitMode::Sync).unwrap();
    }

    fn member(&self, group: &str) -> BaseConsumer {
        let mut config = ClientConfig::new();
        config.set("bootstrap.servers", &self.address).set("group.id", group);
        config.create().unwrap()
    }
}

/// The payload of a record of a test.
pub fn record(partition: i32, number: u64) -> String {
    format!(r#"{{"p":{partition},"n":{number}}}"#)
}

/// The partition and the number of such a payload.
pub fn parse(payload: &str) -> (i32, u64) {
    let value: serde_json::Value = serde_json::from_str(payload).unwrap();
    let number = |key: &str| value[key].as_u64().unwrap();
    (number("p").try_into().unwrap(), number("n"))
}

/// The numbers of one partition, in their order.
pub fn numbers(lines: &[String], partition: i32) -> Vec<u64> {
    let all = lines.iter().map(|line| parse(line));
    all.filter(|(of, _)| *of == partition).map(|(_, number)| number).collect()
}

/// Waits for what another thread makes.
pub fn block_on<T>(future: impl Future<Output = T>) -> T {
    struct Unpark(Thread);
    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let mut future = pin!(future);
    loop {
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(output) => return output,
            Poll::Pending => thread::park(),
        }
    }
}
