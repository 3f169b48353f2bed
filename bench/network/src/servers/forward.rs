//! The minimum work of a forwarder: reads one socket and writes to another.

use std::{
    io::{Read, Write},
    net::{TcpListener, TcpStream},
};

use crate::Result;

/// Maximum number of bytes per read.
const READ: usize = 256 << 10;

#[derive(Debug, clap::Args)]
pub(crate) struct Forward {
    /// Port to listen on
    port: u16,
    /// Port to send to
    to: u16,
}

impl Forward {
    pub(crate) fn run(&self) -> Result {
        let mut to = TcpStream::connect(("127.0.0.1", self.to))?;
        to.set_nodelay(true)?;
        let (mut from, _) = TcpListener::bind(("127.0.0.1", self.port))?.accept()?;
        let mut buffer = vec![0; READ];
        loop {
            match from.read(&mut buffer)? {
                0 => return Ok(()),
                count => to.write_all(&buffer[..count])?,
            }
        }
    }
}
