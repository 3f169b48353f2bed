//! A Kafka client that tests use to prepare and inspect a cluster.

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

use crate::{PATIENCE, REQUEST, eventually};

/// A client of a cluster, without TLS and authentication.
pub struct Kafka {
    address: String,
    producer: BaseProducer<DefaultProducerContext>,
    admin: AdminClient<DefaultClientContext>,
}

/// Returns a name that begins with `name` and that no other test uses.
pub fn unique(name: &str) -> String {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    format!("{name}-{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed))
}

impl Kafka {
    /// Creates a client of the cluster at this address.
    pub fn new(address: &str) -> Self {
        let mut config = ClientConfig::new();
        config.set("bootstrap.servers", address).set("reconnect.backoff.max.ms", "500");
        // Write each record once and in order, even if the broker is unavailable for a while.
        config.set("message.timeout.ms", "120000").set("enable.idempotence", "true");
        Self {
            address: address.to_owned(),
            producer: config.create().unwrap(),
            admin: config.create().unwrap(),
        }
    }

    /// Returns the address of the cluster.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// Creates a topic whose name begins with `name`, and returns the name.
    pub fn topic(&self, name: &str, partitions: i32) -> String {
        let name = unique(name);
        self.make_topic(&name, partitions);
        name
    }

    /// Creates a topic with this name.
    pub fn make_topic(&self, name: &str, partitions: i32) {
        self.make_topic_with(name, partitions, &[]);
    }

    /// Creates a topic with this name and these settings.
    pub fn make_topic_with(&self, name: &str, partitions: i32, settings: &[(&str, &str)]) {
        let mut new = NewTopic::new(name, partitions, TopicReplication::Fixed(1));
        for (key, value) in settings {
            new = new.set(key, value);
        }
        let options = AdminOptions::new();
        // Creation fails while a topic of this name is still being deleted.
        eventually("a topic", || {
            let made = block_on(self.admin.create_topics([&new], &options)).ok()?;
            made.into_iter().all(|it| it.is_ok()).then_some(())
        });
        eventually("the leaders of a topic", || {
            let metadata = self.admin.inner().fetch_metadata(Some(name), REQUEST).ok()?;
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

    /// Writes the records `{"p":PARTITION,"n":NUMBER}` with all `numbers` to each partition, and waits until all of
    /// them are written.
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

    /// Queues a record for sending.
    pub fn send(&self, mut record: BaseRecord<'_, str, str>) {
        while let Err((_, again)) = self.producer.send(record) {
            // The queue of the client is full.
            self.producer.poll(Duration::from_millis(10));
            record = again;
        }
        self.producer.poll(Duration::ZERO);
    }

    /// Waits until all queued records are written.
    pub fn flush(&self) {
        self.producer.flush(PATIENCE).unwrap();
    }

    /// Returns the offset that a group has committed for a partition.
    pub fn committed(&self, group: &str, topic: &str, partition: i32) -> Option<i64> {
        let mut list = TopicPartitionList::new();
        list.add_partition(topic, partition);
        let found = self.member(group).committed_offsets(list, REQUEST).ok()?;
        match found.elements().first()?.offset() {
            Offset::Offset(offset) => Some(offset),
            _ => None,
        }
    }

    /// Waits until a group has committed this offset for a partition.
    pub fn commits(&self, group: &str, topic: &str, partition: i32, offset: i64) {
        let what = format!("{offset} committed of partition {partition}");
        eventually(&what, || {
            (self.committed(group, topic, partition) == Some(offset)).then_some(())
        });
    }

    /// Commits an offset for a group without members.
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

/// Returns the payload of a test record.
pub fn record(partition: i32, number: u64) -> String {
    format!(r#"{{"p":{partition},"n":{number}}}"#)
}

/// Parses partition and number from the payload of a test record.
pub fn parse(payload: &str) -> (i32, u64) {
    let value: serde_json::Value = serde_json::from_str(payload).unwrap();
    let number = |key: &str| value[key].as_u64().unwrap();
    (number("p").try_into().unwrap(), number("n"))
}

/// Returns the numbers of the records of one partition, in order.
pub fn numbers(lines: &[String], partition: i32) -> Vec<u64> {
    let all = lines.iter().map(|line| parse(line));
    all.filter(|(of, _)| *of == partition).map(|(_, number)| number).collect()
}

/// Blocks the thread until the future completes.
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
