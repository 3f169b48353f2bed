//! Calls that may have to wait: a future across the boundary, a poll function, and a call that
//! cannot wait.

use std::{
    future::Future,
    hint::black_box,
    pin::Pin,
    task::{Context, Poll, Waker},
};

use async_ffi::{ContextExt, FfiPoll};
use criterion::Criterion;
use tremor_pdk::{Error, Result};

use crate::{
    calls::Calls,
    echo::{Payloads, RawEchoBox},
    ladder::{counted, payloads},
    library,
};

/// Polls the function until it is ready, with a no-op waker.
#[inline]
pub(crate) fn poll_function(
    echo: &mut RawEchoBox,
    payloads: &Payloads<'_>,
    turns: u32,
) -> Result<u64> {
    let mut context = Context::from_waker(Waker::noop());
    loop {
        match context.with_ffi_context(|context| echo.poll(context, payloads, turns)) {
            FfiPoll::Pending => {}
            FfiPoll::Ready(result) => return result.into_result(),
            FfiPoll::Panicked => return Err(Error::panicked("the function to poll")),
        }
    }
}

/// Polls a future until it is ready, with a no-op waker.
#[inline]
pub(crate) fn poll_future(
    echo: &mut RawEchoBox,
    payloads: &Payloads<'_>,
    turns: u32,
) -> Result<u64> {
    let mut context = Context::from_waker(Waker::noop());
    let mut future = echo.future(payloads, turns);
    loop {
        if let Poll::Ready(result) = Future::poll(Pin::new(&mut future), &mut context) {
            return result.into_result();
        }
    }
}

pub(crate) fn waiting(criterion: &mut Criterion) {
    let mut echo = Calls::open(&library::unwinding()).raw();
    let empty = payloads(&[], 0, 1);
    let mut group = criterion.benchmark_group("waiting");
    group.bench_function("cannot wait: guarded call", |bencher| {
        bencher.iter(|| counted(echo.guarded(black_box(&empty)).into_result()));
    });
    for (turns, when) in [(0, "ready at once"), (1, "pending once"), (4, "pending four times")] {
        group.bench_function(format!("poll function, {when}"), |bencher| {
            bencher.iter(|| counted(poll_function(&mut echo, black_box(&empty), black_box(turns))));
        });
        group.bench_function(format!("FFI future, {when}"), |bencher| {
            bencher.iter(|| counted(poll_future(&mut echo, black_box(&empty), black_box(turns))));
        });
    }
    group.finish();
}
