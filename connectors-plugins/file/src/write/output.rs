//! The file that is written: opening it, writing to it, having it on the disk.

use std::{
    fs::File,
    io::{self, IoSlice, Write},
    ops::Range,
    os::unix::fs::FileTypeExt,
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
};

use tremor_pdk::{Error, ErrorKind, Host, RawBatch, RawEvent, Result};

use super::{
    quick::Disk,
    rotation::Rotation,
    syncing::{Due, Syncing, sync_data},
    torn,
};
use crate::{Config, Mode, compression::Format, folder, open};

/// Maximum number of files that one delivery is written to because each of them was deleted.
pub(super) const MAX_FILES: usize = 3;

/// A file that batches are written to, one at a time. All methods but those that say otherwise may
/// block.
#[derive(Debug)]
pub(crate) struct Output {
    pub(super) path: PathBuf,
    format: Option<Format>,
    pub(super) message_end: Vec<u8>,
    pub(super) mode: Mode,
    pub(super) syncing: Syncing,
    pub(super) rotation: Option<Rotation>,
    pub(super) host: Host,
    /// It is a pipe that nobody reads any more.
    has_lost_reader: AtomicBool,
    /// Whether it is on a disk, and no pipe and no device, which may take their time.
    pub(super) is_regular: bool,
    /// The file, if it is a pipe.
    pipe: Option<Arc<File>>,
    disk: Disk,
    current: Mutex<Current>,
}

/// What is written to now.
#[derive(Debug)]
pub(super) struct Current {
    pub(super) file: Arc<File>,
    /// Device and inode of `file`.
    pub(super) identity: (u64, u64),
    /// `true` if the configured path no longer named `file` after the last write.
    pub(super) is_moved: bool,
    /// How long it is, in bytes, and since when it is not empty, by the host's monotonic clock, modulo 2^64,
    /// because the file may be older than that clock: for rotation.
    pub(super) length: u64,
    pub(super) since_ns: u64,
    /// Whether what an earlier process has left of a message may still be in it.
    pub(super) may_be_torn: bool,
    /// How many batches were written.
    deliveries: u64,
}

impl Output {
    /// Opens the file, and changes nothing in it but what `mode` says.
    pub(crate) fn open(config: &Config, host: Host) -> Result<Self> {
        let file = open::open(&config.path, config.mode)?;
        let metadata = file
            .metadata()
            .map_err(|error| open::cannot_open(&config.path, config.mode, &error))?;
        let file = Arc::new(file);
        let pipe = metadata.file_type().is_fifo().then(|| file.clone());
        let current = Current {
            file,
            identity: folder::identity(&metadata),
            is_moved: false,
            length: 0,
            since_ns: 0,
            may_be_torn: false,
            deliveries: 0,
        };
        let output = Self {
            path: config.path.clone(),
            format: config.compression.of(&config.path),
            message_end: config.message_end.clone().into_bytes(),
            mode: config.mode,
            syncing: Syncing::new(config),
            rotation: config.rotate.as_ref().map(|rotate| Rotation::new(&config.path, rotate)),
            host,
            has_lost_reader: AtomicBool::new(false),
            is_regular: metadata.is_file(),
            pipe,
            disk: Disk::default(),
            current: Mutex::new(current),
        };
        output.begin()?;
        Ok(output)
    }

    /// Refuses a batch whose messages do not end as is said: what is in the file could not be told from
    /// what is torn. Does not block.
    pub(super) fn check_end(&self, batch: &RawBatch) -> Result<()> {
        if !self.syncing.is_asked_for() || self.format.is_some() {
            return Ok(());
        }
        let last = batch.iter().next_back().map(RawEvent::raw);
        if last.is_none_or(|last| last.ends_with(&self.message_end)) {
            return Ok(());
        }
        Err(Error::configuration(format!(
            "a message for `{}` does not end in {:?}, and `sync` has to find the last whole message: \
             add the postprocessor `lines`, or say with `message_end` what messages end in (`\"\"`: in \
             nothing, and nothing is ever cut off)",
            self.path.display(),
            String::from_utf8_lossy(&self.message_end)
        )))
    }

    /// Writes a batch, which [`Output::check_end`] has let pass. Gives its number. If events are to wait for
    /// the disk, nothing but whole messages is in the file then.
    pub(super) fn write(&self, bytes: &[u8], runs: &[Range<usize>]) -> Result<u64> {
        let member = match self.format {
            Some(format) if !runs.is_empty() => Some(format.member(bytes, runs)),
            _ => None,
        };
        let member = member.transpose().map_err(|error| self.error(&error))?;
        let whole = member.as_ref().map(|member| 0..member.len());
        let (bytes, runs) = match (&member, &whole) {
            (Some(member), Some(whole)) => (&member[..], std::slice::from_ref(whole)),
            _ => (bytes, runs),
        };
        let length = length_of(runs);
        let mut current = self.current();
        for _ in 0..MAX_FILES {
            // The end of the last whole message is looked for under the file's name.
            if length > 0 && current.may_be_torn {
                self.check_name(&mut current);
            }
            if current.is_moved {
                self.reopen(&mut current)?;
            }
            if length > 0 && current.may_be_torn {
                self.cut_torn(&mut current)?;
            }
            self.rotate(&mut current, length)?;
            if let Some(delivery) = self.write_to(&mut current, bytes, runs)? {
                return Ok(delivery);
            }
        }
        Err(self.deleted_again())
    }

    /// Writes a batch to the current file. Returns `None` if that file was deleted, so that the batch has to
    /// be written again.
    fn write_to(
        &self,
        current: &mut Current,
        bytes: &[u8],
        runs: &[Range<usize>],
    ) -> Result<Option<u64>> {
        let written = write_runs(&*current.file, bytes, runs)
            .map_err(|stopped| self.take_off(&current.file, &stopped));
        if written.is_ok() {
            current.length += length_of(runs);
        }
        // Also after an error: a deleted file that stays open keeps its space on a full disk.
        let is_deleted = self.check_name(current);
        written?;
        current.deliveries += 1;
        Ok((!is_deleted).then_some(current.deliveries))
    }

    /// [Writes](Self::write) a batch where that is not expected to block: little, with nothing else to do.
    /// Gives nothing where it is, and where the file was deleted.
    pub(super) fn write_quickly(&self, bytes: &[u8], runs: &[Range<usize>]) -> Option<Result<u64>> {
        let (length, from_ns) = (length_of(runs), self.host.monotonic_ns());
        if !self.is_regular || self.format.is_some() || !self.disk.is_quick(length, from_ns) {
            return None;
        }
        let mut current = self.current.try_lock().ok()?;
        let age_ns = from_ns.wrapping_sub(current.since_ns);
        let may_rotate = |rotation: &Rotation| {
            current.length == 0 || rotation.is_due(current.length, length, age_ns)
        };
        if current.is_moved || current.may_be_torn || self.rotation.as_ref().is_some_and(may_rotate)
        {
            return None;
        }
        let written = self.write_to(&mut current, bytes, runs);
        self.disk.took(from_ns, self.host.monotonic_ns());
        written.transpose()
    }

    /// Returns the file, if it is a pipe.
    pub(super) fn pipe(&self) -> Option<&File> {
        self.pipe.as_deref()
    }

    /// Whether it is a pipe that nobody reads any more. Does not block.
    pub(crate) fn has_lost_reader(&self) -> bool {
        self.has_lost_reader.load(Ordering::Relaxed)
    }

    /// Takes off what was written of a batch before writing stopped. A pipe cannot be cut; what is in one
    /// without a reader goes with it.
    fn take_off(&self, file: &File, stopped: &Stopped) -> Error {
        let error = self.error(&stopped.error);
        if error.kind() == ErrorKind::CONNECTION_LOST {
            self.has_lost_reader.store(true, Ordering::Relaxed);
            return error;
        }
        let cut = if stopped.written > 0 { torn::cut_off(file, stopped.written) } else { Ok(()) };
        match cut {
            Ok(()) => error,
            Err(cause) => {
                let message = format!("{error}; `{}` ends in a part of a batch", self.display());
                Error::unsupported(message).caused_by(&cause)
            }
        }
    }

    /// Whether deliveries wait for the disk, so that several may wait together. Does not block.
    pub(super) fn waits_for_disk(&self) -> bool {
        self.syncing.is_asked_for()
    }

    /// When a delivery is to be put on the disk. Does not block.
    pub(super) fn due(&self, delivery: u64, now_ns: u64) -> Due {
        self.syncing.due(delivery, now_ns)
    }

    /// Has a delivery on the disk, and all that was written by now.
    pub(super) fn sync(&self, delivery: u64, now_ns: u64) -> Result<()> {
        let sync = || {
            let (file, deliveries) = {
                let current = self.current();
                (current.file.clone(), current.deliveries)
            };
            file.sync_data()?;
            Ok(deliveries)
        };
        self.syncing.sync(delivery, now_ns, sync).map_err(|error| self.not_on_disk(&error))
    }

    /// Final, also where the disk is full: what is not on it by now may be forgotten.
    pub(super) fn not_on_disk(&self, error: &io::Error) -> Error {
        Error::unsupported(format!("cannot put `{}` on the disk: {error}", self.display()))
    }

    /// Has all that was written put on the disk. A compressed file that nothing was written to gets a
    /// member without contents: others do not take an empty file for one.
    ///
    /// # Errors
    /// Final where the disk has failed, now or before: another attempt proves nothing.
    pub(super) fn finish(&self) -> Result<()> {
        let file = {
            let current = self.current();
            self.end(&current.file).map_err(|error| self.error(&error))?;
            current.file.clone()
        };
        self.syncing.finish(|| sync_data(&file)).map_err(|error| self.not_on_disk(&error))
    }

    fn end(&self, mut file: &File) -> io::Result<()> {
        match self.format {
            Some(format) if file.metadata()?.len() == 0 => {
                file.write_all(&format.member(b"", &[])?)
            }
            _ => Ok(()),
        }
    }

    pub(super) fn current(&self) -> MutexGuard<'_, Current> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn display(&self) -> std::path::Display<'_> {
        Path::display(&self.path)
    }

    /// Shortages, such as a full disk, are waited for, and so is another reader of a pipe. Everything else is final: a restart would open the file anew,
    /// and in some modes lose what is in it.
    pub(super) fn error(&self, error: &io::Error) -> Error {
        let kind = match error.kind() {
            io::ErrorKind::BrokenPipe => ErrorKind::CONNECTION_LOST,
            _ => ErrorKind::of_shortage(error).unwrap_or(ErrorKind::UNSUPPORTED),
        };
        let remedy = match error.kind() {
            io::ErrorKind::FileTooLarge => {
                "; raise the limit of the file's size, which `ulimit -f` shows"
            }
            _ => "",
        };
        Error::new(kind, format!("cannot write `{}`: {error}{remedy}", self.display()))
    }
}

/// Writing has stopped in the middle.
#[derive(Debug)]
struct Stopped {
    /// How many bytes were written by then.
    written: u64,
    error: io::Error,
}

fn length_of(runs: &[Range<usize>]) -> u64 {
    runs.iter().map(|run| run.len() as u64).sum()
}

fn write_runs(mut out: impl Write, bytes: &[u8], runs: &[Range<usize>]) -> Result<(), Stopped> {
    let mut slices: Vec<_> = runs.iter().map(|run| IoSlice::new(&bytes[run.clone()])).collect();
    let mut rest = &mut slices[..];
    let mut written = 0;
    while !rest.is_empty() {
        match out.write_vectored(rest) {
            Ok(0) => return Err(Stopped { written, error: io::ErrorKind::WriteZero.into() }),
            Ok(count) => {
                written += count as u64;
                IoSlice::advance_slices(&mut rest, count);
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(Stopped { written, error }),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::io::{self, Write};

    use tremor_pdk::{Batch, raw_runs};

    use super::write_runs;

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
        let mut thinned = Batch::new();
        ["one\n", "gone", "three\n", "four\n"]
            .iter()
            .for_each(|message| thinned.push_message(message.as_bytes()));
        thinned.retain(|event| event.raw() != Some(b"gone"));
        let thinned = thinned.into();
        let runs = raw_runs(&thinned);
        assert_eq!(runs.len(), 2);

        let mut disk = Disk { space: 100, content: Vec::new() };
        write_runs(&mut disk, thinned.bytes(), &runs).unwrap();
        assert_eq!(disk.content, b"one\nthree\nfour\n");

        let mut disk = Disk { space: 12, content: Vec::new() };
        let stopped = write_runs(&mut disk, thinned.bytes(), &runs).unwrap_err();
        assert_eq!(disk.content, b"one\nthree\nfo");
        assert_eq!(stopped.error.kind(), io::ErrorKind::StorageFull);
        assert_eq!(stopped.written, 12);
    }
}
