//! Configuration of `kafka_producer` in a flow file.

use std::{ops::RangeInclusive, time::Duration};

use rdkafka::ClientConfig;
use tremor_pdk::{
    metadata::{FieldPath, Text},
    net::Address,
    prelude::*,
    units::{Interval, Size},
};

use crate::client::{Peer, Sasl, Tls};

/// Maximum length of a topic name, in characters.
const LONGEST_TOPIC: usize = 249;
/// Largest record size that librdkafka can be configured for, in bytes.
const LARGEST_RECORD: u64 = 1_000_000_000;

/// Topic, content and delivery of the records.
#[tremor_pdk::config]
#[derive(Clone, Debug)]
pub struct Config {
    /// Addresses of some brokers, such as `kafka-1:9092`. The client learns the other brokers from them.
    #[schemars(example = example())]
    pub brokers: Vec<Address>,
    /// Topic: a name such as `orders`, a template such as `logs-{host}`, or, as `%topic`, a path of the event's
    /// metadata.
    #[schemars(example = &"events")]
    pub topic: Text,
    /// Maximum number of topics to which a connection writes, if the topic depends on the event. The client retains
    /// memory for each topic. Events of further topics go to `err`.
    #[serde(default = "max_topics")]
    #[schemars(range(min = 1, max = 100_000))]
    pub max_topics: usize,
    /// Key of each record, which determines its partition: a text, a template, or a path of the metadata. An event
    /// without a value at the path has no key.
    #[serde(default = "key")]
    pub key: Text,
    /// Path of the record's headers in the metadata: an object of texts or bytes, or lists of them.
    #[serde(default = "headers")]
    pub headers: FieldPath,
    /// Path of the partition in the metadata. If unset, or if an event has no value there, `partitioner`
    /// chooses the partition.
    pub partition: Option<FieldPath>,
    /// Path of the record's time in the metadata, in milliseconds since 1970. If unset, or if an event has no
    /// value there, the time of sending is used.
    pub timestamp: Option<FieldPath>,
    /// Replicas that must have a record before it counts as delivered.
    #[serde(default)]
    pub acks: Acks,
    /// Compression of batches of records.
    #[serde(default)]
    pub compression: Compression,
    /// Function that chooses the partition of a record by its key. Records without a key go to any partition.
    #[serde(default)]
    pub partitioner: Partitioner,
    /// Maximum time that a delivery may be in flight. After that, records that are not acknowledged are delivered again
    /// over a new connection.
    #[serde(default = "timeout")]
    pub timeout: Interval,
    /// Maximum time that a record waits for others of its partition, which are sent in the same batch.
    #[serde(default = "linger")]
    pub linger: Interval,
    /// Maximum size of a record. Larger records go to `err`, and so do records that exceed the limit of the topic.
    #[serde(default = "max_record_bytes")]
    pub max_record_bytes: Size,
    /// Maximum number of bytes of records that wait in the client. Further records wait outside of
    /// the client. Reduced if the memory limit of the process does not allow that many.
    #[serde(default = "max_buffer_bytes")]
    pub max_buffer_bytes: Size,
    /// Credentials of this client.
    pub sasl: Option<Sasl>,
    /// TLS settings. Unless set, connections are not encrypted.
    pub tls: Option<Tls>,
}

/// Replicas that must have a record before it counts as delivered.
#[tremor_pdk::config]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub enum Acks {
    /// Every in-sync replica. Records are numbered, so that a retry does not duplicate a record.
    #[default]
    All,
    /// The leader of the partition. The record is lost if the leader fails before another replica has it.
    Leader,
}

/// Compression of batches of records.
#[tremor_pdk::config]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub enum Compression {
    /// Records are sent uncompressed.
    #[default]
    None,
    /// Records are compressed with gzip.
    Gzip,
    /// Records are compressed with snappy.
    Snappy,
    /// Records are compressed with LZ4.
    Lz4,
    /// Records are compressed with zstd.
    Zstd,
}

/// Function that chooses the partition of a record by its key.
#[tremor_pdk::config]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub enum Partitioner {
    /// Hash of the Java clients.
    #[default]
    Murmur2,
    /// Default hash of clients that use librdkafka.
    Crc32,
    /// Hash of some Go clients.
    Fnv1a,
    /// Any partition, regardless of the key.
    Random,
}

const fn example() -> [&'static str; 1] {
    ["127.0.0.1:9"]
}

fn key() -> Text {
    "%kafka.key".parse().map_or_else(|_| Text::Fixed(String::new()), Text::At)
}

const fn max_topics() -> usize {
    1_000
}

fn headers() -> FieldPath {
    #[allow(clippy::expect_used)] // the text is a constant, and a test parses it
    "%kafka.headers".parse().expect("a path")
}

const fn timeout() -> Interval {
    Interval::of_ms(30_000)
}

const fn linger() -> Interval {
    Interval::of_ms(1)
}

const fn max_record_bytes() -> Size {
    Size::of_bytes(1 << 20)
}

const fn max_buffer_bytes() -> Size {
    Size::of_bytes(64 << 20)
}

/// The checked configuration.
pub(super) struct Settings {
    /// Properties for librdkafka.
    pub(super) properties: ClientConfig,
    pub(super) brokers: String,
    pub(super) topic: Text,
    pub(super) max_topics: usize,
    pub(super) key: Text,
    pub(super) headers: FieldPath,
    pub(super) partition: Option<FieldPath>,
    pub(super) timestamp: Option<FieldPath>,
    pub(super) timeout: Duration,
    /// Minimum and maximum bytes of records that may wait in the client.
    pub(super) buffer: RangeInclusive<u64>,
}

impl Settings {
    /// Checks a configuration.
    ///
    /// # Errors
    /// An error of the kind configuration, with the key, the value that was found and the values
    /// that were expected. The error never contains a secret.
    pub(super) fn new(config: Config, host: &Host) -> Result<Self> {
        if let Some(topic) = config.topic.fixed() {
            check_topic(topic)
                .map_err(|why| Error::configuration(format_args!("invalid `topic`: {why}")))?;
        }
        if !(1..=100_000).contains(&config.max_topics) {
            return Err(Error::configuration(format_args!(
                "invalid `max_topics`: expected 1 to 100000 topics, found {}",
                config.max_topics
            )));
        }
        let record = config.max_record_bytes.get();
        if !(1_000..=LARGEST_RECORD).contains(&record) {
            return Err(Error::configuration(format_args!(
                "invalid `max_record_bytes`: expected 1000 to {LARGEST_RECORD} bytes, found {record}"
            )));
        }
        let buffer = config.max_buffer_bytes.get();
        // librdkafka's limit is an `i32` in KiB.
        let most = u64::from(i32::MAX.unsigned_abs()) << 10;
        if !(record.max(64 << 10)..=most).contains(&buffer) {
            return Err(Error::configuration(format_args!(
                "invalid `max_buffer_bytes`: expected {} (enough for one record) to {most} bytes, found {buffer}",
                record.max(64 << 10)
            )));
        }
        let linger = config.linger.get();
        if linger > Duration::from_mins(1) || linger >= config.timeout.get() {
            return Err(Error::configuration(format_args!(
                "invalid `linger`: expected at most one minute, and less than `timeout`, found {}",
                config.linger
            )));
        }
        let peer =
            Peer { brokers: &config.brokers, sasl: config.sasl.as_ref(), tls: config.tls.as_ref() };
        let mut properties = peer.properties(host)?;
        // Shorter than `timeout`, so that the client notices a broker that does not respond, or that no longer leads a
        // partition, before the delivery is given up.
        let request =
            (config.timeout.get() / 3).clamp(Duration::from_secs(1), Duration::from_secs(10));
        let request = request.as_millis().to_string();
        properties
            .set("compression.type", config.compression.as_str())
            .set("partitioner", config.partitioner.as_str())
            .set("linger.ms", format!("{:.3}", linger.as_secs_f64() * 1e3))
            .set("message.max.bytes", record.to_string())
            // The number of records is unlimited, because `queue.buffering.max.kbytes` limits their bytes.
            .set("queue.buffering.max.messages", "0")
            // librdkafka must not time out single records: the sink gives up all records together, so that no record
            // overtakes another one.
            .set("message.timeout.ms", "0")
            .set("request.timeout.ms", &request)
            .set("socket.timeout.ms", &request)
            .set("topic.metadata.propagation.max.ms", &request)
            // The regular event of statistics wakes the polling task, which then checks whether deliveries have timed
            // out.
            .set("statistics.interval.ms", check_interval_ms(config.timeout.get()).to_string())
            // Time after which a topic that was rejected is tried again.
            .set("topic.metadata.refresh.interval.ms", "60000");
        match config.acks {
            Acks::All => {
                properties.set("acks", "all").set("enable.idempotence", "true");
            }
            Acks::Leader => {
                // Permit only one request at a time; otherwise a record that is retried would arrive after its
                // successors.
                properties.set("acks", "1").set("max.in.flight.requests.per.connection", "1");
            }
        }
        let brokers: Vec<String> = config.brokers.iter().map(Address::to_string).collect();
        Ok(Self {
            properties,
            brokers: brokers.join("`, `"),
            topic: config.topic,
            max_topics: config.max_topics,
            key: config.key,
            headers: config.headers,
            partition: config.partition,
            timestamp: config.timestamp,
            timeout: config.timeout.get(),
            buffer: record.max(64 << 10)..=buffer,
        })
    }
}

/// Returns the interval at which deliveries are checked for `timeout`, in milliseconds.
fn check_interval_ms(timeout: Duration) -> u128 {
    (timeout / 4).as_millis().clamp(1, 1_000)
}

/// Checks a topic name by Kafka's rule.
///
/// # Errors
/// The text says what is expected and which name was found.
pub(super) fn check_topic(topic: &str) -> std::result::Result<(), String> {
    let is_good = |it: char| it.is_ascii_alphanumeric() || matches!(it, '.' | '_' | '-');
    if topic.is_empty()
        || topic.len() > LONGEST_TOPIC
        || matches!(topic, "." | "..")
        || !topic.chars().all(is_good)
    {
        let shown: String = topic.chars().take(LONGEST_TOPIC).collect();
        return Err(format!(
            "expected 1 to {LONGEST_TOPIC} letters, digits, `.`, `_` and `-`, found `{}`",
            shown.escape_debug()
        ));
    }
    Ok(())
}

impl Compression {
    const fn as_str(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Gzip => "gzip",
            Self::Snappy => "snappy",
            Self::Lz4 => "lz4",
            Self::Zstd => "zstd",
        }
    }
}

impl Partitioner {
    const fn as_str(self) -> &'static str {
        match self {
            Self::Murmur2 => "murmur2_random",
            Self::Crc32 => "consistent_random",
            Self::Fnv1a => "fnv1a_random",
            Self::Random => "random",
        }
    }
}
