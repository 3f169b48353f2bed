//! The `config` section of the connector in a flow file.

use tremor_pdk::{template::Template, units::Size};

use crate::exchange::sink_config;

sink_config! {
    /// Configuration of the connector.
    pub(crate) struct Config {
        /// URL of the server: `https://search.example.com:9200`. `/_bulk` is appended to its path.
        #[schemars(example = "http://127.0.0.1:9/")]
        pub url: String,
        /// Index or data stream of each document: `logs-{service}-{:+%Y.%m.%d}`. Default: `tremor-{:+%Y.%m.%d}`.
        pub index: Option<Template>,
        /// Effect on a document with the same ID.
        #[serde(default)]
        pub action: Action,
        /// ID of each document: a template such as `{order.id}`, or `position` for an ID that is derived from the
        /// position of the event in its source. With an ID, an event that is delivered twice is one document. Default:
        /// the server chooses an ID.
        pub id: Option<Template>,
        /// Text that determines the shard of each document: `{customer}`. Default: determined by the ID.
        pub routing: Option<Template>,
        /// Ingest pipeline of the server that processes the documents. Default: the one that the index sets.
        pub pipeline: Option<String>,
        /// Maximum length of a request body, in bytes before compression. A longer document goes to `err`.
        #[serde(default = "max_body_bytes")]
        pub max_body_bytes: Size,
    }
}

/// Effect on a document with the same ID.
#[tremor_pdk::config]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Action {
    /// Keeps the existing document. Data streams accept only this action.
    #[default]
    Create,
    /// Replaces the existing document.
    Index,
}

impl Action {
    /// Returns the start of the line with the action, up to the name of the index.
    pub(crate) const fn start(self) -> &'static str {
        match self {
            Self::Create => r#"{"create":{"_index":""#,
            Self::Index => r#"{"index":{"_index":""#,
        }
    }
}

const fn max_body_bytes() -> Size {
    Size::of_bytes(10 << 20)
}
