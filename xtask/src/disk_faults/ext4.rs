//! An ext4 file system in a file, mounted through a loop device.

use std::fs::File;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};
use tempfile::TempDir;

use crate::project::output;

/// A mounted file system, which is unmounted when it is dropped.
pub(super) struct Ext4 {
    /// A folder with the file `image` and the folder `mount`.
    folder: TempDir,
}

impl Ext4 {
    /// Creates a file system of `bytes` bytes, and mounts it at a temporary folder.
    ///
    /// # Errors
    /// The machine has no loop devices or no `mkfs.ext4`, or the user may not mount.
    pub(super) fn mount(bytes: u64) -> Result<Self> {
        let folder = tempfile::Builder::new().prefix("ext4-").tempdir()?;
        let (image, mount) = (folder.path().join("image"), folder.path().join("mount"));
        File::create(&image)?.set_len(bytes)?;
        std::fs::create_dir(&mount)?;
        output(Command::new("mkfs.ext4").args(["-q", "-F"]).arg(&image))?;
        output(Command::new("mount").args(["-o", "loop"]).args([&image, &mount]))
            .context("cannot mount a loop device; run this as root")?;
        Ok(Self { folder })
    }

    /// Returns the folder at which the file system is mounted.
    pub(super) fn path(&self) -> std::path::PathBuf {
        self.folder.path().join("mount")
    }

    /// Returns the number of segments in the folder of a queue.
    pub(super) fn segments(queue: &Path) -> Result<usize> {
        let entries =
            queue.read_dir().with_context(|| format!("cannot read {}", queue.display()))?;
        let names = entries.filter_map(|it| it.ok()?.file_name().into_string().ok());
        Ok(names.filter(|it| it.ends_with(".segment")).count())
    }
}

impl Drop for Ext4 {
    fn drop(&mut self) {
        // A process that uses the file system was killed before. If it could not be, the mount ends with it.
        let mut umount = Command::new("umount");
        if let Err(error) = output(umount.arg("--lazy").arg(self.path())) {
            eprintln!("{error:#}");
        }
    }
}
