//! Functions of the host that plugins call.
//!
//! Each instance of a component has one context, to which the plugin has reference-counted handles. None of the
//! functions unwinds into the plugin.

use std::{
    collections::HashMap,
    io,
    os::fd::BorrowedFd,
    sync::{Arc, Mutex, OnceLock},
    task::Poll,
    time::Duration,
};

use abi_stable::{
    prefix_type::PrefixTypeTrait,
    sabi_trait::TD_Opaque,
    std_types::{RBox, RResult, RStr, RString},
};
use async_ffi::{FfiContext, FfiFuture, FfiPoll};
use tremor_abi::{
    connector::CallResult,
    host::{
        self as abi, HostFunctions, HostFunctionsRef, HostHandle, Interest, Job, RawWatch,
        RawWatch_TO, RawWatchBox,
    },
};
use tremor_pdk::{Error, ErrorKind, lock, testing::TestHost};

use super::{
    contain::{Contained, contain},
    jobs::Jobs,
    log_lines::{is_enabled, write_log},
    metrics::{MOST, MetricKind, Metrics, Number},
    services::HostServices,
};
use crate::{descriptors, executor};

/// Context of one component instance in the host.
pub struct HostContext {
    component: String,
    folder: String,
    metrics: Arc<Metrics>,
    /// Names and descriptions of problems, by the numbers of their gauges.
    problems: Mutex<HashMap<u32, (String, String)>>,
    services: Box<dyn HostServices>,
    /// Blocking work of this instance and of earlier instances of the component.
    jobs: Jobs,
    /// First forbidden action of the constructor, such as starting a task. The outer option is `Some` only in a context
    /// for a check.
    misused: Option<OnceLock<&'static str>>,
}

impl HostContext {
    /// Creates the context of the component that is called `component` in its flow. Relative paths of the component are
    /// relative to `folder`.
    pub fn new(
        component: impl Into<String>,
        folder: impl Into<String>,
        services: impl HostServices,
    ) -> Arc<Self> {
        Self::with_jobs(component, folder, services, Jobs::default())
    }

    /// Creates the context of an instance. `jobs` makes the instance share the limit on blocking work with earlier
    /// instances of the component.
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
            problems: Mutex::default(),
            services: Box::new(services),
            jobs,
            misused: None,
        })
    }

    /// Creates a context for checking whether an instance can be created. Log lines are discarded, and actions with an
    /// effect outside of the instance are not performed.
    pub(crate) fn checking(folder: impl Into<String>) -> Arc<Self> {
        Arc::new(Self {
            component: "check".to_owned(),
            folder: folder.into(),
            metrics: Arc::default(),
            problems: Mutex::default(),
            services: Box::new(()),
            jobs: Jobs::default(),
            misused: Some(OnceLock::new()),
        })
    }

    /// Writes a line to the log, unless the services of the component do.
    pub(super) fn write_log(&self, level: abi::LogLevel, message: &str) {
        if self.services.log(level, message) {
            return;
        }
        write_log(self.services.flow().as_ref(), &self.component, level, message);
    }

    /// Registers a metric. The help text of the gauge of a problem is the description of the problem, which may contain
    /// secrets, so the metric has another help text.
    fn register(&self, kind: MetricKind, name: &str, help: &str) -> u32 {
        let problem = name.strip_prefix(abi::PROBLEM).filter(|_| kind == MetricKind::Gauge);
        let shown = problem.map_or(help, |_| "1 while the component has this problem.");
        let number = match self.metrics.register(kind, name, shown) {
            Number::Of(number) => number,
            Number::Refused { is_first } => {
                if is_first && self.misused.is_none() {
                    self.write_log(
                        abi::LogLevel::ERROR,
                        &format!(
                            "the plugin registered more than {MOST} metrics; `{name}` and further ones are not \
                             recorded; a plugin must not have a metric for each event, peer or file"
                        ),
                    );
                }
                // Values of an unknown metric are ignored.
                return u32::MAX;
            }
        };
        if let Some(problem) = problem {
            lock(&self.problems).insert(number, (problem.to_owned(), help.to_owned()));
        }
        number
    }

    /// Records a value of a metric, and sets or clears the problem that the metric reports, if any.
    fn record(&self, metric: u32, value: f64) {
        let Some((name, description)) = lock(&self.problems).get(&metric).cloned() else {
            return self.metrics.record(metric, value);
        };
        self.metrics.record(metric, f64::from(u8::from(value > 0.0)));
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it saturates")]
        let kind = ErrorKind((value - 1.0) as u16);
        let problem = (value > 0.0).then(|| Error::new(kind, description));
        self.services.set_problem(&name, problem);
    }

    /// Records that a constructor has tried a forbidden action. Returns `false` if this context is not for a check, so
    /// that the action is allowed.
    fn forbids(&self, what: &'static str) -> bool {
        let Some(misused) = &self.misused else { return false };
        misused.get_or_init(|| what);
        true
    }

    /// Checks that the constructor has performed no forbidden action.
    ///
    /// # Errors
    /// Kind internal, with the first forbidden action.
    pub(super) fn was_respected(&self) -> Result<(), Error> {
        match self.misused.as_ref().and_then(OnceLock::get) {
            None => Ok(()),
            Some(what) => Err(Error::internal(format_args!(
                "its constructor {what}, which is possible only from `connect` on"
            ))),
        }
    }

    /// Returns the services of the component.
    pub(super) fn services(&self) -> &dyn HostServices {
        &*self.services
    }

    /// Returns the folder to which relative paths of the component are relative.
    pub(super) fn folder(&self) -> &str {
        &self.folder
    }

    /// Returns the name of the component in the flow.
    pub fn component(&self) -> &str {
        &self.component
    }

    /// Returns the metrics that the component has registered.
    pub fn metrics(&self) -> &Arc<Metrics> {
        &self.metrics
    }

    /// Returns a handle for the plugin.
    pub(super) fn handle(self: Arc<Self>) -> HostHandle {
        // SAFETY: the context is an `Arc` with one count for this handle, `retain` and `release`
        // count it up and down, and `HostContext` is `Sync`.
        unsafe { HostHandle::new(functions(), Arc::into_raw(self).cast()) }
    }
}

/// The host with which an instance is created.
pub trait InstanceHost {
    /// Returns the name of the component in the flow.
    fn name(&self) -> &str;
    /// Returns a handle to the host.
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

/// A test host for checks of a plugin. Only the test advances its clock.
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

/// Runs `work` with the context that a function received. Returns the default value if `work` panics.
///
/// # Safety
/// `context` is the context pointer of a [`HostHandle`] that stays alive during the call.
unsafe fn with<T: Default>(context: *const (), work: impl FnOnce(&HostContext) -> T) -> T {
    // SAFETY: by the contract of this function the handle stays alive, and its count keeps the context alive.
    let context = unsafe { &*context.cast::<HostContext>() };
    contain(|| work(context)).unwrap_or_default()
}

// Host functions. They are called only through a `HostHandle`, which stays alive during the call and passes its own
// context. This is the contract of `HostHandle::new`, to which the SAFETY comments refer.

unsafe extern "C" fn retain(context: *const ()) {
    // SAFETY: the pointer comes from `Arc::into_raw`, and the handle's count is alive.
    unsafe { Arc::increment_strong_count(context.cast::<HostContext>()) }
}

unsafe extern "C" fn release(context: *const ()) {
    // SAFETY: as for `retain`; the handle gives up its count and is not used afterwards.
    let context = unsafe { Arc::from_raw(context.cast::<HostContext>()) };
    let _ = contain(|| drop(context));
}

unsafe extern "C" fn log_enabled(context: *const (), level: abi::LogLevel) -> bool {
    // SAFETY: a live handle's context.
    unsafe {
        with(context, |context| {
            let is_enabled =
                || context.services.log_enabled(level).unwrap_or_else(|| is_enabled(level));
            context.misused.is_none() && is_enabled()
        })
    }
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

unsafe extern "C" fn now_ns(context: *const ()) -> u64 {
    // SAFETY: a live handle's context.
    unsafe { with(context, |context| context.services.clock().now_ns()) }
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
        // An unknown kind is treated as a gauge, because the last value is the least misleading one.
        _ => MetricKind::Gauge,
    };
    // SAFETY: a live handle's context.
    unsafe { with(context, |context| context.register(kind, name.as_str(), help.as_str())) }
}

unsafe extern "C" fn record(context: *const (), metric: u32, value: f64) {
    // SAFETY: a live handle's context.
    unsafe { with(context, |context| context.record(metric, value)) }
}

unsafe extern "C" fn spawn(context: *const (), name: RStr<'_>, future: FfiFuture<()>) {
    let start = |context: &HostContext| {
        if context.forbids("starts a task") {
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
        if !context.forbids("starts work on another thread") {
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
    let clock = unsafe {
        with(context, |context| (!context.forbids("waits")).then(|| context.services.clock()))
    };
    match clock {
        Some(clock) => FfiFuture::new(clock.sleep(Duration::from_nanos(ns))),
        None => FfiFuture::new(std::future::ready(())),
    }
}

unsafe extern "C" fn watch(
    context: *const (),
    descriptor: i32,
    interest: Interest,
) -> CallResult<RawWatchBox> {
    // SAFETY: a live handle's context.
    if unsafe { with(context, |context| context.forbids("waits for a file descriptor")) } {
        return RResult::RErr(Error::unsupported(
            "cannot wait for a file descriptor while a configuration is checked",
        ));
    }
    let watch = contain(|| Watch::new(descriptor, interest));
    let watch = watch.unwrap_or_else(|| Err(io::Error::other("the host panicked")));
    watch
        .map(|watch| RawWatch_TO::from_ptr(RBox::new(watch), TD_Opaque))
        .map_err(Error::from)
        .into()
}

/// Waits for a duplicate of a descriptor.
///
/// Because of the duplicate, one task can wait to read and another one to write. Also, no task waits for an unrelated
/// file if the plugin closes its descriptor too early and the number is reused.
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
        // SAFETY: the descriptor is not -1, and it is open by the contract of `HostFunctions::watch`. If it were
        // closed, duplicating it would only return an error.
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
    unsafe { with(context, |context| context.services.clock().monotonic_ns()) }
}

unsafe extern "C" fn inherited_descriptor_limit(_context: *const ()) -> u64 {
    contain(descriptors::inherited_limit).unwrap_or_default()
}

unsafe extern "C" fn is_draining(context: *const ()) -> bool {
    // SAFETY: a live handle's context.
    unsafe { with(context, |context| context.services.is_draining()) }
}
