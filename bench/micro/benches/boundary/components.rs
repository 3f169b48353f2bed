//! Calls of an operator and a sink as the engine makes them, once loaded from a library and once linked
//! into the benchmark.

use std::{
    hint::black_box,
    task::{Context, Poll, Waker},
};

use criterion::{Criterion, Throughput};
use serde_json::json;
use tremor_pdk::{Batch, Operator, Output, Sides, Sink};
use tremor_runtime::{
    dynamic::DynSink,
    executor,
    plugin::{ConnectorFactory, Library, Policy},
};

use crate::{
    counted::{Count, Take},
    host, library,
};

const BATCHES: [usize; 3] = [1, 16, 256];
const PAYLOAD: [u8; 64] = [b'x'; 64];

fn batch(events: usize) -> Batch {
    let mut batch = Batch::new();
    (0..events).for_each(|_| batch.push_message(&PAYLOAD));
    batch
}

/// Loads the sink of the library as the runtime does.
fn sink(path: &std::path::Path) -> Box<dyn DynSink> {
    let library = Library::inspect(path).expect("a plugin");
    let factory = ConnectorFactory::load(&library, "take", Policy::default());
    let connector =
        factory.expect("the library has the connector").create(&json!({}), &host::context());
    let mut connector = connector.expect("a good configuration");
    let halves = executor::block_on(connector.connect(Sides::SINK));
    halves.expect("no peer is needed").sink.expect("a sink was asked for")
}

pub(crate) fn components(criterion: &mut Criterion) {
    let path = library::unwinding();
    let operators: [(_, Box<dyn Operator>); 2] = [
        ("operator, linked", Box::new(Count::default())),
        ("operator, loaded", host::operator(&path, "count", &json!({}))),
    ];
    let sinks: [(_, Box<dyn DynSink>); 2] =
        [("sink, linked", Take::default().into_driver()), ("sink, loaded", sink(&path))];
    let (mut operators, mut sinks) = (operators, sinks);
    for events in BATCHES {
        let mut group = criterion.benchmark_group(format!("components, batch of {events}"));
        group.throughput(Throughput::Elements(events as u64));
        let (mut batch, mut output) = (batch(events), Output::new());
        for (name, operator) in &mut operators {
            group.bench_function(*name, |bencher| {
                bencher.iter(|| {
                    let operator = black_box(&mut *operator);
                    operator
                        .process(black_box(&mut batch), &mut output)
                        .expect("the operator succeeds");
                });
            });
        }
        let mut context = Context::from_waker(Waker::noop());
        for (name, sink) in &mut sinks {
            group.bench_function(*name, |bencher| {
                bencher.iter(|| {
                    let sink = black_box(&mut *sink);
                    match sink.poll_deliver(&mut context, 0, black_box(&mut batch)) {
                        Poll::Ready(delivery) => delivery.expect("the sink succeeds"),
                        Poll::Pending => panic!("the sink never waits"),
                    }
                });
            });
        }
        group.finish();
    }
}
