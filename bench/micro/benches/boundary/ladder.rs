//! The ladder: the same work, called in several ways. Each way adds a layer to the previous one.

use std::hint::black_box;

use criterion::{BenchmarkGroup, Criterion, Throughput, measurement::WallTime};

use crate::{
    calls::Calls,
    echo::{DynEcho, Echo, LARGEST, Payloads, RawEchoBox},
    library,
    waiting::{poll_function, poll_future},
};

pub(crate) const SIZES: [(usize, &str); 3] = [(0, "empty"), (64, "64 B"), (4096, "4 KiB")];
const BATCHES: [u64; 3] = [1, 16, 256];

/// Returns `events` payloads of `size` bytes.
pub(crate) fn payloads(bytes: &[u8], size: usize, events: u64) -> Payloads<'_> {
    Payloads { bytes: bytes.into(), size, events }
}

pub(crate) fn ladder(criterion: &mut Criterion) {
    let library = Calls::open(&library::unwinding());
    for (size, name) in SIZES {
        for events in BATCHES {
            let mut group = criterion.benchmark_group(format!("ladder, {name}, batch of {events}"));
            group.throughput(Throughput::Elements(events));
            let bytes =
                vec![7; size * usize::try_from(events).expect("the number of events fits a usize")];
            rungs(&mut group, library, &payloads(&bytes, size, events));
            group.finish();
        }
    }
}

/// Measures calls. The compiler knows neither the callee nor the arguments.
fn rung<S>(
    group: &mut BenchmarkGroup<'_, WallTime>,
    name: &str,
    payloads: &Payloads<'_>,
    mut subject: S,
    call: impl Fn(&mut S, &Payloads<'_>) -> u64,
) {
    assert_eq!(call(&mut subject, payloads), payloads.events, "{name} does all of the work");
    group.bench_function(name, |bencher| {
        bencher.iter(|| call(black_box(&mut subject), black_box(payloads)));
    });
}

fn rungs(group: &mut BenchmarkGroup<'_, WallTime>, library: Calls, payloads: &Payloads<'_>) {
    rung(group, "nothing: the loop alone", payloads, Echo::new(0), |_, payloads| payloads.events);
    rung(group, "direct, not inlined", payloads, Echo::new(LARGEST), direct);
    let here: Box<dyn DynEcho> = Box::new(Echo::new(LARGEST));
    rung(group, "Box<dyn>, same binary", payloads, here, |echo, payloads| echo.call(payloads));
    let there = library.boxed();
    rung(group, "Box<dyn>, library", payloads, there, |echo, payloads| echo.call(payloads));
    let function = (library.call(), library.state());
    rung(group, "C function, library", payloads, function, |(call, echo), payloads| {
        call(echo, payloads)
    });
    let raw = || library.raw();
    rung(group, "sabi_trait, bare", payloads, raw(), RawEchoBox::bare);
    rung(group, "sabi_trait, result", payloads, raw(), |echo, payloads| {
        counted(echo.result(payloads).into_result())
    });
    rung(group, "sabi_trait, result, guarded", payloads, raw(), |echo, payloads| {
        counted(echo.guarded(payloads).into_result())
    });
    rung(group, "sabi_trait, poll function, guarded", payloads, raw(), |echo, payloads| {
        counted(poll_function(echo, payloads, 0))
    });
    rung(group, "sabi_trait, FFI future, guarded", payloads, raw(), |echo, payloads| {
        counted(poll_future(echo, payloads, 0))
    });
}

#[inline(never)]
fn direct(echo: &mut Echo, payloads: &Payloads<'_>) -> u64 {
    echo.work(payloads)
}

/// Unwraps a result, like a caller that checks it.
#[inline]
pub(crate) fn counted(result: tremor_pdk::Result<u64>) -> u64 {
    result.unwrap_or_else(|error| panic!("the plugin failed: {error}"))
}
