//! The host: the services that the runtime provides to a component.

use std::{
    future::{Future, poll_fn},
    path::{Path, PathBuf},
    pin::Pin,
    task::{Context, Poll, ready},
    time::Duration,
};

use crate::{Error, Memory, Result, ffi, oneshot};
use async_ffi::{ContextExt, FfiFuture, FfiPoll};
use tremor_abi::host::{HostHandle, Interest, Job, MetricKind, RawWatchBox};

pub use tremor_abi::host::LogLevel;

/// Services that the runtime provides to a component: logs, metrics, time, timers and tasks.
///
/// The handle is cheap to clone, and may be used from any thread.
///
/// The host polls the futures of all components of the process on a few shared threads. Therefore run code that may
/// block with [`Host::blocking`].
#[derive(Clone)]
pub struct Host(HostHandle);

impl Host {
    pub(crate) fn new(handle: HostHandle) -> Self {
        Self(handle)
    }

    pub(crate) fn handle(&self) -> &HostHandle {
        &self.0
    }

    /// Returns whether a log line of this level would be written. The macros `error!` … `trace!` call this method
    /// first.
    pub fn log_enabled(&self, level: LogLevel) -> bool {
        self.0.log_enabled(level)
    }

    /// Writes a line to the host's log, under the component's name in the flow.
    pub fn log(&self, level: LogLevel, message: &str) {
        self.0.log(level, message);
    }

    /// Returns the time in ns since the Unix epoch, by the clock that sets the times of events.
    ///
    /// Use this time only as a timestamp. The clock may be set forward and back, so measure durations with
    /// [`monotonic_ns`](Self::monotonic_ns).
    pub fn now_ns(&self) -> u64 {
        self.0.now_ns()
    }

    /// Returns the time in ns by a monotonic clock. Only differences between two times of one process are meaningful.
    pub fn monotonic_ns(&self) -> u64 {
        self.0.monotonic_ns()
    }

    /// Returns a counter of this component: a number that only grows. `help` describes the metric.
    pub fn counter(&self, name: &str, help: &str) -> Counter {
        Counter(self.metric(MetricKind::COUNTER, name, help))
    }

    /// Returns a gauge of this component: a number that goes up and down. `help` describes the metric.
    pub fn gauge(&self, name: &str, help: &str) -> Gauge {
        Gauge(self.metric(MetricKind::GAUGE, name, help))
    }

    /// Returns a histogram of this component: the distribution of a number. `help` describes the metric.
    pub fn histogram(&self, name: &str, help: &str) -> Histogram {
        Histogram(self.metric(MetricKind::HISTOGRAM, name, help))
    }

    fn metric(&self, kind: MetricKind, name: &str, help: &str) -> Metric {
        Metric { host: self.0.clone(), number: self.0.metric(kind, name, help) }
    }

    /// Runs a future on the executor of the host; `name` appears in logs. A panic ends the future and is logged.
    ///
    /// Dropping the returned handle ends the task, so keep the handle for as long as the task is needed, for example
    /// in `self`.
    pub fn spawn(&self, name: &str, future: impl Future<Output = ()> + Send + 'static) -> Task {
        let (owner, disowned) = oneshot::channel::<()>();
        // The future is boxed, because a future that is captured by another future takes its memory twice: as the
        // captured value and in the state that polls the value. There may be a task for each of many connections.
        let mut future = Box::pin(future);
        let future = poll_fn(move |context| {
            if disowned.is_over(context) { Poll::Ready(()) } else { future.as_mut().poll(context) }
        });
        self.0.spawn(name, ffi::detached(self.clone(), name.to_owned(), future));
        Task { _owner: owner }
    }

    /// Runs `work`, which may block, on a thread of the host that is reserved for blocking work.
    ///
    /// The work starts even if the returned future is not polled. The future completes with the result of the work.
    /// Dropping the future does not stop the work. If the result must not be lost when a pull or a delivery is
    /// cancelled, keep the future in `self` and await a mutable reference to the future.
    pub fn blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Blocking<T> {
        let (sender, receiver) = oneshot::channel();
        self.0.spawn_blocking(Job::new(move || sender.send(ffi::guard("blocking work", work))));
        Blocking(receiver)
    }

    /// Completes after `duration`.
    pub async fn sleep(&self, duration: Duration) {
        self.timer(duration).await;
    }

    /// Returns a timer that starts at once, and not only when the future is polled.
    pub(crate) fn timer(&self, duration: Duration) -> FfiFuture<()> {
        self.0.sleep(u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX))
    }

    /// Waits until the file descriptor can be read without blocking. Supports pipes, sockets and terminals; regular
    /// files are always ready and not supported.
    ///
    /// # Errors
    /// Returns an error if the descriptor is closed, or if the host cannot wait for it.
    #[cfg(unix)]
    pub async fn readable(&self, descriptor: &impl std::os::fd::AsRawFd) -> Result<()> {
        self.watch(descriptor.as_raw_fd(), Interest::READABLE)?.ready().await
    }

    /// Waits until the file descriptor can be written without blocking. Supports the same descriptors as
    /// [`Host::readable`].
    ///
    /// # Errors
    /// Returns the errors of [`Host::readable`].
    #[cfg(unix)]
    pub async fn writable(&self, descriptor: &impl std::os::fd::AsRawFd) -> Result<()> {
        self.watch(descriptor.as_raw_fd(), Interest::WRITABLE)?.ready().await
    }

    #[cfg(unix)]
    pub(crate) fn watch(&self, descriptor: i32, interest: Interest) -> Result<Watch> {
        self.0.watch(descriptor, interest).map(Watch).into_result()
    }

    /// Returns the soft limit of open file descriptors with which the process was started, or `None` if the host has
    /// not raised that limit.
    ///
    /// Set this limit for processes that a component starts, because programs that use `select` fail with descriptors
    /// above 1023.
    pub fn inherited_descriptor_limit(&self) -> Option<u64> {
        self.0.inherited_descriptor_limit()
    }

    /// Returns whether the flow is draining, so that sources are not pulled again.
    ///
    /// A server can use this to report to clients why it rejects them. The call takes a lock.
    pub fn is_draining(&self) -> bool {
        self.0.is_draining()
    }

    /// Converts a path from the configuration to the path that the component has to open. A relative path is resolved
    /// against the folder of the flow file.
    pub fn resolve(&self, path: impl AsRef<Path>) -> PathBuf {
        Path::new(&self.0.folder()).join(path)
    }

    /// Reports that the connection of this component is lost, so that the runtime reconnects. Use this if the loss is
    /// detected outside of a pull or a delivery.
    pub fn connection_lost(&self) {
        self.0.connection_lost();
    }

    /// Returns a counter for the memory of one buffer of this component, which counts against the memory limit. Use one
    /// counter for each buffer whose size peers determine, and one for events that the component buffers.
    pub fn memory(&self) -> Memory {
        Memory::new(self.0.clone())
    }

    /// Ends the run of the program after all events in flight have been delivered; `reason` is logged.
    pub fn request_stop(&self, reason: &str) {
        self.0.request_stop(true, reason);
    }
}

shows!(Host, Task);

/// A file descriptor that the host watches.
#[cfg(unix)]
pub(crate) struct Watch(RawWatchBox);

#[cfg(unix)]
impl Watch {
    /// Completes when the descriptor is ready.
    pub(crate) async fn ready(&mut self) -> Result<()> {
        poll_fn(|context| self.poll_ready(context)).await
    }

    /// Returns `Ready` when the descriptor is ready.
    pub(crate) fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<()>> {
        match context.with_ffi_context(|context| self.0.poll_ready(context)) {
            FfiPoll::Ready(result) => Poll::Ready(result.into_result()),
            FfiPoll::Pending => Poll::Pending,
            FfiPoll::Panicked => Poll::Ready(Err(Error::internal("the host panicked"))),
        }
    }
}

/// A task that [`Host::spawn`] has started. Dropping the handle ends the task: its future is not polled again, and
/// the executor drops the future soon after.
#[must_use = "dropping the handle ends the task"]
pub struct Task {
    _owner: oneshot::Sender<()>,
}

/// The future of [`Host::blocking`], which completes with the result of work on another thread.
///
/// # Errors
/// Returns an error of the kind panicked if the work panicked or the host cancelled it.
#[must_use = "the result of the work says whether it succeeded"]
pub struct Blocking<T>(oneshot::Receiver<Result<T>>);

impl<T> Future for Blocking<T> {
    type Output = Result<T>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<T>> {
        let result = ready!(Pin::new(&mut self.0).poll(context));
        let given_up = || Err(Error::panicked("the host cancelled blocking work"));
        Poll::Ready(result.unwrap_or_else(given_up))
    }
}

#[derive(Clone)]
struct Metric {
    host: HostHandle,
    number: u32,
}

impl Metric {
    fn record(&self, value: f64) {
        self.host.record(self.number, value);
    }
}

/// A metric that only grows.
#[derive(Clone)]
pub struct Counter(Metric);

impl Counter {
    /// Adds `amount`. Above 2^53 the sum is exact to one part in 2^53.
    #[allow(clippy::cast_precision_loss)]
    pub fn add(&self, amount: u64) {
        self.0.record(amount as f64);
    }
}

/// A metric that goes up and down.
#[derive(Clone)]
pub struct Gauge(Metric);

impl Gauge {
    /// Sets the value of the gauge.
    pub fn set(&self, value: f64) {
        self.0.record(value);
    }

    /// Sets the gauge to a count, such as a number of connections or bytes.
    ///
    /// The value is exact up to 2^53. Larger values are rounded to one part in 2^53, because readers of metrics store
    /// numbers with this precision. Values beyond the range of `i64` count as its maximum.
    #[allow(clippy::cast_precision_loss)]
    pub fn set_integer(&self, value: impl TryInto<i64>) {
        self.0.record(value.try_into().unwrap_or(i64::MAX) as f64);
    }
}

/// A metric that records the distribution of a number.
#[derive(Clone)]
pub struct Histogram(Metric);

impl Histogram {
    /// Adds an observed value to the distribution.
    pub fn observe(&self, value: f64) {
        self.0.record(value);
    }
}

macro_rules! log_macros {
    ($d:tt $($(#[$doc:meta])* $name:ident => $level:ident;)*) => {
        $(
            $(#[$doc])*
            #[macro_export]
            macro_rules! $name {
                ($d host:expr, $d ($d message:tt)+) => {
                    if $d host.log_enabled($crate::LogLevel::$level) {
                        $d host.log($crate::LogLevel::$level, &::std::format!($d ($d message)+));
                    }
                };
            }
        )*
    };
}

log_macros! {$
    /// Logs a failure: `error!(host, "cannot read {path}")`. The first argument may also be a
    /// [`LimitedLog`](crate::LimitedLog).
    error => ERROR;
    /// Logs a condition that an administrator should investigate.
    warn => WARN;
    /// Logs an important event that happens rarely.
    info => INFO;
    /// Logs details that help to find a fault.
    debug => DEBUG;
    /// Logs every step, for debugging.
    trace => TRACE;
}
