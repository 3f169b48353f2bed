//! One WebSocket connection, from its handshake to its end: what both connectors of WebSockets have in
//! common. The crates `connector-ws-server` and `connector-ws-client` are made of the same files, since a plugin
//! depends on no other crate of this project than the kit. Neither uses all of it.

mod budget;
#[cfg(test)]
pub(crate) mod cases;
mod config;
mod drive;
mod end;
mod head;
mod inbox;
mod link;
mod shim;
mod timer;

use std::time::Duration;

use tungstenite::protocol::WebSocketConfig;

pub(crate) use self::{
    budget::Budget,
    config::{default_max_message_bytes, default_ping_interval, in_memory},
    drive::Session,
    end::End,
    head::{read_head, write_all},
    inbox::Inbox,
    link::{Link, cost},
};
pub use self::{config::Frames, inbox::Messages};

/// How much is read of a connection at once, in bytes. Each connection has so much memory for that.
const READ: usize = 4 << 10;

/// What is put together before it is written, in bytes.
const WRITE: usize = 32 << 10;

/// What a connection may do.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// In bytes.
    pub(crate) max_message: usize,
    /// How often a peer that says nothing is asked whether it is there. It is gone once it has not
    /// answered for so long.
    pub(crate) ping_interval: Option<Duration>,
    /// How long a peer may send no message.
    pub(crate) idle_timeout: Option<Duration>,
}

impl Limits {
    pub(crate) fn config(&self) -> WebSocketConfig {
        WebSocketConfig::default()
            .read_buffer_size(READ)
            .write_buffer_size(WRITE)
            .max_message_size(Some(self.max_message))
            .max_frame_size(Some(self.max_message))
    }
}
