//! Configuration of `nats_producer` in a flow file.

use std::time::Duration;

use tremor_pdk::{
    metadata::{FieldPath, Text},
    net::Address,
    prelude::*,
    units::Interval,
};

use crate::client::{Auth, Peer, Tls};

/// Subject, content and delivery of the messages.
#[tremor_pdk::config]
#[derive(Clone, Debug)]
pub struct Config {
    /// Addresses of some servers, `HOST:PORT`. The client connects to one of them, and to another if that
    /// connection is lost.
    #[schemars(example = example())]
    pub servers: Vec<Address>,
    /// Subject: a name such as `orders.new`, a template such as `logs.{host}`, or, as `%subject`, a path of the event's
    /// metadata.
    #[schemars(example = &"events")]
    pub subject: Text,
    /// Path of the message's headers in the metadata: an object of texts, or lists of them.
    #[serde(default = "headers")]
    pub headers: FieldPath,
    /// Path in the metadata of the ID by which a stream recognizes duplicates (`Nats-Msg-Id`). An event without a value
    /// at the path has no ID.
    pub message_id: Option<FieldPath>,
    /// `true` if a stream has to confirm each message.
    #[serde(default = "yes")]
    pub jetstream: bool,
    /// `true` if headers whose names begin with `Nats-` are sent too. Such headers control the
    /// server: for example, they can delete messages of the stream. By default they are left out.
    #[serde(default)]
    pub server_headers: bool,
    /// Maximum number of messages of a delivery that wait for their confirmation. With 1, no message overtakes an
    /// earlier message that has to be published again.
    #[serde(default = "window")]
    #[schemars(range(min = 1, max = 65536))]
    pub window: usize,
    /// Maximum time until a stream confirms a message; after that the message is published again. Without
    /// JetStream, maximum time until the server has processed the messages.
    #[serde(default = "timeout")]
    pub timeout: Interval,
    /// Credentials of this client.
    pub auth: Option<Auth>,
    /// TLS settings. Unless set, TLS is used only if the server requires it.
    pub tls: Option<Tls>,
}

const fn example() -> [&'static str; 1] {
    ["127.0.0.1:4222"]
}

fn headers() -> FieldPath {
    #[allow(clippy::expect_used)] // the text is a constant, and a test parses it
    "%nats.headers".parse().expect("a path")
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

/// The checked configuration.
pub(super) struct Settings {
    pub(super) peer: Peer,
    pub(super) subject: Text,
    pub(super) headers: FieldPath,
    pub(super) message_id: Option<FieldPath>,
    pub(super) jetstream: bool,
    pub(super) server_headers: bool,
    pub(super) window: usize,
    pub(super) timeout: Duration,
}

impl Settings {
    /// Checks a configuration.
    ///
    /// # Errors
    /// An error of the kind configuration, with the key, the value that was found and the values
    /// that were expected. The error never contains a secret.
    pub(super) fn new(config: Config, host: &Host) -> Result<Self> {
        if let Some(subject) = config.subject.fixed() {
            check_subject(subject)
                .map_err(|why| Error::configuration(format_args!("invalid `subject`: {why}")))?;
        }
        if !config.jetstream && config.message_id.is_some() {
            return Err(Error::configuration(
                "invalid `message_id`: the key needs a stream, but `jetstream` is `false`; remove one of them",
            ));
        }
        if !(1..=65_536).contains(&config.window) {
            return Err(Error::configuration(format_args!(
                "invalid `window`: expected 1 to 65536 messages, found {}",
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

/// Maximum length of a subject, in bytes. A server closes the connection if a line of the protocol is longer than 4096
/// bytes. The line with the subject also contains the reply subject and lengths.
const MAX_SUBJECT: usize = 3_900;

/// Prefixes of subjects that are reserved for managing servers.
const RESERVED_PREFIXES: [&str; 3] = ["$JS.", "$SYS.", "$SRV."];

/// Checks a subject that comes from an event. Rejects wildcards and subjects that manage servers, such as
/// `$JS.API.STREAM.DELETE.ORDERS`.
///
/// # Errors
/// The text says which rule the subject breaks.
pub(super) fn check_chosen(subject: &str) -> std::result::Result<(), String> {
    if let Some(prefix) = RESERVED_PREFIXES.iter().find(|it| subject.starts_with(**it)) {
        return Err(format!(
            "expected a subject without the prefix `{prefix}`, which is reserved for managing servers"
        ));
    }
    check_subject(subject)?;
    if subject.contains(['*', '>']) {
        let shown: String = subject.chars().take(200).collect();
        return Err(format!(
            "expected a subject without `*` and `>`, found `{}`",
            shown.escape_debug()
        ));
    }
    Ok(())
}

/// Checks a subject to publish to.
///
/// # Errors
/// The text says which rule the subject breaks.
pub(super) fn check_subject(subject: &str) -> std::result::Result<(), String> {
    if subject.len() > MAX_SUBJECT {
        return Err(format!("expected at most {MAX_SUBJECT} bytes, found {}", subject.len()));
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
        "expected words separated by `.`, without spaces and wildcards, found `{}`",
        shown.escape_debug()
    ))
}
