//! Connectors that exchange events over HTTP: `http_client`, `http_server` and `s3`.

#[cfg(not(target_os = "linux"))]
compile_error!("the HTTP connectors need Linux, because they wait for sockets with epoll");

pub mod client;
mod coding;
mod config;
mod io;
mod payload;
pub mod s3;
pub mod server;

pub use self::config::{Basic, Preset, Signal};

tremor_pdk::export! { connectors: [client::HttpClient, s3::S3, server::HttpServer] }
