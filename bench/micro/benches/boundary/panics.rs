//! Cost of calls with a guard against panics, and of calls that panic.

use std::{
    hint::black_box,
    panic::{self, AssertUnwindSafe},
};

use criterion::Criterion;

use crate::{
    calls::Calls,
    ladder::{counted, payloads},
    library,
};

pub(crate) fn panics(criterion: &mut Criterion) {
    prepared(criterion);
    happening(criterion);
}

/// Measures calls without a panic. The name of a measurement begins with the result that a panic
/// would have, followed by a colon.
fn prepared(criterion: &mut Criterion) {
    let (unwinding, aborting) =
        (Calls::open(&library::unwinding()), Calls::open(&library::aborting()));
    let empty = payloads(&[], 0, 1);
    let mut group = criterion.benchmark_group("prepared for a panic");
    for (library, built) in [(unwinding, "unwind"), (aborting, "abort")] {
        let (call, state) = (library.call(), library.state());
        group.bench_function(format!("ends the process: C function, {built}"), |bencher| {
            bencher.iter(|| black_box(call)(state, black_box(&empty)));
        });
        let mut raw = library.raw();
        let result = if built == "abort" { "ends the process" } else { "is an error" };
        group.bench_function(format!("{result}: guarded by the plugin, {built}"), |bencher| {
            bencher.iter(|| counted(raw.guarded(black_box(&empty)).into_result()));
        });
    }
    let (call, state) = (unwinding.call_unwind(), unwinding.state());
    group.bench_function("ends the process: C-unwind function", |bencher| {
        bencher.iter(|| black_box(call)(state, black_box(&empty)));
    });
    group.bench_function("ends the process: C-unwind function, caught by the host", |bencher| {
        bencher.iter(|| {
            let call = AssertUnwindSafe(|| black_box(call)(state, black_box(&empty)));
            panic::catch_unwind(call).is_ok()
        });
    });
    group.finish();
}

/// Measures calls that panic. Each panic becomes an error.
fn happening(criterion: &mut Criterion) {
    let mut raw = Calls::open(&library::unwinding()).raw();
    let report = panic::take_hook();
    panic::set_hook(Box::new(|_| {}));
    let mut group = criterion.benchmark_group("a panic");
    group.bench_function("in the plugin, becomes an error", |bencher| {
        bencher.iter(|| raw.panics().is_err());
    });
    group.bench_function("in one binary, caught", |bencher| {
        bencher.iter(|| {
            panic::catch_unwind(|| -> u64 { panic!("on purpose: {}", black_box(1)) }).is_err()
        });
    });
    group.finish();
    panic::set_hook(report);
}
