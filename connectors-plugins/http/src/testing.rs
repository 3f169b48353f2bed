//! A server for tests, over real sockets.

use std::{
    io::{Read, Write},
    net::{TcpListener, TcpStream},
    sync::{Arc, Mutex},
    thread,
};

use tremor_pdk::{Delivery, Exception, Undelivered};

/// A request that a [`Server`] received.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    pub(crate) head: String,
    pub(crate) body: Vec<u8>,
}

impl Request {
    /// Returns the path and the query.
    pub(crate) fn target(&self) -> &str {
        self.head.split(' ').nth(1).unwrap()
    }

    /// Returns the body as text.
    pub(crate) fn text(&self) -> &str {
        std::str::from_utf8(&self.body).unwrap()
    }

    /// Returns whether the head has this line.
    pub(crate) fn has(&self, line: &str) -> bool {
        self.head.lines().any(|it| it == line)
    }
}

/// Reaction of a [`Server`] to a request.
#[derive(Clone, Debug)]
pub(crate) enum Reply {
    /// Responds with a status, further lines of the head, each with its end, and a body.
    With(u16, &'static str, String),
    /// Closes the connection after a part of a response.
    Part(&'static str),
    /// Keeps the connection and does not respond.
    Silence,
}

impl Reply {
    pub(crate) fn ok(body: impl Into<String>) -> Self {
        Self::With(200, "", body.into())
    }
}

/// A server that answers each request as `judge` decides, on any number of connections.
pub(crate) struct Server {
    pub(crate) address: String,
    requests: Arc<Mutex<Vec<Request>>>,
}

impl Server {
    pub(crate) fn start(judge: impl Fn(&Request) -> Reply + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let requests = Arc::new(Mutex::new(Vec::new()));
        let state = Arc::new((judge, requests.clone()));
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let state = state.clone();
                thread::spawn(move || answer(stream, &state.0, &state.1));
            }
        });
        Self { address, requests }
    }

    /// Returns the requests since the last call.
    pub(crate) fn requests(&self) -> Vec<Request> {
        std::mem::take(&mut *self.requests.lock().unwrap())
    }
}

fn answer(
    mut stream: TcpStream,
    judge: &impl Fn(&Request) -> Reply,
    requests: &Mutex<Vec<Request>>,
) {
    while let Some((head, body)) = read_request(&mut stream) {
        let request = Request { head, body };
        let reply = judge(&request);
        requests.lock().unwrap().push(request);
        let written = match reply {
            Reply::With(status, headers, body) => {
                let head = format!("HTTP/1.1 {status} X\r\n{headers}");
                let length = body.len();
                write!(stream, "{head}Content-Length: {length}\r\n\r\n{body}")
            }
            Reply::Part(text) => {
                let _ = stream.write_all(text.as_bytes());
                return;
            }
            Reply::Silence => Ok(()),
        };
        if written.is_err() {
            return;
        }
    }
}

/// Reads a request with a `Content-Length`. Returns its head and its body, or `None` at the end of the connection.
pub(crate) fn read_request(stream: &mut TcpStream) -> Option<(String, Vec<u8>)> {
    let mut bytes = Vec::new();
    loop {
        let text = String::from_utf8_lossy(&bytes);
        if let Some(end) = text.find("\r\n\r\n") {
            let head = text[..end].to_owned();
            let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
            let length = length.map_or(0, |length| length.parse().unwrap());
            let mut body = vec![0; length];
            stream.read_exact(&mut body).ok()?;
            return Some((head, body));
        }
        let mut byte = [0];
        if stream.read(&mut byte).ok()? == 0 {
            return None;
        }
        bytes.push(byte[0]);
    }
}

/// Returns the events that were not delivered.
#[track_caller]
pub(crate) fn exceptions(delivery: Delivery) -> Vec<Exception> {
    match delivery {
        Err(Undelivered::Some { exceptions, .. }) => exceptions,
        other => panic!("expected a delivery with exceptions, found {other:?}"),
    }
}
