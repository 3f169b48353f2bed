//! What librdkafka tells a consumer while its queue is served.

use std::{
    error::Error as StdError,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
};

use rdkafka::{
    ClientContext, TopicPartitionList,
    client::OAuthToken,
    config::RDKafkaLogLevel,
    consumer::{BaseConsumer, Consumer, ConsumerContext},
    error::{KafkaError, KafkaResult},
    types::RDKafkaRespErr,
};
use tremor_pdk::{Host, warn};

use super::signal::Signal;
use crate::client::{Told, token};

/// A partition of a topic, by their names.
pub(super) type Name = (Arc<str>, i32);

/// A change of what is ours, which the member of the group has to act on.
#[derive(Debug)]
pub(super) enum Change {
    /// These partitions are ours, once we take them.
    Assigned(Vec<Name>),
    /// These partitions are another member's, once we release them; or they were lost, and may be in use
    /// elsewhere already.
    Revoked { list: Vec<Name>, are_lost: bool },
}

/// Keeps them. The context of the client.
pub(super) struct Heard {
    pub(super) told: Told,
    /// Set whenever there is something to serve.
    pub(super) signal: Arc<Signal>,
    host: Host,
    changes: Mutex<Vec<Change>>,
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
            changes: Mutex::default(),
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
    pub(super) fn take(&self) -> Vec<Change> {
        std::mem::take(&mut self.changes.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn call(&self) {
        self.calls.fetch_add(1, Ordering::Relaxed);
    }

    fn add(&self, change: Change) {
        self.changes.lock().unwrap_or_else(PoisonError::into_inner).push(change);
    }
}

impl ClientContext for Heard {
    const ENABLE_REFRESH_OAUTH_TOKEN: bool = true;

    fn generate_oauth_token(&self, file: Option<&str>) -> Result<OAuthToken, Box<dyn StdError>> {
        self.call();
        token(file)
    }

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
            RDKafkaRespErr::RD_KAFKA_RESP_ERR__ASSIGN_PARTITIONS => Change::Assigned(names),
            _ => Change::Revoked { list: names, are_lost: consumer.assignment_lost() },
        });
    }

    /// Of a commit that nobody waits for: there is none.
    fn commit_callback(&self, _result: KafkaResult<()>, _list: &TopicPartitionList) {
        self.call();
    }
}
