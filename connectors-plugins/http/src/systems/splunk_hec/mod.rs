//! The `splunk_hec` connector: sends events to the HTTP Event Collector of Splunk.
//!
//! ```yaml
//! connectors:
//!   events:
//!     type: splunk_hec
//!     batch: { max_events: 1000, linger: 200ms }
//!     config:
//!       url: https://splunk.example.com:8088
//!       token: '${env:SPLUNK_TOKEN}'
//!       host: '{host}'
//!       sourcetype: _json
//! ```

mod answer;
mod config;
mod settings;
#[cfg(test)]
mod tests;

/// Sends events to the HTTP Event Collector.
pub(crate) type SplunkHec = super::system::Sends<settings::Settings>;
