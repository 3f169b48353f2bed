//! Bytes that were cut or skipped, kept beside the log for a person to look at.

use std::io::IoSlice;
use std::path::PathBuf;

use crate::disk::{DiskFile, Open};
use crate::error::{DeviceError, at};
use crate::files::Files;

/// Bytes that are copied at a time.
const COPY: u64 = 1 << 20;

/// The folder with what is kept. Its files are removed from the oldest one when they exceed `limit` bytes.
pub(crate) struct Kept<'a> {
    files: &'a Files,
    limit: u64,
    /// Number of files that were removed because of the limit.
    pub(crate) removed: u64,
    /// Number of parts that could not be kept, because the disk was full or failed.
    pub(crate) failed: u64,
}

impl<'a> Kept<'a> {
    pub(crate) fn new(files: &'a Files, limit: u64) -> Self {
        Self { files, limit, removed: 0, failed: 0 }
    }

    /// Keeps the bytes from `from` to `to` of a file. Returns the path of the copy, or `None` if it could not be made,
    /// which does not stop the log from being opened.
    ///
    /// A part that was kept before is not kept twice: `sequence` and `from` identify it.
    pub(crate) fn keep(
        &mut self,
        sequence: u64,
        file: &dyn DiskFile,
        from: u64,
        to: u64,
    ) -> Option<PathBuf> {
        let to = to.min(from + self.limit);
        let copy = self.copy(sequence, file, from, to);
        self.failed += u64::from(copy.is_err());
        copy.ok()
    }

    fn copy(
        &mut self,
        sequence: u64,
        file: &dyn DiskFile,
        from: u64,
        to: u64,
    ) -> Result<PathBuf, DeviceError> {
        let dir = self.files.kept();
        let disk = &self.files.disk;
        if !disk.is_dir(&dir).map_err(at("open", &dir))? {
            disk.create_dir(&dir).map_err(at("create", &dir))?;
            self.files.sync_dir()?;
        }
        let names = self.files.list(&dir)?;
        let part = format!("-segment-{sequence:016x}-from-{from:012x}");
        // The names sort by age, because they begin with a number.
        let next =
            names.iter().filter_map(|it| it.get(..10)?.parse::<u64>().ok()).max().unwrap_or(0) + 1;
        let earlier = names.iter().find(|it| it.ends_with(&part));
        let path = dir.join(earlier.cloned().unwrap_or_else(|| format!("{next:010}{part}")));
        self.make_space(&names, to - from)?;
        let copy = self.files.open(&path, Open::Empty)?;
        let mut buffer = Vec::new();
        let mut offset = from;
        while offset < to {
            buffer.resize(COPY.min(to - offset) as usize, 0);
            let read = file.read_at(&mut buffer, offset).map_err(at("read", &path))?;
            if read == 0 {
                break;
            }
            copy.write_at(&[IoSlice::new(&buffer[..read])], offset - from)
                .map_err(at("write to", &path))?;
            offset += read as u64;
        }
        copy.sync().map_err(at("sync", &path))?;
        disk.sync_dir(&dir).map_err(at("sync the folder", &dir))?;
        Ok(path)
    }

    /// Removes the oldest files until `len` more bytes fit.
    fn make_space(&mut self, names: &[String], len: u64) -> Result<(), DeviceError> {
        let mut files = Vec::new();
        for name in names {
            let path = self.files.kept().join(name);
            let len = self.files.open(&path, Open::Existing)?.size().map_err(at("open", &path))?;
            files.push((path, len));
        }
        let mut total = files.iter().map(|it| it.1).sum::<u64>() + len;
        for (path, len) in files {
            if total <= self.limit {
                break;
            }
            self.files.remove(&path)?;
            self.removed += 1;
            total -= len;
        }
        Ok(())
    }
}
