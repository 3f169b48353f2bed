//! The runtime of tokio, for clients that cannot do without it. Behind the feature `tokio`.
//!
//! A plugin cannot find a runtime of the host: a library has its own copy of what tokio looks for it in. So each
//! connector that needs tokio brings a runtime with it: a current-thread runtime on a thread of its own.
//! [`Tokio::start`] starts it. When the last clone of that handle is dropped, the runtime ends with everything that
//! was started on it, tasks of tasks included. The host's threads never wait for it.
//!
//! ```
//! use std::time::Duration;
//! use tremor_pdk::{NoSource, prelude::*, tokio::Tokio};
//!
//! # #[tremor_pdk::config]
//! # pub struct Config {}
//! pub struct Client {
//!     context: ComponentContext,
//!     tokio: Option<Tokio>,
//! }
//!
//! # impl Component for Client {
//! #     const NAME: &str = "client";
//! #     type Config = Config;
//! #     fn new(_: Config, context: ComponentContext) -> Result<Self> { Ok(Self { context, tokio: None }) }
//! # }
//! impl Connector for Client {
//!     # type Source = NoSource;
//!     # type Sink = Requests;
//!     async fn connect(&mut self, _wanted: Sides) -> Result<Halves<NoSource, Requests>> {
//!         let tokio = match &self.tokio {
//!             Some(tokio) => tokio,
//!             None => self.tokio.insert(Tokio::start(&self.context).await?),
//!         };
//!         // Made and polled on the thread of the runtime; awaited here.
//!         tokio.run(async { tokio::time::sleep(Duration::from_millis(1)).await }).await?;
//!         Ok(Halves::sink(Requests(tokio.clone())))
//!     }
//!
//!     async fn close(&mut self) -> Result<()> {
//!         // Ends everything that still runs on it.
//!         self.tokio = None;
//!         Ok(())
//!     }
//! }
//! # pub struct Requests(Tokio);
//! # impl Sink for Requests {
//! #     type Batch = StructuredBatch;
//! #     async fn deliver(&mut self, _batch: &StructuredBatch) -> Delivery { Ok(()) }
//! # }
//! # fn main() {}
//! ```

use std::{
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
    thread,
    time::Duration,
};

use ::tokio::{
    runtime::{Builder, Handle},
    task::JoinHandle,
};

use crate::{Error, Host, Result, ffi::Guarded, oneshot};

/// Name of the thread of a runtime.
const THREAD: &str = "tokio-plugin";

/// Maximum time for which an ending runtime waits for calls that block threads of its own.
const ENDS_WITHIN: Duration = Duration::from_secs(1);

/// The runtime of tokio of one connector. Clones are handles to the same runtime, which ends with the last of them.
#[derive(Clone)]
pub struct Tokio(Arc<Runtime>);

/// A thread that runs a runtime, until this is dropped. A runtime is not shared by connectors, because tokio can end
/// the tasks that a task has spawned only together with their runtime.
struct Runtime {
    handle: Handle,
    _runs: oneshot::Sender<()>,
}

impl Runtime {
    fn start() -> Result<Self> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let handle = runtime.handle().clone();
        let (runs, has_ended) = oneshot::channel::<()>();
        let run = move || {
            runtime.block_on(has_ended);
            // Tasks are dropped here, on their thread.
            runtime.shutdown_timeout(ENDS_WITHIN);
        };
        thread::Builder::new().name(THREAD.to_owned()).spawn(run)?;
        Ok(Self { handle, _runs: runs })
    }
}

impl Tokio {
    /// Starts a runtime on a new thread. Call this in `connect`, and not in a constructor, where nothing may start.
    ///
    /// # Errors
    /// The system has no thread or no descriptor left.
    pub async fn start(host: &Host) -> Result<Self> {
        let runtime = host.blocking(Runtime::start).await??;
        Ok(Self(Arc::new(runtime)))
    }

    /// Runs a future on the thread of the runtime, and gives its result to any thread. Write it as a block, so
    /// that what looks for the runtime while it is made is made there, too.
    ///
    /// It ends when the answer is dropped, or this handle and its clones are.
    ///
    /// # Errors
    /// Kind panicked, if the future panicked; kind internal, if it was ended.
    pub fn run<T: Send + 'static>(
        &self,
        future: impl Future<Output = T> + Send + 'static,
    ) -> Running<T> {
        let guarded = Guarded::new("a future of tokio", async move { Ok(future.await) });
        Running { handle: self.0.handle.spawn(guarded), is_kept: false }
    }

    /// Does something that needs the runtime and does not wait, on this thread: makes a client, say. What it
    /// makes can be used in [`Tokio::run`].
    pub fn enter<T>(&self, work: impl FnOnce() -> T) -> T {
        let _entered = self.0.handle.enter();
        work()
    }

    /// Polls a future on the thread that awaits it, with the runtime at hand: its timers and its sockets are
    /// seen to by the runtime, and no call changes threads. For futures that are not [`Send`] to another
    /// thread, and those that answer soon.
    pub fn within<F: Future>(&self, future: F) -> Within<F> {
        Within { tokio: self.clone(), future: Box::pin(future) }
    }
}

/// The result of [`Tokio::run`]: a future that any executor can await.
#[must_use = "dropping it ends what runs"]
pub struct Running<T> {
    handle: JoinHandle<Result<T>>,
    is_kept: bool,
}

impl<T> Running<T> {
    /// Lets it run on without an answer, until the handle of its connector is dropped.
    pub fn detach(mut self) {
        self.is_kept = true;
    }
}

impl<T> Future for Running<T> {
    type Output = Result<T>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<T>> {
        Poll::Ready(ready!(Pin::new(&mut self.handle).poll(context)).unwrap_or_else(|_| {
            Err(Error::internal(
                "what ran on tokio was ended: its connector has dropped the handle",
            ))
        }))
    }
}

impl<T> Drop for Running<T> {
    fn drop(&mut self) {
        if !self.is_kept {
            self.handle.abort();
        }
    }
}

/// The future of [`Tokio::within`].
#[must_use = "it does nothing unless it is awaited"]
pub struct Within<F> {
    tokio: Tokio,
    future: Pin<Box<F>>,
}

impl<F: Future> Future for Within<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        let Self { tokio, future } = &mut *self;
        let _entered = tokio.0.handle.enter();
        future.as_mut().poll(context)
    }
}

shows!(Tokio, Running<T>, Within<F>);

#[cfg(all(test, feature = "testing"))]
mod tests;
