//! Acceptance of connections.

use std::{future::poll_fn, io, net::SocketAddr, sync::Arc, time::Duration};

use rustix::{io::Errno, net::sockopt::set_tcp_nodelay};
use tremor_pdk::{
    Error, LimitedLog, Problem, debug,
    net::{TcpListener, TcpStream},
    warn, yield_now,
};

use super::{
    connection,
    connections::{LOGGED_EVERY, Server},
};

/// Maximum number of connections to accept before the task yields to other tasks.
const ACCEPTED_AT_MOST: usize = 64;

/// Time between two attempts to accept a connection while memory, descriptors or another resource
/// is exhausted.
const RETRY: Duration = Duration::from_millis(250);

/// Accepts connections until the task is dropped.
pub(crate) async fn accept(server: Arc<Server>, listener: TcpListener) {
    let waiting = Waiting {
        log: server.host.limited_log(1, LOGGED_EVERY),
        problem: server.host.problem("accept"),
    };
    loop {
        for _ in 0..ACCEPTED_AT_MOST {
            server.wait_for_slot().await;
            if !server.reserve() {
                waiting.log("the flow has reached its memory limit; raise `--memory-limit`");
                server.host.sleep(RETRY).await;
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
                Ok((stream, address)) => {
                    waiting.problem.clear();
                    serve(&server, stream, address);
                }
                Err(error) => cannot_accept(&server, &error, &waiting).await,
            }
        }
        yield_now().await;
    }
}

/// Serves a connection in its own task.
fn serve(server: &Arc<Server>, stream: TcpStream, address: SocketAddr) {
    let Some(peer) = server.begin(address) else { return };
    // A response is written with one call, so Nagle's algorithm would only delay it.
    let _ = set_tcp_nodelay(stream.get_ref(), true);
    let number = peer.stream;
    let serves = connection::serve(server.clone(), peer, stream, address);
    server.keep(number, server.host.spawn("serves a connection", serves));
}

/// Handles an error of `accept`. If the error affects all connections, such as a lack of
/// descriptors, reports it and waits for [`RETRY`]. An error of a single connection is only logged
/// for debugging.
async fn cannot_accept(server: &Server, error: &io::Error, waiting: &Waiting) {
    server.counts.accept_errors.add(1);
    let of_all = [Errno::MFILE, Errno::NFILE, Errno::NOBUFS, Errno::NOMEM, Errno::PERM];
    if !Errno::from_io_error(error).is_some_and(|error| of_all.contains(&error)) {
        debug!(server.host, "a connection broke before it was accepted: {error}");
        return yield_now().await;
    }
    waiting.fail(error);
    server.host.sleep(RETRY).await;
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
        warn!(self.log, "{message}");
        message
    }

    /// Reports that accepting has failed.
    fn fail(&self, error: &io::Error) {
        let why = format!("{error}; allow the process more open files (`ulimit -n`)");
        self.problem.set(&Error::shortage(self.log(&why)));
    }
}
