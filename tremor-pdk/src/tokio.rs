//! The runtime of tokio, for clients that cannot do without it. Behind the feature `tokio`.
//!
//! A plugin cannot find a runtime of the host: a library has its own copy of what tokio looks for it in. So it
//! brings one with it: one current-thread runtime a library, on one thread. The first [`Tokio`] starts it, and
//! the last one that is dropped ends it. The host's threads never wait for it.
//!
//! ```
//! use std::time::Duration;
//! use tremor_pdk::{prelude::*, tokio::Tokio};
//!
//! # #[tremor_pdk::config]
//! # pub struct Config {}
//! pub struct Client {
//!     context: Context,
//!     tokio: Option<Tokio>,
//! }
//!
//! # impl Component for Client {
//! #     const NAME: &str = "client";
//! #     type Config = Config;
//! #     fn new(_: Config, context: Context) -> Result<Self> { Ok(Self { context, tokio: None }) }
//! # }
//! impl Connector for Client {
//!     # type Source = NoSource;
//!     # type Sink = NoSink;
//!     async fn connect(&mut self, _attempt: u64) -> Result<bool> {
//!         let tokio = match &self.tokio {
//!             Some(tokio) => tokio,
//!             None => self.tokio.insert(Tokio::start(&self.context).await?),
//!         };
//!         // Made and polled on the thread of the runtime; awaited here.
//!         tokio.run(async { tokio::time::sleep(Duration::from_millis(1)).await }).await?;
//!         Ok(true)
//!     }
//!
//!     async fn on_stop(&mut self) -> Result<()> {
//!         // Whatever it still does ends with it.
//!         self.tokio = None;
//!         Ok(())
//!     }
//! }
//! # fn main() {}
//! ```

use std::{
    future::Future,
    pin::Pin,
    sync::{Arc, Mutex, Weak},
    task::{Context, Poll, ready},
    thread,
    time::Duration,
};

use ::tokio::{
    runtime::{Builder, Handle},
    task::{AbortHandle, JoinHandle},
};

use crate::{Error, Host, Result, ffi::Guarded, lock::lock, oneshot};

/// What the thread of a runtime is called.
const THREAD: &str = "tokio-plugin";

/// How long the runtime waits at its end for calls that block threads of its own.
const ENDS_WITHIN: Duration = Duration::from_secs(1);

/// The runtime of this library, as long as somebody has it.
static RUNTIME: Mutex<Weak<Runtime>> = Mutex::new(Weak::new());

/// The runtime of tokio, as one connector has it. Clones are handles to the same.
///
/// With the last clone, everything ends that was started through it, and with the last connector that has
/// one, the runtime.
#[derive(Clone)]
pub struct Tokio(Arc<Owner>);

/// What one connector has started.
struct Owner {
    tasks: Mutex<Tasks>,
    // Dropped after the tasks were told to end.
    runtime: Arc<Runtime>,
}

#[derive(Default)]
struct Tasks {
    running: Vec<AbortHandle>,
    /// At this number those that have ended are looked for.
    sweep_at: usize,
}

/// A thread that runs a runtime, until this is dropped.
struct Runtime {
    handle: Handle,
    _runs: oneshot::Sender<()>,
}

impl Runtime {
    /// The one that there is, or a new one.
    fn of_library() -> Result<Arc<Self>> {
        let mut last = lock(&RUNTIME);
        if let Some(runtime) = last.upgrade() {
            return Ok(runtime);
        }
        let runtime = Arc::new(Self::start()?);
        *last = Arc::downgrade(&runtime);
        Ok(runtime)
    }

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
    /// The runtime of this library, which is started if nobody has it yet: not in a constructor, where nothing
    /// may start.
    ///
    /// # Errors
    /// The system has no thread or no descriptor left.
    pub async fn start(host: &Host) -> Result<Self> {
        let runtime = host.blocking(Runtime::of_library).await??;
        Ok(Self(Arc::new(Owner { tasks: Mutex::default(), runtime })))
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
        let handle = self.0.runtime.handle.spawn(guarded);
        lock(&self.0.tasks).add(handle.abort_handle());
        Running { handle, is_kept: false }
    }

    /// Does something that needs the runtime and does not wait, on this thread: makes a client, say. What it
    /// makes can be used in [`Tokio::run`].
    pub fn enter<T>(&self, work: impl FnOnce() -> T) -> T {
        let _entered = self.0.runtime.handle.enter();
        work()
    }

    /// Polls a future on the thread that awaits it, with the runtime at hand: its timers and its sockets are
    /// seen to by the runtime, and no call changes threads. For futures that are not [`Send`] to another
    /// thread, and those that answer soon.
    pub fn within<F: Future>(&self, future: F) -> Within<F> {
        Within { tokio: self.clone(), future: Box::pin(future) }
    }
}

impl Tasks {
    fn add(&mut self, task: AbortHandle) {
        if self.running.len() >= self.sweep_at {
            self.running.retain(|task| !task.is_finished());
            self.sweep_at = (2 * self.running.len()).max(16);
        }
        self.running.push(task);
    }
}

impl Drop for Owner {
    fn drop(&mut self) {
        lock(&self.tasks).running.iter().for_each(AbortHandle::abort);
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
        let _entered = tokio.0.runtime.handle.enter();
        future.as_mut().poll(context)
    }
}

shows!(Tokio, Running<T>, Within<F>);

#[cfg(all(test, feature = "testing"))]
mod tests;
