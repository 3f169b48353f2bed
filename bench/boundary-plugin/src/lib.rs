//! What the benchmarks of the boundary call, in a library of its own: the same work behind every kind
//! of call there is, and a plugin in the manner of all plugins.

pub mod asks;
pub mod components;
pub mod echo;
// The product's own guard and slot, so that what is measured is what is shipped.
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

// Where `guard` and its tests look for them.
#[allow(unused_imports)]
use tremor_pdk::{Error, ErrorKind, Result};

use self::{
    asks::Ask,
    components::{Count, Take},
    echo::{DynEcho, Echo, LARGEST, Payloads, RawEcho, RawEcho_TO, RawEchoBox},
    guard::{Guarded, guard, install_hook},
    slot::Slot,
};

/// What the functions below work on. It lives as long as the process.
#[unsafe(no_mangle)]
pub extern "C" fn boundary_state() -> &'static mut Echo {
    Box::leak(Box::new(Echo::new(LARGEST)))
}

/// A C function.
#[unsafe(no_mangle)]
pub extern "C" fn boundary_call(echo: &mut Echo, payloads: &Payloads<'_>) -> u64 {
    echo.work(payloads)
}

/// A C function that a panic may leave.
///
/// # Panics
/// Where there is nothing to do: without something that may panic the compiler knows that nothing can.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn boundary_call_unwind(echo: &mut Echo, payloads: &Payloads<'_>) -> u64 {
    assert!(payloads.events > 0, "a batch of nothing");
    echo.work(payloads)
}

/// A trait object of Rust's: host and plugin are built by the same compiler, or this means nothing.
#[unsafe(no_mangle)]
pub extern "C" fn boundary_dyn(place: &mut Option<Box<dyn DynEcho>>) {
    *place = Some(Box::new(Echo::new(LARGEST)));
}

/// A trait object of `abi_stable`'s, with room for so many bytes.
#[unsafe(no_mangle)]
pub extern "C" fn boundary_raw(room: usize) -> RawEchoBox {
    // A panic is measured without the lines that tell of it.
    static QUIET: Once = Once::new();
    QUIET.call_once(|| panic::set_hook(Box::new(|_| {})));
    install_hook();
    RawEcho_TO::from_ptr(RBox::new(Adapter { slot: Slot::new(), echo: Echo::new(room) }), TD_Opaque)
}

struct Adapter {
    /// In front of what its futures borrow, so that it is dropped first.
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
        guard("panics", || -> u64 { panic!("as it was told to") }).into()
    }
}

fn poll_in_slot(
    slot: &mut Slot<'static, Result<u64>>,
    echo: &mut Echo,
    context: &mut Context<'_>,
    payloads: &Payloads<'_>,
    turns: u32,
) -> Poll<Result<u64>> {
    if slot.is_empty() {
        // SAFETY: the future is dropped in `slot.poll` when it is ready. The benchmarks poll until
        // then with payloads that stay where they are, as does `echo`, in the adapter's box.
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
