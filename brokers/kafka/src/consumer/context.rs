//! Callbacks of a consumer. librdkafka calls them while the consumer's event queue is served.

use std::{
    error::Error as StdError,
    sync::{
        Arc, Mutex,
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
use tremor_pdk::{Host, lock, warn};

use super::signal::Signal;
use crate::client::{Diagnostics, token};

/// Topic name and number of a partition.
pub(super) type Name = (Arc<str>, i32);

/// A change of the assignment, which the member of the group has to answer.
#[derive(Debug)]
pub(super) enum Change {
    /// The group offers these partitions to this member.
    Assigned(Vec<Name>),
    /// The group takes these partitions away. If `are_lost` is set, other members may already use them;
    /// otherwise other members get them once they are released.
    Revoked { list: Vec<Name>, are_lost: bool },
}

/// Context of the client: collects the notifications of librdkafka.
pub(super) struct GroupContext {
    pub(super) diagnostics: Diagnostics,
    /// Set when the event queue was empty and receives an event, and when a partition has to be restarted.
    pub(super) signal: Arc<Signal>,
    host: Host,
    changes: Mutex<Vec<Change>>,
    /// Number of callbacks so far.
    callbacks: AtomicU64,
    is_closing: AtomicBool,
}

impl GroupContext {
    pub(super) fn new(host: Host) -> Self {
        Self {
            diagnostics: Diagnostics::new(host.clone()),
            signal: Arc::default(),
            host,
            changes: Mutex::default(),
            callbacks: AtomicU64::new(0),
            is_closing: AtomicBool::new(false),
        }
    }

    /// Makes the callback for rebalances release revoked partitions itself from now on, because no member handles
    /// changes any more.
    pub(super) fn begin_closing(&self) {
        self.is_closing.store(true, Ordering::Relaxed);
    }

    /// Returns the number of callbacks so far. If a poll returns nothing but the number has grown, the poll has served
    /// an event, and more events may be pending.
    pub(super) fn callbacks(&self) -> u64 {
        self.callbacks.load(Ordering::Relaxed)
    }

    /// Takes the changes of the assignment that were not taken before, in order.
    pub(super) fn take(&self) -> Vec<Change> {
        std::mem::take(&mut lock(&self.changes))
    }

    fn call(&self) {
        self.callbacks.fetch_add(1, Ordering::Relaxed);
    }

    fn add(&self, change: Change) {
        lock(&self.changes).push(change);
    }
}

impl ClientContext for GroupContext {
    const ENABLE_REFRESH_OAUTH_TOKEN: bool = true;

    fn generate_oauth_token(&self, file: Option<&str>) -> Result<OAuthToken, Box<dyn StdError>> {
        self.call();
        token(file)
    }

    fn log(&self, level: RDKafkaLogLevel, facility: &str, message: &str) {
        self.call();
        self.diagnostics.log(level, facility, message);
    }

    fn stats_raw(&self, _statistics: &[u8]) {
        self.call();
    }

    fn error(&self, error: KafkaError, reason: &str) {
        self.call();
        self.diagnostics.error(&error, reason);
    }
}

impl ConsumerContext for GroupContext {
    /// Stores the change. The callback runs inside a poll, so the member handles the change later.
    fn rebalance(
        &self,
        consumer: &BaseConsumer<Self>,
        kind: RDKafkaRespErr,
        list: &mut TopicPartitionList,
    ) {
        self.call();
        if self.is_closing.load(Ordering::Relaxed) {
            if let Err(error) = consumer.unassign() {
                warn!(
                    self.host,
                    "cannot release the partitions while the consumer closes: {error}"
                );
            }
            return;
        }
        let names = list.elements().iter().map(|it| (it.topic().into(), it.partition())).collect();
        self.add(match kind {
            RDKafkaRespErr::RD_KAFKA_RESP_ERR__ASSIGN_PARTITIONS => Change::Assigned(names),
            _ => Change::Revoked { list: names, are_lost: consumer.assignment_lost() },
        });
    }

    /// Only counts the callback: librdkafka reports asynchronous commits here, and this consumer makes none.
    fn commit_callback(&self, _result: KafkaResult<()>, _list: &TopicPartitionList) {
        self.call();
    }
}
