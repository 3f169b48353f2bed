//! Tests of pairs of built-in preprocessors. The bomb of a pair passes the first preprocessor and expands in the second
//! one.

use base64::prelude::{BASE64_STANDARD, Engine};
use hostile_peers::Reserved;
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

/// Length of a compressed bomb after decompression, in bytes: many times the limit of a batch, a queue or a message.
const EXPANDED: usize = 32 << 20;

/// Length of a bomb of snappy after decompression, in bytes. This length is less than [`EXPANDED`], because snappy
/// compresses at most 20 to 1.
const EXPANDED_BY_SNAPPY: usize = 12 << 20;

/// Length of a bomb without compression, in bytes. Encoded twice with base64, it still fits into [`INPUT`].
const PLAIN: usize = INPUT / 2;

/// Length of the longest bomb whose base64 encoding fits into [`INPUT`], in bytes.
const BEFORE_BASE64: usize = INPUT / 4 * 3 - 3;

/// Preprocessors whose messages are text, so that they cannot contain the bomb of another preprocessor. Their output is
/// at most three times as long as their input.
const TEXT: [&str; 2] = ["decode-text", "json-values"];

#[test]
fn pairs_of_preprocessors_expand_within_bounds() {
    let names: Vec<_> =
        built_in_names(Kind::Preprocessor).filter(|it| !TEXT.contains(it)).collect();
    let pairs = names.iter().flat_map(|first| names.iter().map(move |second| (*first, *second)));
    let rows = pairs.map(|(first, second)| (format!("{first} {second}"), (first, second)));
    sample::run(rows, &["base64 multiline"], SAMPLE, |_, (first, second)| survives(first, second));
}

fn survives(first: &'static str, second: &'static str) {
    let port = Reserved::tcp().unwrap();
    let address = port.address();
    let [one, two] = [first, second].map(configured);
    let target = Target::source(&format!(
        "type: tcp_server, preprocessors: [{one}, {two}], codec: string, config: {{ listen: '{address}' }}"
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
        server: Server::Tcp(port),
        opening: Vec::new(),
        bombs: vec![bomb],
        halves: false,
        good: Box::new(good),
        ends: true,
        open: Vec::new(),
    };
    row::survives(&format!("{first}, {second}"), target, bytes, |_| Box::new(client));
}

/// Returns a preprocessor with the configuration that it needs.
fn configured(name: &str) -> &str {
    match name {
        "multiline" => "{ multiline: { preset: all } }",
        // With quotation marks, messages would depend on those in compressed data.
        "csv-records" => "{ csv-records: { quote: null } }",
        _ => name,
    }
}

/// Returns the compression format of a preprocessor, or `None` if the preprocessor does not decompress.
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
        ("lines" | "csv-records" | "multiline" | "syslog-frames", _) => [message, b"\n"].concat(),
        ("cri", _) => [b"2026 stdout F ", line(message), b"\n"].concat(),
        ("docker", _) => {
            let mut escaped = Vec::new();
            for byte in line(message) {
                escaped.extend(matches!(byte, b'"' | b'\\').then_some(b'\\'));
                escaped.push(*byte);
            }
            let end = br#"\n","stream":"stdout","time":"2026"}"#;
            [br#"{"log":""#, &escaped[..], end, b"\n"].concat()
        }
        ("base64", _) => BASE64_STANDARD.encode(message).into_bytes(),
        ("length-prefixed", _) => {
            let length = u32::try_from(message.len()).unwrap().to_be_bytes();
            [&length, message].concat()
        }
        ("join" | "remove-empty" | "gelf-chunks", _) => message.to_vec(),
        _ => {
            panic!("add the preprocessor `{name}` here, with input from which it makes a message")
        }
    }
}

/// Returns a message without the line feed at its end.
fn line(message: &[u8]) -> &[u8] {
    message.strip_suffix(b"\n").unwrap_or(message)
}

/// Returns about `length` bytes that a preprocessor splits into many messages. Some of the messages are empty, and one
/// is too long.
pub(super) fn many(name: &str, length: usize) -> Vec<u8> {
    let (empty, long, short) = ((length / 50).min(100_000), length / 3, b"x".repeat(999));
    let mut all = wrapped(name, b"").repeat(empty);
    all.extend(wrapped(name, &b"x".repeat(long)));
    let short = wrapped(name, &short);
    all.extend(short.repeat(length.saturating_sub(all.len()) / short.len()));
    all
}

/// Returns input that a preprocessor expands as much as possible.
fn expanding(name: &str, length: usize) -> Vec<u8> {
    match (name, format(name)) {
        (_, Some("snappy")) => compressed("snappy", &many("lines", EXPANDED_BY_SNAPPY), 1, b""),
        (_, Some(format)) => compressed(format, &many("lines", EXPANDED), 1, b""),
        (
            "lines" | "csv-records" | "multiline" | "cri" | "docker" | "length-prefixed"
            | "syslog-frames",
            _,
        ) => many(name, length),
        // For these preprocessors, a whole stream is one message.
        _ => wrapped(name, &many("lines", length)),
    }
}

/// Returns the bomb of a pair.
fn bomb(first: &str, second: &str) -> Vec<u8> {
    if let Some(format) = format(first) {
        let length = if format == "snappy" { EXPANDED_BY_SNAPPY } else { EXPANDED };
        let mut bomb = compressed(format, &expanding(second, length), 1, b"");
        // Compressed data cannot be compressed again, so cut it.
        bomb.truncate(INPUT);
        return bomb;
    }
    // A message of the first preprocessor is a bomb for the second one, and has the maximum length of a message.
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

/// Returns the first variant. For preprocessors of lines, returns the first variant that has no line feed within it and
/// no carriage return at its end, because these would change such a message.
fn variant(first: &str, make: impl Fn(usize) -> Vec<u8>) -> Vec<u8> {
    let is_line = |bytes: &Vec<u8>| {
        let line = bytes.strip_suffix(b"\n").unwrap_or(bytes);
        !line.contains(&b'\n') && !line.ends_with(b"\r")
    };
    let is_of_lines = ["lines", "csv-records", "multiline", "cri", "docker"].contains(&first);
    let count = if is_of_lines { 20 } else { 1 };
    (0..count).map(&make).find(is_line).unwrap_or_else(|| make(0))
}
