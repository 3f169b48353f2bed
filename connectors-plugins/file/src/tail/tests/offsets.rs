//! Tests of the metadata `%file.offset`.

use std::fs;

use tremor_pdk::{Batch, ErrorKind};

use super::{Scene, text};
use crate::compression::Format;

/// Returns the text of each event with its offset; the text is empty for the end of a stream.
fn offsets(batches: &[Batch]) -> Vec<(String, Option<u64>)> {
    let events = batches.iter().flat_map(Batch::iter).map(|event| {
        let text = String::from_utf8_lossy(event.raw().unwrap_or_default()).into_owned();
        let metadata: serde_json::Value =
            serde_json::from_str(&event.metadata().unwrap().to_string()).unwrap();
        (text, metadata["file"]["offset"].as_u64())
    });
    events.collect()
}

fn expected(events: &[(&str, u64)]) -> Vec<(String, Option<u64>)> {
    events.iter().map(|(text, offset)| ((*text).to_owned(), Some(*offset))).collect()
}

const LINES: &str = "one\na long line\nthree\nlast";

#[test]
fn events_have_their_offset_however_the_file_is_read() {
    let scene = Scene::new(&[("in", LINES)]);
    let member =
        Format::Gzip.member(LINES.as_bytes(), std::slice::from_ref(&(0..LINES.len()))).unwrap();
    fs::write(scene.path("in.gz"), member).unwrap();
    for keys in [
        r#""path": "in""#,
        r#""path": "in*", "exclude": ["*.gz"]"#,
        r#""path": "in.gz""#,
        r#""path": "in*", "exclude": ["in"]"#,
    ] {
        let mut source = scene.open(&format!(r#"{keys}, "offset": true"#)).unwrap();
        let events = offsets(&source.pull_all().unwrap());
        let whole = [("one\n", 0), ("a long line\n", 4), ("three\n", 16), ("last", 22), ("", 22)];
        assert_eq!(events, expected(&whole), "{keys}");
        let keys = format!(r#"{keys}, "offset": true, "chunk_bytes": 6"#);
        for (text, offset) in offsets(&scene.open(&keys).unwrap().pull_all().unwrap()) {
            let start = usize::try_from(offset.unwrap()).unwrap();
            let message = LINES[start..].split_inclusive('\n').next().unwrap_or_default();
            assert!(message.contains(&text), "{keys}: {text:?} at {start}");
        }
    }
}

#[test]
fn offset_continues_after_restart_and_after_failed_pull() {
    let scene = Scene::new(&[("in", LINES)]);
    let keys =
        r#""path": "in", "checkpoint": "at", "follow": true, "chunk_bytes": 6, "offset": true"#;
    let mut source = scene.open(keys).unwrap();
    let batches = scene.all(&mut source);
    source.acks().unwrap().ack(batches[0].pull()).unwrap();
    source.acks().unwrap().fail(batches[1].pull(), std::slice::from_ref(&(0..1))).unwrap();
    let mut again = offsets(&scene.all(&mut source));
    again.retain(|(text, _)| !text.is_empty());
    let line = [("a long", 4), (" line\n", 4), ("three\n", 16)];
    assert_eq!(again, expected(&line));
    source.stop().unwrap();
    let mut source = scene.open(keys).unwrap();
    assert_eq!(offsets(&scene.all(&mut source)), expected(&line));
    scene.write("in", "another\n");
    let batches = scene.all(&mut source);
    assert_eq!(text(&batches), ["another\n"]);
    assert_eq!(offsets(&batches), expected(&[("anothe", 0), ("r\n", 0)]));
}

#[test]
fn offset_without_message_end_is_rejected() {
    let scene = Scene::new(&[("in", "")]);
    let keys = r#""path": "in", "offset": true, "message_end": """#;
    let error = scene.open(keys).err().unwrap();
    assert_eq!(error.kind(), ErrorKind::CONFIGURATION);
    assert!(error.to_string().contains("`offset` needs `message_end`"), "{error}");
}
