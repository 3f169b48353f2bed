//! What the host does for a plugin: the only way from a plugin to the runtime.

// What abi_stable's macros generate.
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

/// The importance of a log line. An open set; what is unknown is logged as [`LogLevel::INFO`].
#[repr(transparent)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, StableAbi)]
pub struct LogLevel(pub u8);

impl LogLevel {
    /// Something failed.
    pub const ERROR: Self = Self(1);
    /// A condition that people should look at.
    pub const WARN: Self = Self(2);
    /// Something worth knowing, rarely.
    pub const INFO: Self = Self(3);
    /// Helps to find a fault.
    pub const DEBUG: Self = Self(4);
    /// Everything.
    pub const TRACE: Self = Self(5);
}

/// What a metric does with what is recorded. An open set.
#[repr(transparent)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, StableAbi)]
pub struct MetricKind(pub u8);

impl MetricKind {
    /// Adds it up.
    pub const COUNTER: Self = Self(0);
    /// Keeps the last.
    pub const GAUGE: Self = Self(1);
    /// Keeps the distribution.
    pub const HISTOGRAM: Self = Self(2);
}

/// What a file descriptor is to be ready for. An open set.
#[repr(transparent)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, StableAbi)]
pub struct Interest(pub u8);

impl Interest {
    /// A read would not block.
    pub const READABLE: Self = Self(0);
    /// A write would not block.
    pub const WRITABLE: Self = Self(1);
}

/// What watches a file descriptor, across the boundary.
pub type RawWatchBox = RawWatch_TO<RBox<()>>;

/// Watches a file descriptor until it is dropped: the host registers it once.
#[sabi_trait]
pub trait RawWatch: Send + 'static {
    /// Ready when the descriptor is, and again when it is again.
    #[sabi(last_prefix_field)]
    fn poll_ready(&mut self, context: &mut FfiContext<'_>) -> FfiPoll<CallResult<()>>;
}

/// A piece of work that may block, for the host's pool of threads.
///
/// Dropped without having run, it drops what it captured.
#[repr(C)]
#[derive(StableAbi)]
pub struct Job {
    data: *mut (),
    run: unsafe extern "C" fn(*mut ()),
    discard: unsafe extern "C" fn(*mut ()),
}

// SAFETY: `Job::new` only takes closures that are `Send`.
unsafe impl Send for Job {}

impl Job {
    /// A job that runs `work`. A panic in it ends the job; the host never sees it.
    pub fn new<F: FnOnce() + Send + 'static>(work: F) -> Self {
        /// # Safety
        /// `data` comes from `Box::<F>::into_raw` and is not used again.
        unsafe extern "C" fn run<F: FnOnce()>(data: *mut ()) {
            // SAFETY: the contract of this function.
            let work = unsafe { Box::from_raw(data.cast::<F>()) };
            contain(move || (*work)());
        }
        /// # Safety
        /// As for `run`.
        unsafe extern "C" fn discard<F>(data: *mut ()) {
            // SAFETY: the contract of this function.
            let work = unsafe { Box::from_raw(data.cast::<F>()) };
            contain(move || drop(work));
        }
        Self { data: Box::into_raw(Box::new(work)).cast(), run: run::<F>, discard: discard::<F> }
    }

    /// Runs the job on this thread.
    pub fn run(self) {
        let this = std::mem::ManuallyDrop::new(self);
        // SAFETY: `data` is the box that `new` made, and `ManuallyDrop` keeps it from being freed
        // a second time.
        unsafe { (this.run)(this.data) }
    }
}

impl Drop for Job {
    fn drop(&mut self) {
        // SAFETY: a job that ran was forgotten; this one still owns its box.
        unsafe { (self.discard)(self.data) }
    }
}

/// Keeps a panic from crossing the boundary. Whoever waits for the result of the work learns from
/// its absence.
fn contain(work: impl FnOnce()) {
    if let Err(payload) = std::panic::catch_unwind(std::panic::AssertUnwindSafe(work)) {
        // Even dropping the payload may panic.
        std::mem::forget(payload);
    }
}

/// The functions of the host. The first argument of each is the context of [`HostHandle`].
#[repr(C)]
#[derive(StableAbi)]
#[sabi(kind(Prefix(prefix_ref = HostFunctionsRef)))]
#[sabi(missing_field(panic))]
pub struct HostFunctions {
    /// One more handle to the context.
    pub retain: unsafe extern "C" fn(*const ()),
    /// One handle less.
    pub release: unsafe extern "C" fn(*const ()),
    /// Whether a line of this level would be written.
    pub log_enabled: unsafe extern "C" fn(*const (), LogLevel) -> bool,
    /// Writes a line to the host's log, under the component's name.
    pub log: unsafe extern "C" fn(*const (), LogLevel, RStr<'_>),
    /// The time in ns since the Unix epoch.
    pub now_ns: unsafe extern "C" fn(*const ()) -> u64,
    /// Registers a metric of this component (kind, name, help) and gives its number. The same name
    /// gives the same number.
    pub metric: unsafe extern "C" fn(*const (), MetricKind, RStr<'_>, RStr<'_>) -> u32,
    /// Records a value of a registered metric.
    pub record: unsafe extern "C" fn(*const (), u32, f64),
    /// Runs a future on the host's executor, under a name for logs. The waker of any of its polls wakes it for as
    /// long as it lives.
    pub spawn: unsafe extern "C" fn(*const (), RStr<'_>, FfiFuture<()>),
    /// Runs a job on the host's pool of threads for blocking work.
    pub spawn_blocking: unsafe extern "C" fn(*const (), Job),
    /// Ready after so many ns.
    pub sleep: unsafe extern "C" fn(*const (), u64) -> FfiFuture<()>,
    /// Watches a file descriptor, which is open now. It may be closed later.
    pub watch: unsafe extern "C" fn(*const (), i32, Interest) -> CallResult<RawWatchBox>,
    /// The folder that relative paths of the component's configuration start from.
    pub folder: unsafe extern "C" fn(*const ()) -> RString,
    /// The component's connection is lost: the host reconnects it.
    pub connection_lost: unsafe extern "C" fn(*const ()),
    /// Ends the run. Graceful: everything drains first.
    #[sabi(last_prefix_field)]
    pub request_stop: unsafe extern "C" fn(*const (), bool, RStr<'_>),
    /// Borrows so many bytes of the memory of the flow. False: the component may not take them.
    #[sabi(missing_field(option))]
    pub memory_take: unsafe extern "C" fn(*const (), usize) -> bool,
    /// Returns so many bytes that were borrowed.
    #[sabi(missing_field(option))]
    pub memory_return: unsafe extern "C" fn(*const (), usize),
    /// Returns the time in ns since some moment before the component was made, by a clock that nobody sets.
    #[sabi(missing_field(option))]
    pub monotonic_ns: unsafe extern "C" fn(*const ()) -> u64,
    /// Counts so many bytes of events that the component has accepted, whether or not the flow may take them.
    #[sabi(missing_field(option))]
    pub memory_charge: unsafe extern "C" fn(*const (), usize),
    /// Counts so many bytes of accepted events less.
    #[sabi(missing_field(option))]
    pub memory_discharge: unsafe extern "C" fn(*const (), usize),
    /// Returns the soft limit of open descriptors that the host's process was started with, or 0 if that is still in
    /// force.
    #[sabi(missing_field(option))]
    pub inherited_descriptor_limit: unsafe extern "C" fn(*const ()) -> u64,
    /// Returns whether the flow of the component drains.
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

// SAFETY: the maker of a handle promises that the functions may be called from any thread.
unsafe impl Send for HostHandle {}
// SAFETY: as above.
unsafe impl Sync for HostHandle {}

impl HostHandle {
    /// A handle that owns one reference to `context`.
    ///
    /// # Safety
    /// Every function may be called with `context` from any thread as long as it was retained at
    /// least as often as released.
    pub unsafe fn new(functions: HostFunctionsRef, context: *const ()) -> Self {
        Self { functions, context }
    }

    /// Whether a line of this level would be written. Cheap: ask before formatting.
    pub fn log_enabled(&self, level: LogLevel) -> bool {
        // SAFETY: `new`'s contract; so in all methods below.
        unsafe { self.functions.log_enabled()(self.context, level) }
    }

    /// Writes a line to the host's log.
    pub fn log(&self, level: LogLevel, message: &str) {
        // SAFETY: `new`'s contract.
        unsafe { self.functions.log()(self.context, level, message.into()) }
    }

    /// The time in ns since the Unix epoch.
    pub fn now_ns(&self) -> u64 {
        // SAFETY: `new`'s contract.
        unsafe { self.functions.now_ns()(self.context) }
    }

    /// Registers a metric and gives its number.
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

    /// Ready after so many ns.
    pub fn sleep(&self, ns: u64) -> FfiFuture<()> {
        // SAFETY: `new`'s contract.
        unsafe { self.functions.sleep()(self.context, ns) }
    }

    /// Watches a file descriptor.
    pub fn watch(&self, fd: i32, interest: Interest) -> CallResult<RawWatchBox> {
        // SAFETY: `new`'s contract.
        unsafe { self.functions.watch()(self.context, fd, interest) }
    }

    /// The folder that relative paths of the component's configuration start from.
    pub fn folder(&self) -> String {
        // SAFETY: `new`'s contract.
        unsafe { self.functions.folder()(self.context) }.into()
    }

    /// Says that the component's connection is lost.
    pub fn connection_lost(&self) {
        // SAFETY: `new`'s contract.
        unsafe { self.functions.connection_lost()(self.context) }
    }

    /// Ends the run.
    pub fn request_stop(&self, graceful: bool, reason: &str) {
        // SAFETY: `new`'s contract.
        unsafe { self.functions.request_stop()(self.context, graceful, reason.into()) }
    }

    /// Returns the time in ns by a clock that nobody sets, to measure durations with. A host without this function
    /// has only the clock for stamps.
    pub fn monotonic_ns(&self) -> u64 {
        match self.functions.monotonic_ns() {
            // SAFETY: `new`'s contract.
            Some(monotonic_ns) => unsafe { monotonic_ns(self.context) },
            None => self.now_ns(),
        }
    }

    /// Returns the soft limit of open descriptors that the host's process was started with. Returns `None` if that is
    /// still in force, or not known.
    pub fn inherited_descriptor_limit(&self) -> Option<u64> {
        let function = self.functions.inherited_descriptor_limit()?;
        // SAFETY: `new`'s contract.
        Some(unsafe { function(self.context) }).filter(|limit| *limit > 0)
    }

    /// Returns whether the flow of the component drains. A host without this function answers `false`.
    pub fn is_draining(&self) -> bool {
        // SAFETY: `new`'s contract.
        self.functions.is_draining().is_some_and(|is_draining| unsafe { is_draining(self.context) })
    }

    /// Borrows `bytes` of the memory of the flow. Returns whether the component may take them; a host without this
    /// function lets it.
    pub fn memory_take(&self, bytes: usize) -> bool {
        // SAFETY: `new`'s contract.
        self.functions.memory_take().is_none_or(|take| unsafe { take(self.context, bytes) })
    }

    /// Returns `bytes` that were borrowed.
    pub fn memory_return(&self, bytes: usize) {
        if let Some(give_back) = self.functions.memory_return() {
            // SAFETY: `new`'s contract.
            unsafe { give_back(self.context, bytes) }
        }
    }

    /// Counts `bytes` of events that the component has accepted, whether or not the flow may take them.
    pub fn memory_charge(&self, bytes: usize) {
        if let Some(charge) = self.functions.memory_charge() {
            // SAFETY: `new`'s contract.
            unsafe { charge(self.context, bytes) }
        }
    }

    /// Counts `bytes` of accepted events less.
    pub fn memory_discharge(&self, bytes: usize) {
        if let Some(discharge) = self.functions.memory_discharge() {
            // SAFETY: `new`'s contract.
            unsafe { discharge(self.context, bytes) }
        }
    }
}

impl Clone for HostHandle {
    fn clone(&self) -> Self {
        // SAFETY: `new`'s contract: this handle holds a reference.
        unsafe { self.functions.retain()(self.context) };
        Self { functions: self.functions, context: self.context }
    }
}

impl Drop for HostHandle {
    fn drop(&mut self) {
        // SAFETY: `new`'s contract: this handle's reference is given back once.
        unsafe { self.functions.release()(self.context) }
    }
}
