//! A plugin for the benchmarks of the plugin boundary. It exports ordinary components, and functions and trait objects
//! that all do the same work ([`Echo::work`]), so that benchmarks can compare kinds of calls.

pub mod asks;
pub mod components;
pub mod echo;
// These files of the kit are included, so that the shipped code is measured.
#[path = "../../../tremor-pdk/src/ffi/guard.rs"]
#[allow(dead_code, unreachable_pub)]
mod guard;
#[path = "../../../tremor-pdk/src/driver/slot.rs"]
#[allow(dead_code, unreachable_pub)]
mod slot;

use std::{
    panic,
    sync::Once,
    task::{Context, Poll},
};

use abi_stable::{
    sabi_trait::TD_Opaque,
    std_types::{RBox, RResult, RSlice, RVec},
};
use async_ffi::{BorrowingFfiFuture, FfiContext, FfiPoll};
use tremor_abi::connector::{CallFuture, CallResult};

// `guard` imports these items from the crate root.
#[allow(unused_imports)]
use tremor_pdk::{Error, ErrorKind, Result, lock};

use self::{
    asks::Ask,
    components::{Count, Take},
    echo::{DynEcho, Echo, LARGEST, Payloads, RawEcho, RawEcho_TO, RawEchoBox},
    guard::{Guarded, guard, install_hook},
    slot::Slot,
};

/// Returns a new [`Echo`] for the functions below. It lives as long as the process.
#[unsafe(no_mangle)]
pub extern "C" fn boundary_state() -> &'static mut Echo {
    Box::leak(Box::new(Echo::new(LARGEST)))
}

/// Calls [`Echo::work`] in a C function.
#[unsafe(no_mangle)]
pub extern "C" fn boundary_call(echo: &mut Echo, payloads: &Payloads<'_>) -> u64 {
    echo.work(payloads)
}

/// Calls [`Echo::work`] in a C function that may unwind.
///
/// # Panics
/// If `payloads` has no events. Without a panic, the compiler would know that the function cannot unwind.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn boundary_call_unwind(echo: &mut Echo, payloads: &Payloads<'_>) -> u64 {
    assert!(payloads.events > 0, "the batch is empty");
    echo.work(payloads)
}

/// Stores a Rust trait object in `slot`. The object is only valid if the same compiler builds the benchmark and the
/// plugin.
#[unsafe(no_mangle)]
pub extern "C" fn boundary_dyn(slot: &mut Option<Box<dyn DynEcho>>) {
    *slot = Some(Box::new(Echo::new(LARGEST)));
}

/// Returns an object of `abi_stable` with a buffer of `capacity` bytes.
#[unsafe(no_mangle)]
pub extern "C" fn boundary_raw(capacity: usize) -> RawEchoBox {
    // The report of panics is suppressed, because it is not part of the measurement.
    static QUIET: Once = Once::new();
    QUIET.call_once(|| panic::set_hook(Box::new(|_| {})));
    install_hook();
    RawEcho_TO::from_ptr(
        RBox::new(Adapter { slot: Slot::new(), echo: Echo::new(capacity) }),
        TD_Opaque,
    )
}

/// The implementation of [`RawEcho`].
struct Adapter {
    /// Slot of the future that [`RawEcho::poll`] polls. It is declared before `echo`, which the future borrows, so that
    /// it is dropped first.
    slot: Slot<'static, Result<u64>>,
    echo: Echo,
}

impl RawEcho for Adapter {
    fn bare(&mut self, payloads: &Payloads<'_>) -> u64 {
        self.echo.work(payloads)
    }

    fn result(&mut self, payloads: &Payloads<'_>) -> CallResult<u64> {
        RResult::ROk(self.echo.work(payloads))
    }

    fn guarded(&mut self, payloads: &Payloads<'_>) -> CallResult<u64> {
        guard("guarded", || self.echo.work(payloads)).into()
    }

    fn future<'a>(&'a mut self, payloads: &'a Payloads<'a>, turns: u32) -> CallFuture<'a, u64> {
        let future = async move { Ok(self.echo.work_later(payloads, turns).await) };
        BorrowingFfiFuture::new(async move { Guarded::new("future", future).await.into() })
    }

    fn poll(
        &mut self,
        context: &mut FfiContext<'_>,
        payloads: &Payloads<'_>,
        turns: u32,
    ) -> FfiPoll<CallResult<u64>> {
        let poll = context.with_context(|context| {
            guard("poll", || poll_in_slot(&mut self.slot, &mut self.echo, context, payloads, turns))
        });
        match poll {
            Ok(Poll::Pending) => FfiPoll::Pending,
            Ok(Poll::Ready(result)) => FfiPoll::Ready(result.into()),
            Err(error) => FfiPoll::Ready(RResult::RErr(error)),
        }
    }

    fn reply(&mut self, payload: RSlice<'_, u8>) -> CallResult<RVec<u8>> {
        guard("reply", || RVec::from(payload.as_slice())).into()
    }

    fn panics(&mut self) -> CallResult<u64> {
        guard("panics", || -> u64 { panic!("the benchmark requested a panic") }).into()
    }
}

/// Polls the future in the slot, or a new one if the slot is empty.
fn poll_in_slot(
    slot: &mut Slot<'static, Result<u64>>,
    echo: &mut Echo,
    context: &mut Context<'_>,
    payloads: &Payloads<'_>,
    turns: u32,
) -> Poll<Result<u64>> {
    if slot.is_empty() {
        // SAFETY: `slot.poll` drops the future when it is ready. The benchmarks poll until then,
        // and keep `payloads` alive at the same address. `echo` is in the adapter's box, which is
        // not moved, and the slot is dropped before `echo`.
        let (echo, payloads) = unsafe {
            (
                &mut *std::ptr::from_mut(echo),
                &*std::ptr::from_ref(payloads).cast::<Payloads<'static>>(),
            )
        };
        slot.set(async move { Ok(echo.work_later(payloads, turns).await) });
    }
    slot.poll(context)
}

tremor_pdk::export! { connectors: [Take], operators: [Count, Ask] }
