//! The functions that a plugin calls: the host's half of the host API.
//!
//! A plugin gets one context for each component instance and counts its handles to it. Nothing in
//! here unwinds into the plugin.

use std::{
    io,
    os::fd::BorrowedFd,
    sync::{Arc, OnceLock},
    task::Poll,
    time::Duration,
};

use abi_stable::{
    prefix_type::PrefixTypeTrait,
    sabi_trait::TD_Opaque,
    std_types::{RBox, RResult, RStr, RString},
};
use async_ffi::{FfiContext, FfiFuture, FfiPoll};
use tracing::Level;
use tremor_abi::{
    connector::CallResult,
    host::{
        self as abi, HostFunctions, HostFunctionsRef, HostHandle, Interest, Job, RawWatch,
        RawWatch_TO, RawWatchBox,
    },
};
use tremor_pdk::{Error, testing::TestHost};

use super::{
    contain::{Contained, contain},
    jobs::Jobs,
    metrics::{MetricKind, Metrics},
};
use crate::{descriptors, dynamic::BoxFuture, executor, log as log_flow, time};

/// What a component may ask of the flow that it runs in. Called from any thread, and possibly
/// while another call into the same component is under way: implementations take note and return.
pub trait HostServices: Send + Sync + 'static {
    /// The component's connection is lost: reconnect it.
    fn connection_lost(&self);
    /// The run is to end; `graceful`: once everything under way has drained.
    fn request_stop(&self, graceful: bool, reason: &str);
    /// Lends the component `bytes` of the memory of its flow. Returns whether it may take them.
    fn memory_take(&self, bytes: usize) -> bool {
        let _ = bytes;
        true
    }
    /// Takes back `bytes` that were lent.
    fn memory_return(&self, bytes: usize) {
        let _ = bytes;
    }
    /// Counts `bytes` of events that the component has accepted.
    fn memory_charge(&self, bytes: usize) {
        let _ = bytes;
    }
    /// Counts `bytes` of accepted events less.
    fn memory_discharge(&self, bytes: usize) {
        let _ = bytes;
    }

    /// Returns the time in ns by a clock that nobody sets.
    fn monotonic_ns(&self) -> u64 {
        time::monotonic_ns()
    }

    /// Returns whether the flow drains.
    fn is_draining(&self) -> bool {
        false
    }
    /// Returns the name of the flow, for log lines.
    fn flow(&self) -> Option<Arc<str>> {
        None
    }
    /// A task that the component starts is to be run: what is returned is.
    fn task(&self, name: &str, task: BoxFuture<'static, ()>) -> BoxFuture<'static, ()> {
        let _ = name;
        task
    }
}

/// No flow: nothing comes of what is asked.
impl HostServices for () {
    fn connection_lost(&self) {}

    fn request_stop(&self, _graceful: bool, _reason: &str) {}
}

/// What one component instance sees of the host.
pub struct HostContext {
    component: String,
    folder: String,
    metrics: Arc<Metrics>,
    services: Box<dyn HostServices>,
    /// Its blocking work, with that of the instances before it.
    jobs: Jobs,
    /// In a check: what the constructor did first of what no constructor may do.
    misused: Option<OnceLock<&'static str>>,
}

impl HostContext {
    /// The context of the component that is called `component` in its flow, whose relative paths
    /// start from `folder`.
    pub fn new(
        component: impl Into<String>,
        folder: impl Into<String>,
        services: impl HostServices,
    ) -> Arc<Self> {
        Self::with_jobs(component, folder, services, Jobs::default())
    }

    /// Makes the context of an instance whose blocking work shares the bound of `jobs` with other instances.
    pub(crate) fn with_jobs(
        component: impl Into<String>,
        folder: impl Into<String>,
        services: impl HostServices,
        jobs: Jobs,
    ) -> Arc<Self> {
        Arc::new(Self {
            component: component.into(),
            folder: folder.into(),
            metrics: Arc::default(),
            services: Box::new(services),
            jobs,
            misused: None,
        })
    }

    /// A context to see whether an instance can be made: its log is quiet, and nothing is done of what
    /// reaches outside.
    pub(crate) fn checking(folder: impl Into<String>) -> Arc<Self> {
        Arc::new(Self {
            component: "check".to_owned(),
            folder: folder.into(),
            metrics: Arc::default(),
            services: Box::new(()),
            jobs: Jobs::default(),
            misused: Some(OnceLock::new()),
        })
    }

    fn write_log(&self, level: abi::LogLevel, message: &str) {
        write_log(self.services.flow().as_ref(), &self.component, level, message);
    }

    /// Takes note of what no constructor may do; `false` where this is no check.
    fn refuses(&self, what: &'static str) -> bool {
        let Some(misused) = &self.misused else { return false };
        misused.get_or_init(|| what);
        true
    }

    /// # Errors
    /// Kind internal, where the constructor did what none may do.
    pub(super) fn was_respected(&self) -> Result<(), Error> {
        match self.misused.as_ref().and_then(OnceLock::get) {
            None => Ok(()),
            Some(what) => Err(Error::internal(format_args!(
                "its constructor {what}, which is for later: for `connect`, and what follows it"
            ))),
        }
    }

    /// The component's name in the flow.
    pub fn component(&self) -> &str {
        &self.component
    }

    /// What the component has registered and recorded.
    pub fn metrics(&self) -> &Arc<Metrics> {
        &self.metrics
    }

    /// A handle for the plugin.
    pub(super) fn handle(self: Arc<Self>) -> HostHandle {
        // SAFETY: the context is an `Arc` with one count for this handle, `retain` and `release`
        // count it up and down, and `HostContext` is `Sync`.
        unsafe { HostHandle::new(functions(), Arc::into_raw(self).cast()) }
    }
}

/// What an instance is made with: the name of its component in the flow, and a handle to its host.
pub trait InstanceHost {
    /// The name.
    fn name(&self) -> &str;
    /// The handle.
    fn handle(&self) -> HostHandle;
}

impl InstanceHost for Arc<HostContext> {
    fn name(&self) -> &str {
        self.component()
    }

    fn handle(&self) -> HostHandle {
        HostContext::handle(self.clone())
    }
}

/// A host that lets no time pass by itself, for the checks of a plugin.
impl InstanceHost for TestHost {
    fn name(&self) -> &'static str {
        "verify"
    }

    fn handle(&self) -> HostHandle {
        Self::handle(self)
    }
}

impl std::fmt::Debug for HostContext {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HostContext").field("component", &self.component).finish_non_exhaustive()
    }
}

fn functions() -> HostFunctionsRef {
    static FUNCTIONS: OnceLock<HostFunctionsRef> = OnceLock::new();
    *FUNCTIONS.get_or_init(|| {
        HostFunctions {
            retain,
            release,
            log_enabled,
            log,
            now_ns,
            metric,
            record,
            spawn,
            spawn_blocking,
            sleep,
            watch,
            folder,
            connection_lost,
            request_stop,
            memory_take,
            memory_return,
            monotonic_ns,
            memory_charge,
            memory_discharge,
            inherited_descriptor_limit,
            is_draining,
        }
        .leak_into_prefix()
    })
}

/// Runs `work` with the context that a function was called with; the default where it panics.
///
/// # Safety
/// `context` is the pointer of a [`HostHandle`] that is alive.
unsafe fn with<T: Default>(context: *const (), work: impl FnOnce(&HostContext) -> T) -> T {
    // SAFETY: the contract of this function: the handle's count keeps the context alive.
    let context = unsafe { &*context.cast::<HostContext>() };
    contain(|| work(context)).unwrap_or_default()
}

// The functions. Each is called through a `HostHandle` alone, which is alive meanwhile and passes
// its own context: the contract of `HostHandle::new`, and what the SAFETY comments refer to.

unsafe extern "C" fn retain(context: *const ()) {
    // SAFETY: the pointer comes from `Arc::into_raw`, and the handle's count is alive.
    unsafe { Arc::increment_strong_count(context.cast::<HostContext>()) }
}

unsafe extern "C" fn release(context: *const ()) {
    // SAFETY: as for `retain`; the handle gives its count back and is gone.
    let context = unsafe { Arc::from_raw(context.cast::<HostContext>()) };
    let _ = contain(|| drop(context));
}

unsafe extern "C" fn log_enabled(context: *const (), level: abi::LogLevel) -> bool {
    // SAFETY: a live handle's context.
    unsafe { with(context, |context| context.misused.is_none() && is_enabled(level)) }
}

unsafe extern "C" fn log(context: *const (), level: abi::LogLevel, message: RStr<'_>) {
    // SAFETY: a live handle's context.
    unsafe {
        with(context, |context| {
            if context.misused.is_none() {
                context.write_log(level, message.as_str());
            }
        });
    }
}

unsafe extern "C" fn now_ns(_context: *const ()) -> u64 {
    contain(time::now_ns).unwrap_or_default()
}

unsafe extern "C" fn metric(
    context: *const (),
    kind: abi::MetricKind,
    name: RStr<'_>,
    help: RStr<'_>,
) -> u32 {
    let kind = match kind {
        abi::MetricKind::COUNTER => MetricKind::Counter,
        abi::MetricKind::HISTOGRAM => MetricKind::Histogram,
        // An unknown kind keeps the last value: that misleads least.
        _ => MetricKind::Gauge,
    };
    // SAFETY: a live handle's context.
    unsafe { with(context, |context| context.metrics.register(kind, name.as_str(), help.as_str())) }
}

unsafe extern "C" fn record(context: *const (), metric: u32, value: f64) {
    // SAFETY: a live handle's context.
    unsafe { with(context, |context| context.metrics.record(metric, value)) }
}

unsafe extern "C" fn spawn(context: *const (), name: RStr<'_>, future: FfiFuture<()>) {
    let start = |context: &HostContext| {
        if context.refuses("starts a task") {
            return;
        }
        let component = context.component.clone();
        let flow = context.services.flow();
        let report = format!("{component}: {name}");
        let future = async move {
            if let Err(error) = Contained::new("a task", future).await {
                let message = format!("task {report}: {error}");
                write_log(flow.as_ref(), &component, abi::LogLevel::ERROR, &message);
            }
        };
        let future = context.services.task(&name, Box::pin(future));
        executor::spawn(future).detach();
    };
    // SAFETY: a live handle's context.
    unsafe { with(context, start) }
}

unsafe extern "C" fn spawn_blocking(context: *const (), job: Job) {
    let start = |context: &HostContext| {
        if !context.refuses("starts work on another thread") {
            context.jobs.start(job);
        }
    };
    // SAFETY: a live handle's context.
    unsafe { with(context, start) }
}

unsafe extern "C" fn memory_take(context: *const (), bytes: usize) -> bool {
    // SAFETY: a live handle's context.
    unsafe { with(context, |context| context.services.memory_take(bytes)) }
}

unsafe extern "C" fn memory_return(context: *const (), bytes: usize) {
    // SAFETY: a live handle's context.
    unsafe { with(context, |context| context.services.memory_return(bytes)) }
}

unsafe extern "C" fn memory_charge(context: *const (), bytes: usize) {
    // SAFETY: a live handle's context.
    unsafe { with(context, |context| context.services.memory_charge(bytes)) }
}

unsafe extern "C" fn memory_discharge(context: *const (), bytes: usize) {
    // SAFETY: a live handle's context.
    unsafe { with(context, |context| context.services.memory_discharge(bytes)) }
}

unsafe extern "C" fn sleep(context: *const (), ns: u64) -> FfiFuture<()> {
    // SAFETY: a live handle's context.
    if unsafe { with(context, |context| context.refuses("waits")) } {
        return FfiFuture::new(std::future::ready(()));
    }
    FfiFuture::new(executor::sleep(Duration::from_nanos(ns)))
}

unsafe extern "C" fn watch(
    context: *const (),
    descriptor: i32,
    interest: Interest,
) -> CallResult<RawWatchBox> {
    // SAFETY: a live handle's context.
    if unsafe { with(context, |context| context.refuses("waits for a file descriptor")) } {
        return RResult::RErr(Error::unsupported("nothing is waited for in a check"));
    }
    let watch = contain(|| Watch::new(descriptor, interest));
    let watch = watch.unwrap_or_else(|| Err(io::Error::other("the host panicked")));
    watch
        .map(|watch| RawWatch_TO::from_ptr(RBox::new(watch), TD_Opaque))
        .map_err(Error::from)
        .into()
}

/// Watches a duplicate of a descriptor: so one task can wait to read it and another to write it, and
/// closing it early makes no task wait for a stranger's descriptor.
struct Watch(executor::Watched);

impl Watch {
    fn new(descriptor: i32, interest: Interest) -> io::Result<Self> {
        let refused = |what| Err(io::Error::new(io::ErrorKind::InvalidInput, what));
        if descriptor < 0 {
            return refused("not a file descriptor");
        }
        let interest = match interest {
            Interest::READABLE => executor::Interest::Readable,
            Interest::WRITABLE => executor::Interest::Writable,
            _ => return refused("expected reading or writing"),
        };
        // SAFETY: the descriptor is not -1, and is open now: the contract of `HostFunctions::watch`.
        // Were it closed, duplicating it is an error and nothing worse.
        let descriptor = unsafe { BorrowedFd::borrow_raw(descriptor) }.try_clone_to_owned()?;
        executor::watch(descriptor, interest).map(Self)
    }
}

impl RawWatch for Watch {
    fn poll_ready(&mut self, context: &mut FfiContext<'_>) -> FfiPoll<CallResult<()>> {
        match context.with_context(|context| contain(|| self.0.poll_ready(context))) {
            Some(Poll::Pending) => FfiPoll::Pending,
            Some(Poll::Ready(result)) => FfiPoll::Ready(result.map_err(Error::from).into()),
            None => FfiPoll::Panicked,
        }
    }
}

unsafe extern "C" fn folder(context: *const ()) -> RString {
    // SAFETY: a live handle's context.
    unsafe { with(context, |context| context.folder.clone()) }.into()
}

unsafe extern "C" fn connection_lost(context: *const ()) {
    // SAFETY: a live handle's context.
    unsafe { with(context, |context| context.services.connection_lost()) }
}

unsafe extern "C" fn request_stop(context: *const (), graceful: bool, reason: RStr<'_>) {
    // SAFETY: a live handle's context.
    unsafe { with(context, |context| context.services.request_stop(graceful, reason.as_str())) }
}

unsafe extern "C" fn monotonic_ns(context: *const ()) -> u64 {
    // SAFETY: a live handle's context.
    unsafe { with(context, |context| context.services.monotonic_ns()) }
}

unsafe extern "C" fn inherited_descriptor_limit(_context: *const ()) -> u64 {
    contain(descriptors::inherited_limit).unwrap_or_default()
}

unsafe extern "C" fn is_draining(context: *const ()) -> bool {
    // SAFETY: a live handle's context.
    unsafe { with(context, |context| context.services.is_draining()) }
}

/// Does the same for each level: tracing wants it to be a constant.
macro_rules! at_level {
    ($level:expr, $constant:ident => $does:expr) => {{
        macro_rules! at {
            ($name:ident) => {{
                const $constant: Level = Level::$name;
                $does
            }};
        }
        match $level {
            abi::LogLevel::ERROR => at!(ERROR),
            abi::LogLevel::WARN => at!(WARN),
            abi::LogLevel::DEBUG => at!(DEBUG),
            abi::LogLevel::TRACE => at!(TRACE),
            // What is unknown is logged as this.
            _ => at!(INFO),
        }
    }};
}

fn is_enabled(level: abi::LogLevel) -> bool {
    at_level!(level, LEVEL => tracing::enabled!(target: "tremor::plugin", LEVEL))
}

/// Logs a line of a component; names its flow if there is one.
fn write_log(flow: Option<&Arc<str>>, component: &str, level: abi::LogLevel, message: &str) {
    match flow {
        Some(flow) => log_flow::within(flow, || write_line(component, level, message)),
        None => write_line(component, level, message),
    }
}

fn write_line(component: &str, level: abi::LogLevel, message: &str) {
    at_level!(level, LEVEL => {
        tracing::event!(target: "tremor::plugin", LEVEL, component, "{message}");
    });
}
