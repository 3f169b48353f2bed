//! A disk that is soon full.

use std::{path::Path, process::Command};

use tempfile::TempDir;

/// A file system in memory of so many megabytes, at a folder. It is there until this is dropped.
pub struct SmallDisk(TempDir);

impl SmallDisk {
    /// None, and says so, where this user may not mount anything.
    pub fn new(megabytes: u32) -> Option<Self> {
        let folder = tempfile::tempdir().unwrap();
        let size = format!("size={megabytes}m");
        if !mount(&["-t", "tmpfs", "-o", &size, "tmpfs"], folder.path()) {
            eprintln!("SKIPPED: a small disk: this user cannot mount a tmpfs");
            return None;
        }
        Some(Self(folder))
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        self.0.path()
    }

    /// From here on it has so many megabytes.
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
