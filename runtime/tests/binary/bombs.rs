//! Tests of bombs: inputs of at most 1 MB that would need much memory if they were received or decoded without limits.
//! For each bomb, the process takes at most 256 MiB, and delivers the valid event after the bomb.

mod client;
mod clients;
mod pairs;
mod row;
mod sample;
mod server;
mod servers;
mod sinks;
mod tls;

use std::{
    fs,
    io::{Read, Write},
    process::{Child, Command, Stdio},
    sync::mpsc,
    thread,
    time::Duration,
};

use base64::prelude::{BASE64_STANDARD, Engine};
use serde_json::Value;

use crate::tremor::Scene;

/// Maximum memory of the process, in bytes.
const MOST: u64 = 256 << 20;

/// Maximum length of an input, in bytes.
const INPUT: usize = 1_000_000;

/// Text of the last event of every input. No earlier event contains this text.
const GOOD: &str = "a good event";

/// Maximum duration of a run.
const LIMIT: Duration = Duration::from_mins(1);

struct Bomb {
    what: &'static str,
    preprocessors: &'static str,
    codec: String,
    postprocessors: &'static str,
    input: Vec<u8>,
    /// `true` if some events of the bomb go to `err`, so that the flow needs a link from it.
    has_letters: bool,
}

impl Default for Bomb {
    fn default() -> Self {
        Self {
            what: "",
            preprocessors: "lines",
            codec: String::new(),
            postprocessors: "lines",
            input: Vec::new(),
            has_letters: false,
        }
    }
}

impl Bomb {
    /// Runs the bomb, and returns the maximum memory of the process, in bytes.
    fn run(&self) -> u64 {
        let Self { what, preprocessors, codec, postprocessors, input, has_letters } = self;
        assert!(input.len() <= INPUT, "{what}: {} bytes", input.len());
        // Link `err` only if necessary: without a second sink, the source encodes the events for its only sink.
        let err = if *has_letters { ", input/err -> dead" } else { "" };
        let dead = if *has_letters {
            "\n  dead: { type: file, codec: json, postprocessors: [lines], config: { path: dead, mode: write } }"
        } else {
            ""
        };
        // The metronome keeps the process running after the last event.
        let scene = Scene::new(&format!(
            "
connectors:
  input: {{ type: file, preprocessors: [{preprocessors}], codec: {codec}, config: {{ path: in, mode: read }} }}
  output: {{ type: stdio, codec: json, postprocessors: [{postprocessors}] }}
  alive: {{ type: metronome, config: {{ interval_ms: 3600000 }} }}
  nothing: {{ type: 'null' }}{dead}
links: [input -> output, alive -> nothing{err}]"
        ))
        .write("in", input);
        let started = std::time::Instant::now();
        let mut child = scene.command(&["run", "flow.yaml"]).stderr(Stdio::null()).spawn().unwrap();
        let watchdog = watch(child.id());
        let length = read_up_to_the_good_one(&mut child, postprocessors);
        drop(watchdog);
        let status = fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
        let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
        let peak = peak.trim().strip_suffix(" kB").unwrap().parse::<u64>().unwrap() << 10;
        let length = length.unwrap_or_else(|| panic!("{what}: the valid event did not arrive"));
        eprintln!(
            "{what}: {} bytes became {length}, and took {} MiB, {:?}",
            input.len(),
            peak >> 20,
            started.elapsed()
        );
        if *has_letters {
            for line in scene.read("dead").lines().filter(|line| line.ends_with('}')).take(10) {
                let letter: Value = serde_json::from_str(line).unwrap();
                assert!(letter["original"].to_string().len() <= 6 * (4 << 10) + 2, "{what}");
            }
        }
        peak
    }
}

/// Kills the process after [`LIMIT`], unless the returned value is dropped before.
fn watch(process: u32) -> mpsc::Sender<()> {
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || {
        if receiver.recv_timeout(LIMIT) == Err(mpsc::RecvTimeoutError::Timeout) {
            let _ = Command::new("kill").args(["-9", &process.to_string()]).status();
        }
    });
    sender
}

/// Reads until the last event arrives. Returns the number of bytes that were read, or `None` if the output ended
/// before.
fn read_up_to_the_good_one(child: &mut Child, postprocessors: &str) -> Option<usize> {
    let sought = match postprocessors.matches("base64").count() {
        0 => GOOD.to_owned(),
        times => (0..times).fold(format!("{GOOD:?}"), |text, _| BASE64_STANDARD.encode(text)),
    };
    let mut stdout = child.stdout.take().unwrap();
    let (mut buffer, mut kept, mut total) = (vec![0; 1 << 20], 0, 0);
    loop {
        let count = stdout.read(&mut buffer[kept..]).unwrap();
        if count == 0 {
            return None;
        }
        total += count;
        let end = kept + count;
        if memchr::memmem::find(&buffer[..end], sought.as_bytes()).is_some() {
            return Some(total);
        }
        kept = end.min(sought.len());
        buffer.copy_within(end - kept..end, 0);
    }
}

/// Compresses copies of `text`, followed by `last`.
fn compressed(format: &str, text: &[u8], copies: usize, last: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    let write = |encoder: &mut dyn Write| {
        (0..copies).for_each(|_| encoder.write_all(text).unwrap());
        encoder.write_all(last).unwrap();
    };
    match format {
        "gzip" => {
            let mut encoder = flate2::write::GzEncoder::new(&mut out, flate2::Compression::best());
            write(&mut encoder);
            encoder.finish().unwrap();
        }
        "zstd" => {
            let mut encoder = zstd::Encoder::new(&mut out, 9).unwrap();
            // The largest window that the preprocessor accepts.
            encoder.window_log(26).unwrap();
            write(&mut encoder);
            encoder.finish().unwrap();
        }
        "xz" => {
            let mut encoder = liblzma::write::XzEncoder::new(&mut out, 9);
            write(&mut encoder);
            encoder.finish().unwrap();
        }
        "lz4" => {
            let mut info = lz4_flex::frame::FrameInfo::new();
            info.block_size = lz4_flex::frame::BlockSize::Max4MB;
            let mut encoder = lz4_flex::frame::FrameEncoder::with_frame_info(info, &mut out);
            write(&mut encoder);
            encoder.finish().unwrap();
        }
        _ => {
            let mut encoder = snap::write::FrameEncoder::new(&mut out);
            write(&mut encoder);
            encoder.flush().unwrap();
        }
    }
    out
}

const MIB: usize = 1 << 20;

const FORMATS: [&str; 5] = ["gzip", "zstd", "xz", "lz4", "snappy"];

/// Returns a line that repeats `text`. Without its line feed, the line has at most `length` bytes.
fn line(text: &[u8], length: usize) -> Vec<u8> {
    [&text.repeat(length / text.len())[..], b"\n"].concat()
}

/// Returns [`GOOD`] as a JSON string.
fn good() -> Vec<u8> {
    format!("{GOOD:?}\n").into_bytes()
}

/// Runs bombs. Checks that the memory of the process stays within [`MOST`], and that the valid event after each bomb
/// arrives.
fn run(bombs: impl IntoIterator<Item = Bomb>) {
    for bomb in bombs {
        let peak = bomb.run();
        assert!(peak < MOST, "{}: {} MiB", bomb.what, peak >> 20);
    }
}

fn bomb(what: &'static str, preprocessors: &'static str, codec: &str) -> Bomb {
    Bomb { what, preprocessors, codec: codec.to_owned(), ..Bomb::default() }
}

#[test]
fn decompressed_stream_flows_in_pieces_and_long_line_fails() {
    let last = [b"\n", &good()[..]].concat();
    let zeros = vec![b'x'; MIB];
    run(FORMATS.map(|format| {
        // Expand to more than the window of the format, except for snappy: 1 MB of snappy cannot expand to much more
        // than 15 MiB.
        let (preprocessors, mebibytes) = match format {
            "gzip" => ("gzip, lines", 70),
            "zstd" => ("zstd, lines", 70),
            "xz" => ("decompress, lines", 70),
            "lz4" => ("lz4, lines", 70),
            _ => ("snappy, lines", 15),
        };
        let input = compressed(format, &zeros, mebibytes, &last);
        Bomb { input, has_letters: true, ..bomb(format, preprocessors, "json") }
    }));
    let inner = compressed("xz", &zeros, 70, &last);
    let input = compressed("xz", &inner, 1, b"");
    run([Bomb { input, has_letters: true, ..bomb("xz twice", "xz, xz, lines", "json") }]);
}

#[test]
fn message_that_expands_too_much_is_rejected_alone() {
    let zeros = vec![b'x'; MIB];
    let encoded = |format, copies| {
        let message = compressed(format, &zeros, copies, GOOD.as_bytes());
        BASE64_STANDARD.encode(message) + "\n"
    };
    let copies = |format| if format == "snappy" { 5 } else { 60 };
    let mut input: String = FORMATS.map(|format| encoded(format, copies(format))).concat();
    input += &encoded("gzip", 0);
    let what = "base64 of all formats";
    let input = input.into_bytes();
    run([Bomb { input, has_letters: true, ..bomb(what, "lines, base64, decompress", "string") }]);
}

#[test]
fn expanding_values_are_decoded_in_parts_or_rejected() {
    // The length of the longest line that is accepted.
    let longest = 4 * MIB - 1;
    let gzip = |lines: &[Vec<u8>], last: &[u8]| compressed("gzip", &lines.concat(), 1, last);
    let json = [
        format!("[{}0]\n", "[],".repeat(longest / 3 - 1)).repeat(10).into_bytes(),
        format!("[{}\"\\n\"]\n", "0,".repeat(800_000)).into_bytes(),
        "[[[0]]]\n".repeat(40_000).into_bytes(),
        format!("{{\"{}\":1}}\n", "k".repeat(longest - 6)).into_bytes(),
        format!("{{\"{}\":1}}\n", "k".repeat(60_000)).repeat(100).into_bytes(),
    ];
    let control = [line(b"\x01", longest), line(b"\x01", 1_000).repeat(2_000)];
    let header = "{ csv: { headers: [".to_owned() + &"h".repeat(4_000) + "] } }";
    let text = format!("{GOOD}\n").into_bytes();
    run([
        Bomb {
            input: gzip(&json, &good()),
            has_letters: true,
            ..bomb("arrays, escapes, short lines, long keys", "gzip, lines", "json")
        },
        Bomb {
            input: gzip(&control, &text),
            ..bomb("control characters", "gzip, lines", "string")
        },
        Bomb {
            input: gzip(&[line(b",", longest).repeat(3)], &text),
            has_letters: true,
            ..bomb("commas", "gzip, lines", "csv")
        },
        Bomb {
            input: [&b"x\n".repeat(5_000)[..], &text].concat(),
            ..bomb("a long header", "lines", &header)
        },
    ]);
}

#[test]
fn messages_without_end_are_events_or_errors_in_parts() {
    let prefixed = |message: &[u8]| {
        let length = u32::try_from(message.len()).unwrap().to_be_bytes();
        [&length[..], message].concat()
    };
    let empty = |count: usize, last: &[u8]| [&vec![0; 4 * count][..], &prefixed(last)].concat();
    // An array that is a valid event, and an array of extension values that is not.
    let nil = [&[0xdd, 0, 6, 0x1a, 0x80][..], &[0xc0].repeat(400_000)].concat();
    let extensions = [&[0xdd, 0, 0x13, 0xd6, 0x20][..], &[0xc7, 0, 5].repeat(1_300_000)].concat();
    let packed = [prefixed(&nil), prefixed(&extensions).repeat(3)];
    let text = [&[0xa0 | u8::try_from(GOOD.len()).unwrap()][..], GOOD.as_bytes()].concat();
    run([
        Bomb {
            input: empty(100_000, GOOD.as_bytes()),
            ..bomb("empty messages", "length-prefixed", "string")
        },
        Bomb {
            input: empty(60_000, good().trim_ascii()),
            has_letters: true,
            ..bomb("empty messages that are not JSON", "length-prefixed", "json")
        },
        Bomb {
            input: [&b"\n".repeat(60_000)[..], &good()].concat(),
            has_letters: true,
            ..bomb("empty lines that are not JSON", "lines", "json")
        },
        Bomb {
            input: compressed("gzip", &packed.concat(), 1, &prefixed(&text)),
            has_letters: true,
            ..bomb("nil and extensions", "gzip, length-prefixed", "msgpack")
        },
    ]);
}

#[test]
fn encoding_of_small_events_is_bounded() {
    let text = format!("{GOOD}\n").into_bytes();
    let input = compressed("gzip", &line(b"\x01", 4 * MIB - 1), 1, &text);
    let postprocessors = "base64, base64, lines";
    run([Bomb { postprocessors, input, ..bomb("base64 twice", "gzip, lines", "string") }]);
}
