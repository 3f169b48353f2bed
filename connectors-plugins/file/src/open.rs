//! Opening the file, and saying why it cannot be opened.

use std::{
    fs::{self, File, OpenOptions},
    io,
    os::unix::fs::{FileTypeExt, OpenOptionsExt},
    path::{self, Path},
};

use rustix::{fs::OFlags, io::Errno};
use tremor_pdk::{Error, ErrorKind, Result};

use crate::Mode;

/// Opens the file for `mode`, and changes nothing in it. May block.
pub(crate) fn open(path: &Path, mode: Mode) -> Result<File> {
    let mut options = OpenOptions::new();
    match mode {
        Mode::Read => options.read(true),
        // A file is truncated once it is locked, because another process may be writing to it until then. With
        // `append` each write begins at the file's end, also after others have truncated the file.
        Mode::Write | Mode::Append | Mode::Truncate => options.append(true).create(true),
    };
    let opened = if is_pipe(path) { open_pipe(&mut options, path) } else { options.open(path) };
    let file = opened.map_err(|error| cannot_open(path, mode, &error))?;
    let metadata = file.metadata().map_err(|error| cannot_open(path, mode, &error))?;
    if metadata.is_dir() {
        return Err(cannot_open(path, mode, &io::ErrorKind::IsADirectory.into()));
    }
    if mode == Mode::Write && metadata.is_file() && metadata.len() > 0 {
        return Err(Error::configuration(format!(
            "`{}` exists and is not empty: choose another `path`, or a `mode`: `append` to keep \
             what is in it, `truncate` to lose it",
            path.display()
        )));
    }
    Ok(file)
}

/// Returns whether opening `path` for writing failed with `error` because it is a named pipe that no process reads.
pub(crate) fn lacks_reader(path: &Path, error: &Error) -> bool {
    error.kind() == ErrorKind::CONNECTION_REFUSED && is_pipe(path)
}

/// Returns whether `path` is a named pipe that can be waited for. Elsewhere than on Linux a pipe that nobody has
/// written to yet cannot be told from one whose writers are gone, so that opening it has to block.
fn is_pipe(path: &Path) -> bool {
    cfg!(target_os = "linux") && fs::metadata(path).is_ok_and(|it| it.file_type().is_fifo())
}

fn is_socket(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|it| it.file_type().is_socket())
}

/// Opens a named pipe without waiting for its other end: a thread that waits there would be lost to all flows.
fn open_pipe(options: &mut OpenOptions, path: &Path) -> io::Result<File> {
    let file = options.custom_flags(OFlags::NONBLOCK.bits().cast_signed()).open(path)?;
    rustix::io::ioctl_fionbio(&file, false)?;
    Ok(file)
}

pub(crate) fn cannot_open(path: &Path, mode: Mode, error: &io::Error) -> Error {
    let doing = if mode == Mode::Read { "read" } else { "write" };
    let remedy = match error.kind() {
        io::ErrorKind::NotFound if mode == Mode::Read => "there is no such file: correct `path`",
        io::ErrorKind::NotFound => "its folder does not exist: make it, or correct `path`",
        io::ErrorKind::PermissionDenied => "permission denied: change who may, or choose another",
        io::ErrorKind::IsADirectory => "it is a folder: name a file in it",
        io::ErrorKind::NotADirectory => "what stands for a folder in it is a file: correct `path`",
        io::ErrorKind::ReadOnlyFilesystem => "its file system is read-only: choose another",
        // A pipe without a reader, a socket, or a device that is not there.
        _ if error.raw_os_error() == Some(Errno::NXIO.raw_os_error()) => {
            if mode != Mode::Read && is_pipe(path) {
                return Error::connection_refused(format!(
                    "cannot {doing} {}: no process reads the pipe: start its reader, or correct `path`",
                    named(path)
                ));
            }
            if is_socket(path) {
                "it is a socket: use a connector of type `unix_client`, or correct `path`"
            } else {
                "its device does not exist: correct `path`"
            }
        }
        // What remains may be over in a moment; its kind says so.
        _ => return transient(error).context(format!("cannot {doing} {}", named(path))),
    };
    Error::configuration(format!("cannot {doing} {}: {remedy}", named(path)))
}

/// Returns an error of the kind that fits `error`, shortages included, which only its number tells.
pub(crate) fn transient(error: &io::Error) -> Error {
    match ErrorKind::of_shortage(error) {
        Some(kind) => Error::new(kind, error),
        None => Error::from(io::Error::new(error.kind(), error.to_string())),
    }
}

/// The path as configured and, where that is not the same, in full.
fn named(path: &Path) -> String {
    match path::absolute(path) {
        Ok(full) if full != path => format!("`{}` ({})", path.display(), full.display()),
        _ => format!("`{}`", path.display()),
    }
}

#[cfg(test)]
mod tests {
    use std::{fs, io, path::Path};

    use tremor_pdk::{Error, ErrorKind};

    use super::{cannot_open, open};
    use crate::Mode;

    fn assert_configuration(error: &Error, path: &Path, remedy: &str) {
        assert_eq!(error.kind(), ErrorKind::CONFIGURATION);
        let message = error.to_string();
        assert!(message.contains(&path.display().to_string()), "{message}");
        assert!(message.contains(remedy), "{message}");
    }

    #[test]
    fn what_is_not_there_cannot_be_read_but_written() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("missing");
        assert_configuration(&open(&path, Mode::Read).unwrap_err(), &path, "no such file");
        for mode in [Mode::Write, Mode::Append, Mode::Truncate] {
            open(&path, mode).unwrap();
            fs::remove_file(&path).unwrap();
        }
        let path = path.join("deeper");
        assert_configuration(&open(&path, Mode::Write).unwrap_err(), &path, "folder");
    }

    #[test]
    fn a_folder_is_not_a_file() {
        let folder = tempfile::tempdir().unwrap();
        for mode in [Mode::Read, Mode::Write, Mode::Append, Mode::Truncate] {
            let error = open(folder.path(), mode).unwrap_err();
            assert_configuration(&error, folder.path(), "it is a folder");
        }
    }

    #[test]
    fn write_leaves_alone_what_is_there() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("out");
        fs::write(&path, "").unwrap();
        open(&path, Mode::Write).unwrap();
        fs::write(&path, "precious").unwrap();
        assert_configuration(&open(&path, Mode::Write).unwrap_err(), &path, "`append`");
        assert_eq!(fs::read(&path).unwrap(), b"precious");
    }

    #[test]
    fn what_the_user_can_mend_is_final_and_says_how() {
        let path = Path::new("/some/where");
        for (kind, remedy) in [
            (io::ErrorKind::PermissionDenied, "permission"),
            (io::ErrorKind::ReadOnlyFilesystem, "read-only"),
        ] {
            assert_configuration(&cannot_open(path, Mode::Append, &kind.into()), path, remedy);
        }
        let busy = cannot_open(path, Mode::Append, &io::ErrorKind::TimedOut.into());
        assert_eq!(busy.kind(), ErrorKind::TIMEOUT);
        assert!(busy.to_string().contains("cannot write `/some/where`"), "{busy}");
        let shortage = cannot_open(path, Mode::Append, &io::Error::from_raw_os_error(24));
        assert_eq!(shortage.kind(), ErrorKind::SHORTAGE);
    }

    #[test]
    fn a_relative_path_is_shown_in_full_as_well() {
        let error = open(Path::new("no/such/file"), Mode::Read).unwrap_err();
        let full = std::env::current_dir().unwrap().join("no/such/file");
        assert_configuration(&error, Path::new("`no/such/file`"), &full.display().to_string());
    }
}
