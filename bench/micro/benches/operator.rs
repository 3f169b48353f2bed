//! The built-in operators, and the classification of the plugin `logging`, on a batch of 256
//! decoded log events.
//!
//! Each iteration uses a freshly decoded batch, as in a pipeline, and only the operator's call is
//! measured. Times are for the whole batch; the throughput is in events. The events come from the
//! project's generator, or from the file in the environment variable `OPERATOR_DATA`, which has one
//! JSON value per line.

use std::{env, fs};

use criterion::{
    BatchSize, BenchmarkGroup, Criterion, Throughput, criterion_group, criterion_main,
    measurement::WallTime,
};
use serde_json::{Value as Json, json};
use tremor_abi::{
    batch::{Batch, HostBatch, HostOutput, Output, Pool},
    error::PluginError,
    value::Path,
};
use tremor_pdk::Operator;
use tremor_runtime::{codec, components};

type Group<'c> = BenchmarkGroup<'c, WallTime>;

const EVENTS: u64 = 256;
/// Time between two events, in ns, so that windows of a second end in about every hundredth batch.
const STEP: u64 = 40_000;

struct Input {
    lines: Vec<Vec<u8>>,
    pool: Pool,
    decoder: codec::json::Decoder,
    now: u64,
}

impl Input {
    fn new() -> Self {
        let text = env::var_os("OPERATOR_DATA").map_or_else(
            || {
                let mut lines = Vec::new();
                sample_logs::write_lines(EVENTS, 42, &mut lines)
                    .expect("writing to memory succeeds");
                lines
            },
            |path| fs::read(path).expect("the file in OPERATOR_DATA"),
        );
        let lines = text.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
        Self {
            lines: lines.map(<[u8]>::to_vec).collect(),
            pool: Pool::new(4),
            decoder: codec::json::Decoder::new(codec::json::DecodeOptions::default()),
            now: 0,
        }
    }

    /// Returns a batch of decoded events.
    fn batch(&mut self) -> Batch {
        let mut batch = Batch::from_pool(&self.pool);
        for (_, line) in (0..EVENTS).zip(self.lines.iter().cycle()) {
            batch.push_message(line);
        }
        let decoder = &mut self.decoder;
        let decode = |bytes: &mut _, nodes: &mut _, span| {
            decoder.decode(bytes, span, nodes).map_err(PluginError::bad_data)
        };
        assert!(batch.decode_with(decode).is_empty());
        for event in batch.events_mut() {
            self.now += STEP;
            event.ingest_ns = self.now;
        }
        batch
    }
}

/// Measures calls of the operator, each with a freshly decoded batch.
fn measure(
    group: &mut Group<'_>,
    name: &str,
    mut prepare: impl FnMut(&mut Batch),
    mut call: impl FnMut(&mut Batch, &mut Output),
) {
    let mut input = Input::new();
    let mut output = Output::new();
    group.bench_function(name, |bencher| {
        bencher.iter_batched_ref(
            || {
                let mut batch = input.batch();
                prepare(&mut batch);
                batch
            },
            |batch| {
                output.begin(1);
                call(batch, &mut output);
                // Events that leave the operator go to a queue, whose consumer drops them.
                output.take_ports().for_each(drop);
                output.take_rejected();
                output.take_discarded()
            },
            BatchSize::PerIteration,
        );
    });
}

fn built_in(group: &mut Group<'_>, case: &str, name: &str, config: &Json) {
    let mut operator = components::operator(name, config).expect("a good configuration");
    let call = move |batch: &mut Batch, output: &mut Output| {
        operator.process(batch, output).expect("the operator succeeds");
    };
    measure(group, &format!("{name}: {case}"), |_| {}, call);
}

fn operators(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("operator");
    group.throughput(Throughput::Elements(EVENTS));
    let level = |level: &str| json!({ "field": "short_message", "equals": level });

    built_in(&mut group, "nothing", "passthrough", &json!({}));
    built_in(&mut group, "drop all, third field", "filter", &level("none"));
    let last = json!({ "field": "doc-type", "equals": "none" });
    built_in(&mut group, "drop all, last field", "filter", &last);
    let regex = json!({ "field": "short_message", "matches": "^nothing$" });
    built_in(&mut group, "drop all, expression", "filter", &regex);
    built_in(&mut group, "keep all", "filter", &json!({ "not": level("none") }));

    let rule = |name: &str| json!({ "when": level(name), "port": name });
    let rules = json!({ "rules": [rule("ERROR"), rule("warn"), rule("info")] });
    built_in(&mut group, "three ports", "route", &rules);

    let keep = json!({ "keep": ["short_message", "application", "index_type"] });
    built_in(&mut group, "keep three fields", "select", &keep);
    let drop = json!({ "drop": ["about", "array"], "rename": { "short_message": "level" } });
    built_in(&mut group, "drop two, rename one", "select", &drop);
    let paths =
        ["about", "array", "short_message"].map(|path| path.parse::<Path>().expect("a path"));
    measure(
        &mut group,
        "the same by editing values",
        |_| {},
        |batch, _| {
            for position in 0..batch.len() {
                let Some(value) = batch.value_mut(position) else { continue };
                value.remove_path(&paths[0]);
                value.remove_path(&paths[1]);
                if let Some(level) = value.remove_path(&paths[2]) {
                    let _ = value.insert("level", level);
                }
            }
        },
    );

    let mut bucket = components::operator("bucket", &json!({})).expect("a good configuration");
    let mut process = |batch: &mut Batch, output: &mut Output| {
        bucket.process(batch, output).expect("the operator succeeds");
    };
    let mut logging = operator_logging::Logging::default();
    let mut classify = |batch: &mut Batch, output: &mut Output| {
        logging.process(batch, output).expect("the operator succeeds");
    };
    let before = |batch: &mut Batch| {
        let mut logging = operator_logging::Logging::default();
        logging.process(batch, &mut Output::new()).expect("the operator succeeds");
    };
    measure(&mut group, "bucket: classified before", before, &mut process);
    measure(&mut group, "logging", |_| {}, &mut classify);
    measure(
        &mut group,
        "logging and bucket",
        |_| {},
        |batch, output| {
            classify(batch, output);
            process(batch, output);
        },
    );

    let config = json!({ "by": ["guid"], "within": "1s" });
    built_in(&mut group, "by a field that repeats every 256 events", "dedupe", &config);
    let config = json!({
        "every": "1s",
        "by": ["application", "index_type"],
        "aggregates": {
            "events": { "function": "count" },
            "mean": { "function": "mean", "field": "aint" },
            "aint": { "function": "percentiles", "field": "aint" },
        },
    });
    built_in(&mut group, "66 groups, three aggregates", "window", &config);
    built_in(&mut group, "join four batches", "batch", &json!({ "max_events": 4 * EVENTS }));
    built_in(&mut group, "split into four batches", "batch", &json!({ "max_events": EVENTS / 4 }));
    group.finish();
}

criterion_group!(benches, operators);
criterion_main!(benches);
