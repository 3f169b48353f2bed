//! Acceptance of connections.

use std::{future::poll_fn, io, net::SocketAddr, sync::Arc, time::Duration};

use rustix::{io::Errno, net::sockopt};
use tremor_pdk::{
    Error, LimitedLog, Problem,
    net::{
        TcpListener, TcpStream,
        futures_io::{AsyncRead, AsyncWrite},
        peer_origin,
        tls::TlsAcceptor,
        within,
    },
};
use tungstenite::protocol::{Role, WebSocketContext};

use super::{config::SendTo, connections::Connections, handshake};
use crate::session::{Link, Session};

/// Time between two attempts to accept a connection while memory, descriptors or another resource
/// is exhausted.
const RETRY: Duration = Duration::from_millis(250);

/// Period in which at most one line reports why connections wait.
const LOGGED_EVERY: Duration = Duration::from_mins(1);

/// Maximum time for a client's handshake.
const HANDSHAKE: Duration = Duration::from_secs(10);

/// Accepts connections until the task is dropped.
pub(crate) async fn run(
    connections: Arc<Connections>,
    listener: TcpListener,
    tls: Option<TlsAcceptor>,
) {
    let waiting = Waiting {
        log: connections.host.limited_log(1, LOGGED_EVERY),
        problem: connections.host.problem("accept"),
    };
    loop {
        poll_fn(|context| connections.poll_capacity(context)).await;
        if !connections.reserve() {
            let why = "the flow has reached its memory limit; raise `--memory-limit`";
            waiting.log(why);
            connections.host.sleep(RETRY).await;
            continue;
        }
        let accepted = poll_fn(|context| {
            let accepted = listener.poll_accept(context);
            if accepted.is_pending() {
                waiting.problem.clear();
            }
            accepted
        });
        match accepted.await {
            Ok((stream, peer)) => {
                waiting.problem.clear();
                connections.counts.accepted.add(1);
                let number = connections.next_stream();
                connections
                    .start(number, begin(connections.clone(), number, stream, peer, tls.clone()));
            }
            Err(error) => {
                connections.counts.accept_errors.add(1);
                if is_of_one(&error) {
                    continue;
                }
                waiting.fail(&error);
                connections.host.sleep(RETRY).await;
            }
        }
    }
}

/// Reports that connections wait and cannot be accepted.
struct Waiting {
    log: LimitedLog,
    problem: Problem,
}

impl Waiting {
    /// Logs `why` connections wait, at most once a minute. Returns the message.
    fn log(&self, why: &str) -> String {
        let message = format!("connections wait to be accepted: {why}, or lower `max_connections`");
        tremor_pdk::warn!(self.log, "{message}");
        message
    }

    /// Reports that accepting has failed.
    fn fail(&self, error: &io::Error) {
        let why = format!("{error}; allow the process more open files (`ulimit -n`)");
        self.problem.set(&Error::shortage(self.log(&why)));
    }
}

/// Returns whether an error of `accept` affects only a single connection.
fn is_of_one(error: &io::Error) -> bool {
    let those =
        [Errno::CONNABORTED, Errno::INTR, Errno::PROTO, Errno::HOSTUNREACH, Errno::NETUNREACH];
    Errno::from_io_error(error).is_some_and(|error| those.contains(&error))
}

/// Serves a connection from its first byte to its last.
async fn begin(
    connections: Arc<Connections>,
    number: u64,
    stream: TcpStream,
    peer: SocketAddr,
    tls: Option<TlsAcceptor>,
) {
    // Disable Nagle's algorithm, because the session combines messages before it writes them.
    let _ = sockopt::set_tcp_nodelay(stream.get_ref(), true);
    let peer = match &connections.headers {
        None => peer,
        Some(headers) => match headers.client(&stream, peer).await {
            Some(client) => client,
            None => return,
        },
    };
    match tls {
        None => serve(connections, number, stream, peer).await,
        Some(tls) => match tls.accept(stream, &peer).await {
            Ok(stream) => serve(connections, number, stream, peer).await,
            Err(error) => {
                connections.counts.handshakes_failed.add(1);
                tremor_pdk::debug!(connections.host, "{error}");
            }
        },
    }
}

async fn serve<S: AsyncRead + AsyncWrite + Unpin>(
    connections: Arc<Connections>,
    number: u64,
    mut stream: S,
    peer: SocketAddr,
) {
    let performed = within(
        &connections.host,
        HANDSHAKE,
        handshake::perform(&mut stream, &connections.config.path),
    )
    .await;
    let rest = match performed {
        Some(Ok(rest)) => rest,
        Some(Err(error)) => {
            connections.counts.handshakes_failed.add(1);
            return tremor_pdk::debug!(connections.host, "the handshake of {peer} failed: {error}");
        }
        None => {
            connections.counts.handshakes_failed.add(1);
            return tremor_pdk::debug!(
                connections.host,
                "{peer} sent no handshake within {HANDSHAKE:?}"
            );
        }
    };
    let config = Some(connections.limits.config());
    let socket = WebSocketContext::from_partially_read(rest, Role::Server, config);
    let shares_payloads = connections.config.send_to == SendTo::All;
    let link = Link::new(number, peer_origin(peer).into(), &connections.budget, shares_payloads);
    let link = Arc::new(link);
    connections.open(&link);
    let session = Session::new(
        &connections.host,
        stream,
        socket,
        link.clone(),
        connections.inbox.clone(),
        &connections.limits,
    );
    let end = session.run().await;
    connections.closed(&link, &end);
}
