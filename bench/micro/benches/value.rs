//! Values and documents for a log event of 13 keys: time of reads and of construction, compared
//! with the standard library.

use std::{collections::HashMap, hint::black_box};

use abi_stable::std_types::RVec;
use criterion::{BatchSize, Criterion, criterion_group, criterion_main};
use tremor_abi::{
    document::{Document, Key, Writer},
    literal,
    value::{Object, Path, Str, Value},
};

/// The keys of a log event, in order.
const KEYS: [&str; 13] = [
    "about",
    "guid",
    "abool",
    "aint",
    "short_message",
    "tags",
    "array",
    "index_type",
    "logger_name",
    "syslog_hostname",
    "application",
    "type",
    "doc-type",
];

type Pairs<'v> = Vec<(Str<'v>, Value<'v>)>;

fn event() -> Value<'static> {
    literal!({
        "about": "Lorem ipsum dolor sit amet. ".repeat(16),
        "guid": "a95bb929-2567-4066-8023-8bf532665121",
        "abool": false,
        "aint": 33,
        "short_message": "info",
        "tags": ["tag4", "tag1", "tag2", "tag1", "tag4"],
        "array": [0, 1, 2, 3, 4, 5, 6, 7, 8, 9],
        "index_type": "sqlserverlog",
        "logger_name": "logger2",
        "syslog_hostname": "host5",
        "application": "app4",
        "type": "syslog",
        "doc-type": "doc",
    })
}

fn document() -> (RVec<u8>, RVec<tremor_abi::document::Node>, u32) {
    let (mut bytes, mut nodes) = (RVec::new(), RVec::new());
    let mut writer = Writer::new(&mut bytes, &mut nodes);
    writer.write_value(event().view());
    let root = writer.finish().expect("an event is a document");
    (bytes, nodes, root)
}

fn many(keys: usize) -> Vec<String> {
    (0..keys).map(|n| format!("key_number_{n}")).collect()
}

/// Measures lookups of twelve of the thirteen fields of an event.
fn lookups(c: &mut Criterion) {
    let (bytes, nodes, root) = document();
    let view = Document::validated(&bytes, &nodes, root).expect("the written document is valid");
    let tree = event();
    let asked = &KEYS[1..];
    let keys: Vec<Key<'_>> = asked.iter().map(|key| Key::new(key)).collect();
    let paths: Vec<Path> =
        asked.iter().map(|key| key.parse().expect("each key is a path")).collect();

    let mut group = c.benchmark_group("12 lookups");
    group.bench_function("document, by text", |b| {
        b.iter(|| {
            let view = black_box(view);
            asked.iter().filter(|key| view.get(black_box(key)).is_some()).count()
        });
    });
    group.bench_function("document, by prepared keys", |b| {
        b.iter(|| {
            let view = black_box(view);
            keys.iter().filter(|key| view.get_key(**key).is_some()).count()
        });
    });
    group.bench_function("document, by compiled paths", |b| {
        b.iter(|| {
            let view = black_box(view);
            paths.iter().filter(|path| view.get_path(path).is_some()).count()
        });
    });
    group.bench_function("value, by text", |b| {
        b.iter(|| {
            let tree = black_box(&tree);
            asked.iter().filter(|key| tree.get(black_box(key)).is_some()).count()
        });
    });
    group.finish();
}

/// Measures creating and dropping an object of 13 small values; the compared vector is boxed once
/// as well.
fn build(c: &mut Criterion) {
    let mut group = c.benchmark_group("build 13 keys");
    group.bench_function("boxed Vec of pairs", |b| {
        b.iter(|| {
            let mut pairs: Box<Pairs<'_>> = Box::new(Vec::with_capacity(13));
            for (n, key) in (0_i64..).zip(black_box(&KEYS)) {
                pairs.push((Str::from(*key), Value::from(n)));
            }
            pairs
        });
    });
    group.bench_function("object, keys known to differ", |b| {
        b.iter(|| {
            let mut object = Object::with_capacity(13);
            for (n, key) in (0_i64..).zip(black_box(&KEYS)) {
                object.insert_nocheck(*key, n);
            }
            object
        });
    });
    group.bench_function("object", |b| {
        b.iter(|| {
            let mut object = Object::with_capacity(13);
            for (n, key) in (0_i64..).zip(black_box(&KEYS)) {
                object.insert(*key, n);
            }
            object
        });
    });
    group.finish();
}

fn find(c: &mut Criterion) {
    let pairs: Pairs<'_> = KEYS.iter().map(|key| ((*key).into(), Value::Null)).collect();
    let object: Object<'_> = KEYS.iter().map(|key| (*key, Value::Null)).collect();
    let mut group = c.benchmark_group("13 lookups among 13 keys");
    group.bench_function("linear search in a Vec of pairs", |b| {
        b.iter(|| {
            let pairs = black_box(&pairs);
            let found = |key: &&&str| pairs.iter().find(|(other, _)| other == black_box(**key));
            KEYS.iter().filter(|key| found(key).is_some()).count()
        });
    });
    group.bench_function("object", |b| {
        b.iter(|| {
            let object = black_box(&object);
            KEYS.iter().filter(|key| object.get(black_box(key)).is_some()).count()
        });
    });
    group.finish();

    let keys = many(1_024);
    let map: HashMap<String, Value<'_>> =
        keys.iter().map(|key| (key.clone(), Value::Null)).collect();
    let object: Object<'_> = keys.iter().map(|key| (key.clone(), Value::Null)).collect();
    let mut group = c.benchmark_group("1024 lookups among 1024 keys");
    group.bench_function("std HashMap", |b| {
        b.iter(|| keys.iter().filter(|key| black_box(&map).get(key.as_str()).is_some()).count());
    });
    group.bench_function("object", |b| {
        b.iter(|| keys.iter().filter(|key| black_box(&object).get(key).is_some()).count());
    });
    group.finish();
}

/// Measures conversions between values and documents.
fn convert(c: &mut Criterion) {
    let tree = event();
    let (bytes, nodes, root) = document();
    let view = Document::validated(&bytes, &nodes, root).expect("the written document is valid");
    let mut group = c.benchmark_group("convert an event");
    group.bench_function("value to document", |b| {
        let (mut bytes, mut nodes) = (RVec::new(), RVec::new());
        b.iter(|| {
            bytes.clear();
            nodes.clear();
            let mut writer = Writer::new(&mut bytes, &mut nodes);
            writer.write_value(black_box(&tree).view());
            writer.finish()
        });
    });
    group.bench_function("document to document", |b| {
        let (mut bytes, mut nodes) = (RVec::new(), RVec::new());
        b.iter(|| {
            bytes.clear();
            nodes.clear();
            let mut writer = Writer::new(&mut bytes, &mut nodes);
            writer.write_value(black_box(view));
            writer.finish()
        });
    });
    group.bench_function("document to owned value", |b| {
        b.iter_batched(|| (), |()| black_box(view).to_value(), BatchSize::SmallInput);
    });
    group.bench_function("document to borrowed value", |b| {
        b.iter_batched(|| (), |()| black_box(view).to_borrowed(), BatchSize::SmallInput);
    });
    group.bench_function("validate", |b| {
        b.iter(|| tremor_abi::document::validate(black_box(&bytes), &nodes, root));
    });
    group.finish();
}

criterion_group!(benches, lookups, build, find, convert);
criterion_main!(benches);
