//! The `config` of a flow file.

use std::{ops::RangeInclusive, time::Duration};

use rdkafka::ClientConfig;
use tremor_pdk::{
    metadata::{Place, Text},
    net::Address,
    prelude::*,
    units::{Interval, Size},
};

use crate::client::{Peer, Sasl, Tls};

/// The longest name of a topic, in characters.
const LONGEST_TOPIC: usize = 249;
/// The largest record that librdkafka can be allowed, in bytes.
const LARGEST_RECORD: u64 = 1_000_000_000;

/// Where records go, and how.
#[tremor_pdk::config]
#[derive(Clone, Debug)]
pub struct Config {
    /// The brokers that are asked first, `kafka-1:9092`. They name the others.
    #[schemars(example = example())]
    pub brokers: Vec<Address>,
    /// The topic: `orders`; or, as `%topic`, where the metadata of an event have it.
    #[schemars(example = &"events")]
    pub topic: Text,
    /// The key of each record, by which its partition is chosen: a text, or where the metadata have it. An event
    /// that has nothing there has no key.
    #[serde(default = "key")]
    pub key: Text,
    /// Where the metadata have the headers of the record: an object of texts or bytes, or lists of them.
    #[serde(default = "headers")]
    pub headers: Place,
    /// Where the metadata have the partition. Without it, or where an event has nothing there, `partitioner`
    /// chooses.
    pub partition: Option<Place>,
    /// Where the metadata have the time of the record, in milliseconds since 1970. Without it, or where an
    /// event has nothing there, that is the time at which it is sent.
    pub timestamp: Option<Place>,
    /// Who has a record when it counts as delivered.
    #[serde(default)]
    pub acks: Acks,
    /// How records are compressed, many together.
    #[serde(default)]
    pub compression: Compression,
    /// How the partition of a record follows from its key. Records without a key go anywhere.
    #[serde(default)]
    pub partitioner: Partitioner,
    /// How long a delivery may be under way. What is not acknowledged by then is delivered again, over
    /// another connection.
    #[serde(default = "timeout")]
    pub timeout: Interval,
    /// How long a record may wait for others that are sent together with it.
    #[serde(default = "linger")]
    pub linger: Interval,
    /// The largest record. What is larger goes to `err`, as does what the topic does not allow.
    #[serde(default = "max_record_bytes")]
    pub max_record_bytes: Size,
    /// Maximum bytes of records that wait in the client. Further ones wait before it. Less if the memory limit of the
    /// process does not have them.
    #[serde(default = "max_buffer_bytes")]
    pub max_buffer_bytes: Size,
    /// Who this client is.
    pub sasl: Option<Sasl>,
    /// How the brokers are known, and this client to them.
    pub tls: Option<Tls>,
}

/// Who has a record when it counts as delivered.
#[tremor_pdk::config]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub enum Acks {
    /// All replicas that are in sync. The records are numbered, so that one that is sent again is not there twice.
    #[default]
    All,
    /// The leader of the partition. If it is lost before another has the record, the record is lost.
    Leader,
}

/// How records are compressed.
#[tremor_pdk::config]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub enum Compression {
    /// Not at all.
    #[default]
    None,
    /// With gzip.
    Gzip,
    /// With snappy.
    Snappy,
    /// With LZ4.
    Lz4,
    /// With zstd.
    Zstd,
}

/// How the partition of a record follows from its key.
#[tremor_pdk::config]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub enum Partitioner {
    /// As the clients in Java do it.
    #[default]
    Murmur2,
    /// As clients on librdkafka do it if nothing is said.
    Crc32,
    /// As some clients in Go do it.
    Fnv1a,
    /// Anywhere, whatever the key.
    Random,
}

const fn example() -> [&'static str; 1] {
    ["127.0.0.1:9"]
}

fn key() -> Text {
    "%key".parse().map_or_else(|_| Text::Fixed(String::new()), Text::At)
}

fn headers() -> Place {
    #[allow(clippy::expect_used)] // it is the same at any time, and a test looks
    "%headers".parse().expect("a path")
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

/// A configuration that was checked.
pub(super) struct Settings {
    /// Those of librdkafka.
    pub(super) properties: ClientConfig,
    pub(super) brokers: String,
    pub(super) topic: Text,
    pub(super) key: Text,
    pub(super) headers: Place,
    pub(super) partition: Option<Place>,
    pub(super) timestamp: Option<Place>,
    pub(super) timeout: Duration,
    /// Bytes of records that may wait in the client, at least and at most.
    pub(super) buffer: RangeInclusive<u64>,
}

impl Settings {
    /// # Errors
    /// Kind configuration: the key, what was found and what was expected. A secret is in no error.
    pub(super) fn new(config: Config, host: &Host) -> Result<Self> {
        if let Text::Fixed(topic) = &config.topic {
            check_topic(topic)
                .map_err(|why| Error::configuration(format_args!("`topic`: {why}")))?;
        }
        let record = config.max_record_bytes.get();
        if !(1_000..=LARGEST_RECORD).contains(&record) {
            return Err(Error::configuration(format_args!(
                "`max_record_bytes`: expected 1000 to {LARGEST_RECORD} bytes, found {record}"
            )));
        }
        let buffer = config.max_buffer_bytes.get();
        // In KiB, as librdkafka counts.
        let most = u64::from(i32::MAX.unsigned_abs()) << 10;
        if !(record.max(64 << 10)..=most).contains(&buffer) {
            return Err(Error::configuration(format_args!(
                "`max_buffer_bytes`: expected {} (room for one record) to {most} bytes, found {buffer}",
                record.max(64 << 10)
            )));
        }
        let linger = config.linger.get();
        if linger > Duration::from_mins(1) || linger >= config.timeout.get() {
            return Err(Error::configuration(format_args!(
                "`linger`: expected a minute at most, and less than `timeout`, found {}",
                config.linger
            )));
        }
        let peer =
            Peer { brokers: &config.brokers, sasl: config.sasl.as_ref(), tls: config.tls.as_ref() };
        let mut properties = peer.properties(host)?;
        // A broker that is silent, and one that has moved a partition, are to be noticed before the delivery is
        // given up.
        let request =
            (config.timeout.get() / 3).clamp(Duration::from_secs(1), Duration::from_secs(10));
        let request = request.as_millis().to_string();
        properties
            .set("compression.type", config.compression.as_str())
            .set("partitioner", config.partitioner.as_str())
            .set("linger.ms", format!("{:.3}", linger.as_secs_f64() * 1e3))
            .set("message.max.bytes", record.to_string())
            // The bound is that in bytes.
            .set("queue.buffering.max.messages", "0")
            // The sink itself gives up, with all records at a time: none overtakes another.
            .set("message.timeout.ms", "0")
            .set("request.timeout.ms", &request)
            .set("socket.timeout.ms", &request)
            .set("topic.metadata.propagation.max.ms", &request)
            // So often the task that hears of records is woken, whatever else happens: it looks at the time then.
            .set("statistics.interval.ms", look(config.timeout.get()).to_string())
            // After that a topic that was refused is tried again.
            .set("topic.metadata.refresh.interval.ms", "60000");
        match config.acks {
            Acks::All => {
                properties.set("acks", "all").set("enable.idempotence", "true");
            }
            Acks::Leader => {
                // One request at a time: a record that is sent again would come after the next.
                properties.set("acks", "1").set("max.in.flight.requests.per.connection", "1");
            }
        }
        let brokers: Vec<String> = config.brokers.iter().map(Address::to_string).collect();
        Ok(Self {
            properties,
            brokers: brokers.join("`, `"),
            topic: config.topic,
            key: config.key,
            headers: config.headers,
            partition: config.partition,
            timestamp: config.timestamp,
            timeout: config.timeout.get(),
            buffer: record.max(64 << 10)..=buffer,
        })
    }
}

/// How often is looked whether a delivery takes too long, in milliseconds.
fn look(timeout: Duration) -> u128 {
    (timeout / 4).as_millis().clamp(1, 1_000)
}

/// # Errors
/// What a name of a topic is, and what it is not.
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
