//! The `clickhouse` connector: inserts events as rows into a table of `ClickHouse`.
//!
//! ```yaml
//! connectors:
//!   rows:
//!     type: clickhouse
//!     batch: { max_events: 10000, linger: 1s }
//!     config:
//!       url: https://clickhouse.example.com:8443
//!       database: logs
//!       table: requests
//!       user: tremor
//!       password: '${env:PASSWORD}'
//! ```

mod answer;
mod config;
mod settings;
#[cfg(test)]
mod tests;

/// Inserts events as rows into a table.
pub(crate) type ClickHouse = super::system::Sends<settings::Settings>;
