//! A client of the API, for `tremor top`, `tremor tap` and `tremor reload`.

use std::{future::poll_fn, net::ToSocketAddrs, pin::Pin, time::Duration};

use hyper::{
    Method, Request, Uri,
    body::{Body as _, Incoming},
    client::conn::http1,
    header::{AUTHORIZATION, HOST},
};

use super::{access::Token, body::Body, io::Io};
use crate::{
    clock::Clock,
    executor::{self, net::Connection},
};

/// Maximum wait for the beginning of a response.
const PATIENCE: Duration = Duration::from_secs(5);
/// Maximum time without data from a tap. The server sends a comment every 15 s if there are no events.
const SILENCE: Duration = Duration::from_secs(45);
/// Maximum wait for the outcome of a reload, in which flows drain.
const RELOADS: Duration = Duration::from_mins(30);
/// Maximum size of a response, and of a single event of a tap, in bytes.
const LONGEST: usize = 64 << 20;

/// Reason why there is no response.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The URL is invalid.
    #[error("invalid address `{0}` of an admin API: expected http://HOST:PORT")]
    Address(String),
    /// No server answers at the address.
    #[error(
        "cannot reach an admin API at {address}: {reason}\n  help: start `tremor run` with `--api`, or name \
         its address with `--api URL`"
    )]
    Silent {
        /// Address of the server.
        address: String,
        /// Reason of the failure.
        reason: String,
    },
    /// The connection ended during the response.
    #[error("lost the connection to the admin API at {address}: {reason}")]
    Gone {
        /// Address of the server.
        address: String,
        /// Reason of the failure.
        reason: String,
    },
    /// The response, or an event of a tap, exceeds the maximum size.
    #[error("the response of the admin API at {address} exceeds the limit of {longest} bytes")]
    TooLong {
        /// Address of the server.
        address: String,
        /// Maximum size, in bytes.
        longest: usize,
    },
    /// The server rejected the request. Contains the reason that the server gave.
    #[error("{0}")]
    Refused(String),
}

/// Client of one admin API.
#[derive(Clone, Debug)]
pub struct Client {
    /// Host and port, as in the URL.
    host: String,
    name: String,
    port: u16,
    token: Option<Token>,
    longest: usize,
    clock: Clock,
}

impl Client {
    /// Creates a client for the API at `url`, with a token if the API needs one.
    ///
    /// # Errors
    /// The URL does not have the form `http://HOST:PORT`.
    pub fn new(url: &str, token: Option<Token>) -> Result<Self, Error> {
        let wrong = || Error::Address(url.to_owned());
        let full = if url.contains("://") { url.to_owned() } else { format!("http://{url}") };
        let uri: Uri = full.parse().map_err(|_| wrong())?;
        let authority = uri.authority().ok_or_else(wrong)?;
        if uri.scheme_str() != Some("http") || uri.path().len() > 1 {
            return Err(wrong());
        }
        let name = authority.host().trim_matches(['[', ']']).to_owned();
        let port = authority.port_u16().unwrap_or(80);
        let host = authority.as_str().to_owned();
        Ok(Self { host, name, port, token, longest: LONGEST, clock: Clock::default() })
    }

    /// Returns host and port of the API.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// Requests `path` and returns the response as JSON.
    ///
    /// # Errors
    /// Fails if the server cannot be reached, does not respond, or rejects the request.
    pub fn get(&self, path: &str) -> Result<serde_json::Value, Error> {
        self.json(Method::GET, path, PATIENCE)
    }

    /// Requests a change with the method POST, and returns the response as JSON. The response may take as long as a
    /// reload.
    ///
    /// # Errors
    /// Fails if the server cannot be reached, does not respond, or rejects the request.
    pub fn post(&self, path: &str) -> Result<serde_json::Value, Error> {
        self.json(Method::POST, path, RELOADS)
    }

    fn json(
        &self,
        method: Method,
        path: &str,
        patience: Duration,
    ) -> Result<serde_json::Value, Error> {
        let mut text = Vec::new();
        executor::block_on(self.ask((method, path), patience, PATIENCE, |part| {
            text.extend_from_slice(part);
            text.len() <= self.longest
        }))?;
        self.expect_short(&text)?;
        serde_json::from_slice(&text).map_err(|error| self.silent(&error))
    }

    /// Calls `event` for each event that the server sends, until `event` returns `false` or the process ends.
    ///
    /// # Errors
    /// The connection fails, or the server rejected the request.
    pub fn listen(&self, path: &str, mut event: impl FnMut(&str) -> bool) -> Result<(), Error> {
        let mut text = Vec::new();
        executor::block_on(self.ask((Method::GET, path), PATIENCE, SILENCE, |part| {
            text.extend_from_slice(part);
            while let Some(end) = text.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = text.drain(..=end).collect();
                let line = String::from_utf8_lossy(&line);
                let data = line.trim_end().strip_prefix("data: ");
                if data.is_some_and(|data| !event(data)) {
                    return false;
                }
            }
            text.len() <= self.longest
        }))?;
        self.expect_short(&text)
    }

    /// Checks that a received text does not exceed the maximum size.
    fn expect_short(&self, text: &[u8]) -> Result<(), Error> {
        if text.len() > self.longest {
            return Err(Error::TooLong { address: self.host.clone(), longest: self.longest });
        }
        Ok(())
    }

    /// Sends a request and calls `part` for each part of the response until `part` returns `false`. Fails if the
    /// response does not begin within the time `patience`, or no part is received for the time `silence`.
    async fn ask(
        &self,
        (method, path): (Method, &str),
        patience: Duration,
        silence: Duration,
        mut part: impl FnMut(&[u8]) -> bool,
    ) -> Result<(), Error> {
        let connects = async {
            let connection = Io::new(self.connect().await?, self.clock.clone());
            http1::handshake(connection).await.map_err(|error| self.silent(&error))
        };
        let (mut sender, connection) = executor::first(connects, self.late(PATIENCE)).await?;
        let mut connection = std::pin::pin!(connection);
        let mut request = Request::builder().method(method).uri(path).header(HOST, &*self.host);
        if let Some(token) = &self.token {
            request = request.header(AUTHORIZATION, format!("Bearer {}", token.as_str()));
        }
        let wrong = |_| Error::Address(path.to_owned());
        let request = request.body(Body::full("")).map_err(wrong)?;
        let answers = async {
            let answer = sender.send_request(request);
            let answer = with(answer, connection.as_mut()).await;
            answer.map_err(|error| self.silent(&error))
        };
        let answer = executor::first(answers, self.late(patience)).await?;
        let (status, mut body) = (answer.status(), answer.into_body());
        let mut problem = Vec::new();
        loop {
            let silent = async {
                self.clock.sleep(silence).await;
                Err(self.gone(&format_args!("no data for {} s", silence.as_secs())))
            };
            let comes = async { Ok(with(next(&mut body), connection.as_mut()).await) };
            let frame = executor::first(comes, silent).await?;
            let Some(frame) = frame.transpose().map_err(|error| self.gone(&error))? else {
                break;
            };
            let Some(data) = frame.data_ref() else { continue };
            if !status.is_success() {
                problem.extend_from_slice(data);
            } else if !part(data) {
                break;
            }
        }
        if status.is_success() { Ok(()) } else { Err(refused(status.as_u16(), &problem)) }
    }

    /// Connects to the first address of the host that answers. The name is looked up for each connection, because the
    /// server may move while `tremor top` runs.
    async fn connect(&self) -> Result<Connection, Error> {
        let found = (&*self.name, self.port).to_socket_addrs();
        let addresses: Vec<_> = found.map_err(|error| self.silent(&error))?.collect();
        let share = PATIENCE / (u32::try_from(addresses.len()).unwrap_or(u32::MAX - 1) + 1);
        let mut failed = Vec::new();
        for address in addresses {
            let connects = async { Connection::to(address).await.map_err(|it| it.to_string()) };
            let late = async {
                self.clock.sleep(share).await;
                Err(format!("no answer within {share:?}"))
            };
            match executor::first(connects, late).await {
                Ok(connection) => return Ok(connection),
                Err(cause) => failed.push(format!("{address}: {cause}")),
            }
        }
        Err(self.silent(&failed.join("; ")))
    }

    /// Returns an error once the maximum wait for the beginning of a response is over.
    async fn late<T>(&self, patience: Duration) -> Result<T, Error> {
        self.clock.sleep(patience).await;
        Err(self.silent(&format_args!("no response within {} s", patience.as_secs())))
    }

    fn gone(&self, reason: &dyn std::fmt::Display) -> Error {
        Error::Gone { address: self.host.clone(), reason: reason.to_string() }
    }

    fn silent(&self, reason: &dyn std::fmt::Display) -> Error {
        Error::Silent { address: self.host.clone(), reason: reason.to_string() }
    }
}

type Frame = Option<Result<hyper::body::Frame<hyper::body::Bytes>, hyper::Error>>;

async fn next(body: &mut Incoming) -> Frame {
    poll_fn(|context| Pin::new(&mut *body).poll_frame(context)).await
}

/// Waits for `wanted`, and meanwhile polls the connection, which `wanted` needs to make progress.
async fn with<T>(
    wanted: impl Future<Output = T>,
    mut connection: Pin<&mut impl Future<Output = hyper::Result<()>>>,
) -> T {
    let (mut wanted, mut has_ended) = (std::pin::pin!(wanted), false);
    poll_fn(|context| {
        // If the connection ends with an error, `wanted` completes with an error too.
        has_ended = has_ended || connection.as_mut().poll(context).is_ready();
        wanted.as_mut().poll(context)
    })
    .await
}

/// Converts the problem document of a rejected request to an error.
fn refused(status: u16, problem: &[u8]) -> Error {
    let problem: Option<serde_json::Value> = serde_json::from_slice(problem).ok();
    let detail = problem.as_ref().and_then(|problem| problem.get("detail")?.as_str());
    Error::Refused(match detail {
        Some(detail) => {
            format!("the admin API rejected the request with status {status}: {detail}")
        }
        None => format!("the admin API rejected the request with status {status}"),
    })
}

#[cfg(test)]
mod tests {
    use std::{
        io::{Read, Write},
        net::TcpListener,
        thread,
    };

    use super::{Client, Error};

    /// Returns a client of a server that sends `body` as the response to its first request.
    fn client(body: &'static str) -> Client {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        thread::spawn(move || {
            let (mut connection, _) = listener.accept().unwrap();
            // Reads the whole request, which has no body.
            let mut request = Vec::new();
            while !request.ends_with(b"\r\n\r\n") {
                let mut byte = [0];
                connection.read_exact(&mut byte).unwrap();
                request.extend(byte);
            }
            let length = body.len();
            let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {length}\r\n\r\n");
            connection.write_all((head + body).as_bytes()).unwrap();
            // Waits until the client disconnects.
            _ = connection.read_to_end(&mut Vec::new());
        });
        Client { longest: 20, ..Client::new(&address.to_string(), None).unwrap() }
    }

    #[test]
    fn too_long_response_is_an_error() {
        let (fits, too_long) = (r#"["a text of twenty"]"#, r#"["a text that is too long"]"#);
        assert_eq!(client(fits).get("/").unwrap()[0], "a text of twenty");
        assert!(matches!(client(too_long).get("/"), Err(Error::TooLong { longest: 20, .. })));
    }

    #[test]
    fn tap_may_be_endless_but_its_events_are_limited() {
        let mut events = Vec::new();
        let mut listen = |body| {
            let mut keep = |event: &str| {
                events.push(event.to_owned());
                true
            };
            client(body).listen("/", &mut keep)
        };
        listen("data: 1234567890\n\ndata: 1234567891\n\n").unwrap();
        let cut = listen("data: 1234567892\n\ndata: \"a text that is too long");
        assert!(matches!(cut, Err(Error::TooLong { .. })), "{cut:?}");
        assert_eq!(events, ["1234567890", "1234567891", "1234567892"]);
    }
}
