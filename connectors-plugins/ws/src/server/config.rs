//! The `config` section of the connector in a flow file.

use std::num::NonZeroUsize;

use tremor_pdk::{
    net::{Address, ProxyProtocol, tls::Tls},
    prelude::*,
    units::{Interval, Size},
    without_placeholders,
};

use crate::session::{Frames, Limits, default_max_message_bytes, default_ping_interval};

/// Configuration of the connector.
#[tremor_pdk::config]
#[derive(Clone, Debug)]
pub struct Config {
    /// Address to listen on: `0.0.0.0:8080`, or `[::]:8080` to include IPv6.
    #[schemars(extend("x-exclusive" = "tcp", "x-shared-by" = "reuse_port"))]
    pub listen: Address,
    /// Path of requests: `/events`. The query of a request is ignored.
    #[serde(default = "default_path")]
    pub path: String,
    /// TLS settings, with the certificate of the server. Default: no TLS.
    pub tls: Option<Tls>,
    /// Maximum number of connections. Further connections wait when the limit is reached.
    #[serde(default = "default_max_connections")]
    pub max_connections: NonZeroUsize,
    /// Time without a message after which a connection is closed: `5m`. Default: no limit.
    pub idle_timeout: Option<Interval>,
    /// Time without data after which a ping is sent. A client that sends nothing for another such
    /// time counts as lost. Default: `30s`; `null` disables pings.
    #[serde(default = "default_ping_interval")]
    pub ping_interval: Option<Interval>,
    /// Maximum length of a received message.
    #[serde(default = "default_max_message_bytes")]
    pub max_message_bytes: Size,
    /// Recipients of the events of the sink.
    #[serde(default)]
    pub send_to: SendTo,
    /// Type of the messages that the sink sends.
    #[serde(default)]
    pub frames: Frames,
    /// Maximum number of bytes that wait to be sent to a client. A client for which more bytes wait
    /// is disconnected.
    #[serde(default = "default_max_send_bytes")]
    pub max_send_bytes: Size,
    /// Maximum number of bytes that all connections together may buffer: partially received
    /// messages, and messages to be sent. A connection whose next message would exceed the limit is
    /// closed with code 1013. Default: `64MiB`, or four times `max_message_bytes` if that is more.
    pub max_buffered_bytes: Option<Size>,
    /// PROXY protocol, versions 1 and 2: load balancers whose header names the client.
    /// Default: connections have no header, and the client is the peer of the connection.
    pub proxy_protocol: Option<ProxyProtocol>,
    /// `true` to share the address with other listeners that also set this key.
    #[serde(default)]
    pub reuse_port: bool,
}

/// Recipients of the events of the sink.
#[tremor_pdk::config]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
pub enum SendTo {
    /// Every client.
    #[default]
    All,
    /// The client from which the event was received.
    Origin,
}

/// Minimum default of `max_buffered_bytes`, in bytes.
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
    /// Validates the configuration.
    pub(crate) fn check(mut self) -> Result<Self> {
        self.path = without_placeholders("path", &self.path)?;
        if !self.path.starts_with('/') || self.path.contains(['?', '#', ' ']) {
            return Err(Error::configuration(format!(
                "invalid `path` `{}`: expected a path that starts with `/` and has no `?`, `#` or space, such as `/events`",
                self.path
            )));
        }
        self.proxy_protocol.as_ref().map_or(Ok(()), ProxyProtocol::check)?;
        let (all, each) = (self.max_buffered_bytes(), self.max_message_bytes.in_memory());
        if all < each {
            return Err(Error::configuration(format!(
                "invalid `max_buffered_bytes` {all}: expected at least `max_message_bytes`, {each} bytes, because a \
                 message of that length could never be received"
            )));
        }
        Ok(self)
    }

    /// Returns the maximum number of bytes that all connections may buffer.
    pub(crate) fn max_buffered_bytes(&self) -> usize {
        let default = self.max_message_bytes.in_memory().saturating_mul(4).max(MAX_BUFFERED_BYTES);
        self.max_buffered_bytes.map_or(default, Size::in_memory)
    }

    pub(crate) fn limits(&self) -> Limits {
        Limits {
            max_message: self.max_message_bytes.in_memory(),
            ping_interval: self.ping_interval.map(Interval::get),
            idle_timeout: self.idle_timeout.map(Interval::get),
        }
    }
}
