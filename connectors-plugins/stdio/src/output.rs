//! The sink: messages on standard output, one after the other.

use std::{
    fs::File,
    io::{self, IoSlice, Write},
    ops::Range,
    sync::Arc,
};

use tremor_pdk::{prelude::*, raw_runs};

use crate::descriptor::{Access, for_writing};

/// Writes messages to standard output, usually all messages of a batch with one system call.
pub struct Output {
    host: Host,
    file: Arc<File>,
    access: Access,
}

impl Output {
    pub(crate) fn new(host: Host, file: File) -> Self {
        let (file, access) = for_writing(file);
        Self { host, file: Arc::new(file), access }
    }

    /// Writes on this thread, and waits whenever the descriptor accepts no more bytes.
    async fn write_here(&self, bytes: &[u8], runs: &[Range<usize>]) -> Result<()> {
        let mut slices = slices(bytes, runs);
        let mut rest = &mut slices[..];
        while !rest.is_empty() {
            match write_some(&self.file, rest) {
                Ok(count) => IoSlice::advance_slices(&mut rest, count),
                Err(cause) if cause.kind() == io::ErrorKind::WouldBlock => {
                    self.host.writable(&*self.file).await?;
                }
                Err(cause) => return Err(error(cause)),
            }
        }
        Ok(())
    }

    async fn write_on_a_thread(&self, batch: &RawBatch, runs: Vec<Range<usize>>) -> Result<()> {
        // Shares the buffer with the writing thread instead of copying the events.
        let (file, buffers) = (self.file.clone(), batch.part(0..0));
        let write = move || {
            let mut slices = slices(buffers.bytes(), &runs);
            let mut rest = &mut slices[..];
            while !rest.is_empty() {
                let count = write_some(&file, rest)?;
                IoSlice::advance_slices(&mut rest, count);
            }
            Ok(())
        };
        self.host.blocking(write).await?.map_err(error)
    }
}

impl Sink for Output {
    type Batch = RawBatch;

    async fn deliver(&mut self, batch: &RawBatch) -> Delivery {
        let runs = raw_runs(batch);
        if self.access == Access::NonBlocking {
            self.write_here(batch.bytes(), &runs).await?;
        } else {
            self.write_on_a_thread(batch, runs).await?;
        }
        Ok(())
    }
}

fn slices<'b>(bytes: &'b [u8], runs: &[Range<usize>]) -> Vec<IoSlice<'b>> {
    runs.iter().map(|run| IoSlice::new(&bytes[run.clone()])).collect()
}

/// Writes once and returns the number of bytes; 0 if a signal interrupted the write.
fn write_some(mut file: &File, rest: &[IoSlice<'_>]) -> io::Result<usize> {
    match file.write_vectored(rest) {
        Ok(0) => Err(io::ErrorKind::WriteZero.into()),
        Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(0),
        result => result,
    }
}

/// Returns the error of a failed write. The error is final, because a partially written batch
/// cannot be written again.
#[allow(clippy::needless_pass_by_value)] // for `map_err`
pub(crate) fn error(cause: io::Error) -> Error {
    if cause.kind() == io::ErrorKind::BrokenPipe {
        return Error::unsupported(
            "cannot write standard output: it is closed, or its reader has closed it",
        );
    }
    Error::unsupported(format!("cannot write standard output: {cause}"))
}

#[cfg(test)]
mod tests {
    use std::{
        fs::{self, File, OpenOptions},
        io::{self, Read, Write},
        os::{fd::OwnedFd, unix::net::UnixStream},
        thread,
    };

    use rustix::fs::OFlags;
    use tremor_pdk::{Batch, ErrorKind, RawBatch, Result, Sink, Undelivered, testing::TestHost};

    use super::Output;
    use crate::descriptor::Access;

    fn file(descriptor: impl Into<OwnedFd>) -> File {
        File::from(descriptor.into())
    }

    /// Returns far more data than fits into a pipe, in messages of different lengths.
    fn large_batch() -> (RawBatch, Vec<u8>) {
        let mut batch = Batch::new();
        let messages = (0..2_000_usize).map(|i| format!("{i}: {}\n", "x".repeat(i % 700)));
        let messages: Vec<_> = messages.collect();
        for message in &messages {
            batch.push_message(message.as_bytes());
        }
        batch.retain(|event| event.raw() != Some(messages[1_000].as_bytes()));
        let expected = [&messages[..1_000], &messages[1_001..]].concat().concat();
        (batch.into(), expected.into_bytes())
    }

    fn deliver(output: File) -> (Access, Result<()>) {
        let host = TestHost::new();
        let mut output = Output::new(host.host(), output);
        let result = host.block_on(output.deliver(&large_batch().0));
        (output.access, result.map_err(Undelivered::into_error))
    }

    fn collect(mut reader: impl Read + Send + 'static) -> thread::JoinHandle<Vec<u8>> {
        thread::spawn(move || {
            let mut bytes = Vec::new();
            reader.read_to_end(&mut bytes).unwrap();
            bytes
        })
    }

    #[test]
    fn pipe_gets_everything_and_stays_blocking_for_others() {
        let (reader, writer) = io::pipe().unwrap();
        let collected = collect(reader);
        let shared = writer.try_clone().unwrap();
        let (access, result) = deliver(file(writer));
        result.unwrap();
        assert_eq!(access, Access::NonBlocking);
        assert!(!rustix::fs::fcntl_getfl(&shared).unwrap().contains(OFlags::NONBLOCK));
        drop(shared);
        assert_eq!(collected.join().unwrap(), large_batch().1);
    }

    #[test]
    fn socket_gets_everything() {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let collected = collect(theirs);
        let (access, result) = deliver(file(ours));
        result.unwrap();
        assert_eq!(access, Access::Threaded);
        assert_eq!(collected.join().unwrap(), large_batch().1);
    }

    #[test]
    fn file_gets_everything_after_output_of_the_shell() {
        let temporary = tempfile::NamedTempFile::new().unwrap();
        let mut redirected = OpenOptions::new().write(true).open(temporary.path()).unwrap();
        redirected.write_all(b"header\n").unwrap();
        let (access, result) = deliver(redirected);
        result.unwrap();
        assert_eq!(access, Access::Threaded);
        let expected = [b"header\n", &large_batch().1[..]].concat();
        assert_eq!(fs::read(temporary.path()).unwrap(), expected);
    }

    #[test]
    fn closed_pipe_is_a_final_error() {
        let host = TestHost::new();
        let (reader, writer) = io::pipe().unwrap();
        let again = file(writer.try_clone().unwrap());
        let mut output = Output::new(host.host(), file(writer));
        drop(reader);
        let error = host.block_on(output.deliver(&large_batch().0)).unwrap_err().into_error();
        assert_eq!(error.kind(), ErrorKind::UNSUPPORTED);
        assert!(error.to_string().contains("its reader has closed it"), "{error}");
        assert_eq!(
            deliver(again).1.unwrap_err(),
            error,
            "the error is the same if the reader is closed from the start"
        );
    }

    #[test]
    fn full_device_is_a_final_error() {
        let full = OpenOptions::new().write(true).open("/dev/full").unwrap();
        let error = deliver(full).1.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::UNSUPPORTED);
        assert!(error.to_string().starts_with("cannot write standard output: "), "{error}");
    }
}
