//! The server of the admin API, which limits its connections and ends with its run.

use std::{
    convert::Infallible,
    future::poll_fn,
    net::SocketAddr,
    pin::{Pin, pin},
    rc::Rc,
    task::Poll,
    thread::{self, JoinHandle},
    time::Duration,
};

use async_channel::{Receiver, Sender};
use hyper::{server::conn::http1, service::service_fn};

use super::{
    Access, Error,
    io::{Io, Timers},
    routes::Routes,
    slots::{Slot, Slots},
};
use crate::{
    clock::Clock,
    executor::{
        self,
        net::{Connection, Listener, Tasks},
    },
    run::RunHandle,
};

/// Maximum number of connections.
///
/// A new connection replaces the connection that has been without a request in progress for the longest time. If all
/// connections have requests in progress, the new connection is rejected with the advice to retry.
pub(super) const CONNECTIONS: usize = 64;
/// Maximum size of the head of a request, in bytes.
const HEAD: usize = 16 << 10;
/// Maximum number of headers of a request.
const HEADERS: usize = 64;
/// Maximum time until the head of a request is complete. A connection may also be idle for this time.
const HEAD_TIME: Duration = Duration::from_secs(10);
/// Maximum time that responses in progress may take after the run has ended.
const LAST_ANSWERS: Duration = Duration::from_millis(500);
/// Wait after a connection could not be accepted, for example because the process has no descriptors left.
const LATER: Duration = Duration::from_millis(100);
/// Response if there are too many connections.
const FULL: &[u8] = b"HTTP/1.1 503 Service Unavailable\r\nretry-after: 1\r\nconnection: close\r\n\
    content-type: application/problem+json\r\ncontent-length: 101\r\n\r\n\
    {\"title\":\"Service Unavailable\",\"status\":503,\"detail\":\"there are 64 connections; close some of them\"}\n";

/// The admin API of a run. The server ends when the value is dropped.
#[derive(Debug)]
pub struct Server {
    address: SocketAddr,
    /// Closed when the server has to end.
    stop: Sender<Infallible>,
    thread: Option<JoinHandle<()>>,
}

impl Server {
    /// Starts to answer requests about the flows of `run`, if `access` permits them. `flows` is the number of flows
    /// that the run is going to have.
    ///
    /// # Errors
    /// The server cannot listen at the address, or other machines could reach it without a token.
    pub fn start(
        address: SocketAddr,
        access: Access,
        run: RunHandle,
        flows: usize,
    ) -> Result<Self, Error> {
        Self::start_with(address, access, run, flows, Clock::default())
    }

    /// Starts the server, which takes the time from `clock`.
    pub(super) fn start_with(
        address: SocketAddr,
        access: Access,
        run: RunHandle,
        flows: usize,
        clock: Clock,
    ) -> Result<Self, Error> {
        if !address.ip().is_loopback() && !access.has_token() {
            return Err(Error::Open { address });
        }
        let cannot = |error| Error::Listen { address, error };
        let listener = Listener::bind(address).map_err(cannot)?;
        let address = listener.address().map_err(cannot)?;
        let (stop, stopped) = async_channel::bounded(1);
        let access = access.at(address.ip());
        run.watch_deliveries();
        let thread = thread::Builder::new().name("api".to_owned()).spawn(move || {
            let pulse = executor::Pulse::default();
            let routes = Routes { access, run, flows, stopped: stopped.clone(), pulse, clock };
            let routes = Rc::new(routes);
            let tasks = Rc::new(Tasks::new());
            let serves = serve(&listener, &tasks, &routes, &stopped);
            executor::block_on(tasks.run(serves));
        });
        Ok(Self { address, stop, thread: Some(thread.map_err(Error::Thread)?) })
    }

    /// Returns the address that the server listens at.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop.close();
        if let Some(thread) = self.thread.take() {
            // An error means that the thread has panicked. The panic hook has reported that.
            _ = thread.join();
        }
    }
}

/// Accepts connections until the run ends, and then waits for responses in progress.
async fn serve(
    listener: &Listener,
    tasks: &Rc<Tasks>,
    routes: &Rc<Routes>,
    stopped: &Receiver<Infallible>,
) {
    let slots = Slots::new(CONNECTIONS, routes.clock.clone());
    // Each connection has a clone of `alive`, so `gone` is closed once the last connection has ended.
    let (alive, gone) = async_channel::bounded::<Infallible>(1);
    loop {
        let accepted = async { Some(listener.accept().await) };
        let ends = async {
            _ = stopped.recv().await;
            None
        };
        match executor::first(ends, accepted).await {
            None => break,
            Some(Ok(connection)) => match slots.take() {
                Some(slot) => {
                    let (routes, stopped) = (routes.clone(), stopped.clone());
                    let alive = alive.clone();
                    let answers = async move {
                        answer(connection, &slot, &routes, &stopped).await;
                        drop(alive);
                    };
                    tasks.spawn(answers).detach();
                }
                None => reject(connection).await,
            },
            Some(Err(error)) => {
                tracing::debug!(%error, "the admin API cannot accept a connection");
                routes.clock.sleep(LATER).await;
            }
        }
        // Yields, so that existing connections make progress even if new ones are accepted all the time.
        executor::yield_now().await;
    }
    drop(alive);
    let answered = async { _ = gone.recv().await };
    executor::first(answered, routes.clock.sleep(LAST_ANSWERS)).await;
}

/// Rejects a connection because all others have requests in progress.
async fn reject(connection: Connection) {
    // If the peer does not accept the response immediately, the response is dropped.
    poll_fn(|context| {
        _ = connection.poll_write(context, FULL);
        Poll::Ready(())
    })
    .await;
    _ = connection.end();
}

/// Answers the requests of a connection until it ends or loses its slot.
async fn answer(
    connection: Connection,
    slot: &Slot,
    routes: &Routes,
    stopped: &Receiver<Infallible>,
) {
    let answers =
        service_fn(
            |request| async move { Ok::<_, Infallible>(routes.answer(request, slot).await) },
        );
    let connection = http1::Builder::new()
        .timer(Timers(routes.clock.clone()))
        .header_read_timeout(HEAD_TIME)
        .max_buf_size(HEAD)
        .max_headers(HEADERS)
        .serve_connection(Io::new(connection, routes.clock.clone()), answers);
    let mut connection = pin!(connection);
    let revoked = async {
        slot.revoked().await;
        Some(Ok(()))
    };
    let ends = async {
        _ = stopped.recv().await;
        None
    };
    let answers = async { Some(connection.as_mut().await) };
    let ended = executor::first(answers, executor::first(revoked, ends)).await;
    let ended = if let Some(ended) = ended {
        ended
    } else {
        Pin::as_mut(&mut connection).graceful_shutdown();
        connection.await
    };
    if let Err(error) = ended {
        tracing::debug!(%error, "a connection of the admin API has failed");
    }
}
