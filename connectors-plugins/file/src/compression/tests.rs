use std::{
    fs::{self, File},
    io::{self, Read},
    path::Path,
};

use tremor_pdk::{
    ErrorKind, EventRef, Result,
    testing::{Connection, TestHost, batch_of},
};

use super::{Compression, Format, Input};
use crate::FileConnector;

const FORMATS: [(Format, &str); 3] =
    [(Format::Gzip, "gz"), (Format::Zstd, "zst"), (Format::Xz, "xz")];

fn open(path: &Path, more: &str) -> Result<Connection> {
    let config = format!(r#"{{ "path": "{}", {more} }}"#, path.display());
    TestHost::new().connect::<FileConnector>(&config)
}

fn member(format: Format, bytes: impl AsRef<[u8]>) -> Vec<u8> {
    let bytes = bytes.as_ref();
    format.member(bytes, std::slice::from_ref(&(0..bytes.len()))).unwrap()
}

/// Returns the text that a connector reads from a file with `bytes`, and the error that ended
/// reading, if any.
fn read(name: &str, bytes: &[u8], chunk_bytes: usize) -> (String, Option<tremor_pdk::Error>) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(name);
    fs::write(&path, bytes).unwrap();
    let more = format!(r#""mode": "read", "chunk_bytes": {chunk_bytes}"#);
    let mut source = open(&path, &more).unwrap();
    let mut text = Vec::new();
    let error = loop {
        match source.pull() {
            Ok((pull, batch)) => {
                for event in &batch {
                    assert!(event.is_fragment() && event.stream().number() == 0);
                    text.extend_from_slice(event.raw().unwrap());
                }
                if pull == tremor_pdk::Pull::Finished {
                    break None;
                }
            }
            Err(error) => break Some(error),
        }
    };
    (String::from_utf8(text).unwrap(), error)
}

#[test]
fn format_comes_from_configuration_or_file_extension() {
    for (compression, name, expected) in [
        (Compression::Auto, "a.gz", Some(Format::Gzip)),
        (Compression::Auto, "b.json.zst", Some(Format::Zstd)),
        (Compression::Auto, "c.xz", Some(Format::Xz)),
        (Compression::Auto, "gz", None),
        (Compression::Auto, "d.json", None),
        (Compression::None, "a.gz", None),
        (Compression::Zstd, "a.gz", Some(Format::Zstd)),
    ] {
        assert_eq!(compression.of(Path::new(name)), expected, "{compression:?} {name}");
    }
}

#[test]
fn written_members_are_read_in_chunks_of_any_size() {
    for (_, ending) in FORMATS {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file").with_extension(ending);
        for mode in ["write", "append", "append"] {
            let mut sink = open(&path, &format!(r#""mode": "{mode}""#)).unwrap();
            for messages in [&["one\n", "two\n"][..], &[], &["three\n"]] {
                assert_eq!(sink.deliver(&batch_of(messages)), Ok(()));
            }
            sink.close_sink().unwrap();
            sink.stop().unwrap();
        }
        let bytes = fs::read(&path).unwrap();
        for chunk_bytes in [1, 5, 1_000] {
            let (text, error) = read(&format!("in.{ending}"), &bytes, chunk_bytes);
            assert_eq!(text, "one\ntwo\nthree\n".repeat(3), "{ending}");
            assert!(error.is_none(), "{ending}: {error:?}");
        }
    }
}

#[test]
fn delivered_events_are_readable_in_unclosed_file() {
    for (_, ending) in FORMATS {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file").with_extension(ending);
        let mut sink = open(&path, r#""mode": "write""#).unwrap();
        sink.deliver(&batch_of(&["one\n"])).unwrap();
        let (text, error) = read(&format!("in.{ending}"), &fs::read(&path).unwrap(), 100);
        assert_eq!((text.as_str(), error.is_none()), ("one\n", true), "{ending}");
    }
}

#[test]
fn file_without_events_is_a_valid_compressed_file() {
    for (_, ending) in FORMATS {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file").with_extension(ending);
        let mut sink = open(&path, r#""mode": "write""#).unwrap();
        sink.close_sink().unwrap();
        let bytes = fs::read(&path).unwrap();
        assert!(!bytes.is_empty(), "{ending}");
        for bytes in [&bytes[..], b""] {
            let (text, error) = read(&format!("in.{ending}"), bytes, 100);
            assert!(text.is_empty() && error.is_none(), "{ending}: {error:?}");
        }
    }
}

#[test]
fn truncated_file_yields_its_data_and_then_an_error() {
    for (format, ending) in FORMATS {
        let whole = member(format, "a first member\n");
        let bytes = [whole.clone(), member(format, "a second one\n")].concat();
        for length in [3, whole.len() - 1, whole.len() + 3, bytes.len() - 1] {
            let name = format!("in.{ending}");
            let (text, error) = read(&name, &bytes[..length], 4);
            assert!("a first member\na second one\n".starts_with(&text), "{ending}: {text}");
            assert!(length < whole.len() || text.starts_with("a first member\n"), "{ending}");
            let error = error.expect("an error");
            assert_eq!(error.kind(), ErrorKind::UNSUPPORTED, "the error is final");
            let error = error.to_string();
            for part in [
                &*name,
                "truncated",
                &format!("in the first {length} bytes of the file"),
                "the file was cut",
            ] {
                assert!(error.contains(part), "{ending}, {length}: {error}");
            }
        }
    }
}

#[test]
fn file_of_another_format_is_an_error() {
    for (format, ending) in FORMATS {
        let name = format!("in.{ending}");
        let (text, error) = read(&name, b"{\"this\": \"is not compressed data\"}\n", 100);
        assert_eq!(text, "", "{ending}");
        let error = error.expect("an error").to_string();
        assert!(error.contains(&format!("corrupt {} data", format.name())), "{error}");
    }
}

#[test]
fn flipped_bit_is_an_error() {
    for (format, ending) in FORMATS {
        let text = "some text that is longer than its header\n".repeat(100);
        let mut bytes = member(format, text);
        let middle = bytes.len() / 2;
        bytes[middle] ^= 1;
        let (_, error) = read(&format!("in.{ending}"), &bytes, 1_000);
        assert!(error.is_some(), "{ending}");
    }
}

#[test]
fn decompression_bomb_is_read_in_bounded_memory() {
    for (format, ending) in FORMATS {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("bomb").with_extension(ending);
        let zeros = vec![0; 16 << 20];
        fs::write(&path, member(format, &zeros)).unwrap();
        let mut source = open(&path, r#""mode": "read", "chunk_bytes": 65536"#).unwrap();
        let mut length = 0;
        loop {
            let (pull, batch) = source.pull().unwrap();
            let read: usize = batch.iter().filter_map(EventRef::raw).map(<[u8]>::len).sum();
            assert!(read <= 65_536, "{ending}");
            length += read;
            if pull == tremor_pdk::Pull::Finished {
                break;
            }
        }
        assert_eq!(length, zeros.len(), "{ending}");
    }
}

#[test]
fn window_above_64_mib_is_rejected() {
    for (log, is_read) in [(26, true), (27, false)] {
        let mut encoder = zstd::Encoder::new(Vec::new(), 1).unwrap();
        encoder.window_log(log).unwrap();
        io::Write::write_all(&mut encoder, b"text").unwrap();
        // Flush before the end, so that the header has no content size and the window stays as set.
        io::Write::flush(&mut encoder).unwrap();
        let (text, error) = read("in.zst", &encoder.finish().unwrap(), 100);
        assert_eq!(text == "text", is_read, "{log}: {error:?}");
        let error = error.map(|error| error.to_string()).unwrap_or_default();
        assert_eq!(error.contains("requires too much memory"), !is_read, "{error}");
    }
}

#[test]
fn position_counts_compressed_bytes() {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    let bytes = member(Format::Gzip, "text");
    io::Write::write_all(&mut file, &bytes).unwrap();
    let file = File::open(file.path()).unwrap();
    let mut input = Input::new(file.into(), Some(Format::Gzip));
    let mut text = String::new();
    input.read_to_string(&mut text).unwrap();
    assert_eq!((text.as_str(), input.position()), ("text", bytes.len() as u64));
}
