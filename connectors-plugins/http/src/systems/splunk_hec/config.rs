//! The `config` section of the connector in a flow file.

use std::collections::BTreeMap;

use tremor_pdk::{
    template::Template,
    units::{Interval, Size},
};

use crate::exchange::sink_config;

sink_config! {
    /// Configuration of the connector.
    pub(crate) struct Config {
        /// URL of the server: `https://splunk.example.com:8088`. `/services/collector/event` is appended to its path.
        #[schemars(example = "http://127.0.0.1:9/")]
        pub url: String,
        /// Token of the HTTP Event Collector.
        #[schemars(extend("writeOnly" = true))]
        pub token: String,
        /// Form of the event in a request.
        #[serde(default)]
        pub event: Form,
        /// Time of an event: a field in braces, such as `{timestamp}`. Default: the time when the event was read.
        pub time: Option<Template>,
        /// Host of an event, a template such as `{host}`. Omitted if the event does not have a field of the template.
        pub host: Option<Template>,
        /// Source of an event, a template such as `{%file.path}`. Omitted if the event does not have a field of the
        /// template.
        pub source: Option<Template>,
        /// Source type of an event, a template such as `_json`. Omitted if the event does not have a field of the
        /// template.
        pub sourcetype: Option<Template>,
        /// Index of an event, a template such as `logs-{team}`. Omitted if the event does not have a field of the
        /// template.
        pub index: Option<Template>,
        /// Indexed fields of an event: `{ service: '{service}' }`. Values are templates. A field is omitted if the
        /// event does not have a field of its template.
        #[serde(default)]
        pub fields: BTreeMap<String, Template>,
        /// Channel, as the header `X-Splunk-Request-Channel`, for a token with indexer acknowledgement. Default: no
        /// channel, or one of its own for each request in flight with `acknowledgement: indexer`.
        pub channel: Option<String>,
        /// The part of Splunk by whose answer an event is delivered.
        #[serde(default)]
        pub acknowledgement: Acknowledgement,
        /// Maximum time from the answer of the collector to the acknowledgement of the indexer. After that, the events
        /// are delivered again.
        #[serde(default = "acknowledgement_timeout")]
        pub acknowledgement_timeout: Interval,
        /// Maximum length of a request body, in bytes before compression. A longer event goes to `err`.
        #[serde(default = "max_body_bytes")]
        pub max_body_bytes: Size,
    }
}

/// Form of the event in a request.
#[tremor_pdk::config]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Form {
    /// JSON, as the codec wrote it.
    #[default]
    Json,
    /// Text, as the codec wrote it.
    Text,
}

const fn max_body_bytes() -> Size {
    Size::of_bytes(4 << 20)
}

/// The part of Splunk by whose answer an event is delivered.
#[tremor_pdk::config]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Acknowledgement {
    /// The collector has accepted the event.
    #[default]
    Collector,
    /// The indexer has acknowledged the event.
    Indexer,
}

const fn acknowledgement_timeout() -> Interval {
    Interval::of_ms(300_000)
}
