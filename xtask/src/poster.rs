//! A client of an HTTP server, which sends requests one after the other on a connection.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use anyhow::{Context, Result};

use crate::process::Process;
use crate::scenario::PATIENCE;

/// Text of the log before the address of a server.
const LISTENS: &str = "listens on ";

/// A client with at most one connection, which is opened when it is needed.
pub(crate) struct Poster {
    /// Maximum time for an answer.
    timeout: Duration,
    connection: Option<BufReader<TcpStream>>,
}

impl Poster {
    pub(crate) fn new(timeout: Duration) -> Self {
        Self { timeout, connection: None }
    }

    /// Sends a body to the server at `address`, and returns whether it was accepted.
    ///
    /// # Errors
    /// The server does not answer. The next request opens another connection.
    pub(crate) fn send(&mut self, address: &str, body: &str) -> Result<bool> {
        let sent = self.exchange(address, body);
        if sent.is_err() {
            self.connection = None;
        }
        sent
    }

    fn exchange(&mut self, address: &str, body: &str) -> Result<bool> {
        let connection = match &mut self.connection {
            Some(connection) => connection,
            none => {
                let stream = TcpStream::connect(address)?;
                stream.set_read_timeout(Some(self.timeout))?;
                stream.set_nodelay(true)?;
                none.insert(BufReader::new(stream))
            }
        };
        let head = format!("POST / HTTP/1.1\r\nhost: {address}\r\ncontent-length: {}", body.len());
        connection.get_ref().write_all(format!("{head}\r\n\r\n{body}").as_bytes())?;
        let (mut status, mut length) = (None, 0);
        loop {
            let mut line = String::new();
            connection.read_line(&mut line)?;
            let line = line.trim_end().to_lowercase();
            status = status.or_else(|| line.split(' ').nth(1)?.parse::<u16>().ok());
            if let Some(found) = line.strip_prefix("content-length: ") {
                length = found.parse()?;
            }
            if line.is_empty() {
                break;
            }
        }
        connection.take(length).read_to_end(&mut Vec::new())?;
        Ok(status.context("the response has no status")? < 300)
    }
}

/// Waits until the flow of a process listens, and returns its address.
pub(crate) fn address(process: &mut Process) -> Result<String> {
    process.until("a server", PATIENCE, |process| {
        let log = process.log()?;
        let address = log.lines().find_map(|line| line.split_once(LISTENS));
        Ok(address.and_then(|(_, rest)| rest.split(' ').next()).map(str::to_owned))
    })
}
