//! Path of an output file, and operations in its folder.
//!
//! A path that contains values of events leads to a file below a folder of the configuration. Below that folder no
//! symbolic link is followed, because another user who may write there could otherwise redirect the output. Each
//! operation therefore opens the folders one after the other.

use std::{
    ffi::{OsStr, OsString},
    fs::File,
    io,
    os::{
        fd::{AsFd, BorrowedFd, OwnedFd},
        unix::ffi::OsStrExt,
    },
    path::{Path, PathBuf},
    sync::Arc,
};

use rustix::{
    fs::{self, AtFlags, CWD, Dir, OFlags},
    io::Errno,
};
use tremor_pdk::{Error, ErrorPolicy, Result};

use crate::{Mode, folder, open};

/// Flags that open a folder. With `O_PATH`, which only Linux has, the permission to search the folder is sufficient.
const FOLDER: OFlags = if cfg!(target_os = "linux") {
    OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC)
} else {
    OFlags::DIRECTORY.union(OFlags::CLOEXEC)
};

/// Flags that open an output file below a folder. Opening a pipe or a device must not wait.
const FILE: OFlags = OFlags::WRONLY
    .union(OFlags::APPEND)
    .union(OFlags::CREATE)
    .union(OFlags::NOFOLLOW)
    .union(OFlags::NONBLOCK)
    .union(OFlags::NOCTTY)
    .union(OFlags::CLOEXEC);

/// Maximum number of attempts to open a file while another process deletes its folders.
const ATTEMPTS: usize = 3;

/// Path of an output file.
#[derive(Clone, Debug)]
pub(super) struct Location {
    path: PathBuf,
    base: Option<Base>,
}

/// Start of the path of a file that events name.
#[derive(Clone, Debug)]
struct Base {
    /// The folder of the configuration. Symbolic links in it are followed.
    folder: Arc<Path>,
    /// Number of bytes of the path below that folder.
    below: usize,
}

/// The folder of an output file.
pub(super) struct Folder<'l> {
    location: &'l Location,
    /// The open folder. `None` if the file has a path of the configuration, which is used as a whole.
    opened: Option<OwnedFd>,
}

impl Location {
    /// Returns the location of a path of the configuration, in which symbolic links are followed.
    pub(super) const fn fixed(path: PathBuf) -> Self {
        Self { path, base: None }
    }

    /// Returns the location of the file `name` below a folder. `name` must not contain components that are empty, `.`
    /// or `..`.
    pub(super) fn below(folder: &Arc<Path>, name: &str) -> Self {
        let base = Base { folder: folder.clone(), below: name.len() };
        Self { path: folder.join(name), base: Some(base) }
    }

    /// Returns the whole path.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Returns `true` if an event has named the file.
    pub(super) const fn is_below(&self) -> bool {
        self.base.is_some()
    }

    /// Opens the file for `mode` without changing its contents. Below a folder, creates missing folders as well, and
    /// with `is_durable` makes their entries durable.
    pub(super) fn open(&self, mode: Mode, is_durable: bool) -> Result<File> {
        let Some(base) = &self.base else { return open::open(&self.path, mode) };
        let mut opened = self.open_below(base, is_durable);
        for _ in 1..ATTEMPTS {
            if !matches!(&opened, Err(error) if error.kind() == io::ErrorKind::NotFound) {
                break;
            }
            opened = self.open_below(base, is_durable);
        }
        opened.map_err(|error| self.cannot_open(base, &error))
    }

    fn open_below(&self, base: &Base, is_durable: bool) -> io::Result<File> {
        let folder = self.enter(base, Some(is_durable))?;
        let file = File::from(fs::openat(&folder, self.name(), FILE, mode(0o666))?);
        // A pipe without a reader and a socket cause the same error.
        if file.metadata()?.is_file() { Ok(file) } else { Err(Errno::NXIO.into()) }
    }

    fn name(&self) -> &OsStr {
        self.path.file_name().unwrap_or_default()
    }

    /// Opens the folder of the file. With `Some`, creates missing folders, whose entries are made durable if the value
    /// is `true`.
    fn enter(&self, base: &Base, create: Option<bool>) -> io::Result<OwnedFd> {
        let mut folder = fs::open(&*base.folder, FOLDER, mode(0))?;
        let bytes = self.path.as_os_str().as_bytes();
        let below = Path::new(OsStr::from_bytes(&bytes[bytes.len() - base.below..]));
        for name in below.parent().unwrap_or(Path::new("")) {
            let open = || fs::openat(&folder, name, FOLDER | OFlags::NOFOLLOW, mode(0));
            folder = match (open(), create) {
                (Err(Errno::NOENT), Some(is_durable)) => {
                    match fs::mkdirat(&folder, name, mode(0o777)) {
                        Ok(()) | Err(Errno::EXIST) => {}
                        Err(error) => return Err(error.into()),
                    }
                    if is_durable {
                        sync(folder.as_fd())?;
                    }
                    open()?
                }
                (opened, _) => opened?,
            };
        }
        Ok(folder)
    }

    /// Returns the folder of the file, which has to exist.
    pub(super) fn folder(&self) -> io::Result<Folder<'_>> {
        let opened = self.base.as_ref().map(|base| self.enter(base, None)).transpose()?;
        Ok(Folder { location: self, opened })
    }

    /// Makes the entry of the file in its folder durable.
    pub(super) fn sync_folder(&self) -> io::Result<()> {
        match &self.base {
            None => folder::sync_parent(&self.path),
            Some(base) => sync(self.enter(base, None)?.as_fd()),
        }
    }

    /// Converts an error of opening a file that an event has named. An error that only this file has does not concern
    /// the other events, so these events are not delivered again.
    fn cannot_open(&self, base: &Base, error: &io::Error) -> Error {
        if let Err(error) = fs::open(&*base.folder, FOLDER, mode(0)) {
            let (error, folder) = (io::Error::from(error), base.folder.display());
            let message = format!(
                "cannot write files below `{folder}`: {error}; create the folder, or change its permissions"
            );
            return Error::new(open::transient(&error).kind(), message)
                .with_policy(ErrorPolicy::RETRY);
        }
        let remedy = match Errno::from_io_error(error) {
            Some(Errno::ACCESS | Errno::PERM) => "permission denied; change the permissions",
            Some(Errno::ISDIR) => "it is a folder; move it away",
            Some(Errno::LOOP) => {
                "it is a symbolic link, and below the fixed start of `path` none is followed; move it away"
            }
            Some(Errno::NOTDIR) => {
                "a folder in the path is a file or a symbolic link, and below the fixed start of `path` none is \
                 followed; move it away"
            }
            Some(Errno::NXIO) => "it is not a regular file; move it away",
            Some(Errno::NAMETOOLONG | Errno::INVAL | Errno::ILSEQ) => {
                "the file system does not accept the name; change the template"
            }
            _ => {
                let error = open::transient(error).with_policy(ErrorPolicy::RETRY);
                return error.context(format_args!("cannot write `{}`", self.path.display()));
            }
        };
        Error::configuration(format_args!("cannot write `{}`: {remedy}", self.path.display()))
            .with_policy(ErrorPolicy::DEAD_LETTER)
    }
}

impl Folder<'_> {
    fn fd(&self) -> BorrowedFd<'_> {
        self.opened.as_ref().map_or(CWD, AsFd::as_fd)
    }

    /// Returns the path of another file in the folder, for the system.
    fn entry(&self, name: &OsStr) -> PathBuf {
        if self.opened.is_some() { name.into() } else { self.location.path.with_file_name(name) }
    }

    /// Opens the output file for reading.
    pub(super) fn read(&self) -> io::Result<File> {
        let follow = if self.opened.is_some() { OFlags::NOFOLLOW } else { OFlags::empty() };
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | follow;
        Ok(fs::openat(self.fd(), self.entry(self.location.name()), flags, mode(0))?.into())
    }

    /// Creates a file that did not exist.
    pub(super) fn create_new(&self, name: &OsStr) -> io::Result<File> {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        Ok(fs::openat(self.fd(), self.entry(name), flags, mode(0o666))?.into())
    }

    /// Returns whether the folder has an entry of this name.
    pub(super) fn has(&self, name: &OsStr) -> io::Result<bool> {
        match fs::statat(self.fd(), self.entry(name), AtFlags::SYMLINK_NOFOLLOW) {
            Ok(_) => Ok(true),
            Err(Errno::NOENT) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// Renames the output file.
    pub(super) fn rename_to(&self, name: &OsStr) -> io::Result<()> {
        let from = self.entry(self.location.name());
        Ok(fs::renameat(self.fd(), from, self.fd(), self.entry(name))?)
    }

    /// Deletes a file.
    pub(super) fn remove(&self, name: &OsStr) -> io::Result<()> {
        Ok(fs::unlinkat(self.fd(), self.entry(name), AtFlags::empty())?)
    }

    /// Calls `visit` with the name of each entry.
    pub(super) fn visit(&self, mut visit: impl FnMut(&OsStr)) -> io::Result<()> {
        let path = match &self.opened {
            Some(_) => Path::new("."),
            None => folder::parent(&self.location.path),
        };
        let folder = fs::openat(self.fd(), path, OFlags::DIRECTORY | OFlags::CLOEXEC, mode(0))?;
        let mut entries = Dir::new(folder)?;
        while let Some(entry) = entries.read() {
            visit(OsStr::from_bytes(entry?.file_name().to_bytes()));
        }
        Ok(())
    }

    /// Makes the entries of the folder durable.
    pub(super) fn sync(&self) -> io::Result<()> {
        match &self.opened {
            Some(opened) => sync(opened.as_fd()),
            None => folder::sync_parent(&self.location.path),
        }
    }

    /// Returns the whole path of a file in the folder, for messages.
    pub(super) fn path_of(&self, name: &OsStr) -> PathBuf {
        self.location.path.with_file_name(name)
    }

    /// Returns the name of the output file.
    pub(super) fn name(&self) -> OsString {
        self.location.name().to_owned()
    }
}

const fn mode(bits: u32) -> fs::Mode {
    fs::Mode::from_bits_retain(bits)
}

/// Makes the entries of a folder durable that may be opened only to search it.
fn sync(folder: BorrowedFd<'_>) -> io::Result<()> {
    let readable = fs::openat(folder, ".", OFlags::DIRECTORY | OFlags::CLOEXEC, mode(0))?;
    Ok(fs::fsync(readable)?)
}
