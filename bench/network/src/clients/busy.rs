//! Connections that send as much as they can. Each line contains the number of its connection.

use std::{io, io::Write, net::TcpStream, time::Duration};

use rustix::{event::epoll::EventFlags, net::sockopt::set_socket_send_buffer_size};

use crate::{
    Result, descriptors,
    lines::{LINE, lines},
    parent,
    poll::Poll,
};

/// Number of lines per write.
const LINES: usize = 32;

/// Size of a connection's send buffer, in bytes. A thousand buffers of the default size would take
/// gigabytes.
const KEPT: usize = 64 << 10;

#[derive(Debug, clap::Args)]
pub(crate) struct Busy {
    port: u16,
    /// Number of connections
    #[arg(long, default_value_t = 1_000, value_name = "N")]
    connections: usize,
}

struct Connection {
    stream: TcpStream,
    lines: Vec<u8>,
    /// Number of bytes of `lines` that are written.
    written: usize,
}

impl Busy {
    /// Sends until the server or this process is ended.
    pub(crate) fn run(&self) -> Result {
        descriptors::allow(self.connections)?;
        let mut poll = Poll::new()?;
        let mut connections = Vec::new();
        for number in 0..self.connections {
            let stream = descriptors::connect_as(number, self.port)?;
            stream.set_nonblocking(true)?;
            set_socket_send_buffer_size(&stream, KEPT)?;
            poll.add(&stream, number, EventFlags::OUT)?;
            connections.push(Connection { stream, lines: lines(number as u64, LINES), written: 0 });
        }
        parent::begin()?;
        loop {
            for number in poll.wait(Duration::from_secs(1))? {
                let connection = connections.get_mut(number).ok_or("an unknown connection")?;
                connection.send()?;
            }
        }
    }
}

impl Connection {
    /// Writes once, and returns, so that other connections can write as well.
    fn send(&mut self) -> Result {
        let rest = self.lines.get(self.written..).unwrap_or_default();
        match self.stream.write(rest) {
            Ok(count) => self.written = (self.written + count) % (LINES * LINE),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => return Err(error.into()),
        }
        Ok(())
    }
}
