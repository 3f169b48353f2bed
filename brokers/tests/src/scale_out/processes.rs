//! Processes of `examples/scale-out` between two topics of twelve partitions, and the records that they write.

use std::{
    fs,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, JoinHandle},
    time::Duration,
};

use rdkafka::{
    ClientConfig, Message, Offset, TopicPartitionList,
    consumer::{BaseConsumer, Consumer},
    message::BorrowedMessage,
};

use crate::{
    built::root,
    flow::Flow,
    kafka::{Kafka, parse, unique},
};

/// Number of partitions of each topic.
pub(super) const PARTITIONS: usize = 12;

/// Returns the numbers of all partitions.
pub(super) fn partitions() -> impl Iterator<Item = i32> {
    (0..).take(PARTITIONS)
}

/// Settings of a topic whose records are stamped with the time at which the broker received them.
pub(super) const STAMPED: &[(&str, &str)] = &[("message.timestamp.type", "LogAppendTime")];

/// Topics and consumer group of the processes.
pub(super) struct Group {
    kafka: Arc<Kafka>,
    pub(super) from: String,
    to: String,
    name: String,
}

impl Group {
    /// Creates a group that reads the topic `from`, and writes to a new topic. The broker stamps the records of the new
    /// topic with the time of arrival.
    pub(super) fn new(kafka: Arc<Kafka>, from: String) -> Self {
        let (to, name) = (unique("accepted"), unique("group"));
        kafka.make_topic_with(&to, 12, STAMPED);
        Self { kafka, from, to, name }
    }

    /// Starts a process of the group. The process writes its number as the key of each record.
    pub(super) fn process(&self, number: usize) -> Flow {
        let flow = fs::read_to_string(root().join("examples/scale-out/flow.yaml")).unwrap();
        let variables = [
            ("BROKER", self.kafka.address()),
            ("FROM", &self.from),
            ("TO", &self.to),
            ("GROUP", &self.name),
            ("KEY", &number.to_string()),
            ("SESSION_TIMEOUT", "1s"),
            ("COMMIT_INTERVAL", "100ms"),
        ];
        Flow::run_with(&flow, &variables)
    }

    /// Reads the output of the processes from the beginning, until the reader is dropped.
    pub(super) fn read(&self, each: impl FnMut(&BorrowedMessage<'_>) + Send + 'static) -> Reader {
        Reader::start(&self.kafka, &self.to, PARTITIONS, each)
    }

    /// Reads the output of the processes up to now.
    pub(super) fn read_all(&self, mut each: impl FnMut(&BorrowedMessage<'_>)) {
        let consumer = consumer(&self.kafka, &self.to, PARTITIONS);
        let end =
            |partition| consumer.fetch_watermarks(&self.to, partition, crate::PATIENCE).unwrap().1;
        let mut left: i64 = partitions().map(end).sum();
        while left > 0 {
            if let Some(Ok(record)) = consumer.poll(Duration::from_millis(100)) {
                each(&record);
                left -= 1;
            }
        }
    }
}

/// Returns a consumer without a group that reads a topic from the beginning.
fn consumer(kafka: &Kafka, topic: &str, partitions: usize) -> BaseConsumer {
    let mut config = ClientConfig::new();
    config.set("bootstrap.servers", kafka.address()).set("group.id", "reader");
    config.set("fetch.wait.max.ms", "20").set("enable.auto.commit", "false");
    let consumer: BaseConsumer = config.create().unwrap();
    let mut list = TopicPartitionList::new();
    for partition in (0..).take(partitions) {
        list.add_partition_offset(topic, partition, Offset::Beginning).unwrap();
    }
    consumer.assign(&list).unwrap();
    consumer
}

/// Returns the number of a record among those of its partition.
pub(super) fn number(record: &BorrowedMessage<'_>) -> usize {
    let (_, number) = parse(std::str::from_utf8(record.payload().unwrap()).unwrap());
    usize::try_from(number).unwrap()
}

/// Returns the number of the process that wrote a record.
pub(super) fn writer(record: &BorrowedMessage<'_>) -> usize {
    std::str::from_utf8(record.key().unwrap()).unwrap().parse().unwrap()
}

/// Returns the time at which the broker received a record, in ms since 1970.
pub(super) fn time(record: &BorrowedMessage<'_>) -> i64 {
    record.timestamp().to_millis().unwrap()
}

/// A thread that reads a topic until this value is dropped.
pub(super) struct Reader {
    ends: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Reader {
    /// Starts to read a topic with `partitions` partitions from the beginning.
    pub(super) fn start(
        kafka: &Kafka,
        topic: &str,
        partitions: usize,
        mut each: impl FnMut(&BorrowedMessage<'_>) + Send + 'static,
    ) -> Self {
        let (consumer, ends) =
            (consumer(kafka, topic, partitions), Arc::new(AtomicBool::new(false)));
        let own = ends.clone();
        let thread = thread::spawn(move || {
            while !own.load(Ordering::Relaxed) {
                // After a timeout or an error the next poll continues.
                if let Some(Ok(record)) = consumer.poll(Duration::from_millis(100)) {
                    each(&record);
                }
            }
        });
        Self { ends, thread: Some(thread) }
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        self.ends.store(true, Ordering::Relaxed);
        let _ = self.thread.take().map(JoinHandle::join);
    }
}
