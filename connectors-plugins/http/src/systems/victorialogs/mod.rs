//! The `victorialogs` connector: sends events as log entries to `VictoriaLogs`.
//!
//! ```yaml
//! connectors:
//!   logs:
//!     type: victorialogs
//!     batch: { max_events: 1000, linger: 200ms }
//!     config:
//!       url: http://logs.example.com:9428
//!       stream_fields: [host, service]
//!       time_field: timestamp
//!       message_field: message
//! ```

mod config;
mod settings;
#[cfg(test)]
mod tests;

/// Sends events as log entries.
pub(crate) type VictoriaLogs = super::system::Sends<settings::Settings>;
