//! Opens files, and adds a remedy to the error if that fails.

use std::{
    fs::{self, File, OpenOptions},
    io,
    os::unix::fs::{FileTypeExt, OpenOptionsExt},
    path::{self, Path},
};

use rustix::{fs::OFlags, io::Errno};
use tremor_pdk::{Error, ErrorKind, Result};

use crate::Mode;

/// Opens the file for `mode` without changing its contents. May block.
pub(crate) fn open(path: &Path, mode: Mode) -> Result<File> {
    let mut options = OpenOptions::new();
    match mode {
        Mode::Read => options.read(true),
        // Do not truncate here: with `sync` the file has to be locked first, because another
        // process may still be writing to it. `append` makes each write start at the end of the
        // file, even after another process has truncated the file.
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
            "`{}` exists and is not empty: choose another `path`, `mode: append` to keep its contents, or \
             `mode: truncate` to discard them",
            path.display()
        )));
    }
    Ok(file)
}

/// Returns whether opening `path` for writing failed with `error` because it is a named pipe that
/// no process reads.
pub(crate) fn lacks_reader(path: &Path, error: &Error) -> bool {
    error.kind() == ErrorKind::CONNECTION_REFUSED && is_pipe(path)
}

/// Returns whether `path` is a named pipe whose readiness can be awaited. Returns `false` on
/// systems other than Linux. Other systems do not distinguish a pipe that has had no writer yet from
/// a pipe whose writers are gone, so opening the pipe has to block.
fn is_pipe(path: &Path) -> bool {
    cfg!(target_os = "linux") && fs::metadata(path).is_ok_and(|it| it.file_type().is_fifo())
}

fn is_socket(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|it| it.file_type().is_socket())
}

/// Opens a named pipe without waiting for a process at the other end, because a thread that waits
/// would not be available to any flow.
fn open_pipe(options: &mut OpenOptions, path: &Path) -> io::Result<File> {
    let file = options.custom_flags(OFlags::NONBLOCK.bits().cast_signed()).open(path)?;
    rustix::io::ioctl_fionbio(&file, false)?;
    Ok(file)
}

/// Remedy for a path that the system does not accept because of its length.
pub(crate) const TOO_LONG: &str = "a name in the path has more than 255 bytes, or the whole path has more than 4,095; shorten `path`";

pub(crate) fn cannot_open(path: &Path, mode: Mode, error: &io::Error) -> Error {
    let doing = if mode == Mode::Read { "read" } else { "write" };
    let remedy = match error.kind() {
        io::ErrorKind::NotFound if mode == Mode::Read => "there is no such file; correct `path`",
        io::ErrorKind::NotFound => "its folder does not exist; create it, or correct `path`",
        io::ErrorKind::PermissionDenied => {
            "permission denied; change the permissions, or correct `path`"
        }
        io::ErrorKind::IsADirectory => "it is a folder; choose a file in it",
        io::ErrorKind::NotADirectory => {
            "a parent in the path is a file and not a folder; correct `path`"
        }
        io::ErrorKind::InvalidFilename => TOO_LONG,
        io::ErrorKind::ReadOnlyFilesystem => "its file system is read-only; correct `path`",
        // ENXIO is the error of a pipe without a reader, of a socket, and of a device that does not
        // exist.
        _ if error.raw_os_error() == Some(Errno::NXIO.raw_os_error()) => {
            if mode != Mode::Read && is_pipe(path) {
                return Error::connection_refused(format!(
                    "cannot {doing} {}: no process reads the pipe; start its reader, or correct `path`",
                    named(path)
                ));
            }
            if is_socket(path) {
                "it is a socket; use a connector of type `unix_client`, or correct `path`"
            } else {
                "its device does not exist; correct `path`"
            }
        }
        // Other errors may be temporary; `transient` chooses the kind.
        _ => return transient(error).context(format!("cannot {doing} {}", named(path))),
    };
    Error::configuration(format!("cannot {doing} {}: {remedy}", named(path)))
}

/// Converts an I/O error that may be temporary. A shortage is detected by its error number.
pub(crate) fn transient(error: &io::Error) -> Error {
    match ErrorKind::of_shortage(error) {
        Some(kind) => Error::new(kind, error),
        None => Error::from(io::Error::new(error.kind(), error.to_string())),
    }
}

/// Returns the path as configured, followed by the absolute path if they differ.
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
    fn missing_file_is_created_but_cannot_be_read() {
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
    fn folder_is_rejected() {
        let folder = tempfile::tempdir().unwrap();
        for mode in [Mode::Read, Mode::Write, Mode::Append, Mode::Truncate] {
            let error = open(folder.path(), mode).unwrap_err();
            assert_configuration(&error, folder.path(), "it is a folder");
        }
    }

    #[test]
    fn name_that_is_too_long_is_rejected_with_the_limit() {
        let folder = tempfile::tempdir().unwrap();
        for path in
            [folder.path().join("x".repeat(256)), folder.path().join("x".repeat(256)).join("a")]
        {
            for mode in [Mode::Read, Mode::Append] {
                assert_configuration(&open(&path, mode).unwrap_err(), &path, "more than 255 bytes");
            }
        }
    }

    #[test]
    fn write_keeps_existing_contents() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("out");
        fs::write(&path, "").unwrap();
        open(&path, Mode::Write).unwrap();
        fs::write(&path, "precious").unwrap();
        assert_configuration(&open(&path, Mode::Write).unwrap_err(), &path, "`mode: append`");
        assert_eq!(fs::read(&path).unwrap(), b"precious");
    }

    #[test]
    fn error_that_the_user_can_fix_is_final_and_has_a_remedy() {
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
    fn relative_path_is_also_shown_in_full() {
        let error = open(Path::new("no/such/file"), Mode::Read).unwrap_err();
        let full = std::env::current_dir().unwrap().join("no/such/file");
        assert_configuration(&error, Path::new("`no/such/file`"), &full.display().to_string());
    }
}
