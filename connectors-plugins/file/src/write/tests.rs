use std::{
    fs::{self, OpenOptions},
    io::{self, Write},
    path::Path,
};

use tremor_pdk::{
    Batch, ErrorKind, Result, Signal, raw_runs,
    testing::{Connection, TestHost},
};

use super::{cut_off, whole_messages, write_batch, write_runs};
use crate::{FileConnector, compression::Format};

fn open(path: &Path, mode: &str) -> Result<Connection> {
    let config = format!(r#"{{ "path": "{}", "mode": "{mode}" }}"#, path.display());
    TestHost::new().connect::<FileConnector>(&config)
}

fn batch(messages: &[&str]) -> Batch {
    let mut batch = Batch::new();
    for message in messages {
        batch.push_message(message.as_bytes());
    }
    batch
}

#[test]
fn each_mode_treats_what_is_there_in_its_own_way() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("out");
    for (mode, expected) in [
        ("write", "one\n"),
        ("append", "one\none\n"),
        ("truncate", "one\n"),
        ("append", "one\none\n"),
    ] {
        let mut sink = open(&path, mode).unwrap();
        assert_eq!(sink.deliver(&batch(&["one\n"])), Ok(()));
        sink.stop().unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), expected, "{mode}");
    }
}

#[test]
fn batches_follow_each_other_without_what_was_filtered_out() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let mut sink = open(file.path(), "write").unwrap();
    sink.deliver(&batch(&["one,", "two,"])).unwrap();
    let mut thinned = batch(&["three,", "four,", "five"]);
    thinned.retain(|event| event.raw() != Some(b"four,"));
    sink.deliver(&thinned).unwrap();
    sink.deliver(&Batch::new()).unwrap();
    assert_eq!(fs::read_to_string(file.path()).unwrap(), "one,two,three,five");
}

#[test]
fn a_full_device_is_an_error_that_names_it() {
    let mut sink = open(Path::new("/dev/full"), "append").unwrap();
    let error = sink.deliver(&batch(&["one"])).unwrap_err().into_error();
    assert_eq!(error.kind(), ErrorKind::FULL);
    assert!(error.to_string().starts_with("cannot write `/dev/full`: "), "{error}");
}

#[test]
fn a_device_has_nothing_to_synchronise() {
    let mut sink = open(Path::new("/dev/null"), "truncate").unwrap();
    sink.deliver(&batch(&["one"])).unwrap();
    sink.signal(Signal::Drain).unwrap();
}

/// Takes so many bytes, three at a time, and is full then.
struct Disk {
    space: usize,
    content: Vec<u8>,
}

impl Write for Disk {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let count = bytes.len().min(3).min(self.space - self.content.len());
        if count == 0 {
            return Err(io::ErrorKind::StorageFull.into());
        }
        self.content.extend(&bytes[..count]);
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_write_goes_on_where_it_stopped_until_the_disk_is_full() {
    let mut thinned = batch(&["one\n", "gone", "three\n", "four\n"]);
    thinned.retain(|event| event.raw() != Some(b"gone"));
    let runs = raw_runs(&thinned);
    assert_eq!(runs.len(), 2);

    let mut disk = Disk { space: 100, content: Vec::new() };
    write_runs(&mut disk, thinned.bytes(), &runs).unwrap();
    assert_eq!(disk.content, b"one\nthree\nfour\n");

    let mut disk = Disk { space: 12, content: Vec::new() };
    let stopped = write_runs(&mut disk, thinned.bytes(), &runs).unwrap_err();
    assert_eq!(disk.content, b"one\nthree\nfo");
    assert_eq!(stopped.error.kind(), io::ErrorKind::StorageFull);
    assert_eq!(whole_messages(&thinned, stopped.written), (2, 2), "two messages and two bytes");
}

#[test]
fn of_a_compressed_batch_all_that_was_written_is_to_be_taken_off() {
    let whole = batch(&["one\n", "two\n"]);
    let mut disk = Disk { space: 7, content: Vec::new() };
    let format = Some(Format::Gzip);
    let stopped = write_batch(&mut disk, format, whole.bytes(), &raw_runs(&whole)).unwrap_err();
    assert_eq!((stopped.written, disk.content.len()), (7, 7));
    let mut sink = TestHost::new()
        .connect::<FileConnector>(
            r#"{ "path": "/dev/full", "mode": "append", "compression": "gzip" }"#,
        )
        .unwrap();
    assert_eq!(
        sink.deliver(&whole).unwrap_err().into_error().kind(),
        ErrorKind::FULL,
        "it is asked for again"
    );
}

#[test]
fn only_whole_messages_count() {
    let three = batch(&["ab", "", "cde"]);
    for (written, expected) in [(0, (0, 0)), (1, (0, 1)), (2, (2, 0)), (4, (2, 2)), (5, (3, 0))] {
        assert_eq!(whole_messages(&three, written), expected, "{written} bytes");
    }
}

#[test]
fn a_part_of_a_message_is_taken_off_again() {
    let folder = tempfile::tempdir().unwrap();
    for append in [false, true] {
        let path = folder.path().join(format!("append-{append}"));
        let mut options = OpenOptions::new();
        let mut file = options.write(true).append(append).create(true).open(&path).unwrap();
        file.write_all(b"whole\npar").unwrap();
        cut_off(&file, 3).unwrap();
        file.write_all(b"part\n").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "whole\npart\n");
    }
}

#[test]
fn what_somebody_else_has_written_is_left_alone() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let mut ours = OpenOptions::new().append(true).open(file.path()).unwrap();
    ours.write_all(b"par").unwrap();
    OpenOptions::new().append(true).open(file.path()).unwrap().write_all(b"theirs").unwrap();
    cut_off(&ours, 3).unwrap_err();
    assert_eq!(fs::read_to_string(file.path()).unwrap(), "partheirs");
}
