//! Cost per event of the queue between two tasks, by batch size.

use std::{
    hint::black_box,
    time::{Duration, Instant},
};

use criterion::{BenchmarkId, Criterion, Throughput};
use tremor_abi::batch::{Batch, HostBatch, Pool};
use tremor_runtime::{
    engine::hand_over::{self, Receiver, Sender},
    executor,
};

const BATCHES: [usize; 5] = [1, 16, 64, 256, 1024];

/// Returns a batch from the pool with events of one byte, written as a source writes them.
fn batch(pool: &Pool, events: usize) -> Batch {
    let mut batch = Batch::from_pool(pool);
    (0..events).for_each(|_| batch.push_message(b"x"));
    batch
}

pub(crate) fn queue(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("queue");
    for events in BATCHES {
        group.throughput(Throughput::Elements(events as u64));
        group.bench_function(BenchmarkId::new("in and out, one task", events), |bencher| {
            bencher.iter_custom(|batches| executor::block_on(in_and_out(batches, events)));
        });
        group.bench_function(BenchmarkId::new("in one task, out in another", events), |bencher| {
            bencher.iter_custom(|batches| executor::block_on(stream(batches, events)));
        });
        group.bench_function(
            BenchmarkId::new("there and back, one at a time", events),
            |bencher| {
                bencher.iter_custom(|batches| executor::block_on(there_and_back(batches, events)));
            },
        );
    }
    group.finish();
}

/// Measures a batch that is received immediately after it was sent.
async fn in_and_out(batches: u64, events: usize) -> Duration {
    let (mut sender, mut receiver) = hand_over::queue();
    let mut travelling = batch(&Pool::new(1), events);
    let start = Instant::now();
    for _ in 0..batches {
        sender.send(travelling).await;
        travelling = receiver.receive().await.expect("a batch was just sent");
    }
    start.elapsed()
}

/// Measures `batches` batches at full speed, including the time to fill and to free them.
async fn stream(batches: u64, events: usize) -> Duration {
    let pool = Pool::new(64);
    let (mut sender, mut receiver) = hand_over::queue();
    let start = Instant::now();
    let source = executor::spawn(async move {
        for _ in 0..batches {
            sender.send(batch(&pool, events)).await;
        }
    });
    let sink = executor::spawn(async move {
        while let Some(batch) = receiver.receive().await {
            black_box(batch);
        }
    });
    source.await;
    sink.await;
    start.elapsed()
}

/// Measures a batch that is sent to another task and back. Each direction wakes a waiting task.
async fn there_and_back(batches: u64, events: usize) -> Duration {
    async fn pass_on(mut from: Receiver, mut to: Sender) {
        while let Some(batch) = from.receive().await {
            to.send(batch).await;
        }
    }
    let (mut there, other) = hand_over::queue();
    let (back, mut returned) = hand_over::queue();
    let echo = executor::spawn(pass_on(other, back));
    let task = executor::spawn(async move {
        let mut travelling = batch(&Pool::new(1), events);
        let start = Instant::now();
        for _ in 0..batches {
            there.send(travelling).await;
            travelling = returned.receive().await.expect("the other task returns the batch");
        }
        start.elapsed()
    });
    let took = task.await;
    echo.await;
    took
}
