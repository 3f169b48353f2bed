//! What librdkafka tells a consumer while its queue is served.

use std::sync::{
    Arc, Mutex, PoisonError,
    atomic::{AtomicBool, AtomicU64, Ordering},
};

use rdkafka::{
    ClientContext, Offset, TopicPartitionList,
    config::RDKafkaLogLevel,
    consumer::{BaseConsumer, Consumer, ConsumerContext},
    error::{KafkaError, KafkaResult},
    types::RDKafkaRespErr,
};
use tremor_pdk::{Host, warn};

use super::{partitions::Position, signal::Signal};
use crate::client::Told;

/// A partition of a topic, by their names.
pub(super) type Name = (Arc<str>, i32);

/// What the member of the group has to act on.
#[derive(Debug)]
pub(super) enum News {
    /// These partitions are ours, once we take them.
    Assigned(Vec<Name>),
    /// These partitions are another member's, once we release them; or they were lost, and may be in use
    /// elsewhere already.
    Revoked { list: Vec<Name>, are_lost: bool },
    /// What has become of a commit: positions that are committed, or why they are not.
    Committed(Result<Vec<Position>, KafkaError>),
}

/// Keeps that. The context of the client.
pub(super) struct Heard {
    pub(super) told: Told,
    /// Set whenever there is something to serve.
    pub(super) signal: Arc<Signal>,
    host: Host,
    news: Mutex<Vec<News>>,
    /// How often librdkafka has called.
    calls: AtomicU64,
    is_ending: AtomicBool,
}

impl Heard {
    pub(super) fn new(host: Host) -> Self {
        Self {
            told: Told::new(host.clone()),
            signal: Arc::default(),
            host,
            news: Mutex::default(),
            calls: AtomicU64::new(0),
            is_ending: AtomicBool::new(false),
        }
    }

    /// From here on partitions are released as soon as they are revoked.
    pub(super) fn ends(&self) {
        self.is_ending.store(true, Ordering::Relaxed);
    }

    /// How often librdkafka has called: a poll that gives nothing and in which it has called may have left
    /// something.
    pub(super) fn calls(&self) -> u64 {
        self.calls.load(Ordering::Relaxed)
    }

    /// What there is to act on, in order.
    pub(super) fn take(&self) -> Vec<News> {
        std::mem::take(&mut self.news.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn call(&self) {
        self.calls.fetch_add(1, Ordering::Relaxed);
    }

    fn add(&self, news: News) {
        self.news.lock().unwrap_or_else(PoisonError::into_inner).push(news);
    }
}

impl ClientContext for Heard {
    fn log(&self, level: RDKafkaLogLevel, facility: &str, message: &str) {
        self.call();
        self.told.log(level, facility, message);
    }

    fn stats_raw(&self, _statistics: &[u8]) {
        self.call();
    }

    fn error(&self, error: KafkaError, reason: &str) {
        self.call();
        self.told.error(&error, reason);
    }
}

impl ConsumerContext for Heard {
    /// Is called within a poll: what it takes is done later.
    fn rebalance(
        &self,
        consumer: &BaseConsumer<Self>,
        kind: RDKafkaRespErr,
        list: &mut TopicPartitionList,
    ) {
        self.call();
        if self.is_ending.load(Ordering::Relaxed) {
            if let Err(error) = consumer.unassign() {
                warn!(self.host, "cannot release the partitions before the end: {error}");
            }
            return;
        }
        let names = list.elements().iter().map(|it| (it.topic().into(), it.partition())).collect();
        self.add(match kind {
            RDKafkaRespErr::RD_KAFKA_RESP_ERR__ASSIGN_PARTITIONS => News::Assigned(names),
            _ => News::Revoked { list: names, are_lost: consumer.assignment_lost() },
        });
    }

    fn commit_callback(&self, result: KafkaResult<()>, list: &TopicPartitionList) {
        self.call();
        self.add(News::Committed(result.map(|()| positions(list))));
    }
}

/// The positions of a list, of partitions without an error.
pub(super) fn positions(list: &TopicPartitionList) -> Vec<Position> {
    let elements = list.elements();
    let good = elements.iter().filter(|it| it.error().is_ok());
    good.filter_map(|it| match it.offset() {
        Offset::Offset(offset) => {
            Some(Position { name: (it.topic().into(), it.partition()), offset })
        }
        _ => None,
    })
    .collect()
}
