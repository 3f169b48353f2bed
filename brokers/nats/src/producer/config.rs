//! The `config` of a flow file.

use std::time::Duration;

use tremor_pdk::{net::Address, prelude::*, units::Interval};

use super::field::{Place, Text};
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
    /// How long a stream may take to confirm a message. After that it is published again.
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
        let peer = Peer::new(&config.servers, config.auth.as_ref(), config.tls.as_ref(), host)?;
        Ok(Self {
            peer,
            subject: config.subject,
            headers: config.headers,
            message_id: config.message_id,
            jetstream: config.jetstream,
            timeout: config.timeout.get(),
        })
    }
}

/// # Errors
/// What a subject to publish to is, and what it is not.
pub(super) fn check_subject(subject: &str) -> std::result::Result<(), String> {
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
