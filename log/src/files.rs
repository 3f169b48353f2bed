//! The files of a log and their names.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::disk::{Disk, DiskFile, Open};
use crate::error::{DeviceError, InUse, OpenError, at};

const IDENTITY: &str = "log";
const POSITIONS: &str = "positions";
const SEGMENT: &str = ".segment";
/// Ending of the names of files that are not complete yet. Opening removes them.
const UNFINISHED: &str = ".new";

/// Maximum number of attempts to lock a folder whose holder is not known, because it may have released the folder since
/// the attempt failed.
const ATTEMPTS: u32 = 3;

/// The folder of a log.
#[derive(Clone)]
pub(crate) struct Files {
    pub(crate) disk: Arc<dyn Disk>,
    pub(crate) dir: PathBuf,
    /// `true` if files that exist are opened for reading only.
    pub(crate) is_read_only: bool,
}

impl Files {
    pub(crate) fn lock(&self) -> PathBuf {
        self.dir.join("lock")
    }

    /// Locks the folder until the returned file is dropped.
    pub(crate) fn acquire(&self) -> Result<Arc<dyn DiskFile>, OpenError> {
        let path = self.lock();
        for _ in 0..ATTEMPTS {
            if let Some(lock) = self.disk.lock(&path).map_err(at("lock", &path))? {
                return Ok(lock);
            }
            let holder = self.disk.holder(&path).ok().flatten();
            if holder.is_some() {
                return Err(OpenError::InUse(InUse { path: self.dir.clone(), holder }));
            }
        }
        Err(OpenError::InUse(InUse { path: self.dir.clone(), holder: None }))
    }

    pub(crate) fn identity(&self) -> PathBuf {
        self.dir.join(IDENTITY)
    }

    pub(crate) fn positions(&self) -> PathBuf {
        self.dir.join(POSITIONS)
    }

    pub(crate) fn kept(&self) -> PathBuf {
        self.dir.join("kept")
    }

    pub(crate) fn segment(&self, id: u64) -> PathBuf {
        self.dir.join(format!("{id:010}{SEGMENT}"))
    }

    pub(crate) fn unfinished(path: &Path) -> PathBuf {
        let mut name = path.as_os_str().to_owned();
        name.push(UNFINISHED);
        name.into()
    }

    /// Returns the number of a segment's file.
    pub(crate) fn segment_id(name: &str) -> Option<u64> {
        name.strip_suffix(SEGMENT)?.parse().ok()
    }

    /// Returns whether this is the name of a file of the log that is not complete. Files of others may end with the same
    /// letters.
    pub(crate) fn is_unfinished(name: &str) -> bool {
        let is_own = |it: &str| it == IDENTITY || it == POSITIONS || Self::segment_id(it).is_some();
        name.strip_suffix(UNFINISHED).is_some_and(is_own)
    }

    pub(crate) fn list(&self, dir: &Path) -> Result<Vec<String>, DeviceError> {
        let mut names = self.disk.list(dir).map_err(at("list", dir))?;
        names.sort();
        Ok(names)
    }

    pub(crate) fn open(&self, path: &Path, open: Open) -> Result<Arc<dyn DiskFile>, DeviceError> {
        let action = if open == Open::Empty { "create" } else { "open" };
        let file = match open {
            Open::Existing if self.is_read_only => self.disk.open_to_read(path),
            _ => self.disk.open(path, open),
        };
        file.map_err(at(action, path))
    }

    pub(crate) fn remove(&self, path: &Path) -> Result<(), DeviceError> {
        self.disk.remove(path).map_err(at("remove", path))
    }

    pub(crate) fn sync_dir(&self) -> Result<(), DeviceError> {
        self.disk.sync_dir(&self.dir).map_err(at("sync the folder", &self.dir))
    }

    /// Creates a file with these contents, or none at all: the file gets its name after its contents are durable.
    pub(crate) fn create(
        &self,
        path: &Path,
        bytes: &[u8],
    ) -> Result<Arc<dyn DiskFile>, DeviceError> {
        let unfinished = Self::unfinished(path);
        let file = self.open(&unfinished, Open::Empty)?;
        file.write_at(&[std::io::IoSlice::new(bytes)], 0).map_err(at("write to", &unfinished))?;
        file.sync().map_err(at("sync", &unfinished))?;
        self.disk.rename(&unfinished, path).map_err(at("rename", &unfinished))?;
        self.sync_dir()?;
        Ok(file)
    }
}
