//! Where to listen, for whom, and whom to send to.

use std::num::NonZeroUsize;

use tremor_pdk::{
    net::{Address, tls::Tls},
    prelude::*,
    units::{Interval, Size},
};

use crate::session::{Frames, Limits, default_max_message_bytes, default_ping_interval, in_memory};

/// Where to listen, for whom, and whom to send to.
#[tremor_pdk::config]
#[derive(Clone, Debug)]
pub struct Config {
    /// The address to listen on: `0.0.0.0:8080`, or `[::]:8080` for IPv6 as well.
    pub listen: Address,
    /// The path that clients ask for: `/events`. What follows a `?` does not count.
    #[serde(default = "default_path")]
    pub path: String,
    /// TLS: the certificate to show. Unless set, connections are as they are.
    pub tls: Option<Tls>,
    /// How many connections there may be at a time. At this number further ones wait.
    #[serde(default = "default_max_connections")]
    pub max_connections: NonZeroUsize,
    /// After how much time without a message a connection is closed: `5m`. Unless set, never.
    pub idle_timeout: Option<Interval>,
    /// How often a client that says nothing is asked whether it is there: `30s` unless set. A client that
    /// has not answered for so long is gone. `null`: never.
    #[serde(default = "default_ping_interval")]
    pub ping_interval: Option<Interval>,
    /// The longest message that is received.
    #[serde(default = "default_max_message_bytes")]
    pub max_message_bytes: Size,
    /// Whom the sink sends to.
    #[serde(default)]
    pub send_to: SendTo,
    /// What the sink sends a message as.
    #[serde(default)]
    pub frames: Frames,
    /// How much may wait to be sent to a client. The connection of a client for which more waits is closed.
    #[serde(default = "default_max_send_bytes")]
    pub max_send_bytes: Size,
    /// How many bytes all connections together may buffer: messages that have come in part, and messages that wait
    /// to be sent. A connection that exceeds it is closed with code 1013. `64MiB`, or four times
    /// `max_message_bytes` if that is more, unless set.
    pub max_buffered_bytes: Option<Size>,
    /// Whether several listeners may share the address, if all of them say so.
    #[serde(default)]
    pub reuse_port: bool,
}

/// Whom the sink sends to.
#[tremor_pdk::config]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
pub enum SendTo {
    /// To every client.
    #[default]
    All,
    /// To the client that the event came from.
    Origin,
}

/// Least default of `max_buffered_bytes`, in bytes.
const MAX_BUFFERED_BYTES: usize = 64 << 20;

fn default_path() -> String {
    "/".to_owned()
}

fn default_max_connections() -> NonZeroUsize {
    const { NonZeroUsize::new(10_000).unwrap() }
}

fn default_max_send_bytes() -> Size {
    Size::of_bytes(4 << 20)
}

impl Config {
    pub(crate) fn check(&self) -> Result<()> {
        if !self.path.starts_with('/') || self.path.contains(['?', '#', ' ']) {
            return Err(Error::configuration(format!(
                "`path` is `{}`: a path starts with `/` and has no `?`, `#` or space, such as `/events`",
                self.path
            )));
        }
        let (all, each) = (self.max_buffered_bytes(), in_memory(self.max_message_bytes));
        if all < each {
            return Err(Error::configuration(format!(
                "invalid `max_buffered_bytes` {all}: expected at least `max_message_bytes`, {each} bytes, because a \
                 message of that length could never be received"
            )));
        }
        Ok(())
    }

    /// Returns the bytes that all connections may buffer.
    pub(crate) fn max_buffered_bytes(&self) -> usize {
        let default = in_memory(self.max_message_bytes).saturating_mul(4).max(MAX_BUFFERED_BYTES);
        self.max_buffered_bytes.map_or(default, in_memory)
    }

    pub(crate) fn limits(&self) -> Limits {
        Limits {
            max_message: in_memory(self.max_message_bytes),
            ping_interval: self.ping_interval.map(Interval::get),
            idle_timeout: self.idle_timeout.map(Interval::get),
        }
    }
}
