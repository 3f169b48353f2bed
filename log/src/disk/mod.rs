//! The file system, behind two traits, so that tests can replace it by a disk that fails and crashes.

use std::io::{self, IoSlice};
use std::path::Path;
use std::sync::Arc;

mod layer;
mod system;

pub use layer::{Layer, Layered};
pub use system::SystemDisk;

/// Whether [`Disk::open`] creates the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Open {
    /// The file has to exist.
    Existing,
    /// The file is created, with mode 0600, or emptied if it exists.
    Empty,
}

/// File system operations of a log.
///
/// An operation that fails may have had a part of its effect. After [`DiskFile::sync`] has failed, bytes that were
/// written before may be lost, even if a later call succeeds.
pub trait Disk: Send + Sync + 'static {
    /// Creates a folder with mode 0700 whose parent exists.
    fn create_dir(&self, path: &Path) -> io::Result<()>;
    /// Returns whether `path` is a folder.
    fn is_dir(&self, path: &Path) -> io::Result<bool>;
    /// Returns the names of the entries of a folder, in any order.
    fn list(&self, path: &Path) -> io::Result<Vec<String>>;
    /// Makes the entries of a folder durable.
    fn sync_dir(&self, path: &Path) -> io::Result<()>;
    /// Opens a file for reading and writing.
    fn open(&self, path: &Path, open: Open) -> io::Result<Arc<dyn DiskFile>>;
    /// Opens a file for reading only.
    fn open_to_read(&self, path: &Path) -> io::Result<Arc<dyn DiskFile>>;
    /// Removes a file.
    fn remove(&self, path: &Path) -> io::Result<()>;
    /// Renames a file. A file with the new name is replaced.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;
    /// Creates the file if it is missing and locks it until the returned file is dropped. Returns `None` if the file
    /// is locked already, in this process or another.
    fn lock(&self, path: &Path) -> io::Result<Option<Arc<dyn DiskFile>>>;
    /// Returns the process that has locked the file, if there is one and the operating system names it. Locks nothing.
    fn holder(&self, path: &Path) -> io::Result<Option<u32>>;
    /// Returns a number that nobody can predict.
    fn random(&self) -> io::Result<u64>;
}

/// An open file of a [`Disk`].
pub trait DiskFile: Send + Sync {
    /// Returns the length of the file in bytes.
    fn size(&self) -> io::Result<u64>;
    /// Reads from `offset` until the buffer is full or the file ends, and returns the number of bytes read.
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize>;
    /// Writes all buffers, one after the other, from `offset`.
    fn write_at(&self, buffers: &[IoSlice<'_>], offset: u64) -> io::Result<()>;
    /// Cuts or extends the file.
    fn set_len(&self, len: u64) -> io::Result<()>;
    /// Makes the contents durable, as `fdatasync` does.
    fn sync(&self) -> io::Result<()>;
}
