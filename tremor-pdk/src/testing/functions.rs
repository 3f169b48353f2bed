//! The functions of the ABI that a test host provides, implemented with a [`World`].
//!
//! The `context` argument of every function comes from `Arc::into_raw`, which `handle` calls on an `Arc<World>`.

use std::{future::Future, pin::Pin, sync::Arc};

use abi_stable::{
    prefix_type::PrefixTypeTrait,
    sabi_trait::TD_Opaque,
    std_types::{RBox, RResult, RStr, RString},
};
use async_ffi::{FfiContext, FfiFuture, FfiPoll};
use tremor_abi::{
    connector::CallResult,
    host::{
        HostFunctions, HostFunctionsRef, HostHandle, Interest, Job, LogLevel, MetricKind, RawWatch,
        RawWatch_TO, RawWatchBox,
    },
};

use super::world::{Cause, Metric, Waiting, World};

pub(super) fn handle(world: &Arc<World>) -> HostHandle {
    // SAFETY: the functions expect a context from `Arc::into_raw`. Any thread may call them, because the state of a
    // `World` is in a mutex.
    unsafe { HostHandle::new(functions(), Arc::into_raw(world.clone()).cast()) }
}

fn functions() -> HostFunctionsRef {
    static FUNCTIONS: std::sync::OnceLock<HostFunctionsRef> = std::sync::OnceLock::new();
    *FUNCTIONS.get_or_init(|| {
        let functions = HostFunctions {
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
            memory_discharge: memory_return,
            inherited_descriptor_limit,
            is_draining,
        };
        functions.leak_into_prefix()
    })
}

/// # Safety
/// `context` comes from `handle`, and at least one of its references has not been released.
unsafe fn world<'c>(context: *const ()) -> &'c World {
    // SAFETY: the contract of this function.
    unsafe { &*context.cast::<World>() }
}

/// # Safety
/// The same as for `world`.
unsafe fn share(context: *const ()) -> Arc<World> {
    // SAFETY: by the contract of this function, the reference count is at least 1. The returned `Arc` owns the
    // reference that is added.
    unsafe {
        Arc::increment_strong_count(context.cast::<World>());
        Arc::from_raw(context.cast::<World>())
    }
}

unsafe extern "C" fn retain(context: *const ()) {
    // SAFETY: by the contract of `HostHandle::new`, this function is called only while a reference to `context` is
    // held. The same reason applies to all functions below.
    unsafe { Arc::increment_strong_count(context.cast::<World>()) }
}

unsafe extern "C" fn release(context: *const ()) {
    // SAFETY: see `retain`.
    unsafe { Arc::decrement_strong_count(context.cast::<World>()) }
}

unsafe extern "C" fn log_enabled(_context: *const (), _level: LogLevel) -> bool {
    true
}

unsafe extern "C" fn log(context: *const (), level: LogLevel, message: RStr<'_>) {
    // SAFETY: see `retain`.
    unsafe { world(context) }.lock().log.push((level, message.into()));
}

unsafe extern "C" fn now_ns(context: *const ()) -> u64 {
    // SAFETY: see `retain`.
    unsafe { world(context) }.lock().now_ns()
}

unsafe extern "C" fn monotonic_ns(context: *const ()) -> u64 {
    // SAFETY: see `retain`.
    unsafe { world(context) }.lock().monotonic_ns
}

unsafe extern "C" fn inherited_descriptor_limit(_context: *const ()) -> u64 {
    0
}

unsafe extern "C" fn is_draining(_context: *const ()) -> bool {
    false
}

unsafe extern "C" fn metric(
    context: *const (),
    kind: MetricKind,
    name: RStr<'_>,
    help: RStr<'_>,
) -> u32 {
    // SAFETY: see `retain`.
    let metrics = &mut unsafe { world(context) }.lock().metrics;
    let number = metrics.iter().position(|metric| metric.name == name.as_str());
    let number = number.unwrap_or_else(|| {
        let (help, value, records) = (String::new(), 0.0, 0);
        metrics.push(Metric { kind, name: name.into(), help, value, records });
        metrics.len() - 1
    });
    metrics[number].help = help.into();
    u32::try_from(number).unwrap_or(u32::MAX)
}

unsafe extern "C" fn record(context: *const (), number: u32, value: f64) {
    // SAFETY: see `retain`.
    let metrics = &mut unsafe { world(context) }.lock().metrics;
    let Some(metric) = metrics.get_mut(number as usize) else { return };
    metric.records += 1;
    match metric.kind {
        MetricKind::COUNTER => metric.value += value,
        MetricKind::HISTOGRAM => metric.value += 1.0,
        _ => metric.value = value,
    }
}

unsafe extern "C" fn spawn(context: *const (), _name: RStr<'_>, future: FfiFuture<()>) {
    // SAFETY: see `retain`.
    let world = unsafe { world(context) };
    world.lock().tasks.push(future);
    world.wake_from_other_thread();
}

unsafe extern "C" fn spawn_blocking(context: *const (), job: Job) {
    // SAFETY: see `retain`.
    let world = unsafe { world(context) };
    world.lock().jobs.push_back(job);
    world.wake_from_other_thread();
}

unsafe extern "C" fn memory_take(context: *const (), bytes: usize) -> bool {
    // SAFETY: see `retain`.
    let mut state = unsafe { world(context) }.lock();
    let memory = state.memory.saturating_add(bytes);
    let is_within = state.memory_limit.is_none_or(|limit| memory <= limit);
    if is_within {
        state.memory = memory;
    }
    is_within
}

unsafe extern "C" fn memory_charge(context: *const (), bytes: usize) {
    // SAFETY: see `retain`.
    let mut state = unsafe { world(context) }.lock();
    state.memory = state.memory.saturating_add(bytes);
}

unsafe extern "C" fn memory_return(context: *const (), bytes: usize) {
    // SAFETY: see `retain`.
    let mut state = unsafe { world(context) }.lock();
    state.memory = state.memory.saturating_sub(bytes);
}

unsafe extern "C" fn sleep(context: *const (), ns: u64) -> FfiFuture<()> {
    // SAFETY: see `retain`.
    let world = unsafe { share(context) };
    let deadline = world.lock().monotonic_ns.saturating_add(ns);
    FfiFuture::new(Waiting::new(world, Cause::Time(deadline)))
}

unsafe extern "C" fn watch(
    context: *const (),
    descriptor: i32,
    interest: Interest,
) -> CallResult<RawWatchBox> {
    // SAFETY: see `retain`.
    let world = unsafe { share(context) };
    let watch = Watch { world, cause: Cause::Descriptor(descriptor, interest), waiting: None };
    RResult::ROk(RawWatch_TO::from_ptr(RBox::new(watch), TD_Opaque))
}

/// A watch on a descriptor, which can be awaited repeatedly.
struct Watch {
    world: Arc<World>,
    cause: Cause,
    waiting: Option<Waiting>,
}

impl RawWatch for Watch {
    fn poll_ready(&mut self, context: &mut FfiContext<'_>) -> FfiPoll<CallResult<()>> {
        let Self { world, cause, waiting } = self;
        let wait = waiting.get_or_insert_with(|| Waiting::new(world.clone(), *cause));
        let poll = context.with_context(|context| Pin::new(wait).poll(context));
        if poll.is_ready() {
            *waiting = None;
        }
        FfiPoll::from_poll(poll.map(RResult::ROk))
    }
}

unsafe extern "C" fn folder(context: *const ()) -> RString {
    // SAFETY: see `retain`.
    unsafe { world(context) }.lock().folder.as_str().into()
}

unsafe extern "C" fn connection_lost(context: *const ()) {
    // SAFETY: see `retain`.
    unsafe { world(context) }.lock().connections_lost += 1;
}

unsafe extern "C" fn request_stop(context: *const (), _graceful: bool, reason: RStr<'_>) {
    // SAFETY: see `retain`.
    unsafe { world(context) }.lock().stop_requests.push(reason.into());
}
