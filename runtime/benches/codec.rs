//! Scratch.
#![allow(missing_docs, clippy::all, clippy::pedantic)]
use simd_json::prelude::*;
use std::hint::black_box;
use std::time::Instant;
use tremor_runtime::codec::{Bytes, Nodes, Span, json};
fn main() {
    let text = std::fs::read(std::env::var("CODEC_DATA").unwrap()).unwrap();
    let lines: Vec<&[u8]> = text.split(|b| *b == b'\n').filter(|l| !l.is_empty()).collect();
    let mut raw = Vec::new();
    let mut spans = Vec::new();
    for l in &lines {
        spans.push(Span { start: raw.len() as u32, len: l.len() as u32 });
        raw.extend_from_slice(l);
    }
    let n = lines.len() as f64;
    let reps: usize = std::env::var("REPS").ok().map_or(10, |r| r.parse().unwrap());
    let mut best: std::collections::BTreeMap<&str, f64> = Default::default();
    let mut buffers = simd_json::Buffers::new(1024);
    let mut dec = json::Decoder::new(json::DecodeOptions::default());
    let mut enc = json::Encoder::new(Default::default());
    let mut bytes: Bytes = Bytes::new();
    let mut nodes: Nodes = Nodes::new();
    let mut roots = Vec::new();
    let mut out: Bytes = Bytes::new();
    let mut vout: Vec<u8> = Vec::new();
    let mut work = vec![0u8; raw.len()];
    let mut mraw = Vec::new();
    let mut mspans = Vec::new();
    {
        let mut menc = tremor_runtime::codec::msgpack::Encoder;
        let mut o = Bytes::new();
        bytes.extend_from_copy_slice(&raw);
        for s in &spans {
            let r = dec.decode(&mut bytes, *s, &mut nodes).unwrap();
            let a = o.len();
            menc.document(&bytes, &nodes, r, &mut o).unwrap();
            mspans.push(Span { start: a as u32, len: (o.len() - a) as u32 });
        }
        mraw.extend_from_slice(&o);
    }
    let mut mdec = tremor_runtime::codec::msgpack::Decoder::new(Default::default());
    let mut menc = tremor_runtime::codec::msgpack::Encoder;
    let which = std::env::var("ONLY").ok();
    let rounds: usize = std::env::var("ROUNDS").ok().map_or(500, |r| r.parse().unwrap());
    macro_rules! bench {
        ($name:expr, $b:block) => {
            if which.as_deref().is_none_or(|w| w == $name) {
                let t = Instant::now();
                for _ in 0..reps {
                    $b
                }
                let ns = t.elapsed().as_nanos() as f64 / reps as f64 / n;
                let e = best.entry($name).or_insert(f64::MAX);
                if ns < *e {
                    *e = ns;
                }
            }
        };
    }
    for _ in 0..rounds {
        bench!("0 padded fill", {
            bytes.clear();
            bytes.extend_from_copy_slice(&raw);
            bytes.resize(raw.len() + 64, 0);
            let mut tape = simd_json::Tape(Vec::new());
            for s in &spans {
                let mut t = std::mem::replace(&mut tape, simd_json::Tape(Vec::new())).reset();
                simd_json::fill_tape_padded(
                    &mut bytes[s.start as usize..],
                    s.len as usize,
                    &mut buffers,
                    &mut t,
                )
                .unwrap();
                tape = t.reset();
            }
        });
        bench!("1 tape parse", {
            work.copy_from_slice(&raw);
            for s in &spans {
                let t = simd_json::to_tape_with_buffers(
                    &mut work[s.start as usize..(s.start + s.len) as usize],
                    &mut buffers,
                )
                .unwrap();
                black_box(&t);
            }
        });
        bench!("2 tape parse+write", {
            work.copy_from_slice(&raw);
            vout.clear();
            for s in &spans {
                let t = simd_json::to_tape_with_buffers(
                    &mut work[s.start as usize..(s.start + s.len) as usize],
                    &mut buffers,
                )
                .unwrap();
                t.as_value().write(&mut vout).unwrap();
            }
            black_box(&vout);
        });
        bench!("3 ours parse", {
            bytes.clear();
            bytes.extend_from_copy_slice(&raw);
            nodes.clear();
            for s in &spans {
                black_box(dec.decode(&mut bytes, *s, &mut nodes).unwrap());
            }
        });
        bench!("4 ours parse+write", {
            bytes.clear();
            bytes.extend_from_copy_slice(&raw);
            nodes.clear();
            out.clear();
            roots.clear();
            for s in &spans {
                roots.push(dec.decode(&mut bytes, *s, &mut nodes).unwrap());
            }
            for r in &roots {
                enc.document(&bytes, &nodes, *r, &mut out).unwrap();
            }
            black_box(&out);
            if vout.len() > 0 && which.is_none() {
                assert_eq!(&out[..], &vout[..]);
            }
        });
        bench!("5 ours write", {
            out.clear();
            for r in &roots {
                enc.document(&bytes, &nodes, *r, &mut out).unwrap();
            }
            black_box(&out);
        });
        bench!("6 rmpv", {
            vout.clear();
            for s in &mspans {
                let mut r = &mraw[s.start as usize..(s.start + s.len) as usize];
                let v = rmpv::decode::read_value_ref(&mut r).unwrap();
                rmpv::encode::write_value_ref(&mut vout, &v).unwrap();
            }
        });
        bench!("7 our msgpack", {
            bytes.clear();
            bytes.extend_from_copy_slice(&mraw);
            nodes.clear();
            out.clear();
            roots.clear();
            for s in &mspans {
                roots.push(mdec.decode(&mut bytes, *s, &mut nodes).unwrap());
            }
            for r in &roots {
                menc.document(&bytes, &nodes, *r, &mut out).unwrap();
            }
            if vout.len() > 0 && which.is_none() {
                assert_eq!(&out[..], &vout[..]);
            }
        });
        bench!("8 our msgpack decode", {
            bytes.clear();
            bytes.extend_from_copy_slice(&mraw);
            nodes.clear();
            for s in &mspans {
                mdec.decode(&mut bytes, *s, &mut nodes).unwrap();
            }
        });
    }
    for (k, v) in best {
        println!("{k:24} {v:8.0} ns");
    }
}
