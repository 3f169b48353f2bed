//! The connectors `ws_client` and `ws_server`: they exchange messages over WebSockets.

#[cfg(not(target_os = "linux"))]
compile_error!("the WebSocket connectors need Linux, because they wait for sockets with epoll");

pub mod client;
pub mod server;
mod session;

pub use self::session::{Frames, Messages};

tremor_pdk::export! { connectors: [client::WsClient, server::WsServer] }
