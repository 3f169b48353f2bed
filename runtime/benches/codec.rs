//! Codecs beside the parsers they are measured against, on 100 log events, one thread. Times are
//! for all 100.

use std::hint::black_box;

use criterion::{Criterion, criterion_group, criterion_main};
use sample_logs::Generator;
use serde_json::Value;
use simd_json::{Buffers, base::Writable, to_tape_with_buffers};
use tremor_runtime::codec::{self, Bytes, Codec, Nodes, Span};

const EVENTS: usize = 100;

/// The events, as JSON.
fn events() -> Vec<Vec<u8>> {
    let mut generator = Generator::new(1);
    let event = |()| {
        let mut line = Vec::new();
        generator.append_line(&mut line);
        line.truncate(line.trim_ascii_end().len());
        line
    };
    std::iter::repeat_n((), EVENTS).map(event).collect()
}

/// Messages packed back to back, as they lie in a batch.
fn packed(messages: &[Vec<u8>]) -> (Vec<u8>, Vec<Span>) {
    let (mut bytes, mut spans) = (Vec::new(), Vec::new());
    for message in messages {
        let narrow = |length: usize| u32::try_from(length).expect("a bench is small");
        spans.push(Span { start: narrow(bytes.len()), len: narrow(message.len()) });
        bytes.extend_from_slice(message);
    }
    (bytes, spans)
}

/// Decodes all messages with reused buffers and, if asked, encodes them again.
fn ours(criterion: &mut Criterion, name: &str, codec: Codec, messages: &[Vec<u8>], encode: bool) {
    let (packed, spans) = packed(messages);
    let (mut decoder, mut encoder) = (codec.decoder(), codec.encoder());
    let (mut bytes, mut nodes, mut out) = (Bytes::new(), Nodes::new(), Bytes::new());
    criterion.bench_function(name, |bencher| {
        bencher.iter(|| {
            bytes.clear();
            nodes.clear();
            out.clear();
            bytes.extend_from_slice(&packed);
            for span in &spans {
                let root = decoder.decode(&mut bytes, *span, &mut nodes).expect("it is valid");
                if encode {
                    encoder.document(&bytes, &nodes, root, &mut out).expect("it can be encoded");
                }
            }
            black_box((nodes.len(), out.len()))
        });
    });
}

fn simd_json(criterion: &mut Criterion, name: &str, messages: &[Vec<u8>], encode: bool) {
    let mut buffers = Buffers::new(4 << 10);
    let mut copy = Vec::new();
    let mut out = Vec::new();
    criterion.bench_function(name, |bencher| {
        bencher.iter(|| {
            out.clear();
            for message in messages {
                copy.clear();
                copy.extend_from_slice(message);
                let tape = to_tape_with_buffers(&mut copy, &mut buffers).expect("it is valid");
                if encode {
                    tape.as_value().write(&mut out).expect("memory can be written to");
                }
                black_box(&tape);
            }
            black_box(out.len())
        });
    });
}

fn rmpv(criterion: &mut Criterion, messages: &[Vec<u8>]) {
    let mut out = Vec::new();
    criterion.bench_function("msgpack/rmpv ValueRef/decode and encode", |bencher| {
        bencher.iter(|| {
            out.clear();
            for message in messages {
                let value = rmpv::decode::read_value_ref(&mut &message[..]).expect("it is valid");
                rmpv::encode::write_value_ref(&mut out, &value).expect("memory can be written to");
            }
            black_box(out.len())
        });
    });
}

/// The events as MessagePack, by our own encoder, which is tested against rmpv.
fn as_msgpack(messages: &[Vec<u8>]) -> Vec<Vec<u8>> {
    let json = codec::lookup("json", &Value::Null).expect("there is one");
    let msgpack = codec::lookup("msgpack", &Value::Null).expect("there is one");
    let (mut decoder, mut encoder) = (json.decoder(), msgpack.encoder());
    let convert = |message: &Vec<u8>| {
        let (mut bytes, mut nodes, mut out) = (Bytes::new(), Nodes::new(), Bytes::new());
        bytes.extend_from_slice(message);
        let span = Span { start: 0, len: u32::try_from(message.len()).expect("a bench is small") };
        let root = decoder.decode(&mut bytes, span, &mut nodes).expect("it is valid");
        encoder.document(&bytes, &nodes, root, &mut out).expect("it can be encoded");
        out.to_vec()
    };
    messages.iter().map(convert).collect()
}

fn codecs(criterion: &mut Criterion) {
    let json = codec::lookup("json", &Value::Null).expect("there is one");
    let msgpack = codec::lookup("msgpack", &Value::Null).expect("there is one");
    let messages = events();
    simd_json(criterion, "json/simd-json tape/parse", &messages, false);
    ours(criterion, "json/ours/parse and drop", json, &messages, false);
    simd_json(criterion, "json/simd-json tape/parse and serialise", &messages, true);
    ours(criterion, "json/ours/parse and serialise", json, &messages, true);
    let messages = as_msgpack(&messages);
    rmpv(criterion, &messages);
    ours(criterion, "msgpack/ours/decode and encode", msgpack, &messages, true);
}

criterion_group!(benches, codecs);
criterion_main!(benches);
