//! Errors, each with what failed, where, and what to do.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

/// An operation of the file system that failed. The operation is retried, and what it concerns counts as intact.
#[derive(Debug, thiserror::Error)]
#[error("cannot {action} {}: {source}; check the disk, its free space and the permissions", path.display())]
pub struct DeviceError {
    /// The operation, such as `write to`.
    pub action: &'static str,
    /// The file or folder.
    pub path: PathBuf,
    /// The error of the operating system.
    pub source: io::Error,
}

/// Returns a function that adds the operation and its path to an error.
pub(crate) fn at<'a>(
    action: &'static str,
    path: &'a Path,
) -> impl FnOnce(io::Error) -> DeviceError + 'a {
    move |source| DeviceError { action, path: path.to_owned(), source }
}

impl DeviceError {
    pub(crate) fn is_full(&self) -> bool {
        matches!(self.source.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
    }
}

/// The reason why a log was not opened. Except for [`OpenError::Device`], nothing on disk was changed.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The log is open already, in another process or in another part of this one.
    #[error(transparent)]
    InUse(InUse),
    /// A newer program wrote the log.
    #[error(
        "cannot open the log: {} has version {version} of the format, but this program knows versions up to 1; \
         use the newer program",
        path.display()
    )]
    Newer {
        /// The file with the newer version.
        path: PathBuf,
        /// The version of the format.
        version: u16,
    },
    /// The log was created for another owner.
    #[error("cannot open the log {} for `{expected}`: it belongs to `{found}`; set another folder", path.display())]
    Owner {
        /// The folder of the log.
        path: PathBuf,
        /// The owner that the log was created for.
        found: String,
        /// The owner that the caller named.
        expected: String,
    },
    /// A limit of [`Options`](crate::Options) cannot be kept.
    #[error("invalid {name} {value}: expected {expected}")]
    Invalid {
        /// The name of the option.
        name: &'static str,
        /// The value in bytes.
        value: u64,
        /// The values that are accepted.
        expected: String,
    },
    /// The file system failed. The caller may try again.
    #[error(transparent)]
    Device(#[from] DeviceError),
}

/// A log that is open already.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InUse {
    /// The folder of the log.
    pub path: PathBuf,
    /// The process that uses the log, if the operating system names it.
    pub holder: Option<u32>,
}

impl fmt::Display for InUse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = self.path.display();
        match self.holder {
            Some(holder) => write!(
                f,
                "cannot open the log {path}: it is in use by the process {holder}; stop this process, or set another \
                 folder"
            ),
            None => write!(
                f,
                "cannot open the log {path}: it is in use; stop the process that uses it, or set another folder"
            ),
        }
    }
}

impl std::error::Error for InUse {}

/// The reason why a log was not inspected.
#[derive(Debug, thiserror::Error)]
pub enum InspectError {
    /// The folder does not exist.
    #[error("cannot inspect the log {}: there is no such folder; name the folder of a log", .0.display())]
    NotFound(PathBuf),
    /// The folder contains no log.
    #[error("cannot inspect {}: the folder contains no log; name the folder of a log", .0.display())]
    NotALog(PathBuf),
    /// The files were changed faster than they could be read.
    #[error("cannot inspect the log {}: its files change too fast; try again", .0.display())]
    Changing(PathBuf),
    /// A newer program wrote the log.
    #[error(
        "cannot inspect the log: {} has version {version} of the format, but this program knows versions up to 1; \
         use the newer program",
        path.display()
    )]
    Newer {
        /// The file with the newer version.
        path: PathBuf,
        /// The version of the format.
        version: u16,
    },
    /// The file system failed. The caller may try again.
    #[error(transparent)]
    Device(#[from] DeviceError),
}

/// The reason why a log was not repaired.
#[derive(Debug, thiserror::Error)]
pub enum RepairError {
    /// The folder contains no log, or that of a newer program.
    #[error(transparent)]
    Inspect(#[from] InspectError),
    /// The log is open.
    #[error(transparent)]
    InUse(InUse),
    /// The file system failed. The caller may try again.
    #[error(transparent)]
    Device(#[from] DeviceError),
}

/// The reason why a record was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Reason {
    /// The record is longer than half a segment.
    #[error(
        "cannot append a record of {len} bytes: a record has at most {max} bytes, which is half a segment"
    )]
    TooLarge {
        /// Length of the record in bytes.
        len: u64,
        /// Maximum length in bytes.
        max: u64,
    },
    /// The bytes do not begin with the header of a frame that has their length.
    #[error("cannot append {0} bytes: expected a frame, whose header has its length")]
    NotARecord(u64),
    /// Too many bytes wait for the disk. Capacity is available when earlier records are durable.
    #[error("cannot append a record yet: earlier records wait for the disk")]
    Busy,
    /// The log is full. Capacity is available when records are settled, or when the disk has space again.
    #[error("cannot append a record: the log is full; settle records, or raise its limit")]
    Full,
    /// The log was closed.
    #[error("cannot append a record: the log was closed")]
    Closed,
}

/// A record that was refused.
#[derive(Debug, thiserror::Error)]
#[error("{reason}")]
pub struct Refused {
    /// Why the record was refused.
    pub reason: Reason,
    /// The record, unchanged.
    pub record: Vec<u8>,
}

/// The reason why a record that was appended does not become durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotDurable {
    /// The log was closed before the record was durable. The record may be found when the log is opened again.
    #[error(
        "the log was closed before the record was durable; append it again after the log was opened"
    )]
    Closed,
    /// The log is full, and [`Log::refuse_waiting`](crate::Log::refuse_waiting) was called. The record is settled.
    #[error("the log is full, and the record was given up")]
    Full,
}
