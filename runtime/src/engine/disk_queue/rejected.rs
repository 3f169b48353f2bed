//! Events that the sink of a queue refuses permanently, and for which its port `err` is not linked: they are kept in
//! files of JSON lines beside the queue.

use std::{
    collections::HashSet,
    fs::{self, DirBuilder, File, OpenOptions},
    io::{self, BufRead, BufReader, Write},
    ops::Range,
    os::unix::fs::{DirBuilderExt, OpenOptionsExt},
    path::{Path, PathBuf},
};

use tremor_abi::{batch::HostBatch, document::ValueRef};
use tremor_pdk::{Batch, Error, ErrorPolicy, Result};

use super::record::RecordReader;
use crate::codec::{Bytes, json};
use crate::flow::Disk;

/// Extension of the files.
const EXTENSION: &str = "jsonl";

/// Maximum bytes of a line up to the time of the event: three numbers, and the keys.
const HEAD: usize = 100;

/// Least limit of all files, in bytes.
const LEAST_BYTES: u64 = 1 << 20;

/// Part of the limit of all files that a file has, unless a single write is larger. A run usually reads one or two files
/// before it writes.
const FILE_PART: u64 = 64;

/// Writes events to files. Each run begins a file, and so does the first write after a failed sync, because no later
/// sync of the same file proves anything.
///
/// The name of a file has two numbers: that of the file, and the highest number of a record in earlier files. A run that
/// looks for records after a number therefore ends at the file whose earlier files do not contain any.
pub(super) struct RejectedFiles {
    folder: PathBuf,
    /// Maximum bytes of all files.
    limit: u64,
    /// The current file, and its durable length in bytes.
    file: Option<(File, u64)>,
    /// The number up to which all records were settled when the queue was opened.
    settled: u64,
    /// Upper bound of the numbers of the records in all files.
    highest: u64,
    /// Events of later records in the files of earlier runs: a run may have been killed after it kept them, and before it
    /// was durable that their records are settled. `None` until the files were read.
    kept: Option<HashSet<Kept>>,
}

/// The number of a record, the position of an event in it, and the time when the event was read, in ns. If a person empties
/// a queue, its numbers begin again, and the time differs.
type Kept = (u64, usize, u64);

impl RejectedFiles {
    /// Creates the writer for a queue of at most `max_bytes` bytes in the folder `queue`, in which all records up to the
    /// number `settled` are settled. Creates no file.
    pub(super) fn new(queue: &Path, max_bytes: u64, settled: u64) -> Self {
        let limit = (max_bytes / 8).max(LEAST_BYTES);
        let folder = queue.join(Disk::REJECTED);
        Self { folder, limit, file: None, settled, highest: settled, kept: None }
    }

    /// Appends the events of a record at these positions, except those that an earlier run has appended, and makes them
    /// durable. Blocks the thread.
    ///
    /// # Errors
    /// Returns an error if the record cannot be read, the disk fails, or the files have reached their limit. The caller
    /// may try again.
    pub(super) fn keep(
        &mut self,
        number: u64,
        record: &[u8],
        positions: &[Range<usize>],
    ) -> Result<()> {
        if self.kept.is_none() {
            let kept = read(&self.folder, self.settled);
            let kept = kept.map_err(|error| failed(&self.folder, &error))?;
            let highest = kept.iter().map(|(number, ..)| *number).max();
            self.highest = self.highest.max(highest.unwrap_or(0));
            self.kept = Some(kept);
        }
        let batch = RecordReader::default().read(number, record)?.batch;
        let is_new = |at: &usize| {
            let event = batch.events().get(*at).map(|event| (number, *at, event.ingest_ns));
            event.zip(self.kept.as_ref()).is_none_or(|(event, kept)| !kept.contains(&event))
        };
        let positions: Vec<_> = positions.iter().cloned().flatten().filter(is_new).collect();
        if positions.is_empty() {
            return Ok(());
        }
        let lines = lines(number, &batch, &positions);
        let path = self.folder.display();
        let used = used(&self.folder).map_err(|error| failed(&self.folder, &error))?;
        if used + lines.len() as u64 > self.limit {
            return Err(Error::full(format_args!(
                "cannot keep events that the sink refuses: {path} has {used} bytes, and its limit is {}; move its files \
                 away, or link the port `err` of the sink",
                self.limit
            )));
        }
        self.append(number, &lines).map_err(|error| failed(&self.folder, &error))
    }

    /// Appends lines of the record `number`.
    fn append(&mut self, number: u64, lines: &[u8]) -> io::Result<()> {
        let is_full = |(_, len): &(File, u64)| *len >= self.limit / FILE_PART;
        if self.file.as_ref().is_none_or(is_full) {
            self.file = Some((create(&self.folder, self.highest)?, 0));
        }
        self.highest = self.highest.max(number);
        let Some((file, len)) = &mut self.file else { return Ok(()) };
        if let Err(error) = file.write_all(lines) {
            // Otherwise the next line would follow a part of this one. If this fails, the next write begins a file.
            if file.set_len(*len).is_err() {
                self.file = None;
            }
            return Err(error);
        }
        let synced = file.sync_data();
        if synced.is_err() {
            // The lines are written again, to another file. If this fails too, they are there twice.
            let _ = file.set_len(*len);
            self.file = None;
        } else {
            *len += lines.len() as u64;
        }
        synced
    }
}

fn failed(folder: &Path, error: &io::Error) -> Error {
    let folder = folder.display();
    Error::internal(format_args!(
        "cannot keep events that the sink refuses in {folder}: {error}; check the disk, its free space and the \
         permissions"
    ))
    .with_policy(ErrorPolicy::RETRY)
}

/// Name of a file.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct FileName {
    /// Number of the file; 0 if the name has none, because nobody but a person has created it.
    number: u64,
    /// Upper bound of the numbers of the records in earlier files; `None` if the name has none.
    earlier: Option<u64>,
}

impl FileName {
    fn of(path: &Path) -> Self {
        let stem = path.file_stem().and_then(|it| it.to_str()).unwrap_or_default();
        let (number, earlier) = stem.split_once('-').unwrap_or((stem, ""));
        Self { number: number.parse().unwrap_or(0), earlier: earlier.parse().ok() }
    }
}

/// Returns the events of records after the number `settled`, and makes them durable. Reads the newest file first, and
/// ends with the file before which there are none.
fn read(folder: &Path, settled: u64) -> io::Result<HashSet<Kept>> {
    let mut kept = HashSet::new();
    let entries = match fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(kept),
        entries => entries?,
    };
    let mut files = Vec::new();
    for entry in entries {
        let path = entry?.path();
        if path.extension().is_some_and(|it| it == EXTENSION) {
            files.push((FileName::of(&path), path));
        }
    }
    files.sort();
    for (name, path) in files.into_iter().rev() {
        let mut file = BufReader::new(OpenOptions::new().read(true).append(true).open(path)?);
        let (known, mut line) = (kept.len(), Vec::new());
        while file.read_until(b'\n', &mut line)? > 0 {
            // A line without an end was being written when the process was killed.
            let event = line.strip_suffix(b"\n").and_then(parse);
            kept.extend(event.filter(|(number, ..)| *number > settled));
            line.clear();
        }
        if kept.len() > known {
            file.get_ref().sync_data()?;
        }
        if name.earlier.is_some_and(|earlier| earlier <= settled) {
            break;
        }
    }
    Ok(kept)
}

/// Returns the event of a line, from the beginning of the line.
fn parse(line: &[u8]) -> Option<Kept> {
    let head = std::str::from_utf8(&line[..line.len().min(HEAD)]);
    // The limit may divide a character of the event.
    let head = head.or_else(|error| std::str::from_utf8(&line[..error.valid_up_to()])).ok()?;
    let (number, rest) = head.strip_prefix("{\"record\":")?.split_once(',')?;
    let (position, rest) = rest.strip_prefix("\"position\":")?.split_once(',')?;
    let (ingest_ns, _) = rest.strip_prefix("\"ingest_ns\":")?.split_once(',')?;
    Some((number.parse().ok()?, position.parse().ok()?, ingest_ns.parse().ok()?))
}

/// Returns the bytes of all files.
fn used(folder: &Path) -> io::Result<u64> {
    let mut used = 0;
    match fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(0),
        Err(error) => return Err(error),
        Ok(entries) => {
            for entry in entries {
                used += entry?.metadata()?.len();
            }
        }
    }
    Ok(used)
}

/// Creates the next file, and the folder if it is missing, and makes their entries durable. `earlier` is an upper bound of
/// the numbers of the records in all files.
fn create(folder: &Path, earlier: u64) -> io::Result<File> {
    if !folder.try_exists()? {
        DirBuilder::new().mode(0o700).create(folder)?;
    }
    let parent = folder.parent().unwrap_or(Path::new("."));
    File::open(parent)?.sync_all()?;
    let mut last = 0;
    for entry in fs::read_dir(folder)? {
        last = last.max(FileName::of(&entry?.path()).number);
    }
    let path = folder.join(format!("{:010}-{earlier}.{EXTENSION}", last.saturating_add(1)));
    let file = OpenOptions::new().append(true).create_new(true).mode(0o600).open(path)?;
    File::open(folder)?.sync_all()?;
    Ok(file)
}

/// Returns a line for each event: an object with the number of the record, the position of the event in it, the time when
/// the event was read, the event, and its metadata if it has any.
fn lines(number: u64, batch: &Batch, positions: &[usize]) -> Vec<u8> {
    let (mut encoder, mut lines) = (json::Encoder::default(), Vec::new());
    for position in positions {
        let Some(event) = batch.events().get(*position) else { continue };
        let head = format!(
            "{{\"record\":{number},\"position\":{position},\"ingest_ns\":{},\"event\":",
            event.ingest_ns
        );
        lines.extend_from_slice(head.as_bytes());
        write(&mut encoder, batch.value(event), batch.original(event), &mut lines);
        if let Some(metadata) = batch.metadata(event) {
            lines.extend_from_slice(b",\"metadata\":");
            write(&mut encoder, Some(metadata), b"", &mut lines);
        }
        lines.extend_from_slice(b"}\n");
    }
    lines
}

/// Writes a value as JSON. If JSON cannot represent the value, writes the original message as a text.
fn write(
    encoder: &mut json::Encoder,
    value: Option<ValueRef<'_>>,
    original: &[u8],
    lines: &mut Vec<u8>,
) {
    let mut text = Bytes::new();
    if value.is_some_and(|value| encoder.value(value, &mut text).is_ok()) {
        lines.extend_from_slice(&text);
    } else {
        let text = serde_json::Value::from(String::from_utf8_lossy(original));
        lines.extend_from_slice(text.to_string().as_bytes());
    }
}

#[cfg(test)]
mod tests {
    use std::{
        fs,
        path::{Path, PathBuf},
        slice,
    };

    use tremor_pdk::Batch;

    use super::{super::record::RecordWriter, FILE_PART, LEAST_BYTES, RejectedFiles};
    use crate::{components, flow::Disk};

    /// Returns a record with an event for each message.
    fn record(messages: &[&str]) -> Vec<u8> {
        record_at(0, messages)
    }

    /// Returns a record with an event for each message, which was read at this time, in ns.
    fn record_at(ingest_ns: u64, messages: &[&str]) -> Vec<u8> {
        let codec = components::codec("json", &serde_json::Value::Null).unwrap();
        let mut batch = Batch::new();
        for message in messages {
            batch.push_message(message.as_bytes());
            batch.last_mut().unwrap().set_ingest_ns(ingest_ns);
        }
        assert!(codec.decoder().decode_batch(&mut batch).rejected.is_empty());
        let mut written = RecordWriter::new(1 << 20, 7).write(&mut batch);
        written.records.pop_front().unwrap().bytes
    }

    /// Returns the files in their order.
    fn files(queue: &Path) -> Vec<PathBuf> {
        let entries = fs::read_dir(queue.join(Disk::REJECTED)).unwrap();
        let mut files: Vec<_> = entries.map(|it| it.unwrap().path()).collect();
        files.sort();
        files
    }

    fn kept(queue: &Path, file: usize) -> String {
        fs::read_to_string(&files(queue)[file - 1]).unwrap()
    }

    #[test]
    fn refused_events_of_a_record_are_lines_of_json() {
        let queue = tempfile::tempdir().unwrap();
        let record = record(&["1", r#"{ "a": "b" }"#, "3"]);
        for run in 1..3 {
            let mut writer = RejectedFiles::new(queue.path(), 1 << 20, 6);
            writer.keep(5, &record, &[0..1, 1..2]).unwrap();
            writer.keep(6, &record, slice::from_ref(&(2..3))).unwrap();
            let expected = "{\"record\":5,\"position\":0,\"ingest_ns\":0,\"event\":1}\n\
                            {\"record\":5,\"position\":1,\"ingest_ns\":0,\"event\":{\"a\":\"b\"}}\n\
                            {\"record\":6,\"position\":2,\"ingest_ns\":0,\"event\":3}\n";
            assert_eq!(kept(queue.path(), run), expected);
        }
    }

    /// The first run was killed before it was durable that the record is settled, and while it wrote another line.
    #[test]
    fn events_that_an_earlier_run_has_kept_are_not_kept_again() {
        let queue = tempfile::tempdir().unwrap();
        let record = record(&["1", "2", "3"]);
        let mut writer = RejectedFiles::new(queue.path(), 1 << 20, 4);
        writer.keep(5, &record, slice::from_ref(&(0..2))).unwrap();
        let path = files(queue.path()).remove(0);
        let whole = kept(queue.path(), 1);
        fs::write(&path, &whole[..whole.len() - 1]).unwrap();
        let mut writer = RejectedFiles::new(queue.path(), 1 << 20, 4);
        writer.keep(5, &record, slice::from_ref(&(0..1))).unwrap();
        assert_eq!(files(queue.path()).len(), 1);
        writer.keep(5, &record, slice::from_ref(&(0..3))).unwrap();
        let lines: Vec<_> = kept(queue.path(), 2).lines().map(str::to_owned).collect();
        assert_eq!(lines.len(), 2);
        assert!(lines[0].ends_with("\"event\":2}") && lines[1].ends_with("\"event\":3}"));
    }

    #[test]
    fn files_of_a_queue_that_was_emptied_do_not_count() {
        let queue = tempfile::tempdir().unwrap();
        for ingest_ns in [u64::MAX - 1, u64::MAX] {
            for _ in 0..2 {
                let mut writer = RejectedFiles::new(queue.path(), 1 << 20, 0);
                writer.keep(1, &record_at(ingest_ns, &["1"]), slice::from_ref(&(0..1))).unwrap();
            }
        }
        assert_eq!(files(queue.path()).len(), 2, "each event is kept once");
    }

    #[test]
    fn files_do_not_exceed_their_limit() {
        let queue = tempfile::tempdir().unwrap();
        let mut writer = RejectedFiles::new(queue.path(), 1 << 20, 0);
        let record = record(&[&format!("\"{}\"", "x".repeat(300_000))]);
        for number in 1..4 {
            writer.keep(number, &record, slice::from_ref(&(0..1))).unwrap();
        }
        let error = writer.keep(4, &record, slice::from_ref(&(0..1))).unwrap_err().to_string();
        assert!(error.contains("and its limit is 1048576"), "{error}");
        let bytes = |file: &PathBuf| fs::metadata(file).unwrap().len();
        assert!(files(queue.path()).iter().map(bytes).sum::<u64>() < LEAST_BYTES);
        files(queue.path()).iter().for_each(|file| fs::remove_file(file).unwrap());
        writer.keep(4, &record, slice::from_ref(&(0..1))).unwrap();
    }

    #[test]
    fn run_reads_no_file_whose_records_are_settled() {
        let queue = tempfile::tempdir().unwrap();
        let record = record(&["1", "2"]);
        let keep = |settled, number, expected: usize| {
            let mut writer = RejectedFiles::new(queue.path(), 1 << 20, settled);
            writer.keep(number, &record, slice::from_ref(&(0..1))).unwrap();
            assert_eq!(files(queue.path()).len(), expected, "{number}");
        };
        keep(4, 5, 1);
        keep(4, 6, 2);
        // A folder cannot be read.
        let first = files(queue.path()).remove(0);
        fs::remove_file(&first).unwrap();
        fs::create_dir(&first).unwrap();
        keep(5, 6, 2);
        keep(5, 8, 3);
        // Refused later than the one after it.
        keep(5, 7, 4);
        for number in [8, 7, 6] {
            keep(5, number, 4);
        }
        let mut writer = RejectedFiles::new(queue.path(), 1 << 20, 4);
        writer.keep(9, &record, slice::from_ref(&(0..1))).unwrap_err();
    }

    #[test]
    fn file_has_a_part_of_the_limit() {
        let queue = tempfile::tempdir().unwrap();
        let mut writer = RejectedFiles::new(queue.path(), 1 << 20, 0);
        let record = record(&[&format!("\"{}\"", "x".repeat(1_000))]);
        (1..=100)
            .for_each(|number| writer.keep(number, &record, slice::from_ref(&(0..1))).unwrap());
        let bytes: Vec<_> =
            files(queue.path()).iter().map(|it| fs::metadata(it).unwrap().len()).collect();
        assert!(bytes.len() > 5 && bytes.iter().all(|it| *it < LEAST_BYTES / FILE_PART + 1_100));
        let last = files(queue.path()).pop().unwrap();
        let lines = fs::read_to_string(&last).unwrap();
        let first: u64 = lines.split([':', ',']).nth(1).unwrap().parse().unwrap();
        assert!(last.to_str().unwrap().ends_with(&format!("-{}.jsonl", first - 1)), "{last:?}");
    }
}
