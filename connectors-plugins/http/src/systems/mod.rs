//! Sinks for systems that speak HTTP. Each system is a `Protocol`, with a configuration of
//! its own.

mod clickhouse;
mod elasticsearch;
mod loki;
mod parts;
mod splunk_hec;
mod system;
mod victorialogs;

use self::system::System;
pub(crate) use self::{
    clickhouse::ClickHouse, elasticsearch::Elasticsearch, loki::Loki, splunk_hec::SplunkHec,
    victorialogs::VictoriaLogs,
};
