//! The source for one file, read once from start to end as one stream of fragments.

use std::{
    fs::File,
    io::{self, Read},
    mem,
    os::unix::fs::FileTypeExt,
    path::{self, Path, PathBuf},
    sync::Arc,
};

use tremor_pdk::{Blocking, Origin, prelude::*};

use crate::{Config, compression::Input, offset::Offsets, origin};

/// Number of chunks that blocking tasks read after a chunk that was not in memory. A slow disk is
/// thus read ahead of the flow, and a file that is in memory is soon read without other threads.
const READS_AHEAD: u32 = 16;

/// Reads a file in chunks, on the thread of the task while they are in the page cache. Otherwise a
/// blocking task reads the next chunk while the flow processes one, because moving a read to another
/// thread takes longer than the copy from the cache.
pub struct Reader {
    host: Host,
    /// Absolute path of the file.
    path: PathBuf,
    origin: Origin,
    /// Offsets of messages; `None` unless events have the metadata `%file.offset`, or while a chunk
    /// is being read.
    offsets: Option<Offsets>,
    chunk_bytes: usize,
    file: Arc<File>,
    /// Length of the file when it was opened, in bytes; 0 for a pipe or another file without a
    /// length.
    expected: u64,
    /// Reader of the file; `None` while a chunk is being read.
    input: Option<Input>,
    /// The chunk that is being read. If a pull is cancelled, the chunk stays here, so that no data
    /// is lost.
    reading: Option<Blocking<Chunk>>,
    /// `true` if the next read has to wait until the pipe has data or has lost its last writer, so
    /// that no thread blocks on the pipe.
    waits: bool,
    /// Number of chunks that are still to be read by blocking tasks, without a look into the cache.
    reads_ahead: u32,
    finished: bool,
}

/// Result of one read: a batch, and the number of bytes that were read into the batch.
struct Chunk {
    batch: RawBatch,
    input: Input,
    offsets: Option<Offsets>,
    result: io::Result<usize>,
}

impl Reader {
    pub(crate) fn new(config: &Config, file: Arc<File>, host: Host) -> Result<Self> {
        let metadata = file.metadata()?;
        let (expected, waits) = (metadata.len(), metadata.file_type().is_fifo());
        let format = config.compression.of(&config.path);
        let path = path::absolute(&config.path)?;
        if expected > 0 && format.is_none() {
            // `tremor run` shows the progress relative to this gauge.
            host.gauge("input_bytes", "Size of the file when it was opened.").set_integer(expected);
        }
        Ok(Self {
            host,
            origin: origin::of(&path),
            path,
            offsets: config.offset.then(|| Offsets::new(config.message_end.as_bytes())),
            chunk_bytes: config.chunk_bytes.get(),
            input: Some(Input::new(file.clone(), format)),
            file,
            expected,
            reading: None,
            waits,
            reads_ahead: 0,
            finished: false,
        })
    }

    fn read_into(&mut self, mut batch: RawBatch, mut input: Input) -> Blocking<Chunk> {
        let (file, space, expected) = (self.file.clone(), self.chunk_bytes, self.expected);
        let (path, origin) = (self.path.clone(), self.origin.clone());
        let mut offsets = self.offsets.take();
        self.host.blocking(move || {
            let result = read_chunk(&mut input, &mut batch, space).and_then(|count| {
                if count == 0 { check_end(&file, &input, expected) } else { Ok(count) }
            });
            // The end has the offset of the last message, which may have no terminator.
            if let (Ok(0), Some(_)) = (&result, &offsets) {
                batch.stream(0).end();
            }
            let count = *result.as_ref().unwrap_or(&0);
            describe(&mut batch, count, &mut offsets, &path, &origin);
            Chunk { batch, input, offsets, result }
        })
    }

    /// Reads the next chunk into `batch` if it is in memory, and returns whether it was. Does not block.
    fn read_cached(&mut self, batch: &mut RawBatch) -> bool {
        let Some(input) = self.input.as_mut().filter(|_| self.reading.is_none()) else {
            return false;
        };
        if self.waits || self.reads_ahead > 0 {
            return false;
        }
        let read = |buffer: &mut [u8]| input.read_cached(buffer).ok_or(());
        let Ok(count) = batch.stream(0).read_fragment(self.chunk_bytes, read) else {
            self.reads_ahead = READS_AHEAD;
            return false;
        };
        describe(batch, count, &mut self.offsets, &self.path, &self.origin);
        true
    }
}

/// Adds the origin of the `count` bytes that were read into `batch`, with their offsets if events
/// have these.
fn describe(
    batch: &mut RawBatch,
    count: usize,
    offsets: &mut Option<Offsets>,
    path: &Path,
    origin: &Origin,
) {
    match offsets {
        Some(offsets) => {
            let end = offsets.next() + count as u64;
            offsets.divide(batch, end, path);
        }
        None => batch.apply_origin(0, origin),
    }
}

impl Source for Reader {
    type Batch = RawBatch;

    async fn pull(&mut self, batch: &mut RawBatch) -> Result<Pull> {
        if self.finished {
            return Ok(Pull::Finished);
        }
        if self.read_cached(batch) {
            return Ok(Pull::Events);
        }
        if self.waits && self.reading.is_none() {
            self.host.readable(&*self.file).await?;
        }
        let reading = match (self.reading.take(), self.input.take()) {
            (Some(reading), _) => reading,
            (None, Some(input)) => self.read_into(mem::take(batch), input),
            (None, None) => {
                return Err(Error::unsupported(format!(
                    "cannot read `{}`: an earlier read failed",
                    self.path.display()
                )));
            }
        };
        let Chunk { batch: mut chunk, input, offsets, result } =
            self.reading.insert(reading).await?;
        self.reading = None;
        // The error is final, because a retry would read the file from its start and duplicate the
        // events that were delivered.
        let count = result.map_err(|error| {
            Error::unsupported(format!("cannot read `{}`: {error}", self.path.display()))
        })?;
        self.offsets = offsets;
        batch.exchange(&mut chunk);
        if count == 0 {
            self.finished = true;
            return Ok(if batch.is_empty() { Pull::Finished } else { Pull::Events });
        }
        // A decompressor may still buffer bytes that it read from the pipe earlier.
        self.waits &= !input.is_compressed();
        self.reads_ahead = self.reads_ahead.saturating_sub(1);
        if self.waits || self.reads_ahead == 0 {
            self.input = Some(input);
        } else {
            self.reading = Some(self.read_into(chunk, input));
        }
        Ok(Pull::Events)
    }
}

/// Reads the next chunk into the buffer of `batch`. Returns 0 at the end of the file.
fn read_chunk(input: &mut Input, batch: &mut RawBatch, space: usize) -> io::Result<usize> {
    loop {
        match batch.stream(0).read_fragment(space, |buffer| input.read(buffer)) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            result => return result,
        }
    }
}

/// Returns an error if the end was reached before the expected length, because another process has
/// truncated the file.
fn check_end(file: &File, input: &Input, expected: u64) -> io::Result<usize> {
    let (length, read) = (file.metadata()?.len(), input.position());
    if expected > 0 && length < expected.max(read) {
        return Err(io::Error::other(format!(
            "the file was cut to {length} bytes while it was read, after {read} of {expected} bytes had been \
             read"
        )));
    }
    Ok(0)
}

#[cfg(test)]
mod tests {
    use std::{fs, io::Write, path::Path};

    use flate2::{Compression, write::GzEncoder};
    use rustix::fs::{Advice, fadvise};
    use tremor_pdk::{
        Batch, ErrorKind, Pull, Result,
        testing::{Connection, TestHost},
    };

    use crate::FileConnector;

    fn open(host: &TestHost, path: &Path, chunk_bytes: usize) -> Result<Connection> {
        let path = path.display();
        host.connect::<FileConnector>(&format!(
            r#"{{ "path": "{path}", "mode": "read", "chunk_bytes": {chunk_bytes} }}"#
        ))
    }

    fn content(batches: &[Batch]) -> Vec<u8> {
        let raw = |batch: &Batch| {
            let fragments = batch.iter().map(|event| {
                assert!(event.is_fragment() && event.stream().number() == 0);
                event.raw().unwrap().to_vec()
            });
            fragments.collect::<Vec<_>>().concat()
        };
        batches.iter().flat_map(raw).collect()
    }

    #[test]
    fn file_is_one_stream_of_fragments_with_their_origin() {
        let file = tempfile::NamedTempFile::new().unwrap();
        fs::write(file.path(), "one\ntwo\nthree\n").unwrap();
        let mut source = open(&TestHost::new(), file.path(), 5).unwrap();
        let batches = source.pull_all().unwrap();
        assert_eq!(batches.len(), 3);
        assert_eq!(content(&batches), b"one\ntwo\nthree\n");
        let first = &batches[0];
        assert_eq!(first.first().unwrap().origin(), file.path().to_str());
        assert_eq!(source.pull().unwrap().0, Pull::Finished, "a later pull is finished as well");
    }

    #[test]
    fn relative_path_is_resolved_against_folder_of_flow() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("in"), "bytes").unwrap();
        let host = TestHost::new();
        host.set_folder(folder.path());
        let mut source = open(&host, Path::new("in"), 5).unwrap();
        assert_eq!(content(&source.pull_all().unwrap()), b"bytes");
    }

    #[test]
    fn empty_file_has_no_events() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let mut source = open(&TestHost::new(), file.path(), 5).unwrap();
        assert!(source.pull_all().unwrap().is_empty());
    }

    #[test]
    fn cancelled_pulls_lose_and_duplicate_nothing() {
        // A compressed file is always read by blocking tasks.
        let file = tempfile::Builder::new().suffix(".gz").tempfile().unwrap();
        let bytes: Vec<u8> = (0..=255).collect();
        let mut encoder = GzEncoder::new(&file, Compression::default());
        encoder.write_all(&bytes).unwrap();
        encoder.finish().unwrap();
        let mut source = open(&TestHost::new(), file.path(), 7).unwrap();
        let mut batches = Vec::new();
        loop {
            for _ in 0..2 {
                let (pull, batch) = source.pull_and_give_up().unwrap();
                assert!(pull.is_none() && batch.is_empty());
            }
            let (pull, batch) = source.pull().unwrap();
            batches.push(batch);
            if pull == Pull::Finished {
                break;
            }
        }
        assert_eq!(content(&batches), bytes);
    }

    #[test]
    fn file_that_has_to_come_from_the_disk_is_read_whole() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let bytes: Vec<u8> = (0..=255).cycle().take(200 << 10).collect();
        fs::write(file.path(), &bytes).unwrap();
        let mut source = open(&TestHost::new(), file.path(), 1 << 10).unwrap();
        // The source finds some chunks in the page cache, and reads others ahead on other threads.
        let mut batches = Vec::new();
        loop {
            file.as_file().sync_all().unwrap();
            fadvise(file.as_file(), 0, None, Advice::DontNeed).unwrap();
            let (pull, batch) = source.pull().unwrap();
            batches.push(batch);
            if pull == Pull::Finished {
                break;
            }
        }
        assert_eq!(content(&batches), bytes);
    }

    #[test]
    fn deleted_file_is_read_to_its_end() {
        let file = tempfile::NamedTempFile::new().unwrap();
        fs::write(file.path(), "still here").unwrap();
        let mut source = open(&TestHost::new(), file.path(), 4).unwrap();
        file.close().unwrap();
        assert_eq!(content(&source.pull_all().unwrap()), b"still here");
    }

    #[test]
    fn growing_file_is_read_to_its_new_end() {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(b"some").unwrap();
        let mut source = open(&TestHost::new(), file.path(), 4).unwrap();
        file.write_all(b" more").unwrap();
        assert_eq!(content(&source.pull_all().unwrap()), b"some more");
    }

    #[test]
    fn file_truncated_while_it_is_read_is_an_error() {
        let file = tempfile::NamedTempFile::new().unwrap();
        fs::write(file.path(), "some bytes").unwrap();
        let mut source = open(&TestHost::new(), file.path(), 4).unwrap();
        assert_eq!(content(&[source.pull().unwrap().1]), b"some");
        file.as_file().set_len(2).unwrap();
        let error = source.pull_all().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::UNSUPPORTED, "the error is final");
        let message = error.to_string();
        assert!(message.contains(file.path().to_str().unwrap()), "{message}");
        assert!(message.contains("cut to 2 bytes"), "{message}");
    }

    #[test]
    fn file_without_a_length_is_read() {
        let mut source = open(&TestHost::new(), Path::new("/proc/self/status"), 64).unwrap();
        assert!(content(&source.pull_all().unwrap()).starts_with(b"Name:"));
    }
}
