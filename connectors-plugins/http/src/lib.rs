//! Connectors that exchange events over HTTP: `http_client`, `http_server`, and sinks for systems that speak HTTP, such
//! as `elasticsearch`.

#[cfg(not(target_os = "linux"))]
compile_error!("the HTTP connectors need Linux, because they wait for sockets with epoll");

pub mod client;
mod coding;
mod config;
mod exchange;
mod io;
mod payload;
pub mod prometheus;
mod protobuf;
pub mod s3;
pub mod server;
mod systems;
#[cfg(test)]
mod testing;

pub use self::config::{Auth, Basic, Compression, Escape, Preset, Secret, Signal};

tremor_pdk::export! {
    connectors: [
        client::HttpClient,
        server::HttpServer,
        s3::S3,
        prometheus::exporter::PrometheusExporter,
        prometheus::remote_write::RemoteWrite,
        systems::Elasticsearch,
        systems::Loki,
        systems::VictoriaLogs,
        systems::SplunkHec,
        systems::ClickHouse,
    ]
}
