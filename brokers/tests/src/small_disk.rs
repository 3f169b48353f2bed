//! A file system of limited size, for tests of a full disk.

use std::{path::Path, process::Command};

use tempfile::TempDir;

/// A file system in memory, mounted at a folder until this value is dropped.
pub struct SmallDisk(TempDir);

impl SmallDisk {
    /// Mounts a file system of this size. If this user may not mount file systems, prints a message and returns `None`.
    pub fn new(megabytes: u32) -> Option<Self> {
        let folder = tempfile::tempdir().unwrap();
        let size = format!("size={megabytes}m");
        if !mount(&["-t", "tmpfs", "-o", &size, "tmpfs"], folder.path()) {
            eprintln!("SKIPPED: a small disk: this user cannot mount a tmpfs");
            return None;
        }
        Some(Self(folder))
    }

    /// Returns the path of the mounted folder.
    pub fn path(&self) -> &Path {
        self.0.path()
    }

    /// Changes the size of the file system.
    pub fn resize(&self, megabytes: u32) {
        assert!(mount(&["-o", &format!("remount,size={megabytes}m")], self.path()));
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").args(["-l".as_ref(), self.path().as_os_str()]).status();
    }
}

fn mount(arguments: &[&str], at: &Path) -> bool {
    Command::new("mount").args(arguments).arg(at).status().is_ok_and(|it| it.success())
}
