//! The source: the file as one stream of fragments.

use std::{
    fs::File,
    io::{self, Read},
    mem,
    sync::Arc,
};

use tremor_pdk::{Blocking, prelude::*};

use crate::Config;

/// Reads a file a chunk at a time. While the flow works on one chunk, the next is being read.
pub struct Reader {
    host: Host,
    path: String,
    chunk_bytes: usize,
    file: Arc<File>,
    progress: Progress,
    /// The chunk that is being read, in the batch that it is to be delivered in. It stays here
    /// when a pull is given up, so that nothing is lost.
    reading: Option<Blocking<(Batch, io::Result<usize>)>>,
    finished: bool,
}

/// What is known of the file's length, in bytes.
#[derive(Clone, Copy)]
struct Progress {
    /// How much has been read.
    read: u64,
    /// How long the file was at first. Zero for what has no length, such as a pipe.
    expected: u64,
}

impl Reader {
    pub(crate) fn new(config: &Config, file: Arc<File>, host: Host) -> Result<Self> {
        let expected = file.metadata()?.len();
        Ok(Self {
            host,
            path: config.path.to_string_lossy().into_owned(),
            chunk_bytes: config.chunk_bytes as usize,
            file,
            progress: Progress { read: 0, expected },
            reading: None,
            finished: false,
        })
    }

    fn read_into(&self, mut batch: Batch) -> Blocking<(Batch, io::Result<usize>)> {
        let (file, space, progress) = (self.file.clone(), self.chunk_bytes, self.progress);
        self.host.blocking(move || {
            let result = read_chunk(&file, &mut batch, space, progress);
            (batch, result)
        })
    }
}

impl Source for Reader {
    async fn pull(&mut self, batch: &mut Batch) -> Result<Pull> {
        if self.finished {
            return Ok(Pull::Finished);
        }
        let reading = match self.reading.take() {
            Some(reading) => reading,
            None => self.read_into(mem::take(batch)),
        };
        let (mut chunk, result) = self.reading.insert(reading).await?;
        self.reading = None;
        // Trying again would read the file from its start once more, and double what has been
        // delivered by now: so this kind, which is final.
        let count = result
            .map_err(|error| Error::unsupported(format!("cannot read `{}`: {error}", self.path)))?;
        if count == 0 {
            self.finished = true;
            return Ok(Pull::Finished);
        }
        self.progress.read += count as u64;
        chunk.set_origin(0, &self.path);
        chunk.set_limit(batch.limit());
        mem::swap(batch, &mut chunk);
        self.reading = Some(self.read_into(chunk));
        Ok(Pull::Events)
    }
}

/// Reads the next chunk into the batch's own buffer. Zero bytes are the end of the file.
fn read_chunk(
    mut file: &File,
    batch: &mut Batch,
    space: usize,
    progress: Progress,
) -> io::Result<usize> {
    loop {
        match batch.read_fragment(0, space, |buffer| file.read(buffer)) {
            Ok(0) => return check_end(file, progress).map(|()| 0),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            result => return result,
        }
    }
}

/// An end that comes too early is a file that somebody has cut, not one that has been read.
fn check_end(file: &File, progress: Progress) -> io::Result<()> {
    let length = file.metadata()?.len();
    if progress.expected > 0 && length < progress.expected.max(progress.read) {
        return Err(io::Error::other(format!(
            "it was cut to {length} bytes while it was read; {} of {} bytes had been read by then",
            progress.read, progress.expected
        )));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::{fs, io::Write, path::Path};

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
            let fragments = batch.events().iter().map(|event| {
                assert!(event.is_fragment() && event.stream == 0);
                batch.raw(event).unwrap().to_vec()
            });
            fragments.collect::<Vec<_>>().concat()
        };
        batches.iter().flat_map(raw).collect()
    }

    #[test]
    fn a_file_is_one_stream_of_fragments_that_know_where_they_come_from() {
        let file = tempfile::NamedTempFile::new().unwrap();
        fs::write(file.path(), "one\ntwo\nthree\n").unwrap();
        let mut source = open(&TestHost::new(), file.path(), 5).unwrap();
        let batches = source.pull_all().unwrap();
        assert_eq!(batches.len(), 3);
        assert_eq!(content(&batches), b"one\ntwo\nthree\n");
        let first = &batches[0];
        assert_eq!(first.origin(&first.events()[0]), file.path().to_str());
        assert_eq!(source.pull().unwrap().0, Pull::Finished, "and stays so");
    }

    #[test]
    fn a_relative_path_starts_at_the_folder_of_the_flow() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("in"), "bytes").unwrap();
        let host = TestHost::new();
        host.set_folder(folder.path());
        let mut source = open(&host, Path::new("in"), 5).unwrap();
        assert_eq!(content(&source.pull_all().unwrap()), b"bytes");
    }

    #[test]
    fn an_empty_file_has_no_events() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let mut source = open(&TestHost::new(), file.path(), 5).unwrap();
        assert!(source.pull_all().unwrap().is_empty());
    }

    #[test]
    fn nothing_is_lost_or_doubled_when_pulls_are_given_up() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let bytes: Vec<u8> = (0..=255).collect();
        fs::write(file.path(), &bytes).unwrap();
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
    fn a_file_that_is_removed_is_read_to_its_end() {
        let file = tempfile::NamedTempFile::new().unwrap();
        fs::write(file.path(), "still here").unwrap();
        let mut source = open(&TestHost::new(), file.path(), 4).unwrap();
        file.close().unwrap();
        assert_eq!(content(&source.pull_all().unwrap()), b"still here");
    }

    #[test]
    fn a_file_that_grows_is_read_to_its_new_end() {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(b"some").unwrap();
        let mut source = open(&TestHost::new(), file.path(), 4).unwrap();
        file.write_all(b" more").unwrap();
        assert_eq!(content(&source.pull_all().unwrap()), b"some more");
    }

    #[test]
    fn a_file_that_is_cut_while_it_is_read_is_an_error() {
        let file = tempfile::NamedTempFile::new().unwrap();
        fs::write(file.path(), "some bytes").unwrap();
        let mut source = open(&TestHost::new(), file.path(), 4).unwrap();
        assert_eq!(content(&[source.pull().unwrap().1]), b"some");
        file.as_file().set_len(2).unwrap();
        let error = source.pull_all().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::UNSUPPORTED, "final: no second try");
        let message = error.to_string();
        assert!(message.contains(file.path().to_str().unwrap()), "{message}");
        assert!(message.contains("cut to 2 bytes"), "{message}");
    }

    #[test]
    fn what_has_no_length_is_read_as_well() {
        let mut source = open(&TestHost::new(), Path::new("/proc/self/status"), 64).unwrap();
        assert!(content(&source.pull_all().unwrap()).starts_with(b"Name:"));
    }
}
