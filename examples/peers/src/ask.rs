//! A client that sends a request and waits for the answer of its peer.

use std::io::{Read, Write};

use tremor_pdk::{
    Error, Result,
    net::{StreamSocket, TcpStream},
};

/// Maximum length of an answer, in bytes.
const MAX_ANSWER: usize = 64 << 10;

/// A connection whose peer answers each request with a line.
pub struct Client {
    stream: TcpStream,
    /// Bytes of the request that are not sent yet.
    request: Vec<u8>,
    /// Bytes of the answer that have been received.
    answer: Vec<u8>,
}

impl Client {
    /// Sends the remainder of `request`, and returns the next line of the answer. If the future is dropped before it
    /// completes, no data is lost, and the next call continues.
    pub async fn ask(&mut self) -> Result<Vec<u8>> {
        let socket = self.stream.registered();
        while !self.request.is_empty() {
            let sent = socket.write_with(|mut socket| socket.write(&self.request)).await?;
            self.request.drain(..sent);
        }
        loop {
            if let Some(end) = self.answer.iter().position(|byte| *byte == b'\n') {
                return Ok(self.answer.drain(..=end).collect());
            }
            if self.answer.len() > MAX_ANSWER {
                return Err(Error::connection_lost("the answer is longer than 64 KiB"));
            }
            let mut bytes = [0; 4_096];
            let read = socket.read_with(|mut socket| socket.read(&mut bytes)).await?;
            if read == 0 {
                return Err(Error::connection_lost("the peer closed the connection"));
            }
            self.answer.extend_from_slice(&bytes[..read]);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{
        io::Write,
        net::{TcpListener, TcpStream as StdStream},
    };

    use tremor_pdk::{Descriptors, Result, net::TcpStream, testing::TestHost};

    use super::Client;

    #[test]
    fn answer_of_two_lines_is_returned_line_by_line() -> Result<()> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let socket = StdStream::connect(listener.local_addr()?)?;
        let (mut peer, _) = listener.accept()?;
        peer.write_all(b"first\nsecond\n")?;
        let host = TestHost::new();
        let stream = TcpStream::new(&Descriptors::new(&host.host())?, socket)?;
        let mut client = Client { stream, request: b"ask\n".to_vec(), answer: Vec::new() };
        assert_eq!(host.block_on(client.ask())?, b"first\n");
        assert_eq!(host.block_on(client.ask())?, b"second\n");
        Ok(())
    }
}
