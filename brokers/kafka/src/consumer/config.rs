//! The `config` of a flow file.

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

/// How long a member may take for a rebalance: as long as it takes to drain what was revoked, and more.
const REBALANCE: Duration = Duration::from_mins(5);

/// Which topics to read, from where, and as whom.
#[tremor_pdk::config]
#[derive(Clone, Debug)]
pub struct Config {
    /// The addresses of some brokers, `HOST:PORT`. They know the others.
    #[schemars(example = one("127.0.0.1:9092"))]
    pub brokers: Vec<Address>,
    /// The topics: names, and patterns, which begin with `^`: `[orders, '^logs-.*']`.
    #[schemars(example = one("orders"))]
    pub topics: Vec<String>,
    /// The consumer group: its members share the partitions, and what it has committed is not read again.
    pub group: String,
    /// The name of this process among the members of the group, which no other one has (static membership): one that
    /// ends and is there again within `session_timeout` has its partitions again, and the others notice nothing.
    /// Unless set, or if it is empty, its partitions go to others as soon as it ends.
    #[serde(default)]
    pub instance: String,
    /// Where to begin with a partition of which the group has committed nothing: `earliest`, `latest`, or a
    /// time, such as `2026-11-23T10:00:00Z`.
    #[serde(default)]
    pub start: Start,
    /// Who this client is.
    pub sasl: Option<Sasl>,
    /// TLS. Unless set, connections are as they are.
    pub tls: Option<Tls>,
    /// How often what is acknowledged is committed.
    #[serde(default = "commit_interval")]
    pub commit_interval: Interval,
    /// How long a partition that goes to another member may take until what was read of it is acknowledged. After
    /// that it goes, and what is not acknowledged comes twice. Less than `5m`.
    #[serde(default = "drain_timeout")]
    pub drain_timeout: Interval,
    /// After how much time without a sign of life the group gives the partitions of this member to others.
    #[serde(default = "session_timeout")]
    pub session_timeout: Interval,
    /// How often the brokers are asked for topics and partitions that are new.
    #[serde(default = "refresh_interval")]
    pub refresh_interval: Interval,
    /// Maximum bytes that are fetched ahead of the flow, of all partitions together. Less if the memory limit of the
    /// process does not have them.
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

/// Where to begin with a partition of which the group has committed nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Start {
    /// With the oldest record that there is.
    #[default]
    Earliest,
    /// With what comes after the group has got the partition for the first time.
    Latest,
    /// With the first record of this time or later, in ms since the Unix epoch.
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

/// A configuration that was checked.
pub(super) struct Settings {
    pub(super) properties: ClientConfig,
    pub(super) topics: Vec<String>,
    pub(super) start: Start,
    pub(super) commit_interval: Duration,
    pub(super) drain_timeout: Duration,
    /// In bytes.
    pub(super) prefetch: u64,
}

impl Settings {
    /// # Errors
    /// Kind configuration: the key, what was found and what was expected.
    pub(super) fn new(config: &Config, host: &Host) -> Result<Self> {
        let peer =
            Peer { brokers: &config.brokers, sasl: config.sasl.as_ref(), tls: config.tls.as_ref() };
        let mut properties = peer.properties(host)?;
        if config.topics.is_empty() {
            return Err(Error::configuration(
                "`topics`: expected a name or a pattern at least, such as `orders` or `^logs-.*`",
            ));
        }
        config.topics.iter().try_for_each(|topic| check_topic(topic))?;
        if config.group.is_empty() || config.group.contains('\0') {
            return Err(Error::configuration("`group`: expected a name"));
        }
        check_instance(&config.instance)?;
        if config.drain_timeout.get() >= REBALANCE {
            return Err(Error::configuration(format_args!(
                "`drain_timeout`: expected less than `5m`, after which the group goes on without this member, \
                 found `{}`",
                config.drain_timeout
            )));
        }
        let session = ms("session_timeout", config.session_timeout, 1_000, 3_600_000)?;
        let refresh = ms("refresh_interval", config.refresh_interval, 10, 3_600_000)?;
        let prefetch = config.prefetch.get() >> 10;
        if !(1..=2_097_151).contains(&prefetch) {
            return Err(Error::configuration(format_args!(
                "`prefetch`: expected from `1KiB` to less than `2GiB`, found {} bytes",
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
            // A request that waits for records holds up partitions that it does not name: those that were just
            // assigned or have just gone on.
            .set("fetch.wait.max.ms", "50")
            // Where there is nothing at an offset, the partition begins with its oldest record, whatever `start`
            // says. That is ours to do: records with lower offsets would be taken for those that came before.
            .set("auto.offset.reset", "error")
            // What is committed is what was acknowledged.
            .set("enable.auto.commit", "false")
            .set("enable.auto.offset.store", "false")
            // Once so much is fetched, a partition is looked at again after that. For the second that it is unless
            // set, a flow that is faster than that has nothing to do.
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

/// Kafka's rule for names of instances.
fn check_instance(name: &str) -> Result<()> {
    let is_good = |it: u8| it.is_ascii_alphanumeric() || b"._-".contains(&it);
    if name.len() <= 249 && name != "." && name != ".." && name.bytes().all(is_good) {
        return Ok(());
    }
    Err(Error::configuration(format_args!(
        "`instance`: expected a name of up to 249 letters, digits, `.`, `_` and `-`, found {name:?}"
    )))
}

/// Kafka's rule for names; a pattern is librdkafka's to check.
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
        "`topics`: expected a name of up to 249 letters, digits, `.`, `_` and `-`, or a pattern that begins with \
         `^`, found {topic:?}"
    )))
}

fn ms(key: &str, interval: Interval, least: u32, most: u32) -> Result<u32> {
    let ms = u32::try_from(interval.get().as_millis()).ok();
    ms.filter(|ms| (least..=most).contains(ms)).ok_or_else(|| {
        Error::configuration(format_args!(
            "`{key}`: expected from {least} to {most} ms, found `{interval}`"
        ))
    })
}
