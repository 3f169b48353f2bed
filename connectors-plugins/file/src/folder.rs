//! Folder operations. A new or renamed file is durable only once its folder is synced.

use std::{
    fs::{self, File, Metadata},
    io,
    os::unix::fs::MetadataExt,
    path::Path,
};

/// Syncs the folder that contains `path`, so that the entry of the file is durable.
pub(crate) fn sync_parent(path: &Path) -> io::Result<()> {
    File::open(parent(path))?.sync_all()
}

/// Returns the folder that contains `path`.
pub(crate) fn parent(path: &Path) -> &Path {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Returns the device and the inode of a file, which identify the file while it is open.
pub(crate) fn identity(metadata: &Metadata) -> (u64, u64) {
    (metadata.dev(), metadata.ino())
}

/// Returns whether `path` still names `file`.
pub(crate) fn has(path: &Path, file: &File) -> bool {
    let identity = |metadata: Metadata| identity(&metadata);
    let (ours, named) = (file.metadata().map(identity).ok(), fs::metadata(path).map(identity).ok());
    ours.is_some() && ours == named
}
