//! Folders: the entry of a file is on the disk only once its folder is.

use std::{fs::File, io, path::Path};

/// Has the entries of the folder that `path` lies in put on the disk.
pub(crate) fn sync_parent(path: &Path) -> io::Result<()> {
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    File::open(parent.unwrap_or(Path::new(".")))?.sync_all()
}
