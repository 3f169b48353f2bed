//! Configuration of `nats_consumer` in a flow file.

use std::{borrow::Cow, time::Duration};

use async_nats::{datetime::parse_rfc3339, jetstream::consumer::DeliverPolicy};
use tremor_pdk::{
    net::Address,
    prelude::*,
    schemars::{JsonSchema, Schema, SchemaGenerator, json_schema},
    serde::{Deserialize, Deserializer, de::Error as _},
    units::Interval,
};

use crate::client::{Auth, Peer, Tls};

/// Messages to read, and the consumer or queue group that reads them.
#[tremor_pdk::config]
#[derive(Clone, Debug)]
pub struct Config {
    /// Addresses of some servers, `HOST:PORT`. The client connects to one of them, and to another if that
    /// connection is lost.
    #[schemars(example = one("127.0.0.1:4222"))]
    pub servers: Vec<Address>,
    /// Stream of JetStream. If unset, `subjects` of core NATS are read.
    #[schemars(example = &"ORDERS")]
    pub stream: Option<String>,
    /// Durable consumer of the stream, created if it does not exist. All readers of the same consumer share its
    /// messages.
    #[schemars(example = &"billing")]
    pub consumer: Option<String>,
    /// Subjects, with wildcards: `[orders.>]`. With `stream`, they select the messages that the consumer gets;
    /// all if unset.
    #[serde(default)]
    pub subjects: Vec<String>,
    /// Queue group, without `stream`. Each message goes to one reader of the group.
    pub queue: Option<String>,
    /// Start of a new consumer: `earliest`, `latest`, the sequence number of a message in the stream, or a
    /// time, such as `2026-11-23T10:00:00Z`.
    pub start: Option<Start>,
    /// Time without an answer or a progress report after which a message is redelivered: 30 seconds, unless the
    /// consumer has another value. The connector reports progress for messages that are in the flow.
    pub ack_wait: Option<Interval>,
    /// Maximum number of unanswered messages, of all readers of this consumer: 1000, unless the consumer has
    /// another limit.
    pub max_ack_pending: Option<u32>,
    /// Maximum number of deliveries of a message. Unless set, a message is redelivered until it is
    /// acknowledged.
    pub max_deliver: Option<u32>,
    /// Time that the server waits before it redelivers a failed message.
    #[serde(default = "retry_delay")]
    pub retry_delay: Interval,
    /// Whether the server confirms acknowledgements.
    #[serde(default)]
    pub ack: Acknowledge,
    /// Number of messages that are fetched ahead of the flow.
    #[serde(default = "prefetch")]
    pub prefetch: u32,
    /// Credentials of this client.
    pub auth: Option<Auth>,
    /// TLS settings. Unless set, TLS is used only if the server requires it.
    pub tls: Option<Tls>,
}

/// Whether the server confirms acknowledgements.
#[tremor_pdk::config]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub enum Acknowledge {
    /// Each acknowledgement is sent once. If it is lost with the connection, the message is redelivered.
    #[default]
    Simple,
    /// The server confirms each acknowledgement. Acknowledgements without confirmation are counted.
    Double,
}

fn one(example: &str) -> [&str; 1] {
    [example]
}

const fn retry_delay() -> Interval {
    Interval::of_ms(1_000)
}

const fn prefetch() -> u32 {
    500
}

/// Start of a new consumer.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Start(pub(super) DeliverPolicy);

impl<'de> Deserialize<'de> for Start {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(crate = "tremor_pdk::serde", untagged)]
        enum Either {
            Number(u64),
            Text(String),
        }
        let text = match Either::deserialize(deserializer)? {
            Either::Number(start_sequence) => {
                return Ok(Self(DeliverPolicy::ByStartSequence { start_sequence }));
            }
            Either::Text(text) => text,
        };
        match &*text {
            "earliest" => Ok(Self(DeliverPolicy::All)),
            "latest" => Ok(Self(DeliverPolicy::New)),
            _ => parse_rfc3339(&text)
                .map(|start_time| Self(DeliverPolicy::ByStartTime { start_time }))
                .map_err(|_| {
                    D::Error::custom(format_args!(
                        "expected `earliest`, `latest`, a number or a time with its zone, such as \
                         `2026-11-23T10:00:00Z`, found `{text}`"
                    ))
                }),
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
            { "type": "integer", "minimum": 1 },
            { "type": "string", "format": "date-time" }
        ] })
    }
}

/// The checked configuration.
pub(super) struct Settings {
    pub(super) peer: Peer,
    pub(super) input: Input,
    pub(super) prefetch: u32,
}

/// Kind of messages to read.
pub(super) enum Input {
    Stream(Durable),
    Core { subjects: Vec<String>, queue: Option<String> },
}

/// Configuration of a durable consumer.
pub(super) struct Durable {
    pub(super) stream: String,
    pub(super) consumer: String,
    pub(super) subjects: Vec<String>,
    pub(super) start: DeliverPolicy,
    pub(super) ack_wait: Option<Duration>,
    pub(super) max_ack_pending: Option<u32>,
    pub(super) max_deliver: Option<u32>,
    pub(super) retry_delay: Duration,
    pub(super) ack: Acknowledge,
}

impl Settings {
    /// Checks a configuration.
    ///
    /// # Errors
    /// An error of the kind configuration, with the key, the value that was found and the values
    /// that were expected. The error never contains a secret.
    pub(super) fn new(config: Config, host: &Host) -> Result<Self> {
        let peer = Peer::new(&config.servers, config.auth.as_ref(), config.tls.as_ref(), host)?;
        config.subjects.iter().try_for_each(|subject| check_filter(subject))?;
        let prefetch = config.prefetch;
        if !(1..=100_000).contains(&prefetch) {
            return Err(Error::configuration(format_args!(
                "invalid `prefetch`: expected 1 to 100000 messages, found {prefetch}"
            )));
        }
        let input = match (&config.stream, &config.consumer) {
            (Some(_), _) => Input::Stream(Durable::new(config)?),
            (None, None) => core(config)?,
            (None, Some(_)) => {
                return Err(Error::configuration(
                    "invalid `consumer`: it needs the stream that it reads; set `stream`, or use `subjects` and `queue`",
                ));
            }
        };
        Ok(Self { peer, input, prefetch })
    }
}

impl Durable {
    fn new(config: Config) -> Result<Self> {
        let (Some(stream), Some(consumer)) = (config.stream, config.consumer) else {
            return Err(Error::configuration(
                "invalid `consumer`: expected the name of a durable consumer of the stream, such as `billing`",
            ));
        };
        if config.queue.is_some() {
            return Err(Error::configuration(
                "invalid `queue`: the key needs `subjects` without `stream`; remove it, because all readers of the same \
                 `consumer` share its messages anyway",
            ));
        }
        check_name("stream", &stream)?;
        check_name("consumer", &consumer)?;
        let counts =
            [("max_ack_pending", config.max_ack_pending), ("max_deliver", config.max_deliver)];
        for (key, count) in counts {
            if count == Some(0) {
                return Err(Error::configuration(format_args!(
                    "invalid `{key}`: expected at least 1, found 0"
                )));
            }
        }
        let ack_wait = config.ack_wait.map(Interval::get);
        if ack_wait.is_some_and(|it| it < Duration::from_millis(100)) {
            return Err(Error::configuration("invalid `ack_wait`: expected at least 100ms"));
        }
        Ok(Self {
            stream,
            consumer,
            subjects: config.subjects,
            start: config.start.unwrap_or_default().0,
            ack_wait,
            max_ack_pending: config.max_ack_pending,
            max_deliver: config.max_deliver,
            retry_delay: config.retry_delay.get(),
            ack: config.ack,
        })
    }
}

fn core(config: Config) -> Result<Input> {
    if config.subjects.is_empty() {
        return Err(Error::configuration(
            "expected `stream` and `consumer`, or `subjects` of core NATS, such as `[orders.>]`",
        ));
    }
    let only_streams = [
        ("start", config.start.is_some()),
        ("ack_wait", config.ack_wait.is_some()),
        ("max_ack_pending", config.max_ack_pending.is_some()),
        ("max_deliver", config.max_deliver.is_some()),
        ("ack", config.ack == Acknowledge::Double),
    ];
    if let Some((key, _)) = only_streams.iter().find(|(_, is_set)| *is_set) {
        return Err(Error::configuration(format_args!(
            "invalid `{key}`: the key needs a stream; set `stream`, or remove the key"
        )));
    }
    if let Some(queue) = &config.queue {
        check_name("queue", queue)?;
    }
    Ok(Input::Core { subjects: config.subjects, queue: config.queue })
}

fn check_name(key: &str, name: &str) -> Result<()> {
    let is_bad = |it: char| {
        it.is_whitespace() || it.is_control() || matches!(it, '.' | '*' | '>' | '/' | '\\')
    };
    if !name.is_empty() && !name.contains(is_bad) {
        return Ok(());
    }
    Err(Error::configuration(format_args!(
        "invalid `{key}`: expected a name without spaces, `.`, `*`, `>`, `/` and `\\`, found {name:?}"
    )))
}

fn check_filter(subject: &str) -> Result<()> {
    let tokens: Vec<_> = subject.split('.').collect();
    let last = tokens.len() - 1;
    let is_good = |(at, token): (usize, &&str)| {
        !token.is_empty()
            && (*token != ">" || at == last)
            && !token.chars().any(|it| it.is_whitespace() || it.is_control())
    };
    if tokens.iter().enumerate().all(is_good) {
        return Ok(());
    }
    Err(Error::configuration(format_args!(
        "invalid `subjects`: expected words separated by `.`, with `*` instead of a word, or `>` at the end, found \
         {subject:?}"
    )))
}
