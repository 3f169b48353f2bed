//! The functions of the host: the only way for a plugin to call the runtime.

// The macros of abi_stable generate code that violates these lints.
#![allow(
    non_local_definitions,
    clippy::expl_impl_clone_on_copy,
    clippy::used_underscore_binding,
    clippy::cast_ptr_alignment
)]

use abi_stable::{
    StableAbi, sabi_trait,
    std_types::{RBox, RStr, RString},
};
use async_ffi::{FfiContext, FfiFuture, FfiPoll};

use crate::connector::CallResult;

/// The severity of a log line. An open set; an unknown level is logged as [`LogLevel::INFO`].
#[repr(transparent)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, StableAbi)]
pub struct LogLevel(pub u8);

impl LogLevel {
    /// An operation failed.
    pub const ERROR: Self = Self(1);
    /// A condition that an administrator should investigate.
    pub const WARN: Self = Self(2);
    /// An important event that happens rarely.
    pub const INFO: Self = Self(3);
    /// Details that help to find a fault.
    pub const DEBUG: Self = Self(4);
    /// Every detail.
    pub const TRACE: Self = Self(5);
}

/// The way in which a metric combines its recorded values. An open set.
#[repr(transparent)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, StableAbi)]
pub struct MetricKind(pub u8);

impl MetricKind {
    /// Sums the values.
    pub const COUNTER: Self = Self(0);
    /// Keeps the last value.
    pub const GAUGE: Self = Self(1);
    /// Keeps the distribution of the values.
    pub const HISTOGRAM: Self = Self(2);
}

/// Prefix of the names of gauges that report problems, because of which a component works only in part.
///
/// While the last recorded value of such a gauge is above 0, the component has the problem that the help text of the last
/// registration describes. The value is then the number of the problem's [`ErrorKind`](crate::error::ErrorKind) plus 1.
pub const PROBLEM: &str = "problem_";

/// The condition of a file descriptor that a watch waits for. An open set.
#[repr(transparent)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, StableAbi)]
pub struct Interest(pub u8);

impl Interest {
    /// A read would not block.
    pub const READABLE: Self = Self(0);
    /// A write would not block.
    pub const WRITABLE: Self = Self(1);
}

/// A watch on a file descriptor, as a trait object of the ABI.
pub type RawWatchBox = RawWatch_TO<RBox<()>>;

/// A watch on a file descriptor. The host registers the descriptor once, and removes it when the watch is dropped.
#[sabi_trait]
pub trait RawWatch: Send + 'static {
    /// Completes when the descriptor is ready. Poll the watch again to wait until the descriptor is ready again.
    #[sabi(last_prefix_field)]
    fn poll_ready(&mut self, context: &mut FfiContext<'_>) -> FfiPoll<CallResult<()>>;
}

/// Work that may block, to be run by a thread of the host for blocking work.
///
/// Dropping a job that has not run drops the values that its closure has captured.
#[repr(C)]
#[derive(StableAbi)]
pub struct Job {
    data: *mut (),
    run: unsafe extern "C" fn(*mut ()),
    discard: unsafe extern "C" fn(*mut ()),
}

// SAFETY: `Job::new` only accepts closures that are `Send`.
unsafe impl Send for Job {}

impl Job {
    /// Creates a job that runs `work`. A panic of `work` ends the job and does not reach the host.
    pub fn new<F: FnOnce() + Send + 'static>(work: F) -> Self {
        /// # Safety
        /// `data` comes from `Box::<F>::into_raw`, and the caller does not use it again.
        unsafe extern "C" fn run<F: FnOnce()>(data: *mut ()) {
            // SAFETY: the caller passes a box of type `F` and gives up its ownership.
            let work = unsafe { Box::from_raw(data.cast::<F>()) };
            contain(move || (*work)());
        }
        /// # Safety
        /// The same as for `run`: `data` comes from `Box::<F>::into_raw`, and the caller does not use it again.
        unsafe extern "C" fn discard<F>(data: *mut ()) {
            // SAFETY: the caller passes a box of type `F` and gives up its ownership.
            let work = unsafe { Box::from_raw(data.cast::<F>()) };
            contain(move || drop(work));
        }
        Self { data: Box::into_raw(Box::new(work)).cast(), run: run::<F>, discard: discard::<F> }
    }

    /// Runs the job on the current thread.
    pub fn run(self) {
        let this = std::mem::ManuallyDrop::new(self);
        // SAFETY: `data` is the box that `new` created, and `ManuallyDrop` prevents the box from being freed a second
        // time.
        unsafe { (this.run)(this.data) }
    }
}

impl Drop for Job {
    fn drop(&mut self) {
        // SAFETY: `run` wraps its job in `ManuallyDrop`, so a job that is dropped has not run and still owns the box.
        unsafe { (self.discard)(self.data) }
    }
}

/// Runs `work`, and prevents a panic from crossing the ABI. A caller that waits for the result of `work` notices the
/// panic because no result arrives.
fn contain(work: impl FnOnce()) {
    if let Err(payload) = std::panic::catch_unwind(std::panic::AssertUnwindSafe(work)) {
        // The payload is leaked, because dropping it may panic too.
        std::mem::forget(payload);
    }
}

/// The functions of the host. The first argument of each function is the context of the [`HostHandle`].
#[repr(C)]
#[derive(StableAbi)]
#[sabi(kind(Prefix(prefix_ref = HostFunctionsRef)))]
#[sabi(missing_field(panic))]
pub struct HostFunctions {
    /// Adds a reference to the context.
    pub retain: unsafe extern "C" fn(*const ()),
    /// Releases a reference to the context.
    pub release: unsafe extern "C" fn(*const ()),
    /// Returns whether a log line of this level would be written.
    pub log_enabled: unsafe extern "C" fn(*const (), LogLevel) -> bool,
    /// Writes a line to the host's log, under the name of the component.
    pub log: unsafe extern "C" fn(*const (), LogLevel, RStr<'_>),
    /// Returns the time in ns since the Unix epoch.
    pub now_ns: unsafe extern "C" fn(*const ()) -> u64,
    /// Registers a metric of the component (kind, name, help text) and returns its number. Further calls with the same
    /// name return the same number. The help text of a [problem](PROBLEM) is replaced by each call.
    pub metric: unsafe extern "C" fn(*const (), MetricKind, RStr<'_>, RStr<'_>) -> u32,
    /// Records a value of a registered metric.
    pub record: unsafe extern "C" fn(*const (), u32, f64),
    /// Runs a future on the host's executor; the name appears in logs. The waker of every poll, including earlier
    /// polls, wakes the future as long as the future exists.
    pub spawn: unsafe extern "C" fn(*const (), RStr<'_>, FfiFuture<()>),
    /// Runs a job on the host's pool of threads for blocking work.
    pub spawn_blocking: unsafe extern "C" fn(*const (), Job),
    /// Returns a future that completes after the given time in ns.
    pub sleep: unsafe extern "C" fn(*const (), u64) -> FfiFuture<()>,
    /// Watches a file descriptor, which must be open at the time of the call. The watch may outlive the descriptor.
    pub watch: unsafe extern "C" fn(*const (), i32, Interest) -> CallResult<RawWatchBox>,
    /// Returns the folder against which relative paths in the component's configuration are resolved.
    pub folder: unsafe extern "C" fn(*const ()) -> RString,
    /// Reports that the component's connection is lost; the host reconnects it.
    pub connection_lost: unsafe extern "C" fn(*const ()),
    /// Ends the run of the program; the text is the reason, which is logged. If the flag is `true`, the flows drain
    /// first.
    #[sabi(last_prefix_field)]
    pub request_stop: unsafe extern "C" fn(*const (), bool, RStr<'_>),
    /// Borrows the given number of bytes from the memory of the flow. Returns `false` if the component may not use
    /// them.
    #[sabi(missing_field(option))]
    pub memory_take: unsafe extern "C" fn(*const (), usize) -> bool,
    /// Returns the given number of borrowed bytes.
    #[sabi(missing_field(option))]
    pub memory_return: unsafe extern "C" fn(*const (), usize),
    /// Returns the time of the host's monotonic clock in ns. The clock starts before the component is created.
    #[sabi(missing_field(option))]
    pub monotonic_ns: unsafe extern "C" fn(*const ()) -> u64,
    /// Counts the given number of bytes of events that the component accepted, even if they exceed the flow's memory
    /// limit.
    #[sabi(missing_field(option))]
    pub memory_charge: unsafe extern "C" fn(*const (), usize),
    /// Subtracts the given number of bytes of accepted events.
    #[sabi(missing_field(option))]
    pub memory_discharge: unsafe extern "C" fn(*const (), usize),
    /// Returns the soft limit of open file descriptors with which the host's process was started, or 0 if that limit is
    /// still in force.
    #[sabi(missing_field(option))]
    pub inherited_descriptor_limit: unsafe extern "C" fn(*const ()) -> u64,
    /// Returns whether the flow of the component is draining.
    #[sabi(missing_field(option))]
    pub is_draining: unsafe extern "C" fn(*const ()) -> bool,
}

/// A component's handle to the host.
#[repr(C)]
#[derive(StableAbi)]
pub struct HostHandle {
    functions: HostFunctionsRef,
    context: *const (),
}

// SAFETY: the caller of `HostHandle::new` promises that the functions may be called from any thread.
unsafe impl Send for HostHandle {}
// SAFETY: the same promise as for `Send`.
unsafe impl Sync for HostHandle {}

impl HostHandle {
    /// Creates a handle that owns one reference to `context`.
    ///
    /// # Safety
    /// Every function in `functions` may be called with `context` from any thread, as long as `context` has been
    /// retained at least as often as released. The caller transfers one reference to the handle. The handle releases
    /// this reference when the handle is dropped.
    pub unsafe fn new(functions: HostFunctionsRef, context: *const ()) -> Self {
        Self { functions, context }
    }

    /// Returns whether a log line of this level would be written. The call is cheap, so check the level before you
    /// format a line.
    pub fn log_enabled(&self, level: LogLevel) -> bool {
        // SAFETY: the contract of `new`; the handle owns a reference to `context`. The same holds for all methods
        // below.
        unsafe { self.functions.log_enabled()(self.context, level) }
    }

    /// Writes a line to the host's log.
    pub fn log(&self, level: LogLevel, message: &str) {
        // SAFETY: `new`'s contract.
        unsafe { self.functions.log()(self.context, level, message.into()) }
    }

    /// Returns the time in ns since the Unix epoch.
    pub fn now_ns(&self) -> u64 {
        // SAFETY: `new`'s contract.
        unsafe { self.functions.now_ns()(self.context) }
    }

    /// Registers a metric and returns its number.
    pub fn metric(&self, kind: MetricKind, name: &str, help: &str) -> u32 {
        // SAFETY: `new`'s contract.
        unsafe { self.functions.metric()(self.context, kind, name.into(), help.into()) }
    }

    /// Records a value of a registered metric.
    pub fn record(&self, metric: u32, value: f64) {
        // SAFETY: `new`'s contract.
        unsafe { self.functions.record()(self.context, metric, value) }
    }

    /// Runs a future on the host's executor.
    pub fn spawn(&self, name: &str, future: FfiFuture<()>) {
        // SAFETY: `new`'s contract.
        unsafe { self.functions.spawn()(self.context, name.into(), future) }
    }

    /// Runs a job on the host's pool of threads for blocking work.
    pub fn spawn_blocking(&self, job: Job) {
        // SAFETY: `new`'s contract.
        unsafe { self.functions.spawn_blocking()(self.context, job) }
    }

    /// Returns a future that completes after `ns` nanoseconds.
    pub fn sleep(&self, ns: u64) -> FfiFuture<()> {
        // SAFETY: `new`'s contract.
        unsafe { self.functions.sleep()(self.context, ns) }
    }

    /// Watches a file descriptor.
    pub fn watch(&self, fd: i32, interest: Interest) -> CallResult<RawWatchBox> {
        // SAFETY: `new`'s contract.
        unsafe { self.functions.watch()(self.context, fd, interest) }
    }

    /// Returns the folder against which relative paths in the component's configuration are resolved.
    pub fn folder(&self) -> String {
        // SAFETY: `new`'s contract.
        unsafe { self.functions.folder()(self.context) }.into()
    }

    /// Reports that the component's connection is lost.
    pub fn connection_lost(&self) {
        // SAFETY: `new`'s contract.
        unsafe { self.functions.connection_lost()(self.context) }
    }

    /// Ends the run. If `graceful` is `true`, the flows drain first.
    pub fn request_stop(&self, graceful: bool, reason: &str) {
        // SAFETY: `new`'s contract.
        unsafe { self.functions.request_stop()(self.context, graceful, reason.into()) }
    }

    /// Returns the monotonic time in ns, to measure durations with. On a host without this function, returns the
    /// wall-clock time of [`now_ns`](Self::now_ns).
    pub fn monotonic_ns(&self) -> u64 {
        match self.functions.monotonic_ns() {
            // SAFETY: `new`'s contract.
            Some(monotonic_ns) => unsafe { monotonic_ns(self.context) },
            None => self.now_ns(),
        }
    }

    /// Returns the soft limit of open file descriptors with which the host's process was started, or `None` if that
    /// limit is still in force or is not known.
    pub fn inherited_descriptor_limit(&self) -> Option<u64> {
        let function = self.functions.inherited_descriptor_limit()?;
        // SAFETY: `new`'s contract.
        Some(unsafe { function(self.context) }).filter(|limit| *limit > 0)
    }

    /// Returns whether the flow of the component is draining, or `false` if the host lacks this function.
    pub fn is_draining(&self) -> bool {
        // SAFETY: `new`'s contract.
        self.functions.is_draining().is_some_and(|is_draining| unsafe { is_draining(self.context) })
    }

    /// Borrows `bytes` from the memory of the flow. Returns whether the component may use them; `true` if the host
    /// lacks this function.
    pub fn memory_take(&self, bytes: usize) -> bool {
        // SAFETY: `new`'s contract.
        self.functions.memory_take().is_none_or(|take| unsafe { take(self.context, bytes) })
    }

    /// Returns `bytes` borrowed bytes to the flow.
    pub fn memory_return(&self, bytes: usize) {
        if let Some(give_back) = self.functions.memory_return() {
            // SAFETY: `new`'s contract.
            unsafe { give_back(self.context, bytes) }
        }
    }

    /// Counts `bytes` of events that the component accepted, even if they exceed the flow's memory limit.
    pub fn memory_charge(&self, bytes: usize) {
        if let Some(charge) = self.functions.memory_charge() {
            // SAFETY: `new`'s contract.
            unsafe { charge(self.context, bytes) }
        }
    }

    /// Subtracts `bytes` of accepted events.
    pub fn memory_discharge(&self, bytes: usize) {
        if let Some(discharge) = self.functions.memory_discharge() {
            // SAFETY: `new`'s contract.
            unsafe { discharge(self.context, bytes) }
        }
    }
}

impl Clone for HostHandle {
    fn clone(&self) -> Self {
        // SAFETY: the contract of `new`; this handle owns a reference to `context`.
        unsafe { self.functions.retain()(self.context) };
        Self { functions: self.functions, context: self.context }
    }
}

impl Drop for HostHandle {
    fn drop(&mut self) {
        // SAFETY: the contract of `new`; this handle releases its own reference, once.
        unsafe { self.functions.release()(self.context) }
    }
}
