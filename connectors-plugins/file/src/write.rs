//! The sink: one message after the other.

use std::{
    fs::File,
    io::{self, IoSlice, Seek, SeekFrom, Write},
    ops::Range,
    sync::Arc,
};

use tremor_pdk::{ErrorKind, prelude::*, raw_runs};

use crate::{Config, compression::Format};

/// Writes messages to a file: a batch, usually, with one write.
///
/// Where the disk is full, the file ends with a whole message, and the rest is asked for again:
/// no message is ever in the file in part or twice.
///
/// A compressed file gets every batch as a member of its own. So what was delivered is in the file
/// and can be read, and what could not be written in whole can be taken off again.
pub struct Writer {
    host: Host,
    path: String,
    file: Arc<File>,
    format: Option<Format>,
}

impl Writer {
    pub(crate) fn new(config: &Config, file: Arc<File>, host: Host) -> Self {
        let format = config.compression.of(&config.path);
        Self { host, path: config.path.display().to_string(), file, format }
    }

    /// Full disks are waited for. Everything else is final: a restart would open the file anew,
    /// and in some modes lose what is in it.
    fn error(&self, error: &io::Error) -> Error {
        let kind = match error.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => ErrorKind::FULL,
            _ => ErrorKind::UNSUPPORTED,
        };
        Error::new(kind, format!("cannot write `{}`: {error}", self.path))
    }

    /// What to answer when writing the batch has stopped after so many bytes.
    async fn stopped(&self, batch: &Batch, stopped: Stopped) -> Delivery {
        let error = self.error(&stopped.error);
        let (messages, torn) = match self.format {
            None => whole_messages(batch, stopped.written),
            Some(_) => (0, stopped.written),
        };
        if torn > 0 {
            let file = self.file.clone();
            self.host.blocking(move || cut_off(&file, torn)).await?.map_err(|cause| {
                let message = format!("{error}; `{}` ends in a part of a message", self.path);
                Error::unsupported(message).caused_by(&cause)
            })?;
        }
        if messages == 0 || error.kind() != ErrorKind::FULL {
            return Err(error.into());
        }
        let mut exceptions = Exceptions::none();
        exceptions.push(messages..batch.len(), error);
        exceptions.into()
    }
}

impl Sink for Writer {
    const CODEC: CodecRequirement = CodecRequirement::Required;

    async fn deliver(&mut self, batch: &Batch) -> Delivery {
        let runs = raw_runs(batch);
        // Shares the bytes with the thread that writes, and copies no events.
        let (file, buffers) = (self.file.clone(), batch.part(0..0));
        let format = self.format;
        let write = move || write_batch(&*file, format, buffers.bytes(), &runs);
        match self.host.blocking(write).await? {
            Ok(()) => Ok(()),
            Err(stopped) => self.stopped(batch, stopped).await,
        }
    }

    async fn on_signal(&mut self, signal: Signal) -> Result<()> {
        if signal != Signal::Drain {
            return Ok(());
        }
        let (file, format) = (self.file.clone(), self.format);
        match self.host.blocking(move || finish(&file, format)).await? {
            // A pipe or a device has nothing to be synchronised with.
            Err(error) if error.kind() != io::ErrorKind::InvalidInput => Err(self.error(&error)),
            _ => Ok(()),
        }
    }
}

/// Writing has stopped in the middle.
#[derive(Debug)]
struct Stopped {
    /// How many bytes were written by then.
    written: usize,
    error: io::Error,
}

fn write_batch(
    out: impl Write,
    format: Option<Format>,
    bytes: &[u8],
    runs: &[Range<usize>],
) -> Result<(), Stopped> {
    match format {
        Some(format) if !runs.is_empty() => {
            let member = format.member(bytes, runs);
            let member = member.map_err(|error| Stopped { written: 0, error })?;
            write_runs(out, &member, std::slice::from_ref(&(0..member.len())))
        }
        _ => write_runs(out, bytes, runs),
    }
}

/// Has all that was written put on the disk. A compressed file that nothing was written to gets a
/// member without contents: others do not take an empty file for one.
fn finish(mut file: &File, format: Option<Format>) -> io::Result<()> {
    if let Some(format) = format
        && file.metadata()?.len() == 0
    {
        file.write_all(&format.member(b"", &[])?)?;
    }
    file.sync_data()
}

fn write_runs(mut out: impl Write, bytes: &[u8], runs: &[Range<usize>]) -> Result<(), Stopped> {
    let mut slices: Vec<_> = runs.iter().map(|run| IoSlice::new(&bytes[run.clone()])).collect();
    let mut rest = &mut slices[..];
    let mut written = 0;
    while !rest.is_empty() {
        match out.write_vectored(rest) {
            Ok(0) => return Err(Stopped { written, error: io::ErrorKind::WriteZero.into() }),
            Ok(count) => {
                written += count;
                IoSlice::advance_slices(&mut rest, count);
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(Stopped { written, error }),
        }
    }
    Ok(())
}

/// How many messages of the batch are within its first `written` bytes, and how many bytes of the
/// next one are.
fn whole_messages(batch: &Batch, written: usize) -> (usize, usize) {
    let mut rest = written;
    for (position, event) in batch.iter().enumerate() {
        let length = event.raw().map_or(0, <[u8]>::len);
        if length > rest {
            return (position, rest);
        }
        rest -= length;
    }
    (batch.len(), rest)
}

/// Takes the last `torn` bytes that were written off the file's end.
///
/// # Errors
/// Where it is no regular file, or another process has written after them.
fn cut_off(mut file: &File, torn: usize) -> io::Result<()> {
    let position = file.stream_position()?;
    if file.metadata()?.len() != position {
        return Err(io::Error::other("somebody else writes to it as well"));
    }
    let end = position.saturating_sub(torn as u64);
    file.set_len(end)?;
    file.seek(SeekFrom::Start(end))?;
    Ok(())
}

#[cfg(test)]
mod tests;
