//! The `config` section of the connector in a flow file.

use std::collections::BTreeMap;

use tremor_pdk::units::Size;

use crate::exchange::sink_config;

sink_config! {
    /// Configuration of the connector.
    pub(crate) struct Config {
        /// URL of the server: `http://logs.example.com:9428`. `/insert/jsonline` is appended to its path.
        #[schemars(example = "http://127.0.0.1:9/")]
        pub url: String,
        /// Fields that determine the stream of an event: `[host, service]`. Nested fields are written `parent.field`.
        #[serde(default)]
        pub stream_fields: Vec<String>,
        /// Field with the time of an event. Default: `_time`.
        pub time_field: Option<String>,
        /// Field with the message of an event. Default: `_msg`.
        pub message_field: Option<String>,
        /// Fields that are not stored.
        #[serde(default)]
        pub ignore_fields: Vec<String>,
        /// Fields with constant values that are added to each event: `{ site: berlin }`.
        #[serde(default)]
        pub extra_fields: BTreeMap<String, String>,
        /// Tenant. Default: the tenant with the account 0 and the project 0.
        pub tenant: Option<Tenant>,
        /// Maximum length of a request body, in bytes before compression. A longer event goes to `err`.
        #[serde(default = "max_body_bytes")]
        pub max_body_bytes: Size,
    }
}

/// A tenant.
#[tremor_pdk::config]
#[derive(Clone, Copy)]
pub(crate) struct Tenant {
    /// Account, as the header `AccountID`.
    pub account: u32,
    /// Project, as the header `ProjectID`.
    #[serde(default)]
    pub project: u32,
}

const fn max_body_bytes() -> Size {
    Size::of_bytes(4 << 20)
}
