//! Frames of a batch of 256 log events: writing, checksums, reading, and answers to calls.
//!
//! Times are for the whole batch; the throughput is in events. "Structured" events are documents whose text is in the
//! message that they were decoded from, as the runtime's decoder leaves them. The baseline copies the events, the nodes
//! and the bytes of the batch and does nothing else.

use std::{fmt, hint::black_box};

use criterion::measurement::WallTime;
use criterion::{
    BatchSize, BenchmarkGroup, Criterion, Throughput, criterion_group, criterion_main,
};
use serde_json::de::Deserializer;
use tremor_abi::{
    ByteBuffer, NodeBuffer,
    batch::{Batch, Format, HostBatch as _, Mark, Pool, Span},
    document::{Node, fingerprint},
    error::PluginError,
    frame::{Encoder, Medium, apply_delta, decode, stamp, verify},
    value::Value,
};

type Group<'c> = BenchmarkGroup<'c, WallTime>;

type Change = fn(&mut Batch);

const EVENTS: u64 = 256;

/// Writes the nodes of JSON, with text that stays in the message.
struct Decoder<'n> {
    message: &'n [u8],
    /// Offset of the message in the bytes of the batch.
    start: u64,
    nodes: &'n mut NodeBuffer,
}

impl Decoder<'_> {
    fn location(&self, text: &str) -> (u64, u32) {
        let offset = text.as_ptr().addr() - self.message.as_ptr().addr();
        (self.start + offset as u64, u32::try_from(text.len()).expect("a short text"))
    }
}

impl<'de> serde::de::DeserializeSeed<'de> for &mut Decoder<'_> {
    type Value = ();

    fn deserialize<D: serde::Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> serde::de::Visitor<'de> for &mut Decoder<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON without escapes")
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        self.nodes.push(Node::null());
        Ok(())
    }

    fn visit_bool<E>(self, value: bool) -> Result<(), E> {
        self.nodes.push(Node::bool(value));
        Ok(())
    }

    fn visit_i64<E>(self, value: i64) -> Result<(), E> {
        self.nodes.push(Node::i64(value));
        Ok(())
    }

    fn visit_u64<E>(self, value: u64) -> Result<(), E> {
        self.nodes.push(Node::u64(value));
        Ok(())
    }

    fn visit_f64<E>(self, value: f64) -> Result<(), E> {
        self.nodes.push(Node::f64(value));
        Ok(())
    }

    fn visit_borrowed_str<E>(self, text: &'de str) -> Result<(), E> {
        let (offset, len) = self.location(text);
        self.nodes.push(Node::string(offset, len));
        Ok(())
    }

    fn visit_seq<A: serde::de::SeqAccess<'de>>(self, mut elements: A) -> Result<(), A::Error> {
        let (root, mut count) = (self.nodes.len(), 0);
        self.nodes.push(Node::null());
        while elements.next_element_seed(&mut *self)?.is_some() {
            count += 1;
        }
        self.nodes[root] = Node::array(count, (self.nodes.len() - root) as u64);
        Ok(())
    }

    fn visit_map<A: serde::de::MapAccess<'de>>(self, mut pairs: A) -> Result<(), A::Error> {
        let (root, mut count) = (self.nodes.len(), 0);
        self.nodes.push(Node::null());
        while let Some(key) = pairs.next_key::<&str>()? {
            let (offset, len) = self.location(key);
            self.nodes.push(Node::key(offset, len, fingerprint(key.as_bytes())));
            pairs.next_value_seed(&mut *self)?;
            count += 1;
        }
        self.nodes[root] = Node::object(count, (self.nodes.len() - root) as u64);
        Ok(())
    }
}

fn parse(bytes: &mut ByteBuffer, nodes: &mut NodeBuffer, span: Span) -> Result<u32, PluginError> {
    let root = u32::try_from(nodes.len()).map_err(PluginError::internal)?;
    let message = &bytes[span.range()];
    let mut seed = Decoder { message, start: span.start.into(), nodes };
    let mut json = Deserializer::from_slice(message);
    serde::de::DeserializeSeed::deserialize(&mut seed, &mut json).map_err(PluginError::bad_data)?;
    Ok(root)
}

/// Returns messages with the origin that a source sets.
fn raw() -> Batch {
    let mut lines = Vec::new();
    sample_logs::write_lines(2 * EVENTS, 42, &mut lines).expect("writing to memory succeeds");
    let mut batch = Batch::new();
    let lines = lines
        .split(|byte| *byte == b'\n')
        .filter(|line| !line.is_empty() && !line.contains(&b'\\'));
    lines
        .take(EVENTS.try_into().expect("a small number"))
        .for_each(|line| batch.push_message(line));
    assert_eq!(batch.len() as u64, EVENTS);
    batch
}

/// Returns decoded events, which are unedited if `format` is set.
fn structured(format: Option<Format>) -> Batch {
    let mut batch = raw();
    let rejected = batch.decode_as(|bytes, nodes, span| Ok((parse(bytes, nodes, span)?, format)));
    assert!(rejected.is_empty(), "{}", rejected[0].error);
    batch
}

/// Returns events whose payloads are all in the table of values.
fn edited() -> Batch {
    let mut batch = structured(None);
    for position in 0..batch.len() {
        let value = batch.value_mut(position).expect("a value");
        value.insert("edited", Value::from(true)).expect("an object");
    }
    batch
}

fn frame(batch: &Batch, medium: Medium) -> Vec<u8> {
    let mut frame = Vec::new();
    Encoder::new(medium).prepare(batch).expect("a frame").append_to(1, &mut frame);
    if medium == Medium::Disk {
        stamp(&mut frame, 1, 7).expect("a header");
    }
    frame
}

fn cases() -> [(&'static str, Medium, Batch); 5] {
    let mut origins = structured(None);
    origins.set_origin("10.0.0.1:99");
    [
        ("structured", Medium::Process, structured(None)),
        ("structured, origin in the table", Medium::Process, origins),
        ("edited values", Medium::Process, edited()),
        ("raw", Medium::Disk, raw()),
        ("unedited, on disk", Medium::Disk, structured(Some(Format::Json))),
    ]
}

fn group<'c>(criterion: &'c mut Criterion, name: &str) -> Group<'c> {
    let mut group = criterion.benchmark_group(name);
    group.throughput(Throughput::Elements(EVENTS));
    group
}

fn write(criterion: &mut Criterion) {
    let mut group = group(criterion, "write");
    for (name, batch) in [("structured", structured(None)), ("raw", raw())] {
        let nodes = size_of_val(batch.nodes());
        let events = batch.len() * 56;
        let parts = [vec![1_u8; events], vec![2; nodes], batch.bytes().to_vec()];
        let mut out = vec![0; parts.iter().map(Vec::len).sum()];
        group.bench_function(format!("{name}: three copies"), |bencher| {
            bencher.iter(|| {
                let mut left = &mut out[..];
                for part in black_box(&parts) {
                    let (to, rest) = left.split_at_mut(part.len());
                    to.copy_from_slice(part);
                    left = rest;
                }
                black_box(&out);
            });
        });
    }
    for (name, medium, batch) in cases() {
        let mut encoder = Encoder::new(medium);
        let mut out = vec![0; encoder.prepare(&batch).expect("a frame").len()];
        group.bench_function(name, |bencher| {
            bencher.iter(|| {
                let prepared = encoder.prepare(black_box(&batch)).expect("a frame");
                prepared.write(1, &mut out).expect("the length of the frame");
                black_box(&out);
            });
        });
    }
    group.finish();
}

fn checksum(criterion: &mut Criterion) {
    let mut group = group(criterion, "checksum");
    for (name, medium, batch) in cases() {
        let mut frame = frame(&batch, medium);
        group.bench_function(format!("{name}: stamp"), |bencher| {
            bencher.iter(|| stamp(black_box(&mut frame), 1, 7).expect("a header"));
        });
        if name == "structured" {
            group.bench_function(format!("{name}: verify"), |bencher| {
                bencher.iter(|| verify(black_box(&frame), 7).expect("a valid checksum"));
            });
        }
    }
    group.finish();
}

fn read(criterion: &mut Criterion) {
    let mut group = group(criterion, "read");
    let pool = Pool::new(2);
    for (name, medium, batch) in cases() {
        let frame = frame(&batch, medium);
        group.bench_function(name, |bencher| {
            bencher.iter(|| decode(black_box(&frame), &pool, medium).expect("a valid frame"));
        });
        let batch = decode(&frame, &pool, medium).expect("a valid frame").batch;
        group.bench_function(format!("{name}: validation alone"), |bencher| {
            bencher.iter(|| black_box(&batch).validate().expect("a valid batch"));
        });
    }
    group.finish();
}

fn answers(criterion: &mut Criterion) {
    let mut group = group(criterion, "answer");
    let mut encoder = Encoder::new(Medium::Process);
    let changes: [(&str, Change); 3] = [
        ("nothing changed", |_| {}),
        ("metadata for each event", |batch| {
            for position in 0..batch.len() {
                let write = |writer: &mut tremor_abi::document::Writer<'_>| {
                    writer.begin_object();
                    writer.key("class");
                    writer.str("a");
                    writer.key("rate");
                    writer.u64(250);
                    writer.end_object();
                };
                batch.write_metadata(position, write).expect("one value");
            }
        }),
        ("payload of each event edited", |batch| {
            for position in 0..batch.len() {
                let value = batch.value_mut(position).expect("a value");
                value.insert("edited", Value::from(true)).expect("an object");
            }
        }),
    ];
    for (name, change) in changes {
        let mut host = structured(None);
        let mut call = Vec::new();
        encoder.prepare_call(&mut host).expect("a frame").append_to(1, &mut call);
        let mut child = decode(&call, &Pool::new(1), Medium::Process).expect("a frame").batch;
        change(&mut child);
        let mut answer = Vec::new();
        encoder.prepare_answer(&child, &call).expect("a frame").append_to(1, &mut answer);
        group.bench_function(format!("{name}: written"), |bencher| {
            bencher.iter(|| {
                answer.clear();
                let prepared = encoder.prepare_answer(black_box(&child), &call).expect("a frame");
                prepared.append_to(1, &mut answer);
            });
        });
        let mut mark = Mark::default();
        // A batch of a running flow has the capacity of earlier batches, so its buffers do not move.
        let pool = Pool::new(4);
        let mut fresh = || {
            let mut batch = decode(&call, &pool, Medium::Process).expect("a frame").batch;
            let bytes = answer.len();
            let _ = batch.append_bytes(&vec![0; bytes]);
            drop(batch);
            decode(&call, &pool, Medium::Process).expect("a frame").batch
        };
        group.bench_function(format!("{name}: applied"), |bencher| {
            bencher.iter_batched_ref(
                &mut fresh,
                |batch| apply_delta(batch, &mut mark, &answer).expect("a delta"),
                BatchSize::PerIteration,
            );
        });
    }
    group.finish();
}

criterion_group!(benches, write, checksum, read, answers);
criterion_main!(benches);
