//! Golden frames: the files in `tests/golden` are read for ever, and are also what this version writes.
//!
//! A file that is missing is written if the environment variable `TREMOR_WRITE_GOLDEN` is set. A file that exists is
//! never replaced: if a test fails, the code is wrong and not the file.

use std::{env, fmt::Write as _, fs, path::PathBuf};

use tremor_abi::{
    ByteBuffer, NodeBuffer,
    batch::{Batch, Event, Format, HostBatch as _, Mark, Origin, Pool, Span},
    document::{Node, fingerprint},
    error::PluginError,
    frame::{Encoder, Header, Medium, apply_delta, decode, restore, stamp, verify},
    literal,
    value::{Number, Value},
};

/// Epoch of the golden records.
const EPOCH: u64 = 0x5eed;

fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/golden")
}

/// Returns the contents of a golden file.
fn golden(name: &str, current: &[u8]) -> Vec<u8> {
    let path = folder().join(name);
    if !path.exists() && env::var_os("TREMOR_WRITE_GOLDEN").is_some() {
        fs::write(&path, current).expect("the folder is writable");
    }
    fs::read(&path).unwrap_or_else(|error| {
        panic!("cannot read {}: {error}; set TREMOR_WRITE_GOLDEN to write it", path.display())
    })
}

/// The message of unedited events.
const MESSAGE: &[u8] = br#"{"level":"info"}"#;

/// Decodes [`MESSAGE`].
fn codec(_: &mut ByteBuffer, nodes: &mut NodeBuffer, span: Span) -> Result<u32, PluginError> {
    if span.len as usize != MESSAGE.len() {
        return Err(PluginError::bad_data("not the message"));
    }
    let (root, start) = (nodes.len(), u64::from(span.start));
    nodes.push(Node::object(1, 3));
    nodes.push(Node::key(start + 2, 5, fingerprint(b"level")));
    nodes.push(Node::string(start + 10, 4));
    u32::try_from(root).map_err(PluginError::internal)
}

/// Returns a batch of unedited events, and one that was edited.
fn unedited() -> Batch {
    let mut batch = Batch::new();
    (0..3).for_each(|stream| batch.stream(stream).push_message(MESSAGE));
    batch.decode_as(|bytes, nodes, span| Ok((codec(bytes, nodes, span)?, Some(Format::Json))));
    batch.push_message(MESSAGE);
    batch.decode_as(|bytes, nodes, span| Ok((codec(bytes, nodes, span)?, Some(Format::Msgpack))));
    *batch.value_mut(1).expect("a value") = literal!({ "level": "warn" });
    batch.push_message(b"raw");
    batch
}

fn raw() -> Batch {
    let mut batch = Batch::new();
    batch.stream(1).push_message(b"a message");
    batch.stream(1).push_message(b"");
    batch.stream(2).push_fragment(b"\x00\xff");
    batch.stream(1).end();
    batch.stream(2).abort();
    for (position, event) in batch.events_mut().iter_mut().enumerate() {
        event.source = 3;
        event.pull = 1 << 40;
        event.ingest_ns = 1_700_000_000_000_000_000;
        event.set_position(40_000 * (position % 2));
    }
    batch
}

/// Returns a value with every kind of node.
fn every_kind() -> Value<'static> {
    let mut value = literal!({
        "null": null, "true": true, "false": false, "i64": (-1), "u64": (u64::MAX), "f64": 1.5,
        "string": "text \u{e4}", "array": [1, [], ["nested"]], "object": { "": {} },
    });
    let bytes = Value::Bytes(vec![0, 255].into());
    let number = Value::Number(Number::new("1e400".to_owned()).expect("a JSON number"));
    value.insert("bytes", bytes).expect("an object");
    value.insert("number", number).expect("an object");
    value
}

fn documents() -> Batch {
    let mut batch = Batch::new();
    batch.stream(1).push(&every_kind()).expect("a value");
    (0..3).for_each(|number| batch.stream(number).push(&number).expect("a value"));
    let origin = Origin::new("/var/log/x", |writer| {
        writer.write_value((&literal!({ "file": { "line": 7 } })).into());
    });
    batch.apply_origin(1, &origin);
    batch
}

fn edited() -> Batch {
    let mut batch = Batch::new();
    (0..3).for_each(|number| batch.stream(number).push(&number).expect("a value"));
    *batch.value_mut(1).expect("a value") = every_kind();
    batch.set_metadata(0, literal!({ "known": true }));
    batch.set_origin("10.0.0.1:99");
    let metadata = batch.events()[0];
    batch.events_mut()[2].set_metadata_of(&metadata);
    batch
}

/// Returns a batch as the runtime links it to `err`: the payload as it came, and the error in the metadata.
fn dead_letter() -> Batch {
    let mut batch = Batch::new();
    batch.stream(4).push_message(b"{\"broken\":");
    batch.set_metadata(0, literal!({ "error": "unexpected end", "component": "in" }));
    batch
}

fn example() -> Batch {
    let mut batch = Batch::new();
    batch.stream(5).push_message(b"hi");
    batch.apply_origin(0, &Origin::from("peer"));
    let event = &mut batch.events_mut()[0];
    (event.source, event.pull, event.ingest_ns) = (1, 9, 1_700_000_000_000_000_000);
    event.set_position(0);
    batch
}

fn frame(batch: &Batch, medium: Medium) -> Vec<u8> {
    let mut frame = Vec::new();
    let mut encoder = Encoder::new(medium);
    encoder.prepare(batch).expect("a frame").append_to(7, &mut frame);
    if medium == Medium::Disk {
        stamp(&mut frame, 1, EPOCH).expect("a valid header");
    }
    frame
}

fn describe_event(batch: &Batch, event: &Event, flags: u8, text: &mut String) {
    let position = event.position().map_or("unknown".to_owned(), |position| position.to_string());
    let show = |data: &[u8]| data.escape_ascii().to_string();
    let _ = writeln!(
        text,
        "event: flags {flags}, source {}, stream {}, pull {}, position {position}, time {}",
        event.source, event.stream, event.pull, event.ingest_ns
    );
    if let Some(raw) = batch.raw(event) {
        let _ = writeln!(text, "  raw: {}", show(raw));
    }
    if let Some(value) = batch.value(event) {
        let _ = writeln!(text, "  value: {value}");
        let _ = writeln!(text, "  original: {}", show(batch.original(event)));
    }
    if let Some(metadata) = batch.metadata(event) {
        let _ = writeln!(text, "  metadata: {metadata}");
    }
    if let Some(origin) = batch.origin(event) {
        let _ = writeln!(text, "  origin: {origin}");
    }
}

/// Describes a frame, independently of the order of its nodes and bytes. `batch` is the batch that was read from it.
fn describe(frame: &[u8], batch: &Batch) -> String {
    let header = Header::read(frame).expect("a header");
    let mut text = format!(
        "minor {}, flags {}, number {}, epoch {}, bases {} and {}\n",
        header.minor,
        header.flags,
        header.number,
        header.epoch,
        header.base_nodes,
        header.base_bytes
    );
    for (position, event) in batch.events().iter().enumerate() {
        let at = usize::from(header.header_len) + position * usize::from(header.event_size);
        describe_event(batch, event, frame[at + 1], &mut text);
    }
    text
}

/// Compares the description of a golden frame with the text file beside it.
fn assert_described(name: &str, frame: &[u8], batch: &Batch) {
    let text = describe(frame, batch);
    let expected = golden(&format!("{name}.txt"), text.as_bytes());
    assert_eq!(text, String::from_utf8(expected).expect("UTF-8"), "{name}");
}

/// Reads a golden frame, and compares it with its description.
fn assert_read(name: &str, bytes: &[u8], medium: Medium) {
    if medium == Medium::Disk {
        verify(bytes, EPOCH).expect(name);
    }
    let mut decoded = decode(bytes, &Pool::new(1), medium).expect(name);
    let rejected = restore(&mut decoded.batch, |_, bytes, nodes, span| codec(bytes, nodes, span));
    assert!(rejected.is_empty(), "{name}");
    decoded.batch.validate().expect(name);
    assert_described(name, bytes, &decoded.batch);
}

#[test]
fn golden_frames_are_read_and_written_identically() {
    let cases = [
        ("empty", Medium::Process, Batch::new()),
        ("raw", Medium::Process, raw()),
        ("documents", Medium::Process, documents()),
        ("edited", Medium::Process, edited()),
        ("dead_letter", Medium::Disk, dead_letter()),
        ("unedited", Medium::Process, unedited()),
        ("unedited_record", Medium::Disk, unedited()),
        ("example", Medium::Disk, example()),
    ];
    for (name, medium, batch) in cases {
        let written = frame(&batch, medium);
        let kept = golden(&format!("{name}.frame"), &written);
        assert!(written == kept, "{name}: this version writes another frame");
        assert_read(name, &kept, medium);
    }
}

/// The answer to the frame `documents`.
#[test]
fn golden_delta_is_applied_and_written_identically() {
    let mut host = documents();
    let mut call = Vec::new();
    let mut encoder = Encoder::new(Medium::Process);
    encoder.prepare_call(&mut host).expect("a frame").append_to(7, &mut call);
    assert!(call == golden("documents.frame", &call));

    let mut child = decode(&call, &Pool::new(1), Medium::Process).expect("a frame").batch;
    child.retain(|event| event.stream().number() != 2);
    child.write_metadata(0, |writer| writer.str("new")).expect("one value");
    *child.value_mut(1).expect("a value") = literal!("edited");
    let mut answer = Vec::new();
    encoder.prepare_answer(&child, &call).expect("a frame").append_to(7, &mut answer);
    let kept = golden("delta.frame", &answer);
    assert!(answer == kept, "this version writes another delta");
    apply_delta(&mut host, &mut Mark::default(), &kept).expect("a delta");
    assert_described("delta", &kept, &host);
}

/// A frame as a later minor version may write it: a header of 72 bytes and events of 64 bytes.
#[test]
fn golden_frame_with_larger_events_is_read() {
    let current = frame(&raw(), Medium::Process);
    let header = Header::read(&current).expect("a header");
    let end = 64 + 56 * header.events as usize;
    let mut larger = current[..64].to_vec();
    larger.extend([0xee; 8]);
    for event in current[64..end].chunks(56) {
        larger.extend(event);
        larger.extend([0xdd; 8]);
    }
    larger.extend(&current[end..]);
    (larger[6], larger[20]) = (72, 64);
    let total = larger.len() as u64;
    larger[8..16].copy_from_slice(&total.to_le_bytes());
    let kept = golden("larger.frame", &larger);
    assert!(larger == kept);
    assert_read("larger", &kept, Medium::Process);
}

#[test]
fn every_golden_file_is_tested_and_described() {
    let list = fs::read_to_string(folder().join("README.md")).expect("the list of golden frames");
    let mut frames = 0;
    for entry in fs::read_dir(folder()).expect("the folder") {
        let path = entry.expect("an entry").path();
        if path.extension().is_some_and(|extension| extension == "frame") {
            frames += 1;
            let name = path.file_name().expect("a name").to_str().expect("UTF-8");
            assert!(list.contains(&format!("| `{name}` |")), "README.md lacks {name}");
        }
    }
    assert_eq!(
        frames,
        list.lines().filter(|line| line.starts_with("| `") && line.contains(".frame` | ")).count()
    );
}

/// The page contains a dump of the frame `example`, each line with an offset and up to 16 bytes.
#[test]
fn example_in_the_page_is_the_golden_frame() {
    let page = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../docs/frame.md");
    let page = fs::read_to_string(page).expect("the page");
    let (_, dump) = page.split_once("<!-- example.frame -->\n\n```text\n").expect("the dump");
    let (dump, _) = dump.split_once("```").expect("the end of the dump");
    let mut bytes = Vec::new();
    for line in dump.lines() {
        let (offset, rest) = line.split_once("  ").expect("an offset");
        assert_eq!(usize::from_str_radix(offset, 16), Ok(bytes.len()), "{line}");
        let (hex, _) = rest.split_once("  ").unwrap_or((rest, ""));
        bytes.extend(hex.split(' ').map(|byte| u8::from_str_radix(byte, 16).expect("a byte")));
    }
    assert!(bytes == golden("example.frame", &bytes));
}
