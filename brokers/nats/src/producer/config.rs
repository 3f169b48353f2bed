//! The `config` of a flow file.

use std::time::Duration;

use tremor_pdk::{
    metadata::{Place, Text},
    net::Address,
    prelude::*,
    units::Interval,
};

use crate::client::{Auth, Peer, Tls};

/// Where messages go, and how.
#[tremor_pdk::config]
#[derive(Clone, Debug)]
pub struct Config {
    /// The addresses of some servers, `HOST:PORT`. One of them is used, and the others where it is lost.
    #[schemars(example = example())]
    pub servers: Vec<Address>,
    /// The subject: `orders.new`; or, as `%subject`, where the metadata of an event have it.
    #[schemars(example = &"events")]
    pub subject: Text,
    /// Where the metadata have the headers of the message: an object of texts, or lists of them.
    #[serde(default = "headers")]
    pub headers: Place,
    /// Where the metadata have the text by which a stream knows a message that it has already (`Nats-Msg-Id`).
    /// An event that has nothing there has none.
    pub message_id: Option<Place>,
    /// Whether a stream is to confirm each message. Without, nobody does.
    #[serde(default = "yes")]
    pub jetstream: bool,
    /// Whether headers whose names begin with `Nats-` are sent as well. They tell the server what to do: to
    /// drop messages of the stream, say. Without, they are left out.
    #[serde(default)]
    pub server_headers: bool,
    /// How many messages of a delivery wait for their confirmation at a time. With 1, no message comes before one
    /// that is published again.
    #[serde(default = "window")]
    #[schemars(range(min = 1, max = 65536))]
    pub window: usize,
    /// How long a stream may take to confirm a message. After that it is published again. Without streams: how long
    /// the server may take to have seen the messages.
    #[serde(default = "timeout")]
    pub timeout: Interval,
    /// Who this client is.
    pub auth: Option<Auth>,
    /// TLS. Unless set, connections are as the servers ask for.
    pub tls: Option<Tls>,
}

const fn example() -> [&'static str; 1] {
    ["127.0.0.1:4222"]
}

fn headers() -> Place {
    #[allow(clippy::expect_used)] // it is the same at any time, and a test looks
    "%headers".parse().expect("a path")
}

const fn yes() -> bool {
    true
}

const fn window() -> usize {
    4_096
}

const fn timeout() -> Interval {
    Interval::of_ms(10_000)
}

/// A configuration that was checked.
pub(super) struct Settings {
    pub(super) peer: Peer,
    pub(super) subject: Text,
    pub(super) headers: Place,
    pub(super) message_id: Option<Place>,
    pub(super) jetstream: bool,
    pub(super) server_headers: bool,
    pub(super) window: usize,
    pub(super) timeout: Duration,
}

impl Settings {
    /// # Errors
    /// Kind configuration: the key, what was found and what was expected. A secret is in no error.
    pub(super) fn new(config: Config, host: &Host) -> Result<Self> {
        if let Text::Fixed(subject) = &config.subject {
            check_subject(subject)
                .map_err(|why| Error::configuration(format_args!("`subject`: {why}")))?;
        }
        if !config.jetstream && config.message_id.is_some() {
            return Err(Error::configuration(
                "`message_id` is for streams, and `jetstream` is off: leave one of them out",
            ));
        }
        if !(1..=65_536).contains(&config.window) {
            return Err(Error::configuration(format_args!(
                "`window`: expected 1 to 65536 messages, found {}",
                config.window
            )));
        }
        let peer = Peer::new(&config.servers, config.auth.as_ref(), config.tls.as_ref(), host)?;
        Ok(Self {
            peer,
            subject: config.subject,
            headers: config.headers,
            message_id: config.message_id,
            jetstream: config.jetstream,
            server_headers: config.server_headers,
            window: config.window,
            timeout: config.timeout.get(),
        })
    }
}

/// How long a subject may be, in bytes. A server closes the connection if a line is longer than 4096 bytes, and that
/// with the subject has the one for the answer and some numbers as well.
const LONGEST: usize = 3_900;

/// What only the server and those that manage it have to do with.
const MANAGES: [&str; 3] = ["$JS.", "$SYS.", "$SRV."];

/// # Errors
/// What a subject is that an event may choose, and what it is not: `$JS.API.STREAM.DELETE.ORDERS` is one as well.
pub(super) fn check_chosen(subject: &str) -> std::result::Result<(), String> {
    if let Some(prefix) = MANAGES.iter().find(|it| subject.starts_with(**it)) {
        return Err(format!(
            "subjects with `{prefix}` before them are for those who manage servers: an event cannot name one"
        ));
    }
    check_subject(subject)
}

/// # Errors
/// What a subject to publish to is, and what it is not.
pub(super) fn check_subject(subject: &str) -> std::result::Result<(), String> {
    if subject.len() > LONGEST {
        return Err(format!("expected {LONGEST} bytes at most, found {}", subject.len()));
    }
    let is_good = |token: &str| {
        !token.is_empty()
            && !matches!(token, "*" | ">")
            && !token.chars().any(|it| it.is_whitespace() || it.is_control())
    };
    if subject.split('.').all(is_good) {
        return Ok(());
    }
    let shown: String = subject.chars().take(200).collect();
    Err(format!(
        "expected words with `.` between them, without spaces and wildcards, found `{}`",
        shown.escape_debug()
    ))
}
