//! The connectors `http_client` and `http_server`: they exchange events over HTTP.

#[cfg(not(target_os = "linux"))]
compile_error!("the HTTP connectors need Linux, because they wait for sockets with epoll");

pub mod client;
mod coding;
mod config;
mod io;
mod payload;
pub mod server;

pub use self::config::{Basic, Preset, Signal};

tremor_pdk::export! { connectors: [client::HttpClient, server::HttpServer] }
