//! A file system that changes some operations of another one.

use std::io::{self, IoSlice};
use std::path::Path;
use std::sync::Arc;

use super::{Disk, DiskFile, Open};

/// Operations of files, for a [`Layered`] file system. Unless a method is implemented, it does what the file does.
pub trait Layer: Send + Sync + 'static {
    /// Reads from a file, as [`DiskFile::read_at`].
    ///
    /// # Errors
    /// The read has failed.
    fn read_at(&self, file: &dyn DiskFile, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        file.read_at(buffer, offset)
    }

    /// Writes to a file, as [`DiskFile::write_at`].
    ///
    /// # Errors
    /// The write has failed.
    fn write_at(
        &self,
        file: &dyn DiskFile,
        buffers: &[IoSlice<'_>],
        offset: u64,
    ) -> io::Result<()> {
        file.write_at(buffers, offset)
    }

    /// Makes a file durable, as [`DiskFile::sync`].
    ///
    /// # Errors
    /// The sync has failed.
    fn sync(&self, file: &dyn DiskFile) -> io::Result<()> {
        file.sync()
    }
}

/// The file system `disk`, with the operations of `layer` on its files. Operations on folders and locks are those of
/// `disk`.
pub struct Layered<L> {
    /// The file system below.
    pub disk: Arc<dyn Disk>,
    /// The operations on files.
    pub layer: Arc<L>,
}

/// A file of a [`Layered`] file system.
struct LayeredFile<L> {
    file: Arc<dyn DiskFile>,
    layer: Arc<L>,
}

impl<L: Layer> Layered<L> {
    fn file(&self, file: Arc<dyn DiskFile>) -> Arc<dyn DiskFile> {
        Arc::new(LayeredFile { file, layer: Arc::clone(&self.layer) })
    }
}

impl<L: Layer> Disk for Layered<L> {
    fn create_dir(&self, path: &Path) -> io::Result<()> {
        self.disk.create_dir(path)
    }

    fn is_dir(&self, path: &Path) -> io::Result<bool> {
        self.disk.is_dir(path)
    }

    fn list(&self, path: &Path) -> io::Result<Vec<String>> {
        self.disk.list(path)
    }

    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        self.disk.sync_dir(path)
    }

    fn open(&self, path: &Path, open: Open) -> io::Result<Arc<dyn DiskFile>> {
        Ok(self.file(self.disk.open(path, open)?))
    }

    fn open_to_read(&self, path: &Path) -> io::Result<Arc<dyn DiskFile>> {
        Ok(self.file(self.disk.open_to_read(path)?))
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.disk.remove(path)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.disk.rename(from, to)
    }

    fn lock(&self, path: &Path) -> io::Result<Option<Arc<dyn DiskFile>>> {
        self.disk.lock(path)
    }

    fn holder(&self, path: &Path) -> io::Result<Option<u32>> {
        self.disk.holder(path)
    }

    fn random(&self) -> io::Result<u64> {
        self.disk.random()
    }
}

impl<L: Layer> DiskFile for LayeredFile<L> {
    fn size(&self) -> io::Result<u64> {
        self.file.size()
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        self.layer.read_at(&*self.file, buffer, offset)
    }

    fn write_at(&self, buffers: &[IoSlice<'_>], offset: u64) -> io::Result<()> {
        self.layer.write_at(&*self.file, buffers, offset)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.file.set_len(len)
    }

    fn sync(&self) -> io::Result<()> {
        self.layer.sync(&*self.file)
    }
}
