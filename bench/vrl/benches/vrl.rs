//! Cost of classifying a log event in VRL and in Rust, on one thread, with decoded events and
//! without a bucket.
//!
//! - `alone`: the crate `vrl` on events that are VRL values already.
//! - `converted`: includes the conversion of the whole document; nothing is written back.
//! - `ours`: the operator `vrl`, which writes metadata into the batch.
//! - `native`: the operator `logging`.
//!
//! The events come from the project's generator, or from the file in the environment variable
//! `VRL_DATA`, which has one JSON object per line. Times are for the whole batch of 256 events; the
//! throughput is in events.

use std::{env, fs, hint::black_box};

use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use operator_vrl::{Config, Vrl};
use tremor_abi::{
    batch::{HostBatch, Pool},
    document::Shape,
};
use tremor_pdk::{Batch, Component, Operator, Output, ValueRef, testing::TestHost};
use vrl::{
    compiler::{Program, TargetValue, TimeZone, runtime::Runtime},
    value::{ObjectMap, Secrets, Value},
};

/// The sources of the Rust plugin, because two plugins cannot be linked into one program.
#[path = "../../../operators-plugins/logging/src"]
#[allow(unreachable_pub, dead_code, unused_imports)] // the benchmark uses only a part of the sources
mod native {
    pub mod classify;
    pub mod operator;
}

const EVENTS: usize = 256;
const SOURCE: &str = include_str!("../../flows/logging.vrl");

fn events() -> Vec<serde_json::Value> {
    let text = env::var_os("VRL_DATA").map_or_else(
        || {
            let mut lines = Vec::new();
            sample_logs::write_lines(EVENTS as u64, 42, &mut lines)
                .expect("writing to memory succeeds");
            lines
        },
        |path| fs::read(path).expect("the file in VRL_DATA"),
    );
    let lines = text.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
    let events: Vec<_> = lines.map(|line| serde_json::from_slice(line).expect("JSON")).collect();
    events.iter().cycle().take(EVENTS).cloned().collect()
}

/// Returns the events as a codec decodes them.
fn batch(pool: &Pool, events: &[serde_json::Value]) -> Batch {
    let mut batch = Batch::from_pool(pool);
    for event in events {
        batch.push(event).expect("the event can be copied to the batch");
    }
    batch
}

/// Converts a complete value.
fn convert(value: ValueRef<'_>) -> Value {
    match value.shape() {
        Shape::Null => Value::Null,
        Shape::Bool(value) => value.into(),
        Shape::I64(value) => value.into(),
        #[allow(clippy::cast_precision_loss)] // integers that VRL cannot represent become floats
        Shape::U64(value) => Value::from_f64_or_zero(value as f64),
        Shape::F64(value) => Value::from_f64_or_zero(value),
        Shape::Number(text) => value.as_f64().map_or_else(|| text.into(), Value::from_f64_or_zero),
        Shape::String(text) => text.into(),
        Shape::Bytes(data) => data.into(),
        Shape::Array(array) => Value::Array(array.iter().map(convert).collect()),
        Shape::Object(object) => {
            let entries = object.iter().map(|(key, value)| (key.into(), convert(value)));
            Value::Object(entries.collect::<ObjectMap>())
        }
    }
}

fn target(value: Value) -> TargetValue {
    TargetValue { value, metadata: Value::Object(ObjectMap::new()), secrets: Secrets::new() }
}

fn resolve(runtime: &mut Runtime, program: &Program, target: &mut TargetValue) {
    let result = runtime.resolve(target, program, &TimeZone::Local);
    let _ = black_box(result.expect("no event fails"));
    runtime.clear();
}

fn operator(batch: &mut Batch, output: &mut Output, operator: &mut impl Operator) {
    operator.process(batch, output).expect("no batch fails");
    assert_eq!(batch.len(), EVENTS);
}

fn classification(criterion: &mut Criterion) {
    let events = events();
    let pool = Pool::new(4);
    let decoded = batch(&pool, &events);
    let values: Vec<_> =
        decoded.iter().map(|event| convert(event.value().expect("a value"))).collect();
    let compiled =
        vrl::compiler::compile(SOURCE, &vrl::stdlib::all()).expect("the program compiles");
    let program = compiled.program;

    let mut group = criterion.benchmark_group("classification");
    group.throughput(Throughput::Elements(EVENTS as u64));
    let mut runtime = Runtime::default();
    group.bench_function("alone", |bencher| {
        let targets = || values.iter().cloned().map(target).collect::<Vec<_>>();
        bencher.iter_batched_ref(
            targets,
            |targets| targets.iter_mut().for_each(|one| resolve(&mut runtime, &program, one)),
            BatchSize::PerIteration,
        );
    });
    group.bench_function("converted", |bencher| {
        let pass = |(): &mut ()| {
            for event in &decoded {
                let mut target = target(convert(event.value().expect("a value")));
                resolve(&mut runtime, &program, &mut target);
            }
        };
        // No setup is needed, but the samples have to be taken as in the other measurements.
        bencher.iter_batched_ref(|| (), pass, BatchSize::PerIteration);
    });
    let mut output = Output::new();
    let config = Config { source: Some(SOURCE.to_owned()), ..Config::default() };
    let mut ours = Vrl::new(config, TestHost::new().context()).expect("a good configuration");
    group.bench_function("ours", |bencher| {
        bencher.iter_batched_ref(
            || batch(&pool, &events),
            |batch| operator(batch, &mut output, &mut ours),
            BatchSize::PerIteration,
        );
    });
    let mut logging = native::operator::Logging::default();
    group.bench_function("native", |bencher| {
        bencher.iter_batched_ref(
            || batch(&pool, &events),
            |batch| operator(batch, &mut output, &mut logging),
            BatchSize::PerIteration,
        );
    });
    group.finish();
}

criterion_group!(benches, classification);
criterion_main!(benches);
