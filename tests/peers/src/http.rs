//! Requests of HTTP, and a server that answers them with what a test returns.

use std::{
    io::{self, BufRead, BufReader, Read, Write},
    net::{SocketAddr, TcpStream},
    sync::Arc,
    thread,
};

use crate::Acceptor;

/// A request.
#[derive(Debug)]
pub struct Request {
    /// Everything up to the empty line, and this line.
    pub head: String,
    /// The body, which is empty without the header `Content-Length`.
    pub body: Vec<u8>,
}

impl Request {
    /// Reads a request. Returns `None` if the connection ends before the end of the request.
    pub fn read(stream: &mut impl BufRead) -> Option<Self> {
        let mut request = Self { head: read_head(stream).ok()?, body: Vec::new() };
        let length = request.header("content-length").map_or(Some(0), |it| it.parse().ok())?;
        request.body.resize(length, 0);
        stream.read_exact(&mut request.body).ok()?;
        Some(request)
    }

    /// Returns the value of a header, whose name is in lower case.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        let headers = self.head.lines().filter_map(|line| line.split_once(':'));
        let mut headers = headers.filter(|(found, _)| found.eq_ignore_ascii_case(name));
        headers.next().map(|(_, value)| value.trim())
    }

    /// Returns the body as text.
    #[must_use]
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }
}

/// Reads the head of a request, up to its empty line.
///
/// # Errors
/// The connection has ended, or a read took too long.
pub fn read_head(stream: &mut impl Read) -> io::Result<String> {
    let (mut head, mut byte) = (Vec::new(), [0]);
    while !head.ends_with(b"\r\n\r\n") {
        stream.read_exact(&mut byte)?;
        head.push(byte[0]);
    }
    Ok(String::from_utf8_lossy(&head).into_owned())
}

/// Returns a response with this status, such as `200 OK`.
#[must_use]
pub fn response(status: &str, body: &str) -> Vec<u8> {
    format!("HTTP/1.1 {status}\r\nContent-Length: {}\r\n\r\n{body}", body.len()).into_bytes()
}

/// A server on a free port that accepts connections until it is dropped. Its connections stay open.
#[derive(Debug)]
pub struct Server {
    address: SocketAddr,
    _acceptor: Acceptor,
}

impl Server {
    /// Starts a server that answers each request with the bytes that `answer` returns for it. Without bytes, the server
    /// is silent and reads the next request. `answer` may block, because each connection has a thread of its own.
    pub fn start(answer: impl Fn(&Request) -> Vec<u8> + Send + Sync + 'static) -> Self {
        let answer = Arc::new(answer);
        let serve = move |stream: TcpStream| {
            let answer = answer.clone();
            thread::spawn(move || {
                let mut requests = BufReader::new(&stream);
                while let Some(request) = Request::read(&mut requests) {
                    if (&stream).write_all(&answer(&request)).is_err() {
                        return;
                    }
                }
            });
        };
        let (acceptor, address) = Acceptor::tcp(serve).unwrap();
        Self { address, _acceptor: acceptor }
    }

    /// Returns the address at which the server listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}
