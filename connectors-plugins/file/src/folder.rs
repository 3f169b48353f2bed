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

/// Whether `file` still lies at `path`.
pub(crate) fn has(path: &Path, file: &File) -> bool {
    let place = |metadata: Metadata| (metadata.dev(), metadata.ino());
    let (ours, named) = (file.metadata().map(place).ok(), fs::metadata(path).map(place).ok());
    ours.is_some() && ours == named
}
