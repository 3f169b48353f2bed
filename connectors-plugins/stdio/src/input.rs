//! The source: standard input as one stream of fragments.

use std::{
    fs::File,
    io::{self, Read},
    mem,
    sync::Arc,
};

use tremor_pdk::{Blocking, prelude::*};

use crate::descriptor::{Access, for_reading};

/// Reads standard input in chunks.
pub struct Input {
    host: Host,
    file: Arc<File>,
    access: Access,
    chunk_bytes: usize,
    /// The read on another thread. If a pull is cancelled, the read stays here, so that no data is
    /// lost.
    reading: Option<Blocking<(RawBatch, io::Result<usize>)>>,
    finished: bool,
}

impl Input {
    pub(crate) fn new(host: Host, file: File, chunk_bytes: usize) -> Self {
        let (file, access) = for_reading(file);
        Self { host, file: Arc::new(file), access, chunk_bytes, reading: None, finished: false }
    }

    /// Waits until standard input is readable, and reads it on this thread. Returns `None` if its
    /// readiness cannot be awaited.
    async fn read_here(&self, batch: &mut RawBatch) -> Result<Option<usize>> {
        let mut wait = self.access == Access::Polled;
        loop {
            if wait && self.host.readable(&*self.file).await.is_err() {
                return Ok(None);
            }
            match batch
                .stream(0)
                .read_fragment(self.chunk_bytes, |buffer| (&*self.file).read(buffer))
            {
                Ok(count) => return Ok(Some(count)),
                Err(cause) if cause.kind() == io::ErrorKind::WouldBlock => wait = true,
                Err(cause) if cause.kind() == io::ErrorKind::Interrupted => {}
                Err(cause) => return Err(error(cause)),
            }
        }
    }

    async fn read_on_a_thread(&mut self, batch: &mut RawBatch) -> Result<usize> {
        let reading = match self.reading.take() {
            Some(reading) => reading,
            None => self.start_thread(mem::take(batch)),
        };
        let (chunk, result) = self.reading.insert(reading).await?;
        self.reading = None;
        *batch = chunk;
        result.map_err(error)
    }

    fn start_thread(&self, mut batch: RawBatch) -> Blocking<(RawBatch, io::Result<usize>)> {
        let (file, space) = (self.file.clone(), self.chunk_bytes);
        self.host.blocking(move || {
            loop {
                match batch.stream(0).read_fragment(space, |buffer| (&*file).read(buffer)) {
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                    result => return (batch, result),
                }
            }
        })
    }
}

impl Source for Input {
    type Batch = RawBatch;

    async fn pull(&mut self, batch: &mut RawBatch) -> Result<Pull> {
        if self.finished {
            return Ok(Pull::Finished);
        }
        if self.access != Access::Threaded {
            match self.read_here(batch).await? {
                Some(count) => return Ok(self.after(count, batch)),
                None => self.access = Access::Threaded,
            }
        }
        let count = self.read_on_a_thread(batch).await?;
        Ok(self.after(count, batch))
    }
}

impl Input {
    fn after(&mut self, count: usize, batch: &mut RawBatch) -> Pull {
        if count == 0 {
            self.finished = true;
            return Pull::Finished;
        }
        batch.set_origin("stdin");
        Pull::Events
    }
}

/// Returns a final error, because data that was read cannot be read again.
#[allow(clippy::needless_pass_by_value)] // for `map_err`
pub(crate) fn error(cause: io::Error) -> Error {
    Error::unsupported(format!("cannot read standard input: {cause}"))
}

#[cfg(test)]
mod tests {
    use std::{
        fs::{self, File},
        io::{self, Write},
        net::Shutdown,
        os::{fd::OwnedFd, unix::net::UnixStream},
        pin::pin,
    };

    use rustix::fs::OFlags;
    use tremor_pdk::{Pull, RawBatch, Source, testing::TestHost};

    use super::Input;
    use crate::descriptor::Access;

    fn file(descriptor: impl Into<OwnedFd>) -> File {
        File::from(descriptor.into())
    }

    fn pull(host: &TestHost, input: &mut Input) -> (Pull, String) {
        let mut batch = RawBatch::new();
        let pull = host.block_on(input.pull(&mut batch)).unwrap();
        let raw = batch.iter().map(|event| {
            assert!(event.is_fragment() && event.origin() == Some("stdin"));
            String::from_utf8_lossy(event.raw())
        });
        (pull, raw.collect())
    }

    fn give_up_a_pull(host: &TestHost, input: &mut Input) {
        let mut batch = RawBatch::new();
        assert!(host.poll_once(pin!(input.pull(&mut batch))).is_pending());
        assert!(batch.is_empty());
    }

    #[test]
    fn pipe_is_awaited_and_stays_blocking_for_others() {
        let (reader, mut writer) = io::pipe().unwrap();
        let shared = reader.try_clone().unwrap();
        let host = TestHost::new();
        let mut input = Input::new(host.host(), file(reader), 8);
        assert_eq!(input.access, Access::NonBlocking);
        assert!(!rustix::fs::fcntl_getfl(&shared).unwrap().contains(OFlags::NONBLOCK));

        give_up_a_pull(&host, &mut input);
        writer.write_all(b"some bytes").unwrap();
        assert_eq!(pull(&host, &mut input), (Pull::Events, "some byt".into()));
        assert_eq!(pull(&host, &mut input), (Pull::Events, "es".into()));
        give_up_a_pull(&host, &mut input);
        drop(writer);
        assert_eq!(pull(&host, &mut input), (Pull::Finished, String::new()));
        assert_eq!(
            pull(&host, &mut input),
            (Pull::Finished, String::new()),
            "a later pull is finished as well"
        );
    }

    #[test]
    fn waiting_pull_is_woken_by_data() {
        let (reader, mut writer) = io::pipe().unwrap();
        let host = TestHost::new();
        let mut input = Input::new(host.host(), file(reader), 8);
        let thread = std::thread::spawn(move || writer.write_all(b"late"));
        assert_eq!(pull(&host, &mut input), (Pull::Events, "late".into()));
        thread.join().unwrap().unwrap();
    }

    #[test]
    fn socket_is_awaited() {
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        let host = TestHost::new();
        let mut input = Input::new(host.host(), file(ours), 8);
        assert_eq!(input.access, Access::Polled);
        give_up_a_pull(&host, &mut input);
        theirs.write_all(b"bytes").unwrap();
        assert_eq!(pull(&host, &mut input), (Pull::Events, "bytes".into()));
        theirs.shutdown(Shutdown::Write).unwrap();
        assert_eq!(pull(&host, &mut input).0, Pull::Finished);
    }

    #[test]
    fn file_is_read_from_position_of_the_shell() {
        let temporary = tempfile::NamedTempFile::new().unwrap();
        fs::write(temporary.path(), "head and tail").unwrap();
        let mut redirected = File::open(temporary.path()).unwrap();
        io::Read::read_exact(&mut redirected, &mut [0; 5]).unwrap();
        let host = TestHost::new();
        let mut input = Input::new(host.host(), redirected, 5);
        assert_eq!(input.access, Access::Threaded);
        let mut text = String::new();
        loop {
            give_up_a_pull(&host, &mut input);
            let (pull, part) = pull(&host, &mut input);
            text += &part;
            if pull == Pull::Finished {
                break;
            }
        }
        assert_eq!(text, "and tail");
    }

    #[test]
    fn dev_null_is_empty() {
        let host = TestHost::new();
        let mut input = Input::new(host.host(), File::open("/dev/null").unwrap(), 8);
        assert_eq!(pull(&host, &mut input), (Pull::Finished, String::new()));
    }

    #[test]
    fn read_error_is_final() {
        let host = TestHost::new();
        let folder = File::open("/").unwrap();
        let mut input = Input::new(host.host(), folder, 8);
        let error = host.block_on(input.pull(&mut RawBatch::new())).unwrap_err();
        assert_eq!(error.kind(), tremor_pdk::ErrorKind::UNSUPPORTED);
        assert!(error.to_string().starts_with("cannot read standard input: "), "{error}");
    }
}
