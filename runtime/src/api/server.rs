//! The server: takes connections up to a limit, and ends with its run.

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
    places::{Place, Places},
    routes::Routes,
};
use crate::{
    executor::{
        self,
        net::{Connection, Listener, Tasks},
    },
    run::RunHandle,
};

/// How many connections there may be. One that is not being answered gives way to another; where there
/// is none, others are told to come later.
pub(super) const CONNECTIONS: usize = 64;
/// How long a request is at most without its body, in bytes.
const HEAD: usize = 16 << 10;
/// How many headers a request has at most.
const HEADERS: usize = 64;
/// How long a request without its body may take to come; so long a connection may wait for one.
const HEAD_TIME: Duration = Duration::from_secs(10);
/// How long answers may take that are under way when the run ends.
const LAST_ANSWERS: Duration = Duration::from_millis(500);
/// How long to wait where the system has no more descriptors, say.
const LATER: Duration = Duration::from_millis(100);
/// The answer where there are too many connections.
const FULL: &[u8] = b"HTTP/1.1 503 Service Unavailable\r\nretry-after: 1\r\nconnection: close\r\n\
    content-type: application/problem+json\r\ncontent-length: 101\r\n\r\n\
    {\"title\":\"Service Unavailable\",\"status\":503,\"detail\":\"there are 64 connections; close some of them\"}\n";

/// The admin API of a run. It ends when this is dropped.
#[derive(Debug)]
pub struct Server {
    address: SocketAddr,
    /// Closed at the end.
    stop: Sender<Infallible>,
    thread: Option<JoinHandle<()>>,
}

impl Server {
    /// Answers requests that may have `access` about the flows of a run, of which there will be so many.
    ///
    /// # Errors
    /// It cannot listen at the address, or everybody could reach it.
    pub fn start(
        address: SocketAddr,
        access: Access,
        run: RunHandle,
        flows: usize,
    ) -> Result<Self, Error> {
        Self::start_with(address, access, run, flows, HEAD_TIME)
    }

    /// The same, with the time that a request may take to come.
    pub(super) fn start_with(
        address: SocketAddr,
        access: Access,
        run: RunHandle,
        flows: usize,
        head_time: Duration,
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
            let routes = Routes { access, run, flows, stopped: stopped.clone(), pulse };
            let routes = Rc::new(routes);
            let tasks = Rc::new(Tasks::new());
            let serves = serve(&listener, &tasks, &routes, &stopped, head_time);
            executor::block_on(tasks.run(serves));
        });
        Ok(Self { address, stop, thread: Some(thread.map_err(Error::Thread)?) })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop.close();
        if let Some(thread) = self.thread.take() {
            // It has panicked, and the panic has been reported.
            _ = thread.join();
        }
    }
}

/// Takes connections until the run ends, and waits for the answers under way.
async fn serve(
    listener: &Listener,
    tasks: &Rc<Tasks>,
    routes: &Rc<Routes>,
    stopped: &Receiver<Infallible>,
    head_time: Duration,
) {
    let places = Places::new(CONNECTIONS);
    // Every connection has a clone.
    let (alive, gone) = async_channel::bounded::<Infallible>(1);
    loop {
        let accepted = async { Some(listener.accept().await) };
        let ends = async {
            _ = stopped.recv().await;
            None
        };
        match executor::first(ends, accepted).await {
            None => break,
            Some(Ok(connection)) => match places.take() {
                Some(place) => {
                    let (routes, stopped) = (routes.clone(), stopped.clone());
                    let alive = alive.clone();
                    let answers = async move {
                        answer(connection, &place, &routes, &stopped, head_time).await;
                        drop(alive);
                    };
                    tasks.spawn(answers).detach();
                }
                None => refuse(connection).await,
            },
            Some(Err(error)) => {
                tracing::debug!(%error, "the admin API cannot take a connection");
                executor::sleep(LATER).await;
            }
        }
        // However fast others come, those that are here are answered.
        executor::yield_now().await;
    }
    drop(alive);
    let answered = async { _ = gone.recv().await };
    executor::first(answered, executor::sleep(LAST_ANSWERS)).await;
}

/// All connections are being answered.
async fn refuse(connection: Connection) {
    // Nobody waits for a peer that does not take it at once.
    poll_fn(|context| {
        _ = connection.poll_write(context, FULL);
        Poll::Ready(())
    })
    .await;
    _ = connection.end();
}

/// Answers to the requests of a connection, for as long as it keeps its place.
async fn answer(
    connection: Connection,
    place: &Place,
    routes: &Routes,
    stopped: &Receiver<Infallible>,
    head_time: Duration,
) {
    let answers =
        service_fn(
            |request| async move { Ok::<_, Infallible>(routes.answer(request, place).await) },
        );
    let connection = http1::Builder::new()
        .timer(Timers)
        .header_read_timeout(head_time)
        .max_buf_size(HEAD)
        .max_headers(HEADERS)
        .serve_connection(Io::new(connection), answers);
    let mut connection = pin!(connection);
    let given = async {
        place.given().await;
        Some(Ok(()))
    };
    let ends = async {
        _ = stopped.recv().await;
        None
    };
    let answers = async { Some(connection.as_mut().await) };
    let ended = executor::first(answers, executor::first(given, ends)).await;
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
