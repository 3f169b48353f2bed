//! The work of every measured call, which is to copy payloads, and the traits through which this work is called.
//!
//! The plugin contains this code for calls across the boundary. The benchmarks include this file as well, for calls
//! within one binary.

// The code that the macros of abi_stable generate needs these exceptions.
#![allow(non_local_definitions, clippy::used_underscore_binding, clippy::cast_ptr_alignment)]

use std::{
    future::Future,
    pin::Pin,
    task::{Context, Poll},
};

use abi_stable::{
    StableAbi, sabi_trait,
    std_types::{RBox, RSlice, RVec},
};
use async_ffi::{FfiContext, FfiPoll};
use tremor_abi::connector::{CallFuture, CallResult};

/// Maximum number of bytes per call: 256 events of 4 KiB.
pub const LARGEST: usize = 256 * 4096;

/// A batch of payloads of equal size, without gaps between them.
#[repr(C)]
#[derive(Clone, Copy, StableAbi)]
pub struct Payloads<'a> {
    /// Bytes of all payloads.
    pub bytes: RSlice<'a, u8>,
    /// Size of each payload, in bytes.
    pub size: usize,
    /// Number of payloads, which the lengths do not determine if payloads are empty.
    pub events: u64,
}

/// The object of all measured calls, with the buffer to which it copies payloads.
pub struct Echo {
    output: Vec<u8>,
    /// Index in `output` of the first aligned byte, to which payloads are copied.
    start: usize,
}

impl Echo {
    /// Creates an object that can copy up to `capacity` bytes per call.
    ///
    /// The buffer is aligned to a page, or to a cache line if it is smaller than a page, because alignment affects the
    /// speed of copies more than the measured differences between calls.
    pub fn new(capacity: usize) -> Self {
        let align = capacity.next_power_of_two().clamp(64, 4096);
        let output = vec![0; capacity + align];
        let start = output.as_ptr().align_offset(align);
        Self { output, start }
    }

    /// Copies as many payloads as fit into the buffer, and returns their number. Empty payloads are
    /// not copied, so that their time is the time of the call alone.
    // Inline the function, because otherwise a further call would be measured as well.
    #[allow(clippy::inline_always)]
    #[inline(always)]
    pub fn work(&mut self, payloads: &Payloads<'_>) -> u64 {
        if payloads.size == 0 {
            return payloads.events;
        }
        let to = self.output[self.start..].chunks_exact_mut(payloads.size);
        let from = payloads.bytes.as_slice().chunks_exact(payloads.size);
        to.zip(from).fold(0, |copied, (to, from)| {
            to.copy_from_slice(from);
            copied + 1
        })
    }

    /// Copies payloads as [`Echo::work`] does, after it has been pending `turns` times.
    pub async fn work_later(&mut self, payloads: &Payloads<'_>, turns: u32) -> u64 {
        if turns > 0 {
            Turns(turns).await;
        }
        self.work(payloads)
    }
}

/// A future that is pending a given number of times, and wakes its task each time.
struct Turns(u32);

impl Future for Turns {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        if self.0 == 0 {
            return Poll::Ready(());
        }
        self.0 -= 1;
        context.waker().wake_by_ref();
        Poll::Pending
    }
}

/// A Rust trait with [`Echo::work`], to measure calls of a `Box<dyn DynEcho>`.
pub trait DynEcho: Send {
    /// Calls [`Echo::work`].
    fn call(&mut self, payloads: &Payloads<'_>) -> u64;
}

impl DynEcho for Echo {
    fn call(&mut self, payloads: &Payloads<'_>) -> u64 {
        self.work(payloads)
    }
}

/// An object of `abi_stable` that implements [`RawEcho`].
pub type RawEchoBox = RawEcho_TO<RBox<()>>;

/// A trait of `abi_stable` with a method for each kind of call across the boundary. All methods but two call
/// [`Echo::work`].
#[sabi_trait]
pub trait RawEcho: Send + 'static {
    /// Calls [`Echo::work`] without a guard, so that a panic ends the process.
    fn bare(&mut self, payloads: &Payloads<'_>) -> u64;

    /// Calls [`Echo::work`] without a guard, and returns a result, as all methods of the ABI do that can fail.
    fn result(&mut self, payloads: &Payloads<'_>) -> CallResult<u64>;

    /// Calls [`Echo::work`] within the guard against panics, and returns a result.
    fn guarded(&mut self, payloads: &Payloads<'_>) -> CallResult<u64>;

    /// Returns a new future, within the guard, that is pending `turns` times and then calls [`Echo::work`].
    fn future<'a>(&'a mut self, payloads: &'a Payloads<'a>, turns: u32) -> CallFuture<'a, u64>;

    /// Polls a future like that of [`RawEcho::future`], within the guard. The future is created by the first call, and
    /// stored in a slot that is reused. Until it is ready, each call must have the same payloads.
    fn poll(
        &mut self,
        context: &mut FfiContext<'_>,
        payloads: &Payloads<'_>,
        turns: u32,
    ) -> FfiPoll<CallResult<u64>>;

    /// Returns a copy of the payload, which the caller then owns, within the guard.
    fn reply(&mut self, payload: RSlice<'_, u8>) -> CallResult<RVec<u8>>;

    /// Panics within the guard.
    #[sabi(last_prefix_field)]
    fn panics(&mut self) -> CallResult<u64>;
}
