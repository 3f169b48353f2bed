//! The `loki` connector: sends events as lines of log streams to Grafana Loki.
//!
//! ```yaml
//! connectors:
//!   logs:
//!     type: loki
//!     codec: json
//!     batch: { max_events: 1000, linger: 200ms }
//!     config:
//!       url: https://loki.example.com
//!       labels: { job: app, host: '{host}' }
//! ```

mod config;
mod metadata;
mod push;
mod settings;
#[cfg(test)]
mod tests;

/// Sends events as lines of log streams.
pub(crate) type Loki = super::system::Sends<settings::Settings>;
