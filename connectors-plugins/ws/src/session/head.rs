//! Reads and writes the HTTP messages of the handshake.

use std::{
    future::poll_fn,
    io,
    pin::Pin,
    task::{Context, Poll, ready},
};

use tremor_pdk::net::futures_io::{AsyncRead, AsyncWrite};
use tungstenite::http::{HeaderMap, HeaderName};

/// Maximum length of a head, in bytes.
const MOST: usize = 16 << 10;

/// Reads once, at most `SPACE` bytes, and passes the bytes to `take`. The buffer is on the stack
/// and exists only during the poll. If the buffer were a part of the future, each connection would keep its
/// memory until the connection ends.
pub(super) fn poll_read_some<const SPACE: usize, S: AsyncRead + Unpin>(
    stream: &mut S,
    context: &mut Context<'_>,
    take: impl FnOnce(&[u8]),
) -> Poll<io::Result<usize>> {
    let mut space = [0; SPACE];
    let count = ready!(Pin::new(stream).poll_read(context, &mut space))?;
    take(&space[..count]);
    Poll::Ready(Ok(count))
}

/// Reads until the head of an HTTP message is complete. Returns all bytes that were read, and the
/// length of the head.
///
/// # Errors
/// Errors of the stream; kind `InvalidData` if the head is too long.
pub(crate) async fn read_head<S: AsyncRead + Unpin>(
    stream: &mut S,
) -> io::Result<(Vec<u8>, usize)> {
    let mut bytes = Vec::new();
    loop {
        // Search from three bytes before the new data, because the four bytes that end a head may
        // be split between two reads.
        let from = bytes.len().saturating_sub(3);
        let read = poll_fn(|context| {
            poll_read_some::<1024, _>(stream, context, |read| bytes.extend_from_slice(read))
        });
        if read.await? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        if let Some(end) = bytes[from..].windows(4).position(|it| it == b"\r\n\r\n") {
            let end = from + end + 4;
            if end <= MOST {
                return Ok((bytes, end));
            }
        }
        if bytes.len() > MOST {
            return Err(io::Error::new(
                io::ErrorKind::InvalidData,
                format!("the head of the handshake exceeds {MOST} bytes"),
            ));
        }
    }
}

/// Writes and flushes all bytes.
///
/// # Errors
/// Errors of the stream.
pub(crate) async fn write_all<S: AsyncWrite + Unpin>(
    stream: &mut S,
    mut bytes: &[u8],
) -> io::Result<()> {
    while !bytes.is_empty() {
        let written = poll_fn(|context| Pin::new(&mut *stream).poll_write(context, bytes)).await?;
        if written == 0 {
            return Err(io::ErrorKind::WriteZero.into());
        }
        bytes = &bytes[written..];
    }
    poll_fn(|context| Pin::new(&mut *stream).poll_flush(context)).await
}

/// Returns whether the header `name` has `token` in its list, without regard to ASCII case. A list may be divided among
/// several headers of the same name (RFC 9110, section 5.3).
pub(crate) fn has_token(headers: &HeaderMap, name: &HeaderName, token: &str) -> bool {
    let lists = headers.get_all(name).iter().filter_map(|value| value.to_str().ok());
    lists.flat_map(|list| list.split(',')).any(|it| it.trim().eq_ignore_ascii_case(token))
}
