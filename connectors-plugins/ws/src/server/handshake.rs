//! WebSocket handshake of the server.

use std::{fmt, io};

use tremor_pdk::net::futures_io::{AsyncRead, AsyncWrite};
use tungstenite::{
    Error,
    error::ProtocolError,
    handshake::{
        machine::TryParse,
        server::{Request, create_response, write_response},
    },
    http::{HeaderValue, header},
};

use crate::session::{has_token, read_head, write_all};

/// Failure of a handshake.
#[derive(Debug)]
pub(crate) enum Failed {
    /// The connection broke, or no request arrived.
    Stream(io::Error),
    /// The request was rejected with this status and reason.
    Rejected(&'static str, String),
}

impl fmt::Display for Failed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Stream(error) => error.fmt(f),
            Self::Rejected(status, why) => write!(f, "answered with {status}: {why}"),
        }
    }
}

/// Answers the first request of a connection. Returns the bytes of the stream that were read after
/// the request.
///
/// # Errors
/// The request was rejected with a response, because it does not request a WebSocket at `path`; or
/// the connection broke.
pub(crate) async fn perform<S: AsyncRead + AsyncWrite + Unpin>(
    stream: &mut S,
    path: &str,
) -> Result<Vec<u8>, Failed> {
    let refused = match read_head(stream).await {
        Ok((mut bytes, head)) => match answer(&bytes[..head], path) {
            Ok(answer) => {
                write_all(stream, &answer).await.map_err(Failed::Stream)?;
                bytes.drain(..head);
                return Ok(bytes);
            }
            Err(refused) => refused,
        },
        Err(error) if error.kind() == io::ErrorKind::InvalidData => {
            ("431 Request Header Fields Too Large", error.to_string())
        }
        Err(error) => return Err(Failed::Stream(error)),
    };
    let (status, why) = refused;
    let text = format!(
        "HTTP/1.1 {status}\r\nConnection: close\r\nSec-WebSocket-Version: 13\r\nUpgrade: websocket\r\n\
         Content-Type: text/plain\r\nContent-Length: {}\r\n\r\n{why}\n",
        why.len() + 1
    );
    write_all(stream, text.as_bytes()).await.map_err(Failed::Stream)?;
    let _ =
        std::future::poll_fn(|context| std::pin::Pin::new(&mut *stream).poll_close(context)).await;
    Err(Failed::Rejected(status, why))
}

/// Returns the response to a request, or the status and the reason of a rejection.
fn answer(head: &[u8], path: &str) -> Result<Vec<u8>, (&'static str, String)> {
    let refused = |error: &Error| (status(error), error.to_string());
    let request = Request::try_parse(head).map_err(|error| refused(&error))?;
    let Some((_, mut request)) = request else {
        return Err(("400 Bad Request", "the head of the request is incomplete".to_owned()));
    };
    if request.uri().path() != path {
        return Err(("404 Not Found", "there is nothing at this path".to_owned()));
    }
    // `create_response` checks only the first header of each name, and expects a single token in `Upgrade`.
    let headers = request.headers_mut();
    for (name, token) in [(header::CONNECTION, "Upgrade"), (header::UPGRADE, "websocket")] {
        if has_token(headers, &name, token) {
            headers.insert(name, HeaderValue::from_static(token));
        }
    }
    let response = create_response(&request).map_err(|error| refused(&error))?;
    let mut answer = Vec::new();
    write_response(&mut answer, &response).map_err(|error| refused(&error))?;
    Ok(answer)
}

fn status(error: &Error) -> &'static str {
    match error {
        Error::Protocol(ProtocolError::WrongHttpMethod) => "405 Method Not Allowed",
        Error::Protocol(
            ProtocolError::MissingConnectionUpgradeHeader
            | ProtocolError::MissingUpgradeWebSocketHeader
            | ProtocolError::MissingSecWebSocketVersionHeader,
        ) => "426 Upgrade Required",
        Error::Capacity(_) => "431 Request Header Fields Too Large",
        _ => "400 Bad Request",
    }
}

#[cfg(test)]
mod tests {
    use super::answer;

    #[test]
    fn lists_in_several_headers_are_joined() {
        let status = |headers: &str| {
            let head = format!(
                "GET / HTTP/1.1\r\nHost: a\r\n{headers}\r\nSec-WebSocket-Version: 13\r\n\
                 Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
            );
            answer(head.as_bytes(), "/").map_or_else(|(status, _)| status, |_| "101")
        };
        for headers in [
            "Connection: keep-alive\r\nUpgrade: websocket\r\nConnection: Upgrade",
            "Connection: keep-alive,UPGRADE , x\r\nUpgrade: WebSocket",
            "Connection: Upgrade\r\nUpgrade: h2c, websocket",
            "Connection: Upgrade\r\nUpgrade: h2c\r\nUpgrade: websocket",
        ] {
            assert_eq!(status(headers), "101", "{headers}");
        }
        for headers in [
            "Connection: keep-alive\r\nConnection: close\r\nUpgrade: websocket",
            "Connection: Upgrade\r\nUpgrade: h2c\r\nUpgrade: websocket2",
        ] {
            assert_eq!(status(headers), "426 Upgrade Required", "{headers}");
        }
    }
}
