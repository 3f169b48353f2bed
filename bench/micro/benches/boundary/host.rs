//! Cost of a plugin's calls of its host. The called functions are those of the runtime.

use std::{
    io,
    path::Path,
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use criterion::{Criterion, Throughput};
use serde_json::json;
use tremor_pdk::{Batch, Operator, Output};
use tremor_runtime::plugin::{ComponentFactory, HostContext, Library, Policy};

use crate::{calls::Calls, library};

/// Number of host calls in each call of the operator. It is large, so that the call of the operator
/// hardly affects the result.
const TIMES: u64 = 100;

pub(crate) fn context() -> Arc<HostContext> {
    HostContext::new("boundary", ".", ())
}

/// Loads an operator of the library as the runtime does.
pub(crate) fn operator(path: &Path, name: &str, config: &serde_json::Value) -> Box<dyn Operator> {
    let library = Library::inspect(path).expect("a plugin");
    let factory = ComponentFactory::load(&library, "operator", name, Policy::default());
    let made = factory.expect("the library has the operator").operator(config, &context());
    made.expect("a good configuration")
}

pub(crate) fn host(criterion: &mut Criterion) {
    // Use the log settings of the runtime, except for the destination.
    let logs = tracing_subscriber::fmt().with_env_filter("info").with_target(false);
    logs.with_ansi(false).with_writer(io::sink).init();
    let path = library::unwinding();
    let mut group = criterion.benchmark_group("host calls");
    group.throughput(Throughput::Elements(TIMES));
    let (mut batch, mut output) = (Batch::new(), Output::new());
    for (subject, name) in [
        ("nothing", "none: the loop alone"),
        ("filtered", "log, filtered"),
        ("logged", "log, written to nowhere"),
        ("counter", "metric, counter"),
        ("clock", "clock"),
    ] {
        let mut ask = operator(&path, "ask", &json!({ "subject": subject, "times": TIMES }));
        group.bench_function(name, |bencher| {
            bencher.iter(|| ask.process(&mut batch, &mut output).expect("the operator succeeds"));
        });
    }
    let ended = Calls::open(&path).tasks_ended();
    let mut ask = operator(&path, "ask", &json!({ "subject": "spawn", "times": TIMES }));
    let mut spawn = |calls: u64, until_ended: bool| {
        let mut took = Duration::ZERO;
        for _ in 0..calls {
            let all = ended() + TIMES;
            let start = Instant::now();
            ask.process(&mut batch, &mut output).expect("the operator succeeds");
            let spawned = start.elapsed();
            while ended() < all {
                thread::yield_now();
            }
            took += if until_ended { start.elapsed() } else { spawned };
        }
        took
    };
    group.bench_function("spawn, until all are spawned", |bencher| {
        bencher.iter_custom(|calls| spawn(calls, false));
    });
    group.bench_function("spawn, until all have ended", |bencher| {
        bencher.iter_custom(|calls| spawn(calls, true));
    });
    group.finish();
}
