//! Messages to the runtime.

use std::{
    io::{self, Write},
    os::unix::net::UnixStream,
    sync::Mutex,
};

use tremor_pdk::lock;

use crate::plugin::isolated::message::Message;

/// The writing end of the connection to the runtime.
pub(super) struct Output(Mutex<Buffered>);

struct Buffered {
    socket: UnixStream,
    bytes: Vec<u8>,
}

impl Output {
    pub(super) fn new(socket: UnixStream) -> Self {
        Self(Mutex::new(Buffered { socket, bytes: Vec::new() }))
    }

    /// Sends a message. Blocks while the runtime does not read, so that a flood of messages slows down the plugin.
    ///
    /// # Errors
    /// The runtime has ended.
    pub(super) fn send(&self, message: &Message) -> io::Result<()> {
        let Buffered { socket, bytes } = &mut *lock(&self.0);
        bytes.clear();
        message.write(bytes);
        socket.write_all(bytes)
    }
}
