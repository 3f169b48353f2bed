//! A WebSocket connection from its handshake to its end, for both the client and the server.

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
    config::{default_max_message_bytes, default_ping_interval},
    drive::Session,
    end::End,
    head::{has_token, read_head, write_all},
    inbox::Inbox,
    link::{Link, cost},
};
pub use self::{config::Frames, inbox::Messages};

/// Maximum number of bytes per read. Each connection allocates a buffer of this size.
const READ: usize = 4 << 10;

/// Number of bytes of messages that are combined to one write.
const WRITE: usize = 32 << 10;

/// Limits of a connection.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// Maximum length of a message in bytes.
    pub(crate) max_message: usize,
    /// Time without data after which a ping is sent. If no data arrives for the same time after the
    /// ping, the peer counts as lost.
    pub(crate) ping_interval: Option<Duration>,
    /// Time without a message after which the connection is closed.
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
