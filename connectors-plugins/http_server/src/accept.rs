//! Where connections come in.

use std::{future::poll_fn, io, net::SocketAddr, sync::Arc, time::Duration};

use rustix::{io::Errno, net::sockopt::set_tcp_nodelay};
use tremor_pdk::{
    LimitedLog, debug,
    net::{TcpListener, TcpStream},
    warn, yield_now,
};

use crate::{
    connection,
    server::{LOGGED_EVERY, Server},
};

/// How many connections are accepted before others have their turn.
const ACCEPTED_AT_MOST: usize = 64;

/// How long to wait where no descriptor is left.
const RETRY: Duration = Duration::from_millis(250);

/// Accepts connections, until it is dropped.
pub(crate) async fn accept(server: Arc<Server>, listener: TcpListener) {
    let log = server.host.limited_log(1, LOGGED_EVERY);
    loop {
        for _ in 0..ACCEPTED_AT_MOST {
            server.has_room().await;
            if !server.reserve() {
                report(&log, "the flow has reached its memory limit. Raise `--memory-limit`");
                server.host.sleep(RETRY).await;
                continue;
            }
            match poll_fn(|context| listener.poll_accept(context)).await {
                Ok((stream, address)) => serve(&server, stream, address),
                Err(error) => cannot_accept(&server, &error, &log).await,
            }
        }
        yield_now().await;
    }
}

/// Serves a connection in a task of its own.
fn serve(server: &Arc<Server>, stream: TcpStream, address: SocketAddr) {
    let Some(peer) = server.begin(address) else { return };
    // An answer is written at once, and does not wait for more.
    let _ = set_tcp_nodelay(stream.get_ref(), true);
    let number = peer.stream;
    let serves = connection::serve(server.clone(), peer, stream);
    server.keep(number, server.host.spawn("serves a connection", serves));
}

/// Waits after an error of all connections, and not after one of a connection that was accepted.
async fn cannot_accept(server: &Server, error: &io::Error, log: &LimitedLog) {
    server.counts.accept_errors.add(1);
    let of_all = [Errno::MFILE, Errno::NFILE, Errno::NOBUFS, Errno::NOMEM, Errno::PERM];
    if !Errno::from_io_error(error).is_some_and(|error| of_all.contains(&error)) {
        debug!(server.host, "a connection broke before it was accepted: {error}");
        return yield_now().await;
    }
    let why = format!(
        "{error}. If no descriptor is left, allow the process more open files (`ulimit -n`)"
    );
    report(log, &why);
    server.host.sleep(RETRY).await;
}

/// Logs why connections wait, at most once a minute.
fn report(log: &LimitedLog, why: &str) {
    warn!(log, "cannot accept connections, which wait: {why}, or lower `max_connections`");
}
