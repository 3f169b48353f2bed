//! Configuration of `kafka_consumer` in a flow file.

use std::{borrow::Cow, time::Duration};

use rdkafka::ClientConfig;
use tremor_pdk::{
    net::Address,
    prelude::*,
    schemars::{JsonSchema, Schema, SchemaGenerator, json_schema},
    serde::{Deserialize, Deserializer, de::Error as _},
    units::{Interval, Size},
};

use crate::client::{Peer, Sasl, Tls};

/// Maximum time that a member has to answer a rebalance (`max.poll.interval.ms`). Longer than each permitted
/// `drain_timeout`, so that a member can drain its revoked partitions.
const REBALANCE: Duration = Duration::from_mins(5);

/// Topics to read, where to start, and the group to join.
#[tremor_pdk::config]
#[derive(Clone, Debug)]
pub struct Config {
    /// Addresses of some brokers, `HOST:PORT`. The client learns the other brokers from them.
    #[schemars(example = one("127.0.0.1:9092"))]
    pub brokers: Vec<Address>,
    /// Topics to read: names, and patterns that begin with `^`, such as `[orders, '^logs-.*']`.
    #[schemars(example = one("orders"))]
    pub topics: Vec<String>,
    /// Consumer group. Its members share the partitions, and records that the group has committed are not read
    /// again.
    pub group: String,
    /// Unique name of this process among the members of the group (static membership). A process that restarts
    /// within `session_timeout` gets its partitions back without a rebalance of the other members. If unset or
    /// empty, its partitions go to other members as soon as it ends.
    #[serde(default)]
    pub instance: String,
    /// Start of a partition of which the group has committed nothing: `earliest`, `latest`, or a time, such as
    /// `2026-11-23T10:00:00Z`.
    #[serde(default)]
    pub start: Start,
    /// Credentials of this client.
    pub sasl: Option<Sasl>,
    /// TLS settings. Unless set, connections are not encrypted.
    pub tls: Option<Tls>,
    /// Interval between commits of acknowledged records.
    #[serde(default = "commit_interval")]
    pub commit_interval: Interval,
    /// Maximum time to wait until all records that were read from a revoked partition are acknowledged. After that the
    /// partition goes to another member, and records that are not acknowledged are delivered twice. Less than `5m`.
    #[serde(default = "drain_timeout")]
    pub drain_timeout: Interval,
    /// Time without a heartbeat after which the group gives the partitions of this member to
    /// others.
    #[serde(default = "session_timeout")]
    pub session_timeout: Interval,
    /// Interval at which the brokers are asked for new topics and partitions.
    #[serde(default = "refresh_interval")]
    pub refresh_interval: Interval,
    /// Maximum number of bytes that are fetched ahead of the flow, from all partitions together.
    /// Reduced if the memory limit of the process does not allow that many.
    #[serde(default = "prefetch")]
    pub prefetch: Size,
}

fn one(example: &str) -> [&str; 1] {
    [example]
}

const fn commit_interval() -> Interval {
    Interval::of_ms(1_000)
}

const fn drain_timeout() -> Interval {
    Interval::of_ms(30_000)
}

const fn session_timeout() -> Interval {
    Interval::of_ms(45_000)
}

const fn refresh_interval() -> Interval {
    Interval::of_ms(60_000)
}

const fn prefetch() -> Size {
    Size::of_bytes(64 << 20)
}

/// Start of a partition of which the group has committed nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Start {
    /// The oldest record that the partition contains.
    #[default]
    Earliest,
    /// The first record written after the group first got the partition.
    Latest,
    /// The first record of this time or later, in ms since the Unix epoch.
    Time(i64),
}

impl<'de> Deserialize<'de> for Start {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        match &*text {
            "earliest" => Ok(Self::Earliest),
            "latest" => Ok(Self::Latest),
            _ => text.parse::<jiff::Timestamp>().map_or_else(
                |_| {
                    Err(D::Error::custom(format_args!(
                        "expected `earliest`, `latest` or a time with its zone, such as \
                         `2026-11-23T10:00:00Z`, found `{text}`"
                    )))
                },
                |time| Ok(Self::Time(time.as_millisecond())),
            ),
        }
    }
}

impl JsonSchema for Start {
    fn schema_name() -> Cow<'static, str> {
        "Start".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_generator: &mut SchemaGenerator) -> Schema {
        json_schema!({ "anyOf": [
            { "enum": ["earliest", "latest"] },
            { "type": "string", "format": "date-time" }
        ] })
    }
}

/// The checked configuration.
pub(super) struct Settings {
    pub(super) properties: ClientConfig,
    pub(super) topics: Vec<String>,
    pub(super) start: Start,
    pub(super) commit_interval: Duration,
    pub(super) drain_timeout: Duration,
    /// Maximum number of bytes that are fetched ahead.
    pub(super) prefetch: u64,
}

impl Settings {
    /// Checks a configuration.
    ///
    /// # Errors
    /// An error of the kind configuration, with the key, the value that was found and the values
    /// that were expected.
    pub(super) fn new(config: &Config, host: &Host) -> Result<Self> {
        let peer =
            Peer { brokers: &config.brokers, sasl: config.sasl.as_ref(), tls: config.tls.as_ref() };
        let mut properties = peer.properties(host)?;
        if config.topics.is_empty() {
            return Err(Error::configuration(
                "invalid `topics`: expected at least one name or pattern, such as `orders` or `^logs-.*`",
            ));
        }
        config.topics.iter().try_for_each(|topic| check_topic(topic))?;
        if config.group.is_empty() || config.group.contains('\0') {
            return Err(Error::configuration(
                "invalid `group`: expected a name that is not empty and has no NUL character",
            ));
        }
        check_instance(&config.instance)?;
        if config.drain_timeout.get() >= REBALANCE {
            return Err(Error::configuration(format_args!(
                "invalid `drain_timeout`: expected less than `5m`, after which the group removes this member, \
                 found `{}`",
                config.drain_timeout
            )));
        }
        let session = ms("session_timeout", config.session_timeout, 1_000, 3_600_000)?;
        let refresh = ms("refresh_interval", config.refresh_interval, 10, 3_600_000)?;
        let prefetch = config.prefetch.get() >> 10;
        if !(1..=2_097_151).contains(&prefetch) {
            return Err(Error::configuration(format_args!(
                "invalid `prefetch`: expected from `1KiB` to less than `2GiB`, found {} bytes",
                config.prefetch.get()
            )));
        }
        properties
            .set("group.id", &config.group)
            .set("partition.assignment.strategy", "cooperative-sticky")
            .set("max.poll.interval.ms", REBALANCE.as_millis().max(session.into()).to_string())
            .set("session.timeout.ms", session.to_string())
            .set("heartbeat.interval.ms", (session / 10).clamp(100, 3_000).to_string())
            .set("topic.metadata.refresh.interval.ms", refresh.to_string())
            // Keep this wait short: while a broker waits for records to answer a request,
            // partitions that the request does not include have to wait too, for example newly
            // assigned partitions.
            .set("fetch.wait.max.ms", "50")
            // If a partition has no record at its offset, the connector restarts it with its oldest
            // record, whatever `start` is. librdkafka must not do that by itself, because the
            // connector would drop records with lower offsets as already read.
            .set("auto.offset.reset", "error")
            // The connector commits offsets itself, because only acknowledged offsets may be committed.
            .set("enable.auto.commit", "false")
            .set("enable.auto.offset.store", "false")
            // Delay until a partition is checked again after the prefetch queue was full. With the default of a second,
            // a fast flow would wait for records.
            .set("fetch.queue.backoff.ms", "20")
            .set("allow.auto.create.topics", "false");
        if !config.instance.is_empty() {
            properties.set("group.instance.id", &config.instance);
        }
        Ok(Self {
            properties,
            topics: config.topics.clone(),
            start: config.start,
            commit_interval: config.commit_interval.get(),
            drain_timeout: config.drain_timeout.get(),
            prefetch: config.prefetch.get(),
        })
    }
}

/// Checks a static member name by Kafka's rule.
fn check_instance(name: &str) -> Result<()> {
    let is_good = |it: u8| it.is_ascii_alphanumeric() || b"._-".contains(&it);
    if name.len() <= 249 && name != "." && name != ".." && name.bytes().all(is_good) {
        return Ok(());
    }
    Err(Error::configuration(format_args!(
        "invalid `instance`: expected a name of up to 249 letters, digits, `.`, `_` and `-`, found {name:?}"
    )))
}

/// Checks a topic name by Kafka's rule. Patterns are checked by librdkafka.
fn check_topic(topic: &str) -> Result<()> {
    let is_pattern = topic.starts_with('^') && !topic.contains('\0');
    let is_name = (1..=249).contains(&topic.len())
        && topic != "."
        && topic != ".."
        && topic.bytes().all(|it| it.is_ascii_alphanumeric() || b"._-".contains(&it));
    if is_pattern || is_name {
        return Ok(());
    }
    Err(Error::configuration(format_args!(
        "invalid `topics`: expected a name of up to 249 letters, digits, `.`, `_` and `-`, or a pattern that begins with \
         `^`, found {topic:?}"
    )))
}

fn ms(key: &str, interval: Interval, least: u32, most: u32) -> Result<u32> {
    let ms = u32::try_from(interval.get().as_millis()).ok();
    ms.filter(|ms| (least..=most).contains(ms)).ok_or_else(|| {
        Error::configuration(format_args!(
            "invalid `{key}`: expected from {least} to {most} ms, found `{interval}`"
        ))
    })
}
