//! The file of the sink: open, write and sync.

use std::{
    fmt,
    fs::File,
    io::{self, Write},
    ops::Range,
    os::unix::fs::FileTypeExt,
    path::Path,
    sync::{
        Arc, Mutex, MutexGuard,
        atomic::{AtomicBool, Ordering},
    },
};

use tremor_pdk::{Error, ErrorKind, Host, RawBatch, RawEvent, Result, lock};

use super::{
    inline::Disk,
    location::Location,
    problem::SharedProblem,
    rotation::Rotation,
    runs::{Stopped, length_of, write_runs},
    syncing::{Due, Syncing, sync_data},
    torn,
};
use crate::{Config, Mode, Rotate, compression::Format, config::Midnights, folder, open};

/// Maximum number of attempts to write a delivery. An attempt has to be repeated if another process
/// deleted the file before the delivery was acknowledged.
pub(super) const MAX_FILES: usize = 3;

/// The file to which batches are written, one at a time. Methods may block unless their
/// documentation says otherwise.
#[derive(Debug)]
pub(crate) struct Output {
    pub(super) location: Location,
    format: Option<Format>,
    pub(super) message_end: Vec<u8>,
    pub(super) mode: Mode,
    pub(super) syncing: Arc<Syncing>,
    pub(super) rotation: Option<Rotation>,
    pub(super) host: Host,
    /// `true` if the file is a pipe that no process reads any longer.
    has_lost_reader: AtomicBool,
    /// `true` for a regular file. A write to a pipe or a device may block for an unlimited time.
    pub(super) is_regular: bool,
    /// The file, if it is a pipe; otherwise `None`.
    pipe: Option<Arc<File>>,
    disk: Arc<Disk>,
    current: Mutex<Current>,
}

/// State that all files of a sink share.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) host: Host,
    disk: Arc<Disk>,
    rotation: Arc<SharedProblem>,
    midnights: Option<Midnights>,
}

impl Shared {
    pub(super) fn new(config: &Config, host: Host) -> Result<Self> {
        Ok(Self {
            disk: Arc::default(),
            rotation: SharedProblem::new(&host, "rotation").into(),
            midnights: config.rotate.as_ref().map_or(Ok(None), Rotate::midnights)?,
            host,
        })
    }
}

/// State of the file that is being written.
#[derive(Debug)]
pub(super) struct Current {
    pub(super) file: Arc<File>,
    /// Device and inode of `file`.
    pub(super) identity: (u64, u64),
    /// `true` if the configured path no longer named `file` after the last write.
    pub(super) is_moved: bool,
    /// Length of the file in bytes, for rotation.
    pub(super) length: u64,
    /// Start of the file's age, for rotation, in ns of the host's monotonic clock. The value wraps modulo 2^64, because
    /// the file may have been created before the clock's zero.
    pub(super) since_ns: u64,
    /// Time in ns since the Unix epoch from which on the file has to be rotated; only if `rotate` has a time of day.
    pub(super) until_ns: u64,
    /// `true` if the file may still end in an incomplete message of an earlier process.
    pub(super) may_be_torn: bool,
    /// Number of batches written.
    deliveries: u64,
}

impl Output {
    /// Opens the file of the configuration and changes its contents only as far as `mode` requires.
    pub(crate) fn open(config: &Config, host: Host) -> Result<Self> {
        let location = Location::fixed(config.path.clone());
        let shared = Shared::new(config, host)?;
        Self::open_at(location, config.compression.of(&config.path), config, &shared)
    }

    /// Opens a file and changes its contents only as far as `mode` requires.
    pub(super) fn open_at(
        location: Location,
        format: Option<Format>,
        config: &Config,
        shared: &Shared,
    ) -> Result<Self> {
        let syncing = Syncing::new(config);
        let file = location.open(config.mode, syncing.is_enabled())?;
        let metadata = file
            .metadata()
            .map_err(|error| open::cannot_open(location.path(), config.mode, &error))?;
        let file = Arc::new(file);
        let pipe = metadata.file_type().is_fifo().then(|| file.clone());
        let current = Current {
            file,
            identity: folder::identity(&metadata),
            is_moved: false,
            length: 0,
            since_ns: 0,
            until_ns: u64::MAX,
            may_be_torn: false,
            deliveries: 0,
        };
        let output = Self {
            location,
            format,
            message_end: config.message_end.clone().into_bytes(),
            mode: config.mode,
            syncing: syncing.into(),
            rotation: config.rotate.as_ref().map(|rotate| {
                Rotation::new(rotate, shared.midnights.clone(), shared.rotation.clone())
            }),
            host: shared.host.clone(),
            has_lost_reader: AtomicBool::new(false),
            is_regular: metadata.is_file(),
            pipe,
            disk: shared.disk.clone(),
            current: Mutex::new(current),
        };
        output.begin()?;
        Ok(output)
    }

    /// With `sync`, and unless the file is compressed, rejects a batch whose last message does not end in
    /// `message_end`, because an incomplete message could not be detected later. Does not block.
    pub(super) fn check_end(&self, batch: &RawBatch) -> Result<()> {
        if !self.syncing.is_enabled() || self.format.is_some() {
            return Ok(());
        }
        let last = batch.iter().next_back().map(RawEvent::raw);
        if last.is_none_or(|last| last.ends_with(&self.message_end)) {
            return Ok(());
        }
        Err(no_message_end(&self.display(), &self.message_end))
    }

    /// Writes a batch that [`Output::check_end`] accepted, and returns the number of the delivery.
    /// With `sync`, first removes an incomplete message at the end of the file.
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
            // `cut_torn` works on the file at the path, so check first that the path still leads to
            // the file.
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

    /// Writes a batch to the current file. Returns `None` if that file was deleted, in which case
    /// the batch has to be written again.
    fn write_to(
        &self,
        current: &mut Current,
        bytes: &[u8],
        runs: &[Range<usize>],
    ) -> Result<Option<u64>> {
        let written = write_runs(&*current.file, bytes, runs)
            .map_err(|stopped| self.undo(&current.file, &stopped));
        if written.is_ok() {
            current.length += length_of(runs);
        }
        // Check after an error as well: on a full disk, a deleted file has to be closed to free its
        // space.
        let is_deleted = self.check_name(current);
        written?;
        current.deliveries += 1;
        Ok((!is_deleted).then_some(current.deliveries))
    }

    /// Writes a batch on the calling thread if the write is short and not expected to block.
    /// Returns `None` if the batch has to be written by [`Output::write`] instead: because the
    /// write may block, because the file has to be prepared or rotated first, or because the file
    /// was deleted.
    pub(super) fn try_write_inline(
        &self,
        bytes: &[u8],
        runs: &[Range<usize>],
    ) -> Option<Result<u64>> {
        let (length, from_ns) = (length_of(runs), self.host.monotonic_ns());
        if !self.is_regular || self.format.is_some() || !self.disk.is_fast(length, from_ns) {
            return None;
        }
        let mut current = self.current.try_lock().ok()?;
        if current.is_moved || current.may_be_torn {
            return None;
        }
        if let Some(rotation) = &self.rotation
            && (current.length == 0 || self.must_rotate(rotation, &mut current, length, from_ns))
        {
            return None;
        }
        let written = self.write_to(&mut current, bytes, runs);
        self.disk.record(from_ns, self.host.monotonic_ns());
        written.transpose()
    }

    /// Returns the file if it is a pipe.
    pub(super) fn pipe(&self) -> Option<&File> {
        self.pipe.as_deref()
    }

    /// Returns whether the file is a pipe that no process reads any longer. Does not block.
    pub(crate) fn has_lost_reader(&self) -> bool {
        self.has_lost_reader.load(Ordering::Relaxed)
    }

    /// Removes the part of a batch that was written before writing stopped, and returns the error
    /// of the delivery. Nothing can be removed from a pipe. If the pipe has lost its reader,
    /// records that, so that the next connection opens the pipe again.
    fn undo(&self, file: &File, stopped: &Stopped) -> Error {
        let error = self.error(&stopped.error);
        if error.kind() == ErrorKind::CONNECTION_LOST {
            self.has_lost_reader.store(true, Ordering::Relaxed);
            return error;
        }
        let cut = if stopped.written > 0 { torn::cut_off(file, stopped.written) } else { Ok(()) };
        match cut {
            Ok(()) => error,
            Err(cause) => {
                let message = format!("{error}; `{}` ends in an incomplete batch", self.display());
                Error::unsupported(message).caused_by(&cause)
            }
        }
    }

    /// Returns whether deliveries wait for a sync to the disk, in which case one sync can serve
    /// several deliveries. Does not block.
    pub(super) fn waits_for_disk(&self) -> bool {
        self.syncing.is_enabled()
    }

    /// Returns when a delivery has to be synced to the disk. Does not block.
    pub(super) fn due(&self, delivery: u64, now_ns: u64) -> Due {
        self.syncing.due(delivery, now_ns)
    }

    /// Makes a delivery durable, and everything else that was written up to now.
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

    /// Makes a file durable before the sink continues with another one, also with `sync: never`, because the end of the
    /// run does not sync the file. Only files that events name are not synced then: thousands of them may be renamed
    /// at the same time, and they are not synced when they are closed either.
    pub(super) fn sync_before_leaving(&self, file: &File) -> Result<()> {
        if self.location.is_below() && !self.syncing.is_enabled() {
            return Ok(());
        }
        sync_data(file).map_err(|error| {
            self.syncing.fail();
            self.not_on_disk(&error)
        })
    }

    /// Returns the error of a failed sync. The error is final, even for a full disk, because the
    /// system may discard data that it could not write to the disk.
    pub(super) fn not_on_disk(&self, error: &io::Error) -> Error {
        Error::unsupported(format!("cannot sync `{}` to the disk: {error}", self.display()))
    }

    /// Makes everything that was written durable. A compressed file without any data gets an empty
    /// member, because other programs reject an empty file.
    ///
    /// # Errors
    /// The error is final if a sync failed, now or earlier: after a failure, a successful sync does
    /// not prove that the data is on the disk.
    pub(super) fn finish(&self) -> Result<()> {
        let file = {
            let current = self.current();
            self.end(&current.file).map_err(|error| self.error(&error))?;
            current.file.clone()
        };
        self.syncing.finish(|| sync_data(&file)).map_err(|error| self.not_on_disk(&error))
    }

    /// Writes all data of the file system to the disk, so that syncs of many files take little time after that. Has no
    /// effect on systems other than Linux. The syncs of the files find errors.
    pub(super) fn sync_file_system(&self) {
        #[cfg(target_os = "linux")]
        let _ = rustix::fs::syncfs(&*self.current().file);
    }

    /// Makes everything that was written durable if acknowledgements wait for that, before the file is closed while
    /// the sink continues. Call this only after the last write.
    pub(super) fn retire(&self) -> Result<()> {
        let (file, deliveries) = {
            let current = self.current();
            (current.file.clone(), current.deliveries)
        };
        self.end(&file).map_err(|error| self.error(&error))?;
        drop(file);
        if !self.waits_for_disk() || deliveries == 0 {
            return Ok(());
        }
        self.sync(deliveries, self.host.monotonic_ns())
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
        lock(&self.current)
    }

    pub(super) fn display(&self) -> std::path::Display<'_> {
        Path::display(self.location.path())
    }

    /// Converts an I/O error. A shortage, such as a full disk, and a pipe without a reader are
    /// temporary. Other errors are final, because a restart would open the file again and in some
    /// modes discard its contents.
    pub(super) fn error(&self, error: &io::Error) -> Error {
        let kind = match error.kind() {
            io::ErrorKind::BrokenPipe => ErrorKind::CONNECTION_LOST,
            _ => ErrorKind::of_shortage(error).unwrap_or(ErrorKind::UNSUPPORTED),
        };
        let remedy = match error.kind() {
            io::ErrorKind::FileTooLarge => "; raise the limit of the file size (`ulimit -f`)",
            _ => "",
        };
        Error::new(kind, format!("cannot write `{}`: {error}{remedy}", self.display()))
    }
}

/// Returns the error of a message for `path` that does not end in `message_end`.
pub(super) fn no_message_end(path: &dyn fmt::Display, message_end: &[u8]) -> Error {
    Error::configuration(format!(
        "a message for `{path}` does not end in {:?}, but `sync` has to find the last whole message: add \
         the postprocessor `lines`, or set `message_end` to the terminator of the messages (`\"\"` if \
         they have none: incomplete messages then stay in the file)",
        String::from_utf8_lossy(message_end)
    ))
}
