//! The `config` section of the connector in a flow file.

use std::collections::BTreeMap;

use tremor_pdk::{
    net::tls::Tls,
    units::{Interval, Size},
};

use crate::session::{Frames, Limits, default_max_message_bytes, default_ping_interval};

/// Configuration of the connector.
#[tremor_pdk::config]
#[derive(Clone)]
pub struct Config {
    /// URL of the peer: `wss://stream.example.com/events`, or `ws://127.0.0.1:8080/`.
    #[schemars(extend("examples" = ["ws://127.0.0.1:9/"]))]
    pub url: String,
    /// Additional headers of the handshake.
    #[serde(default)]
    #[schemars(extend("x-secret" = "variables"))]
    pub headers: BTreeMap<String, String>,
    /// Credentials of the handshake.
    pub auth: Option<Auth>,
    /// TLS settings for a `wss://` peer that the system's root certificates do not verify, or that
    /// requires a client certificate.
    pub tls: Option<Tls>,
    /// Time without data after which a ping is sent. A peer that sends nothing for another such
    /// time counts as lost. Default: `30s`; `null` disables pings.
    #[serde(default = "default_ping_interval")]
    pub ping_interval: Option<Interval>,
    /// Maximum length of a received message.
    #[serde(default = "default_max_message_bytes")]
    pub max_message_bytes: Size,
    /// Type of the messages that the sink sends.
    #[serde(default)]
    pub frames: Frames,
}

/// Credentials of the handshake.
#[tremor_pdk::config]
#[derive(Clone)]
#[serde(rename_all = "kebab-case")]
pub enum Auth {
    /// A user name and a password, as the header `Authorization: Basic`.
    Basic(Basic),
    /// A token, as the header `Authorization: Bearer`.
    Bearer(#[schemars(extend("writeOnly" = true))] String),
}

/// A user name and a password.
#[tremor_pdk::config]
#[derive(Clone)]
pub struct Basic {
    /// The user name, which must not contain a colon.
    pub user: String,
    /// The password.
    #[schemars(extend("writeOnly" = true))]
    pub password: String,
}

impl Config {
    pub(crate) fn limits(&self) -> Limits {
        Limits {
            max_message: self.max_message_bytes.in_memory(),
            ping_interval: self.ping_interval.map(Interval::get),
            idle_timeout: None,
        }
    }
}
