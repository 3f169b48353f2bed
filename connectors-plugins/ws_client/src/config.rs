//! Whom to connect to, and with what.

use std::collections::BTreeMap;

use tremor_pdk::{
    net::tls::Tls,
    units::{Interval, Size},
};

use crate::session::{Frames, Limits, default_max_message_bytes, default_ping_interval, in_memory};

/// Whom to connect to, and with what.
#[tremor_pdk::config]
#[derive(Clone)]
pub struct Config {
    /// The address of the peer: `wss://stream.example.com/events`, or `ws://127.0.0.1:8080/`.
    #[schemars(extend("examples" = ["ws://127.0.0.1:9/"]))]
    pub url: String,
    /// Further headers of the handshake.
    #[serde(default)]
    #[schemars(extend("x-secret" = "variables"))]
    pub headers: BTreeMap<String, String>,
    /// How to authenticate.
    pub auth: Option<Auth>,
    /// TLS, for a `wss://` peer whose certificate the system does not trust, or who asks for one.
    pub tls: Option<Tls>,
    /// How often a peer that says nothing is asked whether it is there: `30s` unless set. One that has not
    /// answered for so long is gone. `null`: never.
    #[serde(default = "default_ping_interval")]
    pub ping_interval: Option<Interval>,
    /// The longest message that is received.
    #[serde(default = "default_max_message_bytes")]
    pub max_message_bytes: Size,
    /// What the sink sends a message as.
    #[serde(default)]
    pub frames: Frames,
}

/// How to authenticate.
#[tremor_pdk::config]
#[derive(Clone)]
#[serde(rename_all = "kebab-case")]
pub enum Auth {
    /// With a name and a password.
    Basic(Basic),
    /// With a token.
    Bearer(#[schemars(extend("writeOnly" = true))] String),
}

/// A name and a password.
#[tremor_pdk::config]
#[derive(Clone)]
pub struct Basic {
    /// The name.
    pub user: String,
    /// The password.
    #[schemars(extend("writeOnly" = true))]
    pub password: String,
}

impl Config {
    pub(crate) fn limits(&self) -> Limits {
        Limits {
            max_message: in_memory(self.max_message_bytes),
            ping_interval: self.ping_interval.map(Interval::get),
            idle_timeout: None,
        }
    }
}
