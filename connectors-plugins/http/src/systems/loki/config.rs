//! The `config` section of the connector in a flow file.

use std::collections::BTreeMap;

use tremor_pdk::{template::Template, units::Size};

use crate::exchange::sink_config;

sink_config! {
    compression: Compression,
    /// Configuration of the connector.
    pub(crate) struct Config {
        /// URL of the server: `https://loki.example.com`. `/loki/api/v1/push` is appended to its path.
        #[schemars(example = "http://127.0.0.1:9/")]
        pub url: String,
        /// Labels, which determine the stream of an event: `{ host: '{host}', job: app }`. Values are templates. A
        /// label is omitted if the event does not have a field of its template.
        #[schemars(example = example())]
        pub labels: BTreeMap<String, Template>,
        /// Structured metadata of the line of an event: `{ trace_id: '{trace.id}' }`. Values are templates, and omitted
        /// as labels are.
        #[serde(default)]
        pub structured_metadata: BTreeMap<String, Template>,
        /// Time of an event: a field in braces, such as `{timestamp}`. Default: the time when the event was read.
        pub time: Option<Template>,
        /// Tenant, as the header `X-Scope-OrgID`: `team-a` or a template such as `{team}`. Default: no header.
        pub tenant: Option<Template>,
        /// Maximum length of a request body, in bytes before compression. A longer event goes to `err`. At most `1GiB`.
        #[serde(default = "max_body_bytes")]
        pub max_body_bytes: Size,
    }
}

/// Compression of request bodies. A body is a block of snappy, which can also contain data that is not compressed.
#[tremor_pdk::config]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Compression {
    /// No compression.
    #[default]
    None,
    /// Snappy.
    Snappy,
}

impl From<Compression> for crate::Compression {
    fn from(compression: Compression) -> Self {
        match compression {
            Compression::None => Self::None,
            Compression::Snappy => Self::SnappyBlock,
        }
    }
}

/// Returns labels for an example.
fn example() -> BTreeMap<&'static str, &'static str> {
    BTreeMap::from([("job", "app")])
}

const fn max_body_bytes() -> Size {
    Size::of_bytes(4 << 20)
}
