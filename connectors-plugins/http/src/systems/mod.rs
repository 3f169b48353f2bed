//! Sinks for systems that speak HTTP. Each system is a `Protocol`, with a configuration of
//! its own.

pub mod clickhouse;
pub mod elasticsearch;
pub mod loki;
mod parts;
pub mod splunk_hec;
pub mod victorialogs;

pub use self::{
    clickhouse::ClickHouse, elasticsearch::Elasticsearch, loki::Loki, splunk_hec::SplunkHec,
    victorialogs::VictoriaLogs,
};
pub use crate::exchange::JsonPosts;
