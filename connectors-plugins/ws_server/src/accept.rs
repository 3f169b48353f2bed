//! Where connections come in.

use std::{future::poll_fn, io, net::SocketAddr, sync::Arc, time::Duration};

use rustix::{io::Errno, net::sockopt};
use tremor_pdk::{
    LimitedLog,
    net::{
        TcpListener, TcpStream,
        futures_io::{AsyncRead, AsyncWrite},
        tls::TlsAcceptor,
        within,
    },
};
use tungstenite::protocol::{Role, WebSocketContext};

use crate::{
    config::SendTo,
    handshake,
    hub::Hub,
    session::{Link, Session},
};

/// How long to wait where no descriptor is left.
const RETRY: Duration = Duration::from_millis(250);

/// Time in which at most one line says why connections wait.
const LOGGED_EVERY: Duration = Duration::from_mins(1);

/// How long a client may take to say what it wants.
const HANDSHAKE: Duration = Duration::from_secs(10);

/// Accepts connections for as long as it is polled.
pub(crate) async fn run(hub: Arc<Hub>, listener: TcpListener, tls: Option<TlsAcceptor>) {
    let log = hub.host.limited_log(1, LOGGED_EVERY);
    loop {
        poll_fn(|context| hub.poll_room(context)).await;
        if !hub.reserve() {
            let why = "the flow has reached its memory limit. Raise `--memory-limit`";
            report(&log, why);
            hub.host.sleep(RETRY).await;
            continue;
        }
        match listener.accept().await {
            Ok((stream, peer)) => {
                hub.counts.accepted.add(1);
                let number = hub.next_stream();
                hub.start(number, begin(hub.clone(), number, stream, peer, tls.clone()));
            }
            Err(error) => {
                hub.counts.accept_errors.add(1);
                if is_of_one(&error) {
                    continue;
                }
                let why = format!(
                    "{error}. If no descriptor is left, allow the process more open files (`ulimit -n`)"
                );
                report(&log, &why);
                hub.host.sleep(RETRY).await;
            }
        }
    }
}

/// Logs why connections wait, at most once a minute.
fn report(log: &LimitedLog, why: &str) {
    tremor_pdk::warn!(
        log,
        "cannot accept connections, which wait: {why}, or lower `max_connections`"
    );
}

/// Whether an error is of one connection, and not of all.
fn is_of_one(error: &io::Error) -> bool {
    let those =
        [Errno::CONNABORTED, Errno::INTR, Errno::PROTO, Errno::HOSTUNREACH, Errno::NETUNREACH];
    Errno::from_io_error(error).is_some_and(|error| those.contains(&error))
}

/// A connection, from its first byte to its last.
async fn begin(
    hub: Arc<Hub>,
    number: u64,
    stream: TcpStream,
    peer: SocketAddr,
    tls: Option<TlsAcceptor>,
) {
    // Messages are put together before they are written.
    let _ = sockopt::set_tcp_nodelay(stream.get_ref(), true);
    match tls {
        None => serve(hub, number, stream, peer).await,
        Some(tls) => match tls.accept(stream, &peer).await {
            Ok(stream) => serve(hub, number, stream, peer).await,
            Err(error) => {
                hub.counts.handshakes_failed.add(1);
                tremor_pdk::debug!(hub.host, "{error}");
            }
        },
    }
}

async fn serve<S: AsyncRead + AsyncWrite + Unpin>(
    hub: Arc<Hub>,
    number: u64,
    mut stream: S,
    peer: SocketAddr,
) {
    let shaken =
        within(&hub.host, HANDSHAKE, handshake::shake(&mut stream, &hub.config.path)).await;
    let rest = match shaken {
        Some(Ok(rest)) => rest,
        Some(Err(error)) => {
            hub.counts.handshakes_failed.add(1);
            return tremor_pdk::debug!(hub.host, "{peer}: no WebSocket: {error}");
        }
        None => {
            hub.counts.handshakes_failed.add(1);
            return tremor_pdk::debug!(hub.host, "{peer}: no handshake in {HANDSHAKE:?}");
        }
    };
    let config = Some(hub.limits.config());
    let socket = WebSocketContext::from_partially_read(rest, Role::Server, config);
    let shares_payloads = hub.config.send_to == SendTo::All;
    let link = Link::new(number, peer.to_string().into(), &hub.budget, shares_payloads);
    let link = Arc::new(link);
    hub.open(&link);
    let session =
        Session::new(&hub.host, stream, socket, link.clone(), hub.inbox.clone(), &hub.limits);
    let end = session.run().await;
    hub.closed(&link, &end);
}
