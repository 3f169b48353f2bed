//! The host, as a plugin sees it.

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

/// What the host does for a component: logs, metrics, time, tasks. Cheap to clone; may be used from
/// any thread.
///
/// The host's executor polls a plugin's futures, and its threads serve every component of the
/// process: code that may block goes through [`Host::blocking`].
#[derive(Clone)]
pub struct Host(HostHandle);

impl Host {
    pub(crate) fn new(handle: HostHandle) -> Self {
        Self(handle)
    }

    /// Whether a log line of this level would be written; the `error!` … `trace!` macros ask.
    pub fn log_enabled(&self, level: LogLevel) -> bool {
        self.0.log_enabled(level)
    }

    /// Writes a line to the host's log, under the component's name in the flow.
    pub fn log(&self, level: LogLevel, message: &str) {
        self.0.log(level, message);
    }

    /// Returns the time in ns since the Unix epoch, by the clock that stamps events.
    ///
    /// Use it for stamps alone. The clock may be set, forward and back: measure durations with
    /// [`monotonic_ns`](Self::monotonic_ns).
    pub fn now_ns(&self) -> u64 {
        self.0.now_ns()
    }

    /// Returns the time in ns by a clock that nobody sets. Only the difference between two such times of one process
    /// means anything.
    pub fn monotonic_ns(&self) -> u64 {
        self.0.monotonic_ns()
    }

    /// A counter of this component: a number that only grows.
    pub fn counter(&self, name: &str, help: &str) -> Counter {
        Counter(self.metric(MetricKind::COUNTER, name, help))
    }

    /// A gauge of this component: a number that goes up and down.
    pub fn gauge(&self, name: &str, help: &str) -> Gauge {
        Gauge(self.metric(MetricKind::GAUGE, name, help))
    }

    /// A histogram of this component: the distribution of a number.
    pub fn histogram(&self, name: &str, help: &str) -> Histogram {
        Histogram(self.metric(MetricKind::HISTOGRAM, name, help))
    }

    fn metric(&self, kind: MetricKind, name: &str, help: &str) -> Metric {
        Metric { host: self.0.clone(), number: self.0.metric(kind, name, help) }
    }

    /// Runs a future on the host's executor; `name` is for logs. A panic in it ends the future
    /// and is logged.
    ///
    /// The task ends when its handle is dropped: keep that where the task belongs to, in `self`.
    pub fn spawn(&self, name: &str, future: impl Future<Output = ()> + Send + 'static) -> Task {
        let (owner, disowned) = oneshot::channel::<()>();
        // What is put into another future than this one takes its place there twice: for what it was, and for
        // where it is polled. There may be a task for each of many connections.
        let mut future = Box::pin(future);
        let future = poll_fn(move |context| {
            if disowned.is_over(context) { Poll::Ready(()) } else { future.as_mut().poll(context) }
        });
        self.0.spawn(name, ffi::detached(self.clone(), name.to_owned(), future));
        Task { _owner: owner }
    }

    /// Runs `work`, which may block, on a thread of the host's that is there for that. It starts
    /// at once; the future gives its result. Dropping the future does not stop the work: a source
    /// or sink that must not lose what the work does keeps the future in `self` and awaits
    /// `&mut` it.
    pub fn blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Blocking<T> {
        let (sender, receiver) = oneshot::channel();
        self.0.spawn_blocking(Job::new(move || sender.send(ffi::guard("blocking work", work))));
        Blocking(receiver)
    }

    /// Waits this long.
    pub async fn sleep(&self, duration: Duration) {
        self.timer(duration).await;
    }

    /// A wait that has begun, whenever it is polled first.
    pub(crate) fn timer(&self, duration: Duration) -> FfiFuture<()> {
        self.0.sleep(u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX))
    }

    /// Waits until a read of the file descriptor would not block. For pipes, sockets and
    /// terminals; regular files are always ready and cannot be waited for.
    ///
    /// # Errors
    /// Where the descriptor is closed or of a kind that cannot be waited for.
    #[cfg(unix)]
    pub async fn readable(&self, descriptor: &impl std::os::fd::AsRawFd) -> Result<()> {
        self.watch(descriptor.as_raw_fd(), Interest::READABLE)?.ready().await
    }

    /// Waits until a write to the file descriptor would not block, as [`Host::readable`].
    ///
    /// # Errors
    /// As [`Host::readable`].
    #[cfg(unix)]
    pub async fn writable(&self, descriptor: &impl std::os::fd::AsRawFd) -> Result<()> {
        self.watch(descriptor.as_raw_fd(), Interest::WRITABLE)?.ready().await
    }

    #[cfg(unix)]
    pub(crate) fn watch(&self, descriptor: i32, interest: Interest) -> Result<Watch> {
        self.0.watch(descriptor, interest).map(Watch).into_result()
    }

    /// Returns the soft limit of open descriptors that the process was started with. Returns `None` if the host has
    /// not raised it. Set it for processes that a component starts: programs that use `select` fail with descriptors
    /// above 1023.
    pub fn inherited_descriptor_limit(&self) -> Option<u64> {
        self.0.inherited_descriptor_limit()
    }

    /// Returns whether the flow drains, so that a source is not pulled again. For servers that tell clients why they
    /// are refused; takes a lock.
    pub fn is_draining(&self) -> bool {
        self.0.is_draining()
    }

    /// A path of the configuration as the process has to open it: relative ones start from the
    /// folder of the flow file.
    pub fn resolve(&self, path: impl AsRef<Path>) -> PathBuf {
        Path::new(&self.0.folder()).join(path)
    }

    /// Says that the connection of this component is lost: the runtime reconnects it. For what
    /// notices outside of a pull or a delivery.
    pub fn connection_lost(&self) {
        self.0.connection_lost();
    }

    /// Returns a handle to count a buffer of this component in the memory of its flow: a buffer that peers may make
    /// large, or events that the component holds.
    pub fn memory(&self) -> Memory {
        Memory::new(self.0.clone())
    }

    /// Ends the run once everything under way has drained; `reason` is logged.
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
    /// Waits until the descriptor is ready.
    pub(crate) async fn ready(&mut self) -> Result<()> {
        poll_fn(|context| self.poll_ready(context)).await
    }

    /// Ready when the descriptor is.
    pub(crate) fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<()>> {
        match context.with_ffi_context(|context| self.0.poll_ready(context)) {
            FfiPoll::Ready(result) => Poll::Ready(result.into_result()),
            FfiPoll::Pending => Poll::Pending,
            FfiPoll::Panicked => Poll::Ready(Err(Error::internal("the host panicked"))),
        }
    }
}

/// A task of [`Host::spawn`]. Dropping it ends the task: its future is not polled again, and is dropped by
/// the executor soon after.
#[must_use = "dropping it ends the task"]
pub struct Task {
    _owner: oneshot::Sender<()>,
}

/// Work under way on another thread, see [`Host::blocking`]: a future that gives its result.
///
/// # Errors
/// Kind panicked, where the work panicked or the host gave it up.
#[must_use = "the result of the work says whether it succeeded"]
pub struct Blocking<T>(oneshot::Receiver<Result<T>>);

impl<T> Future for Blocking<T> {
    type Output = Result<T>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<T>> {
        let result = ready!(Pin::new(&mut self.0).poll(context));
        let given_up = || Err(Error::panicked("blocking work was given up by the host"));
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

/// A number that only grows.
#[derive(Clone)]
pub struct Counter(Metric);

impl Counter {
    /// Adds to it. Above 2^53 the sum is exact to one part in 2^53.
    #[allow(clippy::cast_precision_loss)]
    pub fn add(&self, amount: u64) {
        self.0.record(amount as f64);
    }
}

/// A number that goes up and down.
#[derive(Clone)]
pub struct Gauge(Metric);

impl Gauge {
    /// Sets the value of the gauge.
    pub fn set(&self, value: f64) {
        self.0.record(value);
    }

    /// Sets the gauge to a count, such as a number of connections or bytes. Up to 2^53 the value is exact; a larger one
    /// is shown to one part in 2^53, as readers of metrics keep numbers. What exceeds the range of `i64` counts as its
    /// maximum.
    #[allow(clippy::cast_precision_loss)]
    pub fn set_integer(&self, value: impl TryInto<i64>) {
        self.0.record(value.try_into().unwrap_or(i64::MAX) as f64);
    }
}

/// The distribution of a number.
#[derive(Clone)]
pub struct Histogram(Metric);

impl Histogram {
    /// Adds a value to it.
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
    /// Logs that something failed: `error!(host, "cannot read {path}")`. A [`LimitedLog`](crate::LimitedLog) may stand
    /// instead of the host.
    error => ERROR;
    /// Logs a condition that people should look at.
    warn => WARN;
    /// Logs something worth knowing, rarely.
    info => INFO;
    /// Logs what helps to find a fault.
    debug => DEBUG;
    /// Logs everything.
    trace => TRACE;
}
