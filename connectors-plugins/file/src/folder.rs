//! Folders: the entry of a file is on the disk only once its folder is.

use std::{
    fs::{self, File, Metadata},
    io,
    os::unix::fs::MetadataExt,
    path::Path,
};

/// Has the entries of the folder that `path` lies in put on the disk.
pub(crate) fn sync_parent(path: &Path) -> io::Result<()> {
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    File::open(parent.unwrap_or(Path::new(".")))?.sync_all()
}

/// Returns the device and the inode of a file, which tell it from all others while it is open.
pub(crate) fn identity(metadata: &Metadata) -> (u64, u64) {
    (metadata.dev(), metadata.ino())
}

/// Whether `file` still lies at `path`.
pub(crate) fn has(path: &Path, file: &File) -> bool {
    let identity = |metadata: Metadata| identity(&metadata);
    let (ours, named) = (file.metadata().map(identity).ok(), fs::metadata(path).map(identity).ok());
    ours.is_some() && ours == named
}
