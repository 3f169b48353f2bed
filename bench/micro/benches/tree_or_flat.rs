//! Trees of values against flat documents, for what happens to a log event: it is parsed, asked,
//! edited, serialised and dropped.
//!
//! - Tree, borrowed: its text lies in the message, which has to live as long.
//! - Tree, owned: its text is its own, as it has to be where a tree outlives its message.
//! - Flat: a document in a batch.
//!
//! All three start at the same parser's tape, and are serialised by the same encoder. The edit of a
//! document is measured in both ways there are: the event turns into an owned tree, which is what the
//! batch does, or it is written anew.
//!
//! Times are for 100 log events; throughput is in events. See `events.rs` for other data.

mod events;
mod tree;

use std::{
    hint::black_box,
    time::{Duration, Instant},
};

use criterion::{
    BenchmarkGroup, Criterion, Throughput, criterion_group, criterion_main, measurement::WallTime,
};
use tremor_abi::{
    document::{Document, ValueRef, Writer},
    value::Value,
};
use tremor_runtime::codec::{Bytes, Encoder, Nodes};

use self::{
    events::{Flat, Messages, messages},
    tree::{Parser, fill},
};

const BORROWED: &str = "tree, borrowed";
const OWNED: &str = "tree, owned";
const FLAT: &str = "flat";
const FLAT_TO_TREE: &str = "flat, the event turned into a tree";
const FLAT_ANEW: &str = "flat, the event written anew";

/// Twelve of an event's fields, and the one that is edited.
const FIELDS: [&str; 12] = [
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
const EDITED: &str = "short_message";
const EDIT: &str = "was edited";

fn group<'c>(
    criterion: &'c mut Criterion,
    name: &str,
    messages: &Messages,
) -> BenchmarkGroup<'c, WallTime> {
    let mut group = criterion.benchmark_group(name);
    group.throughput(Throughput::Elements(messages.len() as u64));
    group
}

/// How long `iterations` of a step take that is prepared before each, and cleaned up after it,
/// without either.
fn timed<T, R>(
    iterations: u64,
    mut prepare: impl FnMut() -> T,
    mut step: impl FnMut(T) -> R,
) -> Duration {
    let mut total = Duration::ZERO;
    for _ in 0..iterations {
        let prepared = prepare();
        let start = Instant::now();
        let result = black_box(step(prepared));
        total += start.elapsed();
        drop(result);
    }
    total
}

fn owned_trees(messages: &Messages) -> Vec<Value<'static>> {
    let (mut inputs, mut trees) = (Vec::new(), Vec::new());
    fill(&mut inputs, messages);
    Parser::new().owned(&mut inputs, &mut trees);
    trees
}

fn decoded(messages: &Messages) -> Flat {
    let mut flat = Flat::new("json");
    flat.decode(messages);
    flat
}

fn views(flat: &Flat) -> Vec<ValueRef<'_>> {
    let document = Document::new(&flat.bytes, &flat.nodes);
    flat.roots.iter().map(|root| document.root(*root)).collect()
}

fn encode(encoder: &mut Encoder, trees: &[Value<'_>], out: &mut Bytes) {
    out.clear();
    for tree in trees {
        encoder.value(tree.view(), out).expect("what was parsed");
    }
}

fn edit(trees: &mut [Value<'_>]) {
    for tree in trees {
        tree.insert(EDITED, EDIT.to_owned()).expect("an object");
    }
}

/// Writes the event with its edit behind what the buffers hold.
fn write_edited(event: ValueRef<'_>, bytes: &mut Bytes, nodes: &mut Nodes) -> u32 {
    let mut writer = Writer::new(bytes, nodes);
    writer.begin_object();
    for (key, value) in event.as_object().expect("an object") {
        writer.key(key);
        if key == EDITED {
            writer.str(EDIT);
        } else {
            writer.write_value(value);
        }
    }
    writer.end_object();
    writer.finish().expect("what was a document")
}

/// From bytes to a form that can be asked; dropping it is not counted.
fn parse(criterion: &mut Criterion) {
    let messages = messages();
    let mut group = group(criterion, "parse", &messages);
    let mut parser = Parser::new();
    let mut inputs = Vec::new();
    group.bench_function(BORROWED, |bencher| {
        bencher.iter_custom(|iterations| {
            let mut total = Duration::ZERO;
            for _ in 0..iterations {
                let mut trees = Vec::with_capacity(messages.len());
                let start = Instant::now();
                fill(&mut inputs, &messages);
                parser.borrowed(&mut inputs, &mut trees);
                total += start.elapsed();
                black_box(&trees);
            }
            total
        });
    });
    group.bench_function(OWNED, |bencher| {
        bencher.iter_custom(|iterations| {
            let prepare = || Vec::with_capacity(messages.len());
            timed(iterations, prepare, |mut trees| {
                fill(&mut inputs, &messages);
                parser.owned(&mut inputs, &mut trees);
                trees
            })
        });
    });
    let mut flat = Flat::new("json");
    group.bench_function(FLAT, |bencher| {
        bencher.iter_custom(|iterations| timed(iterations, || (), |()| flat.decode(&messages)));
    });
    group.finish();
}

fn lookups(criterion: &mut Criterion) {
    let messages = messages();
    let trees = owned_trees(&messages);
    let flat = decoded(&messages);
    let views = views(&flat);
    for (name, fields) in [("1 lookup", &FIELDS[9..10]), ("12 lookups", &FIELDS[..])] {
        let mut group = group(criterion, name, &messages);
        group.bench_function(OWNED, |bencher| {
            bencher.iter(|| {
                let found = |tree: &Value<'_>| {
                    fields.iter().filter(|field| tree.get(black_box(field)).is_some()).count()
                };
                trees.iter().map(found).sum::<usize>()
            });
        });
        group.bench_function(FLAT, |bencher| {
            bencher.iter(|| {
                let found = |view: &ValueRef<'_>| {
                    fields.iter().filter(|field| view.get(black_box(field)).is_some()).count()
                };
                views.iter().map(found).sum::<usize>()
            });
        });
        group.finish();
    }
}

/// One field gets another text; dropping a tree that was made for that is not counted.
fn edit_one_field(criterion: &mut Criterion) {
    let messages = messages();
    let flat = decoded(&messages);
    let views = views(&flat);
    let mut group = group(criterion, "edit one field", &messages);
    let mut trees = owned_trees(&messages);
    group.bench_function(OWNED, |bencher| {
        bencher.iter(|| {
            edit(&mut trees);
            black_box(&trees);
        });
    });
    group.bench_function(FLAT_TO_TREE, |bencher| {
        bencher.iter_custom(|iterations| {
            let prepare = || Vec::with_capacity(views.len());
            timed(iterations, prepare, |mut trees| {
                trees.extend(views.iter().map(|view| view.to_value()));
                edit(&mut trees);
                trees
            })
        });
    });
    let (mut bytes, mut nodes) = (Bytes::new(), Nodes::new());
    group.bench_function(FLAT_ANEW, |bencher| {
        bencher.iter(|| {
            bytes.clear();
            nodes.clear();
            for view in &views {
                black_box(write_edited(*view, &mut bytes, &mut nodes));
            }
        });
    });
    group.finish();
}

fn serialise(criterion: &mut Criterion) {
    let messages = messages();
    let trees = owned_trees(&messages);
    let mut flat = decoded(&messages);
    let mut encoder = Flat::new("json").encoder;
    let mut out = Bytes::new();
    let mut group = group(criterion, "serialise", &messages);
    group.bench_function(OWNED, |bencher| {
        bencher.iter(|| {
            encode(&mut encoder, &trees, &mut out);
            black_box(&out);
        });
    });
    let written = out.clone();
    group.bench_function(FLAT, |bencher| {
        bencher.iter(|| {
            flat.encode(&mut out);
            black_box(&out);
        });
    });
    assert!(written.is_empty() || written == out, "both forms are written alike");
    group.finish();
}

/// A document's buffers are emptied and kept; a tree is given back piece by piece.
fn drop_them(criterion: &mut Criterion) {
    let messages = messages();
    let mut parser = Parser::new();
    let mut inputs = Vec::new();
    let mut group = group(criterion, "drop", &messages);
    group.bench_function(BORROWED, |bencher| {
        bencher.iter_custom(|iterations| {
            let mut total = Duration::ZERO;
            for _ in 0..iterations {
                let mut trees = Vec::with_capacity(messages.len());
                fill(&mut inputs, &messages);
                parser.borrowed(&mut inputs, &mut trees);
                let start = Instant::now();
                drop(black_box(trees));
                total += start.elapsed();
            }
            total
        });
    });
    group.bench_function(OWNED, |bencher| {
        bencher.iter_custom(|iterations| timed(iterations, || owned_trees(&messages), drop));
    });
    // It forgets what it held, whatever that was: there is nothing to prepare.
    let mut flat = decoded(&messages);
    group.bench_function(FLAT, |bencher| {
        bencher.iter(|| black_box(&mut flat).clear());
    });
    group.finish();
}

/// From bytes to bytes, nothing left out, with an edit of every event and without.
fn whole(criterion: &mut Criterion) {
    let messages = messages();
    let mut parser = Parser::new();
    let mut inputs = Vec::new();
    let mut flat = Flat::new("json");
    let mut encoder = Flat::new("json").encoder;
    let mut out = Bytes::new();
    for edits in [false, true] {
        let name = if edits { "parse, edit, serialise, drop" } else { "parse, serialise, drop" };
        let mut group = group(criterion, name, &messages);
        group.bench_function(BORROWED, |bencher| {
            bencher.iter(|| {
                let mut trees = Vec::with_capacity(messages.len());
                fill(&mut inputs, &messages);
                parser.borrowed(&mut inputs, &mut trees);
                if edits {
                    edit(&mut trees);
                }
                encode(&mut encoder, &trees, &mut out);
                black_box(&out);
            });
        });
        group.bench_function(OWNED, |bencher| {
            bencher.iter(|| {
                let mut trees = Vec::with_capacity(messages.len());
                fill(&mut inputs, &messages);
                parser.owned(&mut inputs, &mut trees);
                if edits {
                    edit(&mut trees);
                }
                encode(&mut encoder, &trees, &mut out);
                black_box(&out);
            });
        });
        if edits {
            edited_documents(&mut group, &mut flat, &messages, &mut out);
        } else {
            group.bench_function(FLAT, |bencher| {
                bencher.iter(|| {
                    flat.decode(&messages);
                    flat.encode(&mut out);
                    black_box(&out);
                });
            });
        }
        group.finish();
    }
}

fn edited_documents(
    group: &mut BenchmarkGroup<'_, WallTime>,
    flat: &mut Flat,
    messages: &Messages,
    out: &mut Bytes,
) {
    let mut encoder = Flat::new("json").encoder;
    group.bench_function(FLAT_TO_TREE, |bencher| {
        bencher.iter(|| {
            flat.decode(messages);
            let mut trees: Vec<_> = views(flat).into_iter().map(ValueRef::to_value).collect();
            edit(&mut trees);
            encode(&mut encoder, &trees, out);
            black_box(&out);
        });
    });
    let (mut bytes, mut nodes) = (Bytes::new(), Nodes::new());
    group.bench_function(FLAT_ANEW, |bencher| {
        bencher.iter(|| {
            flat.decode(messages);
            bytes.clear();
            nodes.clear();
            out.clear();
            for view in views(flat) {
                let root = write_edited(view, &mut bytes, &mut nodes);
                encoder.document(&bytes, &nodes, root, out).expect("what was written");
            }
            black_box(&out);
        });
    });
}

criterion_group!(benches, parse, lookups, edit_one_field, serialise, drop_them, whole);
criterion_main!(benches);
