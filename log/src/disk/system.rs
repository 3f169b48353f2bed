//! The file system of the operating system.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, IoSlice, Read};
use std::os::unix::fs::{DirBuilderExt, FileExt, MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::sync::Arc;

use rustix::fs::FlockOperation;
use rustix::io::Errno;

use crate::disk::{Disk, DiskFile, Open};

/// Maximum number of buffers of one system call, which POSIX calls `IOV_MAX`.
const MAX_BUFFERS: usize = 1024;

/// The file system of the operating system.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemDisk;

struct SystemFile(File);

impl Drop for SystemFile {
    /// Releases the lock if the file is locked. Closing the file is not enough: a child process that another thread is
    /// starting has a copy of the descriptor until it executes its program.
    fn drop(&mut self) {
        // If this fails, the lock is released when the last copy is closed.
        _ = rustix::fs::flock(&self.0, FlockOperation::Unlock);
    }
}

fn options() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.read(true).write(true).mode(0o600);
    options
}

/// Returns the process that has an exclusive `flock` on a file, from the text of `/proc/locks`.
fn holder(locks: &str, device: u64, inode: u64) -> Option<u32> {
    let file =
        format!("{:02x}:{:02x}:{inode}", rustix::fs::major(device), rustix::fs::minor(device));
    locks.lines().find_map(|line| {
        let mut words = line.split_whitespace().skip(1);
        // A line of a process that waits for the lock has an arrow here.
        let is_lock = words.next()? == "FLOCK" && words.nth(1)? == "WRITE";
        let process = words.next()?;
        (is_lock && words.next()? == file).then(|| process.parse().ok()).flatten()
    })
}

/// Creates and locks a file. Returns `None` if it is locked already.
fn locked(path: &Path) -> io::Result<Option<SystemFile>> {
    let file = options().create(true).truncate(false).open(path)?;
    match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(Some(SystemFile(file))),
        Err(Errno::WOULDBLOCK) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

impl Disk for SystemDisk {
    fn create_dir(&self, path: &Path) -> io::Result<()> {
        DirBuilder::new().mode(0o700).create(path)
    }

    fn is_dir(&self, path: &Path) -> io::Result<bool> {
        match std::fs::metadata(path) {
            Ok(metadata) => Ok(metadata.is_dir()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error),
        }
    }

    fn list(&self, path: &Path) -> io::Result<Vec<String>> {
        let names = std::fs::read_dir(path)?.map(|it| Ok(it?.file_name().into_string()));
        // The log gives its files names in ASCII, so a name in another encoding is not one of its files.
        Ok(names.collect::<io::Result<Vec<_>>>()?.into_iter().flatten().collect())
    }

    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        File::open(path)?.sync_all()
    }

    fn open(&self, path: &Path, open: Open) -> io::Result<Arc<dyn DiskFile>> {
        let create = open == Open::Empty;
        Ok(Arc::new(SystemFile(options().create(create).truncate(create).open(path)?)))
    }

    fn open_to_read(&self, path: &Path) -> io::Result<Arc<dyn DiskFile>> {
        Ok(Arc::new(SystemFile(File::open(path)?)))
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        std::fs::remove_file(path)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        std::fs::rename(from, to)
    }

    fn lock(&self, path: &Path) -> io::Result<Option<Arc<dyn DiskFile>>> {
        Ok(locked(path)?.map(|file| Arc::new(file) as _))
    }

    fn holder(&self, path: &Path) -> io::Result<Option<u32>> {
        let file = std::fs::metadata(path)?;
        // Only Linux has this file. It does not list locks of processes in other containers.
        let locks = std::fs::read_to_string("/proc/locks").unwrap_or_default();
        Ok(holder(&locks, file.dev(), file.ino()))
    }

    fn random(&self) -> io::Result<u64> {
        let mut bytes = [0; 8];
        File::open("/dev/urandom")?.read_exact(&mut bytes)?;
        Ok(u64::from_le_bytes(bytes))
    }
}

impl DiskFile for SystemFile {
    fn size(&self) -> io::Result<u64> {
        Ok(self.0.metadata()?.len())
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let mut filled = 0;
        while filled < buffer.len() {
            match self.0.read_at(&mut buffer[filled..], offset + filled as u64) {
                Ok(0) => break,
                Ok(count) => filled += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(filled)
    }

    fn write_at(&self, buffers: &[IoSlice<'_>], mut offset: u64) -> io::Result<()> {
        let mut remaining = buffers.to_vec();
        let mut remaining = &mut remaining[..];
        IoSlice::advance_slices(&mut remaining, 0);
        while !remaining.is_empty() {
            let count = remaining.len().min(MAX_BUFFERS);
            match rustix::io::pwritev(&self.0, &remaining[..count], offset) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(written) => {
                    offset += written as u64;
                    IoSlice::advance_slices(&mut remaining, written);
                }
                Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.0.set_len(len)
    }

    fn sync(&self) -> io::Result<()> {
        self.0.sync_data()
    }
}

#[cfg(test)]
mod tests {
    use super::{holder, locked};

    /// A child process has such a copy until it executes its program.
    #[test]
    fn lock_is_released_although_a_copy_of_its_file_is_open() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("lock");
        let lock = locked(&path).unwrap().unwrap();
        let _copy = lock.0.try_clone().unwrap();
        assert!(locked(&path).unwrap().is_none());
        drop(lock);
        assert!(locked(&path).unwrap().is_some());
    }

    #[test]
    fn holder_of_a_lock_is_found_by_device_and_inode() {
        let locks = "1: POSIX  ADVISORY  WRITE 11 fe:00:7 0 EOF\n\
                     2: FLOCK  ADVISORY  READ 12 fe:00:7 0 EOF\n\
                     3: FLOCK  ADVISORY  WRITE 13 fe:01:7 0 EOF\n\
                     4: FLOCK  ADVISORY  WRITE 14 fe:00:7 0 EOF\n\
                     4: -> FLOCK  ADVISORY  WRITE 15 fe:00:8 0 EOF\n";
        let device = rustix::fs::makedev(0xfe, 0);
        assert_eq!([7, 8].map(|inode| holder(locks, device, inode)), [Some(14), None]);
    }
}
