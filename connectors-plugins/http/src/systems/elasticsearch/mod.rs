//! The `elasticsearch` connector: writes events as documents with the bulk API of Elasticsearch and OpenSearch.
//!
//! ```yaml
//! connectors:
//!   documents:
//!     type: elasticsearch
//!     batch: { max_events: 1000, linger: 200ms }
//!     config:
//!       url: https://search.example.com:9200
//!       index: 'logs-{service}-{:+%Y.%m.%d}'
//!       id: position
//! ```

mod answer;
mod config;
mod position;
mod settings;
#[cfg(test)]
mod tests;

/// Writes events as documents.
pub(crate) type Elasticsearch = super::system::Sends<settings::Settings>;
