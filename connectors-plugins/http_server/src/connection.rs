//! One connection, from its first request to its end.

use std::{
    future::{Future, poll_fn},
    io,
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

use crate::{
    io::{Io, poll_read_some},
    peer::{Peer, Phase},
    request,
    room::Closed,
    server::Server,
};

/// The answer to a request whose head does not come.
const LATE: &[u8] =
    b"HTTP/1.1 408 Request Timeout\r\nconnection: close\r\ncontent-length: 0\r\n\r\n";

/// How much is read of what a peer still sends that was answered before, in bytes: more than the systems of both sides
/// hold of it, which on Linux is 10 MiB unless they are told otherwise.
const READ_AT_LAST: usize = 16 << 20;

/// How much of it is read at once, in bytes.
const CHUNK: usize = 16 << 10;

/// After how many of these reads others have their turn.
const READS: usize = 16;

/// How a connection comes to its end.
enum End {
    /// As hyper says.
    Http(hyper::Result<()>),
    /// In this phase, which took too long.
    Late(Phase),
}

/// Serves a connection.
pub(crate) async fn serve(server: Arc<Server>, peer: Arc<Peer>, stream: TcpStream) {
    // Also where the task is dropped.
    let _open = IsOpen { server: &server, peer: &peer };
    let Some(tls) = &server.settings.tls else { return serve_on(&server, &peer, stream).await };
    // It has a limit of its own.
    peer.begin(Phase::Flow, &server.clock);
    match tls.accept(stream, &peer.name).await {
        Ok(stream) => {
            peer.begin(Phase::Idle, &server.clock);
            serve_on(&server, &peer, stream).await;
        }
        Err(error) => server.refused(&error),
    }
}

/// Serves a connection of TCP, or of what is on top of it.
async fn serve_on<S>(server: &Arc<Server>, peer: &Arc<Peer>, stream: S)
where
    S: AsyncRead + AsyncWrite + Unpin + Send,
{
    let mut stream = answer(server, peer, stream).await;
    // The peer may have given up: whatever comes of it, the connection is over.
    let _ = end(server, peer, &mut stream).await;
}

/// Answers requests for as long as there are any, and gives the stream back.
async fn answer<S>(server: &Arc<Server>, peer: &Arc<Peer>, stream: S) -> S
where
    S: AsyncRead + AsyncWrite + Unpin + Send,
{
    let answers = service_fn(|request| request::answer(server.clone(), peer.clone(), request));
    let most = server.settings.max_header_bytes;
    let mut http = http1::Builder::new()
        .max_buf_size(most)
        .max_header_size(most)
        .serve_connection(Io::new(stream, peer.clone(), server.clock.clone()), answers);
    let mut is_last = false;
    let own = Waker::from(peer.clone());
    let mut poll = |context: &mut Context<'_>| {
        if !is_last && server.room.closed() == Some(Closed::Draining) {
            is_last = true;
            Pin::new(&mut http).graceful_shutdown();
        }
        // In other phases the request itself looks at that.
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
            debug!(server.host, "the connection of {} has failed: {error}", peer.name);
            server.counts.broken.add(1);
            if error.is_parse() {
                server.counts.answered(status(&error));
                peer.set_cut_short();
            }
        }
        End::Late(Phase::Head) => {
            server.counts.answered(StatusCode::REQUEST_TIMEOUT);
            peer.set_cut_short();
            // It fits into what the system sends by itself, or the peer does not read at all.
            peer.begin(Phase::Last, &server.clock);
            let write = |context: &mut Context<'_>| Pin::new(&mut stream).poll_write(context, LATE);
            if in_time(peer, write).await.unwrap_or(0) < LATE.len() {
                debug!(server.host, "{} does not read why it was closed", peer.name);
            }
        }
        End::Late(_) => {
            debug!(server.host, "{} has sent no request for too long", peer.name);
            server.counts.idle.add(1);
        }
    }
    stream
}

/// What hyper has answered by itself.
fn status(error: &hyper::Error) -> StatusCode {
    if error.is_parse_too_large() {
        StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE
    } else {
        StatusCode::BAD_REQUEST
    }
}

/// An error once the peer has taken too long.
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

/// Closes a connection. What the peer is still sending is read for a while: otherwise the system would
/// reset the connection, and the peer might never see its answer.
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

/// Says when the connection has ended.
struct IsOpen<'s> {
    server: &'s Server,
    peer: &'s Peer,
}

impl Drop for IsOpen<'_> {
    fn drop(&mut self) {
        self.server.ended(self.peer);
    }
}
