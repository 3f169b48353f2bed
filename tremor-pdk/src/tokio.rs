//! A tokio runtime for client libraries that require one. Enabled by the feature `tokio`.
//!
//! A plugin cannot use a tokio runtime of the host, because each library has its own copy of the thread-local variables
//! in which tokio looks for the runtime. Therefore each connector that needs tokio starts a runtime of its own with
//! [`Tokio::start`]: a current-thread runtime on a separate thread. The runtime ends when the last clone of the handle
//! is dropped, and all its tasks end with it, including tasks that other tasks have started. The threads of the host do
//! not wait for the end of the runtime.
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
//!         // The future is polled on the thread of the runtime, and its result is awaited here.
//!         tokio.run(async { tokio::time::sleep(Duration::from_millis(1)).await }).await?;
//!         Ok(Halves::sink(Requests(tokio.clone())))
//!     }
//!
//!     async fn close(&mut self) -> Result<()> {
//!         // Ends the runtime with all its tasks.
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

/// Name of the thread of each runtime.
const THREAD: &str = "tokio-plugin";

/// Maximum time that an ending runtime waits for its blocking threads.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(1);

/// Handle to the tokio runtime of one connector. Clones refer to the same runtime, which ends when the last clone is
/// dropped.
#[derive(Clone)]
pub struct Tokio(Arc<Runtime>);

/// A runtime and its thread, which end when this value is dropped.
///
/// Connectors do not share a runtime, because only the end of a runtime cancels tasks that other tasks have spawned.
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
            // Tasks are dropped here, on the thread of the runtime.
            runtime.shutdown_timeout(SHUTDOWN_TIMEOUT);
        };
        thread::Builder::new().name(THREAD.to_owned()).spawn(run)?;
        Ok(Self { handle, _runs: runs })
    }
}

impl Tokio {
    /// Starts a runtime on a new thread. Call this function in `connect`, because constructors must not start anything.
    ///
    /// # Errors
    /// Returns an error if the system cannot create the thread or a file descriptor.
    pub async fn start(host: &Host) -> Result<Self> {
        let runtime = host.blocking(Runtime::start).await??;
        Ok(Self(Arc::new(runtime)))
    }

    /// Runs a future on the thread of the runtime. Any executor can await the result.
    ///
    /// Write the future as an `async` block. Objects that look for the runtime when they are created are then created
    /// on the thread of the runtime.
    ///
    /// The future is cancelled when the returned [`Running`] is dropped, or when the last clone of this handle is
    /// dropped.
    ///
    /// # Errors
    /// Returns an error of the kind panicked if the future panicked, and of the kind internal if the future was
    /// cancelled.
    pub fn run<T: Send + 'static>(
        &self,
        future: impl Future<Output = T> + Send + 'static,
    ) -> Running<T> {
        let guarded = Guarded::new("a future of tokio", async move { Ok(future.await) });
        Running { handle: self.0.handle.spawn(guarded), is_kept: false }
    }

    /// Runs `work` on the current thread, with access to the runtime. `work` must not wait.
    ///
    /// Use this method to create objects, such as clients, that are later used in [`Tokio::run`].
    pub fn enter<T>(&self, work: impl FnOnce() -> T) -> T {
        let _entered = self.0.handle.enter();
        work()
    }

    /// Polls a future on the thread that awaits it, with access to the runtime.
    ///
    /// The runtime drives the timers and sockets of the future, and the future stays on that thread. Use this method
    /// for futures that are not [`Send`] and for futures that complete soon.
    pub fn within<F: Future>(&self, future: F) -> Within<F> {
        Within { tokio: self.clone(), future: Box::pin(future) }
    }
}

/// The future that [`Tokio::run`] returns. Dropping it cancels the future that was passed to `run`.
#[must_use = "dropping it cancels the future"]
pub struct Running<T> {
    handle: JoinHandle<Result<T>>,
    is_kept: bool,
}

impl<T> Running<T> {
    /// Detaches the future, which then runs until it completes or the last handle to the runtime is dropped. Its result
    /// is discarded.
    pub fn detach(mut self) {
        self.is_kept = true;
    }
}

impl<T> Future for Running<T> {
    type Output = Result<T>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<T>> {
        Poll::Ready(ready!(Pin::new(&mut self.handle).poll(context)).unwrap_or_else(|_| {
            Err(Error::internal(
                "the future on tokio was cancelled, because its connector dropped the handle",
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
#[must_use = "futures do nothing unless they are awaited"]
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
