//! One shared representation against conversion at the boundary: what it costs to hand a batch of
//! decoded events to a plugin and to take it back, by itself and within a whole flow.
//!
//! - Shared: the plugin gets the batch as it is.
//! - Converted: every event is copied into a [`PdkValue`], which the plugin gets, and copied back,
//!   once into a document, as our codecs have it, and once into a tree of values, as the host of the
//!   first attempt had it.
//!
//! Times are for 100 log events; throughput is in events. See `events.rs` for other data.

mod events;
mod pdk_value;

use std::hint::black_box;

use abi_stable::std_types::RVec;
use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use tremor_abi::{
    document::{Document, Writer},
    value::Value,
};
use tremor_runtime::codec::{Bytes, Nodes};

use self::{
    events::{Flat, Messages, messages},
    pdk_value::PdkValue,
};

/// What stands for the plugin: a function that the compiler does not see into. It says how many
/// events it was handed.
type Plugin<T> = extern "C" fn(&T) -> usize;

/// A batch with the places that conversions put their results in.
struct Flow {
    flat: Flat,
    converted: RVec<PdkValue>,
    /// What came back as documents.
    bytes: Bytes,
    nodes: Nodes,
    roots: Vec<u32>,
    /// What came back as trees.
    trees: Vec<Value<'static>>,
    out: Bytes,
}

impl Flow {
    fn new() -> Self {
        Self {
            flat: Flat::new("json"),
            converted: RVec::new(),
            bytes: Bytes::new(),
            nodes: Nodes::new(),
            roots: Vec::new(),
            trees: Vec::new(),
            out: Bytes::new(),
        }
    }

    fn of(messages: &Messages) -> Self {
        let mut flow = Self::new();
        flow.flat.decode(messages);
        flow
    }

    /// Hands the batch over as it is.
    fn share(&self) -> usize {
        extern "C" fn plugin(batch: &Flat) -> usize {
            batch.roots.len()
        }
        black_box(plugin as Plugin<Flat>)(&self.flat)
    }

    /// Hands a copy of every event over.
    fn convert(&mut self) -> usize {
        extern "C" fn plugin(events: &RVec<PdkValue>) -> usize {
            events.len()
        }
        let document = Document::new(&self.flat.bytes, &self.flat.nodes);
        self.converted.extend(self.flat.roots.iter().map(|root| document.root(*root).into()));
        black_box(plugin as Plugin<RVec<PdkValue>>)(&self.converted)
    }

    /// Takes the copies back as documents.
    fn back_to_documents(&mut self) {
        self.bytes.clear();
        self.nodes.clear();
        self.roots.clear();
        for event in self.converted.drain(..) {
            let mut writer = Writer::new(&mut self.bytes, &mut self.nodes);
            event.write(&mut writer);
            self.roots.push(writer.finish().expect("a value that was a document"));
        }
    }

    /// Takes the copies back as trees.
    fn back_to_trees(&mut self) {
        self.trees.clear();
        self.trees.extend(self.converted.drain(..).map(Value::from));
    }

    fn encode_documents(&mut self) {
        self.out.clear();
        for root in &self.roots {
            let encoder = &mut self.flat.encoder;
            let encoded = encoder.document(&self.bytes, &self.nodes, *root, &mut self.out);
            encoded.expect("a document that was written");
        }
    }

    fn encode_trees(&mut self) {
        self.out.clear();
        for tree in &self.trees {
            self.flat.encoder.value(tree.view(), &mut self.out).expect("what was decoded");
        }
        self.trees.clear();
    }
}

const SHARED: &str = "shared, as it is";
const DOCUMENT: &str = "to PdkValue and back to a document";
const TREE: &str = "to PdkValue and back to a tree";

/// There and back.
fn hand_over(criterion: &mut Criterion) {
    let messages = messages();
    let mut flow = Flow::of(&messages);
    let mut group = criterion.benchmark_group("hand over");
    group.throughput(Throughput::Elements(messages.len() as u64));
    group.bench_function(SHARED, |bencher| bencher.iter(|| flow.share()));
    group.bench_function(DOCUMENT, |bencher| {
        bencher.iter(|| {
            flow.convert();
            flow.back_to_documents();
            black_box(&flow.nodes);
        });
    });
    group.bench_function(TREE, |bencher| {
        bencher.iter(|| {
            flow.convert();
            flow.back_to_trees();
            black_box(&flow.trees);
        });
    });
    group.finish();
}

/// The same between a source's bytes and a sink's.
fn flow(criterion: &mut Criterion) {
    let messages = messages();
    let mut flow = Flow::new();
    let mut group = criterion.benchmark_group("decode, hand over, encode");
    group.throughput(Throughput::Elements(messages.len() as u64));
    group.bench_function(SHARED, |bencher| {
        bencher.iter(|| {
            flow.flat.decode(&messages);
            flow.share();
            flow.flat.encode(&mut flow.out);
            black_box(&flow.out);
        });
    });
    group.bench_function(DOCUMENT, |bencher| {
        bencher.iter(|| {
            flow.flat.decode(&messages);
            flow.convert();
            flow.back_to_documents();
            flow.encode_documents();
            black_box(&flow.out);
        });
    });
    group.bench_function(TREE, |bencher| {
        bencher.iter(|| {
            flow.flat.decode(&messages);
            flow.convert();
            flow.back_to_trees();
            flow.encode_trees();
            black_box(&flow.out);
        });
    });
    group.finish();
}

criterion_group!(benches, hand_over, flow);
criterion_main!(benches);
