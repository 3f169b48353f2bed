//! The life of a connection, from its first request to its end.

use std::{
    future::{Future, poll_fn},
    io,
    net::SocketAddr,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, Waker},
};

use hyper::{StatusCode, server::conn::http1, service::service_fn};
use tremor_pdk::{
    debug,
    net::{
        TcpStream,
        futures_io::{AsyncRead, AsyncWrite},
    },
    yield_now,
};

use super::{
    connections::Server,
    peer::{Clock, Peer, Phase},
    queue::Closed,
    request,
};
use crate::io::{Io, Observer, poll_read_some};

/// Response to a request whose head did not arrive in time.
const LATE: &[u8] =
    b"HTTP/1.1 408 Request Timeout\r\nconnection: close\r\ncontent-length: 0\r\n\r\n";

/// Maximum number of bytes to read and discard after a response that was sent before the whole
/// request was read. The value is larger than the socket buffers of the client and the server,
/// which together have 10 MiB on Linux by default.
const READ_AT_LAST: usize = 16 << 20;

/// Number of bytes per read while discarding.
const CHUNK: usize = 16 << 10;

/// Number of reads before the task yields to other tasks.
const READS: usize = 16;

/// Starts the phase [`Phase::Head`] when the first byte of a request arrives.
struct HeadObserver {
    peer: Arc<Peer>,
    clock: Arc<Clock>,
}

impl Observer for HeadObserver {
    /// hyper must not close the connection, because the caller first reads the data that the peer
    /// still sends.
    const CLOSES: bool = false;

    fn received(&self) {
        if self.peer.phase() == Phase::Idle {
            self.peer.begin(Phase::Head, &self.clock);
        }
    }
}

/// Reason why the connection answers no more requests.
enum End {
    /// hyper ended the connection.
    Http(hyper::Result<()>),
    /// The phase took too long.
    Late(Phase),
}

/// Serves a connection from `address`.
pub(crate) async fn serve(
    server: Arc<Server>,
    peer: Arc<Peer>,
    stream: TcpStream,
    address: SocketAddr,
) {
    // Use a guard, so that the end of the connection is also recorded if the task is dropped.
    let _open = OpenGuard { server: &server, peer: &peer };
    if server.headers.is_some() || server.settings.tls.is_some() {
        // The header and the handshake have their own time limits, so they run in a phase without a limit.
        peer.begin(Phase::Flow, &server.clock);
    }
    if let Some(headers) = &server.headers {
        let Some(client) = headers.client(&stream, address).await else { return };
        peer.set_client(client);
    }
    let Some(tls) = &server.settings.tls else {
        peer.begin(Phase::Idle, &server.clock);
        return serve_on(&server, &peer, stream).await;
    };
    match tls.accept(stream, peer.origin()).await {
        Ok(stream) => {
            peer.begin(Phase::Idle, &server.clock);
            serve_on(&server, &peer, stream).await;
        }
        Err(error) => server.refused(&error),
    }
}

/// Answers the requests of a TCP connection or a TLS connection, and closes it.
async fn serve_on<S>(server: &Arc<Server>, peer: &Arc<Peer>, stream: S)
where
    S: AsyncRead + AsyncWrite + Unpin + Send,
{
    let mut stream = answer(server, peer, stream).await;
    // Ignore the error: it only means that the peer has closed the connection first.
    let _ = end(server, peer, &mut stream).await;
}

/// Answers requests until the connection ends, and returns the stream.
async fn answer<S>(server: &Arc<Server>, peer: &Arc<Peer>, stream: S) -> S
where
    S: AsyncRead + AsyncWrite + Unpin + Send,
{
    let answers = service_fn(|request| request::answer(server.clone(), peer.clone(), request));
    let most = server.settings.max_header_bytes;
    let reads = HeadObserver { peer: peer.clone(), clock: server.clock.clone() };
    let mut http = http1::Builder::new()
        .max_buf_size(most)
        .max_header_size(most)
        .serve_connection(Io::new(stream, reads), answers);
    let mut is_last = false;
    let own = Waker::from(peer.clone());
    let mut poll = |context: &mut Context<'_>| {
        if !is_last && server.queue.closed() == Some(Closed::Draining) {
            is_last = true;
            Pin::new(&mut http).graceful_shutdown();
        }
        // In the other phases the request itself checks the time limit.
        let phase = peer.phase();
        if peer.is_overdue() && matches!(phase, Phase::Idle | Phase::Head) {
            return Poll::Ready(End::Late(phase));
        }
        Pin::new(&mut http).poll(context).map(End::Http)
    };
    let ended = poll_fn(|context| peer.poll(context, &own, &mut poll)).await;
    let mut stream = http.into_parts().io.stream;
    match ended {
        End::Http(Ok(())) => {}
        End::Http(Err(error)) => {
            debug!(server.host, "the connection of {} failed: {error}", peer.origin());
            server.counts.broken.add(1);
            if error.is_parse() {
                server.counts.answered(status(&error));
                peer.set_cut_short();
            }
        }
        End::Late(Phase::Head) => {
            server.counts.answered(StatusCode::REQUEST_TIMEOUT);
            peer.set_cut_short();
            // The response fits into the socket buffer unless the peer does not read at all.
            peer.begin(Phase::Last, &server.clock);
            let write = |context: &mut Context<'_>| Pin::new(&mut stream).poll_write(context, LATE);
            if in_time(peer, write).await.unwrap_or(0) < LATE.len() {
                debug!(
                    server.host,
                    "{} did not read the reason why its connection was closed",
                    peer.origin()
                );
            }
        }
        End::Late(_) => {
            debug!(server.host, "closed the idle connection of {}", peer.origin());
            server.counts.idle.add(1);
        }
    }
    stream
}

/// Returns the status with which hyper has answered a request that it cannot parse.
fn status(error: &hyper::Error) -> StatusCode {
    if error.is_parse_too_large() {
        StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE
    } else {
        StatusCode::BAD_REQUEST
    }
}

/// Polls until the result is ready. Returns an error once the current phase takes too long.
async fn in_time<T>(
    peer: &Peer,
    mut poll: impl FnMut(&mut Context<'_>) -> Poll<io::Result<T>>,
) -> io::Result<T> {
    poll_fn(|context| {
        peer.polled(context);
        if peer.is_overdue() {
            return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
        }
        poll(context)
    })
    .await
}

/// Closes a connection. If a response was sent before the whole request was read, reads and
/// discards data that the peer still sends. Otherwise the system would reset the connection, and
/// the peer might never see the response.
async fn end<S>(server: &Server, peer: &Peer, stream: &mut S) -> io::Result<()>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    peer.begin(Phase::Last, &server.clock);
    in_time(peer, |context| Pin::new(&mut *stream).poll_close(context)).await?;
    if !peer.is_cut_short() {
        return Ok(());
    }
    let mut read = 0;
    for reads in 1.. {
        let count = in_time(peer, |context| poll_read_some(stream, context, CHUNK, |_| ())).await?;
        read += count;
        if count == 0 || read >= READ_AT_LAST {
            break;
        }
        if reads % READS == 0 {
            yield_now().await;
        }
    }
    Ok(())
}

/// Guard that records the end of a connection when it is dropped.
struct OpenGuard<'s> {
    server: &'s Server,
    peer: &'s Peer,
}

impl Drop for OpenGuard<'_> {
    fn drop(&mut self) {
        self.server.ended(self.peer);
    }
}
