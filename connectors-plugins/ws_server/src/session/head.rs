//! The heads of HTTP messages, with which a connection begins.

use std::{
    future::poll_fn,
    io,
    pin::Pin,
    task::{Context, Poll, ready},
};

use tremor_pdk::net::futures_io::{AsyncRead, AsyncWrite};

/// The longest head, in bytes.
const MOST: usize = 16 << 10;

/// Reads once, and has `take` look at that. The buffer exists during the poll only: in a future, each connection would
/// keep it to its end, and each future around that one as well.
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

/// Reads up to the end of a head, and maybe further: gives what was read, and the length of the head.
///
/// # Errors
/// The stream's; of the kind "invalid data" if the head is too long.
pub(crate) async fn read_head<S: AsyncRead + Unpin>(
    stream: &mut S,
) -> io::Result<(Vec<u8>, usize)> {
    let mut bytes = Vec::new();
    loop {
        // An end may have come in two parts.
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
                format!("the head of the handshake has more than {MOST} bytes"),
            ));
        }
    }
}

/// Writes all of this.
///
/// # Errors
/// The stream's.
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
