//! Connectors that exchange events over HTTP: `http_client` and `http_server`.

#[cfg(not(target_os = "linux"))]
compile_error!("the HTTP connectors need Linux, because they wait for sockets with epoll");

pub mod client;
mod coding;
mod config;
mod exchange;
mod io;
mod payload;
pub mod server;
#[cfg(test)]
mod testing;

pub use self::config::{Auth, Basic, Compression, Escape, Preset, Secret, Signal};

tremor_pdk::export! { connectors: [client::HttpClient, server::HttpServer] }
