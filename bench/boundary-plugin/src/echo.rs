//! The work that is called in every way that there is, and the ways that need a type: compiled into
//! the plugin, and once more into the benchmarks for the calls that stay within one binary.

// What abi_stable's macros generate.
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

/// The most bytes of a call: 256 events of 4 KiB.
pub const LARGEST: usize = 256 * 4096;

/// A batch of payloads of one size, packed back to back.
#[repr(C)]
#[derive(Clone, Copy, StableAbi)]
pub struct Payloads<'a> {
    /// All of them.
    pub bytes: RSlice<'a, u8>,
    /// Bytes of each.
    pub size: usize,
    /// How many. Empty ones have to be counted.
    pub events: u64,
}

/// What does the work.
pub struct Echo {
    output: Vec<u8>,
    /// Where in it to start.
    start: usize,
}

impl Echo {
    /// With room for a call with so many bytes. The room starts at a boundary of a page, or of a cache
    /// line where it is smaller: copying depends on that more than on anything that is measured.
    pub fn new(room: usize) -> Self {
        let align = room.next_power_of_two().clamp(64, 4096);
        let output = vec![0; room + align];
        let start = output.as_ptr().align_offset(align);
        Self { output, start }
    }

    /// Copies every payload there is room for, and says how many. Of empty ones there is nothing to
    /// copy, so that a call with them is a call and nothing else.
    // A call within the call would be measured as well.
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

    /// The same, once it was pending so many times.
    pub async fn work_later(&mut self, payloads: &Payloads<'_>, turns: u32) -> u64 {
        if turns > 0 {
            Turns(turns).await;
        }
        self.work(payloads)
    }
}

/// Pending so many times, and asks to be polled again each time.
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

/// The work behind a trait of Rust's.
pub trait DynEcho: Send {
    /// See [`Echo::work`].
    fn call(&mut self, payloads: &Payloads<'_>) -> u64;
}

impl DynEcho for Echo {
    fn call(&mut self, payloads: &Payloads<'_>) -> u64 {
        self.work(payloads)
    }
}

/// The work behind the boundary.
pub type RawEchoBox = RawEcho_TO<RBox<()>>;

/// The work behind the boundary, a method for each kind of call.
#[sabi_trait]
pub trait RawEcho: Send + 'static {
    /// Nothing around it: a panic ends the process.
    fn bare(&mut self, payloads: &Payloads<'_>) -> u64;

    /// A result, as all methods of the ABI that can fail have it.
    fn result(&mut self, payloads: &Payloads<'_>) -> CallResult<u64>;

    /// A result, under guard.
    fn guarded(&mut self, payloads: &Payloads<'_>) -> CallResult<u64>;

    /// A future, under guard, that is pending so many times.
    fn future<'a>(&'a mut self, payloads: &'a Payloads<'a>, turns: u32) -> CallFuture<'a, u64>;

    /// A function to poll with the same payloads until it is ready, under guard. It has its future in
    /// a slot that is used again.
    fn poll(
        &mut self,
        context: &mut FfiContext<'_>,
        payloads: &Payloads<'_>,
        turns: u32,
    ) -> FfiPoll<CallResult<u64>>;

    /// The payload in a vector of its own, under guard: an answer that the caller owns.
    fn reply(&mut self, payload: RSlice<'_, u8>) -> CallResult<RVec<u8>>;

    /// Panics, under guard.
    #[sabi(last_prefix_field)]
    fn panics(&mut self) -> CallResult<u64>;
}
