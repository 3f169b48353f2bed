//! The `config` of a flow file.

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

/// What to read, and as whom.
#[tremor_pdk::config]
#[derive(Clone, Debug)]
pub struct Config {
    /// The addresses of some servers, `HOST:PORT`. One of them is used, and the others where it is lost.
    #[schemars(example = one("127.0.0.1:4222"))]
    pub servers: Vec<Address>,
    /// The stream of JetStream. Without, `subjects` of core NATS are read.
    #[schemars(example = &"ORDERS")]
    pub stream: Option<String>,
    /// The durable consumer of the stream, which is made if there is none. All that read as the same one share its
    /// messages.
    #[schemars(example = &"billing")]
    pub consumer: Option<String>,
    /// The subjects, with wildcards: `[orders.>]`. Of a stream: which messages of it the consumer gets; unless
    /// set, all.
    #[serde(default)]
    pub subjects: Vec<String>,
    /// Without `stream`: of all that read with the same name, one gets each message.
    pub queue: Option<String>,
    /// Where a consumer that is made begins: `earliest`, `latest`, the number of a message in the stream, or a
    /// time, such as `2026-11-23T10:00:00Z`.
    pub start: Option<Start>,
    /// After how much time without a sign of life a message comes again: 30 seconds, unless the consumer has
    /// another. While the flow holds a message, the server gets such a sign.
    pub ack_wait: Option<Interval>,
    /// How many messages may be without an answer, of all that read as this consumer: 1000, unless the consumer
    /// has another bound.
    pub max_ack_pending: Option<u32>,
    /// How often a message comes at most. Unless set, until it is acknowledged.
    pub max_deliver: Option<u32>,
    /// How long the server waits before it brings a message again that has failed.
    #[serde(default = "retry_delay")]
    pub retry_delay: Interval,
    /// Whether the server is to confirm acknowledgements.
    #[serde(default)]
    pub ack: Acknowledge,
    /// How many messages are fetched ahead of the flow.
    #[serde(default = "prefetch")]
    pub prefetch: u32,
    /// Who this client is.
    pub auth: Option<Auth>,
    /// TLS. Unless set, connections are as the servers ask for.
    pub tls: Option<Tls>,
}

/// How acknowledgements are sent.
#[tremor_pdk::config]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub enum Acknowledge {
    /// Once. If one is lost with the connection, the message comes again.
    #[default]
    Simple,
    /// The server confirms each. What it does not confirm is counted.
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

/// Where a consumer begins.
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

/// A configuration that was checked.
pub(super) struct Settings {
    pub(super) peer: Peer,
    pub(super) from: From,
    pub(super) prefetch: u32,
}

/// What is read.
pub(super) enum From {
    Stream(Durable),
    Core { subjects: Vec<String>, queue: Option<String> },
}

/// A durable consumer.
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
    /// # Errors
    /// Kind configuration: the key, what was found and what was expected. A secret is in no error.
    pub(super) fn new(config: Config, host: &Host) -> Result<Self> {
        let peer = Peer::new(&config.servers, config.auth.as_ref(), config.tls.as_ref(), host)?;
        config.subjects.iter().try_for_each(|subject| check_filter(subject))?;
        let prefetch = config.prefetch;
        if !(1..=100_000).contains(&prefetch) {
            return Err(Error::configuration(format_args!(
                "`prefetch`: expected 1 to 100000 messages, found {prefetch}"
            )));
        }
        let from = match (&config.stream, &config.consumer) {
            (Some(_), _) => From::Stream(Durable::new(config)?),
            (None, None) => core(config)?,
            (None, Some(_)) => {
                return Err(Error::configuration(
                    "`consumer` is one of a stream: name it as `stream`, or use `subjects` and `queue`",
                ));
            }
        };
        Ok(Self { peer, from, prefetch })
    }
}

impl Durable {
    fn new(config: Config) -> Result<Self> {
        let (Some(stream), Some(consumer)) = (config.stream, config.consumer) else {
            return Err(Error::configuration(
                "`consumer`: expected the name of a durable consumer of the stream, such as `billing`",
            ));
        };
        if config.queue.is_some() {
            return Err(Error::configuration(
                "`queue` is for subjects without a stream: all that read as the same `consumer` share its messages",
            ));
        }
        check_name("stream", &stream)?;
        check_name("consumer", &consumer)?;
        let counts =
            [("max_ack_pending", config.max_ack_pending), ("max_deliver", config.max_deliver)];
        for (key, count) in counts {
            if count == Some(0) {
                return Err(Error::configuration(format_args!(
                    "`{key}`: expected 1 at least, found 0"
                )));
            }
        }
        let ack_wait = config.ack_wait.map(Interval::get);
        if ack_wait.is_some_and(|it| it < Duration::from_millis(100)) {
            return Err(Error::configuration("`ack_wait`: expected 100ms at least"));
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

fn core(config: Config) -> Result<From> {
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
            "`{key}` is for streams: name one as `stream`, or leave it out"
        )));
    }
    if let Some(queue) = &config.queue {
        check_name("queue", queue)?;
    }
    Ok(From::Core { subjects: config.subjects, queue: config.queue })
}

fn check_name(key: &str, name: &str) -> Result<()> {
    let is_bad = |it: char| {
        it.is_whitespace() || it.is_control() || matches!(it, '.' | '*' | '>' | '/' | '\\')
    };
    if !name.is_empty() && !name.contains(is_bad) {
        return Ok(());
    }
    Err(Error::configuration(format_args!(
        "`{key}`: expected a name without spaces, `.`, `*`, `>`, `/` and `\\`, found {name:?}"
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
        "`subjects`: expected words with `.` between them, `*` in the place of a word, or `>` at the end, found \
         {subject:?}"
    )))
}
