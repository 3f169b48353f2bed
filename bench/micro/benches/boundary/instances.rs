//! Many instances called by several threads: measures whether the boundary has shared state.

use std::{
    hint::black_box,
    sync::Barrier,
    thread,
    time::{Duration, Instant},
};

use criterion::{BenchmarkId, Criterion, Throughput};

use crate::{
    calls::Calls,
    echo::RawEchoBox,
    ladder::{counted, payloads},
    library,
};

const INSTANCES: [usize; 4] = [1, 4, 16, 64];
const THREADS: [usize; 4] = [1, 2, 4, 8];

pub(crate) fn instances(criterion: &mut Criterion) {
    let library = Calls::open(&library::unwinding());
    let mut group = criterion.benchmark_group("instances");
    for threads in THREADS {
        // Only one thread at a time calls an instance, so with fewer instances than threads some
        // threads would have no work.
        for instances in INSTANCES.into_iter().filter(|instances| *instances >= threads) {
            let mut shares: Vec<Vec<_>> = (0..threads)
                .map(|_| (0..instances / threads).map(|_| library.raw_with_capacity(64)).collect())
                .collect();
            group.throughput(Throughput::Elements(threads as u64));
            let id = BenchmarkId::new(format!("{threads} threads"), instances);
            group.bench_function(id, |bencher| {
                bencher.iter_custom(|calls| together(&mut shares, calls));
            });
        }
    }
    group.finish();
}

/// Makes `calls` calls on each thread, to its instances in turn. Returns the time from the start of
/// the first thread to the end of the last.
fn together(shares: &mut [Vec<RawEchoBox>], calls: u64) -> Duration {
    let all_there = Barrier::new(shares.len());
    let times: Vec<_> = thread::scope(|scope| {
        let threads: Vec<_> = shares
            .iter_mut()
            .map(|share| {
                let all_there = &all_there;
                scope.spawn(move || {
                    all_there.wait();
                    let start = Instant::now();
                    work(share, calls);
                    (start, Instant::now())
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().expect("no call fails")).collect()
    });
    let starts = times.iter().map(|(start, _)| *start).min();
    let ends = times.iter().map(|(_, end)| *end).max();
    starts.zip(ends).map_or(Duration::ZERO, |(start, end)| end - start)
}

fn work(share: &mut [RawEchoBox], calls: u64) {
    let bytes = [7; 64];
    let payloads = payloads(&bytes, bytes.len(), 1);
    let len = share.len() as u64;
    for round in 0..calls.div_ceil(len) {
        let remaining = calls - round * len;
        for echo in share.iter_mut().take(usize::try_from(remaining).unwrap_or(usize::MAX)) {
            black_box(counted(echo.guarded(black_box(&payloads)).into_result()));
        }
    }
}
