//! Pairs of built-in preprocessors, each with a bomb that passes the first and expands in the second.

use base64::prelude::{BASE64_STANDARD, Engine};
use tremor_runtime::{components::built_in_names, flow::Kind};

use super::{
    GOOD, INPUT,
    client::{Client, Server},
    compressed,
    row::{self, Target},
    sample,
};

/// Number of pairs in the sample.
const SAMPLE: usize = 5;

/// Bytes that a compressed bomb expands to: many times what a batch, a queue and a message may have.
const EXPANDED: usize = 32 << 20;

/// Size of the expanded bombs of snappy, which compresses 20 to 1 at best. See [`EXPANDED`].
const EXPANDED_BY_SNAPPY: usize = 12 << 20;

/// Bytes of a bomb that nothing compresses, short enough for two times base64.
const PLAIN: usize = INPUT / 2;

/// Bytes of the longest bomb before it is base64.
const BEFORE_BASE64: usize = INPUT / 4 * 3 - 3;

#[test]
fn pairs_of_preprocessors_expand_within_bounds() {
    let names: Vec<_> = built_in_names(Kind::Preprocessor).collect();
    let pairs = names.iter().flat_map(|first| names.iter().map(move |second| (*first, *second)));
    let rows = pairs.map(|(first, second)| (format!("{first} {second}"), (first, second)));
    sample::run(rows, &[], SAMPLE, |_, (first, second)| survives(first, second));
}

fn survives(first: &'static str, second: &'static str) {
    let address = row::free_address();
    let target = Target::source(&format!(
        "type: tcp_server, preprocessors: [{first}, {second}], codec: string, config: {{ listen: '{address}' }}"
    ));
    let bomb = bomb(first, second);
    let bytes = bomb.len();
    let good = move |number| {
        variant(first, |variant| {
            let text = format!("{GOOD}{} {number}", ".".repeat(variant));
            wrapped(first, &wrapped(second, text.as_bytes()))
        })
    };
    let client = Client {
        server: Server::Tcp(address),
        opening: Vec::new(),
        bombs: vec![bomb],
        halves: false,
        good: Box::new(good),
        ends: true,
        open: Vec::new(),
    };
    row::survives(&format!("{first}, {second}"), target, bytes, |_| Box::new(client));
}

/// Returns the format that a preprocessor decompresses, if it does.
fn format(name: &str) -> Option<&str> {
    match name {
        "decompress" => Some("zstd"),
        "gzip" | "zstd" | "xz" | "lz4" | "snappy" => Some(name),
        _ => None,
    }
}

/// Returns input from which a preprocessor makes this message.
fn wrapped(name: &str, message: &[u8]) -> Vec<u8> {
    match (name, format(name)) {
        (_, Some(format)) => compressed(format, message, 1, b""),
        ("lines", _) => [message, b"\n"].concat(),
        ("base64", _) => BASE64_STANDARD.encode(message).into_bytes(),
        ("length-prefixed", _) => {
            let length = u32::try_from(message.len()).unwrap().to_be_bytes();
            [&length, message].concat()
        }
        ("join" | "remove-empty", _) => message.to_vec(),
        _ => {
            panic!("add the preprocessor `{name}` here, with the input that it makes a message of")
        }
    }
}

/// Returns about `length` bytes for a preprocessor that puts many messages out, some of them empty and one too long.
pub(super) fn many(name: &str, length: usize) -> Vec<u8> {
    let (empty, long, short) = ((length / 50).min(100_000), length / 3, b"x".repeat(999));
    let mut all = wrapped(name, b"").repeat(empty);
    all.extend(wrapped(name, &b"x".repeat(long)));
    let short = wrapped(name, &short);
    all.extend(short.repeat(length.saturating_sub(all.len()) / short.len()));
    all
}

/// Returns input for a preprocessor that it makes as much as possible of.
fn expanding(name: &str, length: usize) -> Vec<u8> {
    match (name, format(name)) {
        (_, Some("snappy")) => compressed("snappy", &many("lines", EXPANDED_BY_SNAPPY), 1, b""),
        (_, Some(format)) => compressed(format, &many("lines", EXPANDED), 1, b""),
        ("lines" | "length-prefixed", _) => many(name, length),
        // A stream of these is one message.
        _ => wrapped(name, &many("lines", length)),
    }
}

/// Returns the bomb of a pair.
fn bomb(first: &str, second: &str) -> Vec<u8> {
    if let Some(format) = format(first) {
        let length = if format == "snappy" { EXPANDED_BY_SNAPPY } else { EXPANDED };
        let mut bomb = compressed(format, &expanding(second, length), 1, b"");
        // Bytes that were compressed once do not become fewer.
        bomb.truncate(INPUT);
        return bomb;
    }
    // A message of the first preprocessor is a bomb for the second, as long as a message may be.
    let mut messages = variant(first, |variant| {
        let inner = match self::format(second) {
            Some(format) => {
                let byte = u8::try_from(variant % 26).unwrap() + b'a';
                compressed(format, &[byte].repeat((4 << 20) - variant), 1, b"")
            }
            None => expanding(second, PLAIN),
        };
        let inner = &inner[..inner.len().min(BEFORE_BASE64)];
        wrapped(first, inner)
    });
    if first != "base64" {
        messages = messages.repeat((INPUT / messages.len()).clamp(1, 30));
    }
    messages
}

/// Returns the first variant, or for `lines` the first without a line feed before its end and a carriage return there,
/// because these would cut it.
fn variant(first: &str, make: impl Fn(usize) -> Vec<u8>) -> Vec<u8> {
    let is_line = |bytes: &Vec<u8>| {
        let line = bytes.strip_suffix(b"\n").unwrap_or(bytes);
        !line.contains(&b'\n') && !line.ends_with(b"\r")
    };
    let count = if first == "lines" { 20 } else { 1 };
    (0..count).map(&make).find(is_line).unwrap_or_else(|| make(0))
}
