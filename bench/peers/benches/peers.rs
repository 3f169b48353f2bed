//! Log events parsed, and parsed and serialised, by the crates that do this and by our codecs.
//!
//! Every subject gets the same messages, 100 at a time, and keeps for the next message what it can
//! keep: buffers, the input's copy where it parses in place. Ours works as it does in a flow, on a
//! batch that the messages are copied into. Whatever is parsed is dropped, and that is measured too.
//! Before it is measured, what each subject writes is compared with its input.
//!
//! The messages come from the project's generator; the environment variable `EXPERIMENT_DATA` names a
//! file with one JSON value a line that replaces them. Throughput is in events.

#[path = "../../micro/benches/events.rs"]
mod events;

use std::hint::black_box;

use criterion::{
    BenchmarkGroup, Criterion, Throughput, criterion_group, criterion_main, measurement::WallTime,
};
use serde_json::Value as Json;
use simd_json::{Buffers, prelude::Writable};
use tremor_runtime::codec::Bytes;

use self::events::{Flat, Messages, messages};

/// What is measured of a subject: it parses a message, and writes it if there is something to
/// write to.
trait Subject: FnMut(&[u8], Option<&mut Vec<u8>>) {}
impl<F: FnMut(&[u8], Option<&mut Vec<u8>>)> Subject for F {}

/// The messages of a format, and how to tell what they mean.
struct Input {
    format: &'static str,
    messages: Messages,
    read: fn(&[u8]) -> Json,
}

impl Input {
    fn json() -> Self {
        Self { format: "JSON", messages: messages(), read: from_json }
    }

    fn msgpack() -> Self {
        let messages = messages().iter().map(|message| to_msgpack(message)).collect();
        Self { format: "MessagePack", messages, read: from_msgpack }
    }

    /// Measures a subject in both of its tasks.
    ///
    /// # Panics
    /// Where what it writes means something else than what it was given.
    fn measure(&self, criterion: &mut Criterion, name: &str, mut subject: impl Subject) {
        let mut out = Vec::new();
        for message in &self.messages {
            out.clear();
            subject(message, Some(&mut out));
            self.check(name, message, &out);
        }
        self.group(criterion, "parse").bench_function(name, |bencher| {
            bencher.iter(|| {
                for message in &self.messages {
                    subject(message, None);
                }
            });
        });
        self.group(criterion, "parse and serialise").bench_function(name, |bencher| {
            bencher.iter(|| {
                out.clear();
                for message in &self.messages {
                    subject(message, Some(&mut out));
                }
                black_box(&out);
            });
        });
    }

    /// Measures ours, over a batch of all messages.
    fn measure_ours(&self, criterion: &mut Criterion, codec: &str) {
        let mut batch = Flat::new(codec);
        let mut out = Bytes::new();
        for message in &self.messages {
            batch.decode(std::slice::from_ref(message));
            batch.encode(&mut out);
            self.check("ours", message, &out);
        }
        self.group(criterion, "parse").bench_function("ours", |bencher| {
            bencher.iter(|| {
                batch.decode(&self.messages);
                black_box(&batch.nodes);
            });
        });
        self.group(criterion, "parse and serialise").bench_function("ours", |bencher| {
            bencher.iter(|| {
                batch.decode(&self.messages);
                batch.encode(&mut out);
                black_box(&out);
            });
        });
    }

    fn check(&self, name: &str, message: &[u8], written: &[u8]) {
        assert_eq!((self.read)(written), (self.read)(message), "what {name} writes");
    }

    fn group<'c>(&self, criterion: &'c mut Criterion, task: &str) -> BenchmarkGroup<'c, WallTime> {
        let mut group = criterion.benchmark_group(format!("{}: {task}", self.format));
        group.throughput(Throughput::Elements(self.messages.len() as u64));
        group
    }
}

fn json(criterion: &mut Criterion) {
    let events = Input::json();
    events.measure_ours(criterion, "json");
    simd_json(criterion, &events);
    events.measure(criterion, "serde_json Value", |message, out| {
        let value: Json = serde_json::from_slice(message).expect("JSON");
        if let Some(out) = out {
            serde_json::to_writer(out, &value).expect("memory takes any bytes");
        }
        black_box(value);
    });
    events.measure(criterion, "sonic-rs Value", |message, out| {
        let value: sonic_rs::Value = sonic_rs::from_slice(message).expect("JSON");
        if let Some(out) = out {
            sonic_rs::to_writer(out, &value).expect("memory takes any bytes");
        }
        black_box(value);
    });
    let mut input = Vec::new();
    let mut buffers = tremor_value::Buffers::new(4096);
    events.measure(criterion, "tremor-value", |message, out| {
        use tremor_value::prelude::Writable;
        let input = copy(message, &mut input);
        let value = tremor_value::parse_to_value_with_buffers(input, &mut buffers).expect("JSON");
        if let Some(out) = out {
            value.write(out).expect("memory takes any bytes");
        }
        black_box(value);
    });
}

fn simd_json(criterion: &mut Criterion, events: &Input) {
    let mut input = Vec::new();
    let mut buffers = Buffers::new(4096);
    events.measure(criterion, "simd-json tape", |message, out| {
        let input = copy(message, &mut input);
        let tape = simd_json::to_tape_with_buffers(input, &mut buffers).expect("JSON");
        if let Some(out) = out {
            tape.as_value().write(out).expect("memory takes any bytes");
        }
        black_box(tape);
    });
    events.measure(criterion, "simd-json BorrowedValue", |message, out| {
        let input = copy(message, &mut input);
        let value = simd_json::value::borrowed::to_value_with_buffers(input, &mut buffers);
        let value = value.expect("JSON");
        if let Some(out) = out {
            value.write(out).expect("memory takes any bytes");
        }
        black_box(value);
    });
    events.measure(criterion, "simd-json OwnedValue", |message, out| {
        let input = copy(message, &mut input);
        let value = simd_json::value::owned::to_value_with_buffers(input, &mut buffers);
        let value = value.expect("JSON");
        if let Some(out) = out {
            value.write(out).expect("memory takes any bytes");
        }
        black_box(value);
    });
}

fn msgpack(criterion: &mut Criterion) {
    let events = Input::msgpack();
    events.measure_ours(criterion, "msgpack");
    events.measure(criterion, "rmpv ValueRef", |mut message, out| {
        let value = rmpv::decode::read_value_ref(&mut message).expect("MessagePack");
        if let Some(out) = out {
            rmpv::encode::write_value_ref(out, &value).expect("memory takes any bytes");
        }
        black_box(value);
    });
    events.measure(criterion, "rmpv Value", |mut message, out| {
        let value = rmpv::decode::read_value(&mut message).expect("MessagePack");
        if let Some(out) = out {
            rmpv::encode::write_value(out, &value).expect("memory takes any bytes");
        }
        black_box(value);
    });
}

/// The message in a buffer to be parsed in place.
fn copy<'i>(message: &[u8], input: &'i mut Vec<u8>) -> &'i mut [u8] {
    input.clear();
    input.extend_from_slice(message);
    input
}

fn from_json(message: &[u8]) -> Json {
    serde_json::from_slice(message).expect("JSON")
}

fn from_msgpack(mut message: &[u8]) -> Json {
    let value = rmpv::decode::read_value(&mut message).expect("MessagePack");
    serde_json::to_value(value).expect("what JSON can hold")
}

fn to_msgpack(message: &[u8]) -> Vec<u8> {
    let value: rmpv::Value = serde_json::from_slice(message).expect("JSON");
    let mut out = Vec::new();
    rmpv::encode::write_value(&mut out, &value).expect("memory takes any bytes");
    out
}

criterion_group!(benches, json, msgpack);
criterion_main!(benches);
