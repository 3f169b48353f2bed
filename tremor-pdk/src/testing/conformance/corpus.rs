//! Values and bytes that the checks pass to components.

use crate::{Value, literal};

/// Returns values of every type.
pub(super) fn values() -> Vec<Value<'static>> {
    let deep = (0..50).fold(Value::from(1), |value, _| literal!({ "inner": value }));
    vec![
        literal!(null),
        literal!(true),
        literal!(0),
        literal!(-1),
        Value::from(u64::MAX),
        Value::from(i64::MIN),
        literal!(0.5),
        Value::from(1e300),
        Value::from(String::new()),
        Value::from("text, with \"quotes\", \u{0} and \u{1F600}".to_owned()),
        Value::from("x".repeat(5_000)),
        literal!([]),
        literal!({}),
        literal!([1, "two", [3.5, null], { "four": 4 }]),
        literal!({ "": 1, "a": { "b": [1, 2, 3] }, "level": "error", "message": "it failed" }),
        deep,
    ]
}

/// Returns byte sequences that are invalid messages in most formats.
pub(super) fn hostile_bytes() -> Vec<Vec<u8>> {
    let mut all = vec![Vec::new(), vec![0xff; 16], vec![0xff; 4_096], vec![0; 64]];
    all.extend((0..=255).map(|byte| vec![byte]));
    for deep in [&b"["[..], b"{\"a\":", b"(", b"\x91", b"\x81\xa1a", b"<a>"] {
        all.push(deep.repeat(20_000));
    }
    all.push(b"\xff\xff\xff\xff some text".to_vec());
    all.push(b"\x7f\xff\xff\xff\xff\xff\xff\xff some text".to_vec());
    all.push(b"99999999999999999999 some text".to_vec());
    all.push(vec![b'x'; 1 << 20]);
    all.extend((0..64).map(|seed| noise(seed, 200)));
    all
}

/// Returns pseudorandom bytes (xorshift), which are the same for the same seed.
pub(super) fn noise(seed: u64, length: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()[3]
    };
    (0..length).map(|_| next()).collect()
}

/// Returns byte streams in several formats, as sources read them.
pub(super) fn streams() -> Vec<Vec<u8>> {
    let mut frames = Vec::new();
    for message in ["one", "", "two and more", "three"] {
        frames.extend_from_slice(&u32::try_from(message.len()).unwrap_or(0).to_be_bytes());
        frames.extend_from_slice(message.as_bytes());
    }
    vec![
        b"one\ntwo\r\n\nthree\nthe last has no end".to_vec(),
        b"{\"a\":1}\n{\"a\":[2,3]}\n".to_vec(),
        b"b25l\ndHdv\n".to_vec(),
        b"3 one13 two and more5 three".to_vec(),
        frames,
        (0..=255).collect(),
        noise(7, 300),
        Vec::new(),
    ]
}
