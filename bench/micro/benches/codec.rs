//! The codecs on a batch of 100 log events, compared with other parsers: simd-json's tape, parsed
//! and written again, and rmpv's borrowed value.
//!
//! The events come from the project's generator, or from the file in the environment variable
//! `CODEC_DATA`, which has one JSON value per line. Times are for the whole batch; the throughput
//! is in events.

use std::{env, fs, hint::black_box};

use criterion::{
    BenchmarkGroup, Criterion, Throughput, criterion_group, criterion_main, measurement,
};
use simd_json::{Buffers, prelude::Writable};
use tremor_runtime::codec::{Bytes, Nodes, Span, json, msgpack};

type Group<'c> = BenchmarkGroup<'c, measurement::WallTime>;

/// Messages one after the other, as in a batch.
struct Messages {
    bytes: Vec<u8>,
    spans: Vec<Span>,
}

impl Messages {
    fn new() -> Self {
        Self { bytes: Vec::new(), spans: Vec::new() }
    }

    fn push(&mut self, message: &[u8]) {
        let position = |at: usize| u32::try_from(at).expect("the batch is shorter than 4 GiB");
        let span = Span { start: position(self.bytes.len()), len: position(message.len()) };
        self.spans.push(span);
        self.bytes.extend_from_slice(message);
    }

    /// Returns log events as JSON.
    fn json() -> Self {
        let text = env::var_os("CODEC_DATA").map_or_else(
            || {
                let mut lines = Vec::new();
                sample_logs::write_lines(100, 42, &mut lines).expect("writing to memory succeeds");
                lines
            },
            |path| fs::read(path).expect("the file in CODEC_DATA"),
        );
        let mut messages = Self::new();
        for line in text.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
            messages.push(line);
        }
        messages
    }

    /// Converts the events to MessagePack.
    fn msgpack(&self) -> Self {
        let mut messages = Self::new();
        let mut batch = Batch::default();
        batch.fill(self);
        let mut decoder = json::Decoder::new(json::DecodeOptions::default());
        for span in &self.spans {
            let root = decoder.decode(&mut batch.bytes, *span, &mut batch.nodes).expect("JSON");
            let mut out = Bytes::new();
            let encoded =
                msgpack::Encoder::default().document(&batch.bytes, &batch.nodes, root, &mut out);
            encoded.expect("any value can be encoded");
            messages.push(&out);
        }
        messages
    }

    fn iter(&self) -> impl Iterator<Item = &[u8]> {
        self.spans.iter().map(|span| &self.bytes[span.start as usize..][..span.len as usize])
    }
}

/// The buffers of a batch.
#[derive(Default)]
struct Batch {
    bytes: Bytes,
    nodes: Nodes,
    roots: Vec<u32>,
}

impl Batch {
    /// Refills the batch, as a source does.
    fn fill(&mut self, messages: &Messages) {
        self.bytes.clear();
        self.bytes.extend_from_copy_slice(&messages.bytes);
        self.nodes.clear();
        self.roots.clear();
    }
}

fn json(criterion: &mut Criterion) {
    let messages = Messages::json();
    let mut group = criterion.benchmark_group("json");
    group.throughput(Throughput::Elements(messages.spans.len() as u64));
    tape(&mut group, &messages);

    let mut decoder = json::Decoder::new(json::DecodeOptions::default());
    let mut encoder = json::Encoder::default();
    let mut batch = Batch::default();
    let mut out = Bytes::new();
    group.bench_function("document: parse", |bencher| {
        bencher.iter(|| {
            batch.fill(&messages);
            for span in &messages.spans {
                let root = decoder.decode(&mut batch.bytes, *span, &mut batch.nodes);
                black_box(root.expect("JSON"));
            }
        });
    });
    group.bench_function("document: parse and write", |bencher| {
        bencher.iter(|| {
            batch.fill(&messages);
            for span in &messages.spans {
                let root = decoder.decode(&mut batch.bytes, *span, &mut batch.nodes);
                batch.roots.push(root.expect("JSON"));
            }
            out.clear();
            for root in &batch.roots {
                encoder.document(&batch.bytes, &batch.nodes, *root, &mut out).expect("a document");
            }
            black_box(&out);
        });
    });
    group.finish();
}

fn tape(group: &mut Group<'_>, messages: &Messages) {
    let mut buffers = Buffers::new(4096);
    let mut input = Vec::new();
    let mut out = Vec::new();
    group.bench_function("tape: parse", |bencher| {
        bencher.iter(|| {
            for message in messages.iter() {
                input.clear();
                input.extend_from_slice(message);
                black_box(simd_json::to_tape_with_buffers(&mut input, &mut buffers).expect("JSON"));
            }
        });
    });
    group.bench_function("tape: parse and write", |bencher| {
        bencher.iter(|| {
            out.clear();
            for message in messages.iter() {
                input.clear();
                input.extend_from_slice(message);
                let tape = simd_json::to_tape_with_buffers(&mut input, &mut buffers).expect("JSON");
                tape.as_value().write(&mut out).expect("writing to memory succeeds");
            }
            black_box(&out);
        });
    });
}

fn msgpack(criterion: &mut Criterion) {
    let messages = Messages::json().msgpack();
    let mut group = criterion.benchmark_group("msgpack");
    group.throughput(Throughput::Elements(messages.spans.len() as u64));

    let mut written = Vec::new();
    group.bench_function("rmpv: decode and encode", |bencher| {
        bencher.iter(|| {
            written.clear();
            for mut message in messages.iter() {
                let value = rmpv::decode::read_value_ref(&mut message).expect("MessagePack");
                rmpv::encode::write_value_ref(&mut written, &value)
                    .expect("writing to memory succeeds");
            }
            black_box(&written);
        });
    });

    let mut decoder = msgpack::Decoder::new(msgpack::DecodeOptions::default());
    let mut batch = Batch::default();
    let mut out = Bytes::new();
    group.bench_function("document: decode and encode", |bencher| {
        bencher.iter(|| {
            batch.fill(&messages);
            for span in &messages.spans {
                let root = decoder.decode(&mut batch.bytes, *span, &mut batch.nodes);
                batch.roots.push(root.expect("MessagePack"));
            }
            out.clear();
            for root in &batch.roots {
                let encoded = msgpack::Encoder::default().document(
                    &batch.bytes,
                    &batch.nodes,
                    *root,
                    &mut out,
                );
                encoded.expect("a document");
            }
            black_box(&out);
        });
    });
    group.finish();
}

criterion_group!(benches, json, msgpack);
criterion_main!(benches);
