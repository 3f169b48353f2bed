//! HTTP requests over persistent connections. Each request follows the response to the previous request.

use std::{
    io::{Read, Write},
    net::TcpStream,
    time::{Duration, Instant},
};

use rustix::event::epoll::EventFlags;
use serde_json::json;

use crate::{Result, descriptors, parent, poll::Poll};

/// Bytes of a body.
const BODY: usize = 622;

#[derive(Debug, clap::Args)]
pub(crate) struct Requests {
    port: u16,
    /// Number of connections
    #[arg(long, default_value_t = 64, value_name = "N")]
    connections: usize,
    /// Duration in seconds
    #[arg(long, default_value_t = 5.0, value_name = "S")]
    seconds: f64,
}

/// Returns a request with an event as its body. The body need not be JSON, because the measured flow does
/// not parse it.
pub(crate) fn request() -> Vec<u8> {
    let body = "x".repeat(BODY);
    let head = "POST /logs HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json";
    format!("{head}\r\nContent-Length: {BODY}\r\n\r\n{body}").into_bytes()
}

/// The received part of a response without a body.
#[derive(Default)]
pub(crate) struct Answer(Vec<u8>);

impl Answer {
    /// Adds received bytes. Returns `true` if they complete the response; the next bytes then belong to the next
    /// response.
    ///
    /// # Errors
    /// The request was rejected, or the connection ended early.
    pub(crate) fn is_whole(&mut self, bytes: &[u8]) -> Result<bool> {
        if bytes.is_empty() {
            return Err("the server closed a connection".into());
        }
        // Usually a response arrives in one piece.
        if self.0.is_empty() && bytes.ends_with(b"\r\n\r\n") {
            return good(bytes).map(|()| true);
        }
        self.0.extend_from_slice(bytes);
        if !self.0.ends_with(b"\r\n\r\n") {
            return Ok(false);
        }
        good(&std::mem::take(&mut self.0)).map(|()| true)
    }
}

fn good(answer: &[u8]) -> Result {
    if answer.starts_with(b"HTTP/1.1 2") {
        return Ok(());
    }
    Err(format!("refused: {}", String::from_utf8_lossy(answer)).into())
}

struct Connection {
    stream: TcpStream,
    answer: Answer,
}

impl Requests {
    pub(crate) fn run(&self) -> Result {
        let mut poll = Poll::new()?;
        let mut connections = Vec::new();
        for number in 0..self.connections {
            let stream = descriptors::connect_as(number, self.port)?;
            poll.add(&stream, number, EventFlags::IN)?;
            connections.push(Connection { stream, answer: Answer::default() });
        }
        let request = request();
        parent::begin()?;
        for connection in &mut connections {
            connection.stream.write_all(&request)?;
        }
        let (start, mut answered) = (Instant::now(), 0_u64);
        let mut buffer = [0; 4 << 10];
        while start.elapsed().as_secs_f64() < self.seconds {
            for number in poll.wait(Duration::from_secs(1))? {
                let connection = connections.get_mut(number).ok_or("an unknown connection")?;
                let count = connection.stream.read(&mut buffer)?;
                if connection.answer.is_whole(&buffer[..count])? {
                    answered += 1;
                    connection.stream.write_all(&request)?;
                }
            }
        }
        let seconds = start.elapsed().as_secs_f64();
        parent::report(json!({ "requests": answered, "seconds": seconds }))?;
        parent::wait()
    }
}

#[cfg(test)]
mod tests {
    use super::Answer;

    #[test]
    fn response_may_arrive_in_parts_and_must_be_a_success() {
        let mut answer = Answer::default();
        assert!(!answer.is_whole(b"HTTP/1.1 202 Accepted\r\n").unwrap());
        assert!(answer.is_whole(b"content-length: 0\r\n\r\n").unwrap());
        assert!(answer.is_whole(b"HTTP/1.1 202 Accepted\r\ncontent-length: 0\r\n\r\n").unwrap());
        assert!(answer.is_whole(b"HTTP/1.1 500 Oh\r\ncontent-length: 0\r\n\r\n").is_err());
        assert!(answer.is_whole(b"").is_err());
    }
}
