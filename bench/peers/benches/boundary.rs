//! Plugin boundaries and buffers of other crates, compared with those of this project for the same
//! work. The page `docs/benchmarks/peers.md` describes the differences.
//!
//! Both plugins are built here if necessary, with the profile of this benchmark.

#[path = "../../micro/benches/boundary/calls.rs"]
#[allow(dead_code)]
mod calls;
#[path = "../../boundary-plugin/src/echo.rs"]
#[allow(dead_code, unreachable_pub)]
mod echo;
#[path = "../../micro/benches/boundary/library.rs"]
#[allow(dead_code)]
mod library;

use std::{
    hint::black_box,
    path::{Path, PathBuf},
    pin::pin,
    task::{Context, Poll, Waker},
};

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use nylon_ring_host::{NrStatus, NylonRingHost, PluginEntry};
use tremor_abi::batch::{Batch, HostBatch, Pool};

use self::{calls::Calls, echo::Payloads};

/// Returns the result of a future that never waits.
fn now<T>(future: impl Future<Output = T>) -> T {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(result) => result,
        Poll::Pending => panic!("the plugin answers before it returns"),
    }
}

fn nylon_plugin() -> PathBuf {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("nylon-echo");
    library::build(&folder, "nylon-echo", "unwind", &["build"])
}

/// Measures a call that passes a payload and returns a copy, which the caller owns.
fn echo(criterion: &mut Criterion) {
    let path = nylon_plugin();
    let path = path.to_str().expect("a path in UTF-8");
    let mut host = NylonRingHost::new();
    host.load("echo", path).expect("a plugin of nylon-ring");
    host.load_pinned("pinned", path).expect("a plugin of nylon-ring");
    let entry = |host: &NylonRingHost, name: &str| -> PluginEntry {
        host.plugin(name).expect("the plugin is loaded").entry("echo").expect("the plugin has the entry")
    };
    let (loaded, pinned) = (entry(&host, "echo"), entry(&host, "pinned"));
    let library = Calls::open(&library::unwinding());
    let mut raw = library.raw();

    for (size, name) in [(64, "64 B"), (4096, "4 KiB")] {
        let payload = vec![7; size];
        let mut group = criterion.benchmark_group(format!("echo, {name}"));
        group.throughput(Throughput::Elements(1));
        for (entry, name) in [(&loaded, "nylon-ring"), (&pinned, "nylon-ring, pinned")] {
            let fast = || now(entry.call_response_fast(black_box(&payload))).expect("the plugin answers");
            assert_eq!(fast(), (NrStatus::Ok, payload.clone()));
            group.bench_function(format!("{name}, fast path"), |bencher| bencher.iter(fast));
            let unary = || now(entry.call_response(black_box(&payload))).expect("the plugin answers");
            assert_eq!(unary(), (NrStatus::Ok, payload.clone()));
            group.bench_function(format!("{name}, unary"), |bencher| bencher.iter(unary));
        }
        assert_eq!(raw.reply(payload.as_slice().into()).into_result().expect("the plugin does not panic"), payload);
        group.bench_function("ours, guarded call, owned reply", |bencher| {
            bencher.iter(|| raw.reply(black_box(payload.as_slice()).into()).is_ok());
        });
        for events in [1, 256] {
            let bytes = payload.repeat(events);
            let batch = Payloads { bytes: bytes.as_slice().into(), size, events: events as u64 };
            group.throughput(Throughput::Elements(batch.events));
            assert_eq!(raw.guarded(&batch).into_result().expect("the plugin does not panic"), batch.events);
            let name = format!("ours, guarded call, copied into a buffer, batch of {events}");
            group.bench_function(name, |bencher| {
                bencher.iter(|| raw.guarded(black_box(&batch)).is_ok());
            });
        }
        group.finish();
    }
}

const BUFFER: usize = 4096;

/// Measures taking a buffer from a pool and returning it, with and without writing a payload.
fn buffers(criterion: &mut Criterion) {
    let payload = [7; 64];
    let bab = bab::HeapBufferPool::new(BUFFER, 64, 64);
    let pool = Pool::new(64);
    let mut grown = Batch::from_pool(&pool);
    grown.push_message(&[0; BUFFER]);
    drop(grown);

    let mut group = criterion.benchmark_group("buffer");
    group.bench_function("bab, acquired and released", |bencher| {
        bencher.iter(|| {
            let buffer = black_box(bab.try_acquire().expect("a buffer is free"));
            // SAFETY: the buffer was acquired from this pool just now, and is not used again.
            unsafe { bab.release(buffer) }
        });
    });
    group.bench_function("ours, acquired and released", |bencher| {
        bencher.iter(|| drop(black_box(Batch::from_pool(&pool))));
    });
    group.bench_function("Vec, allocated and freed", |bencher| {
        bencher.iter(|| drop(black_box(Vec::<u8>::with_capacity(BUFFER))));
    });
    group.bench_function("bab, with 64 bytes written", |bencher| {
        bencher.iter(|| {
            let buffer = bab.try_acquire().expect("a buffer is free");
            // SAFETY: the buffer was acquired from this pool just now, is longer than the payload,
            // has no readers, and is not used again.
            unsafe {
                buffer.slice_mut(0..payload.len()).copy_from_slice(black_box(&payload));
                bab.release(black_box(buffer));
            }
        });
    });
    group.bench_function("ours, with a message of 64 bytes", |bencher| {
        bencher.iter(|| {
            let mut batch = Batch::from_pool(&pool);
            batch.push_message(black_box(&payload));
            drop(black_box(batch));
        });
    });
    group.bench_function("Vec, with 64 bytes written", |bencher| {
        bencher.iter(|| {
            let mut bytes = Vec::<u8>::with_capacity(BUFFER);
            bytes.extend_from_slice(black_box(&payload));
            drop(black_box(bytes));
        });
    });
    group.finish();
}

criterion_group!(benches, echo, buffers);
criterion_main!(benches);
