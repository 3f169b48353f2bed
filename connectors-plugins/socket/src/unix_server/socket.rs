//! A Unix socket in the file system, from its creation to its removal: for connections or for datagrams.

use std::{
    fs, io,
    os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt},
    path::{Path, PathBuf},
};

use rustix::{
    fd::OwnedFd,
    fs::{FlockOperation, fchmod, flock},
    io::Errno,
    net::{
        AddressFamily, SocketAddrUnix, SocketFlags, SocketType, bind, connect, listen, socket_with,
    },
};
use tremor_pdk::{Error, Result};

use super::{Kind, Mode};

/// Maximum number of connections that wait to be accepted. The system has its own limit
/// (`somaxconn`).
const BACKLOG: i32 = 1_024;

/// A socket that listens for connections or receives datagrams. Dropping it removes its file.
#[derive(Debug)]
pub(crate) struct Socket {
    descriptor: OwnedFd,
    kind: Kind,
    path: PathBuf,
    /// Device and inode of the socket's file, because another process may have created a file at
    /// this path meanwhile.
    identity: (u64, u64),
    mode: Option<Mode>,
}

impl Socket {
    /// Listens at `path`, or receives datagrams there. Removes a socket that an earlier process has left. Does not touch a
    /// socket on which a process listens, or a file that is not a socket.
    pub(crate) fn listen(path: &Path, mode: Option<Mode>, kind: Kind) -> Result<Self> {
        let failed = |error: io::Error| cannot_listen(path, &error);
        let address = SocketAddrUnix::new(path).map_err(|_| {
            let message = "the path is too long for a socket; choose one of at most 107 bytes";
            Error::configuration(format!("cannot listen on `{}`: {message}", path.display()))
        })?;
        // Lock the folder: otherwise another process could start to listen between the check
        // whether the socket is in use and its removal.
        let _starting = Starting::at(path)?;
        remove_stale(path, &address, kind)?;
        let socket = open(kind).map_err(|error| failed(error.into()))?;
        if let Some(mode) = mode {
            // The file gets these permissions without those of the umask. A client can send datagrams as soon as
            // the file exists.
            fchmod(&socket, mode.get().into()).map_err(|error| failed(error.into()))?;
        }
        bind(&socket, &address).map_err(|error| failed(error.into()))?;
        let metadata = fs::symlink_metadata(path).map_err(failed)?;
        let identity = (metadata.dev(), metadata.ino());
        let this = Self { descriptor: socket, kind, path: path.to_owned(), identity, mode };
        if let Some(mode) = mode {
            // Set the permissions before the socket listens, because until then no client can
            // connect.
            let permissions = fs::Permissions::from_mode(mode.get());
            fs::set_permissions(path, permissions).map_err(failed)?;
        }
        if kind == Kind::Stream {
            listen(&this.descriptor, BACKLOG).map_err(|error| failed(error.into()))?;
        }
        Ok(this)
    }

    /// Returns whether the path still leads to this socket. Clients reach the socket only by its
    /// path.
    pub(crate) fn is_reachable(&self) -> bool {
        let is_ours = |it: &fs::Metadata| (it.dev(), it.ino()) == self.identity;
        fs::symlink_metadata(&self.path).is_ok_and(|it| is_ours(&it))
    }

    /// Replaces the socket by a new one at the same path, and returns the new one for the source.
    /// On an error the current socket stays.
    pub(crate) fn renew<S: From<OwnedFd>>(&mut self) -> Result<S> {
        let socket = Self::listen(&self.path, self.mode, self.kind)?;
        let duplicate = socket.duplicate()?;
        *self = socket;
        Ok(duplicate)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the socket for the source, as a type of the standard library that fits its kind.
    pub(crate) fn duplicate<S: From<OwnedFd>>(&self) -> io::Result<S> {
        self.descriptor.try_clone().map(S::from)
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        let Ok(_starting) = Starting::at(&self.path) else { return };
        if self.is_reachable() {
            // Ignore an error: the next process removes the file.
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// Exclusive lock for creating and removing sockets in a folder. The folder itself is locked, so
/// that no lock file remains. The lock is released when this value is dropped or the process ends.
struct Starting(fs::File);

impl Drop for Starting {
    /// Closing the file is not enough: a child process that another thread is starting has a copy of the descriptor until
    /// it executes its program.
    fn drop(&mut self) {
        // If this fails, the lock is released when the last copy is closed.
        _ = flock(&self.0, FlockOperation::Unlock);
    }
}

impl Starting {
    fn at(path: &Path) -> Result<Self> {
        let folder = path.parent().filter(|it| !it.as_os_str().is_empty());
        let folder = fs::File::open(folder.unwrap_or(Path::new(".")));
        let folder = folder.map_err(|error| cannot_listen(path, &error))?;
        match flock(&folder, FlockOperation::NonBlockingLockExclusive) {
            // The file system does not support locks.
            Ok(()) | Err(Errno::NOTSUP | Errno::NOLCK | Errno::NOSYS) => Ok(Self(folder)),
            Err(Errno::AGAIN) => Err(Error::connection_refused(format!(
                "cannot listen on `{}`: another process has locked the folder; retry once it has started to \
                 listen",
                path.display()
            ))),
            Err(error) => Err(cannot_listen(path, &error.into())),
        }
    }
}

fn open(kind: Kind) -> Result<OwnedFd, Errno> {
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let kind = match kind {
        Kind::Stream => SocketType::STREAM,
        Kind::Datagram => SocketType::DGRAM,
    };
    socket_with(AddressFamily::UNIX, kind, flags, None)
}

/// Removes a socket that no process uses. If a process uses the socket, connecting has another
/// result than `ECONNREFUSED`, also if that socket is of another kind (`EPROTOTYPE`), or accepts
/// datagrams from one peer only (`EPERM`).
fn remove_stale(path: &Path, address: &SocketAddrUnix, kind: Kind) -> Result<()> {
    let shown = path.display();
    match fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(cannot_listen(path, &error)),
        Ok(metadata) if metadata.file_type().is_socket() => {}
        Ok(_) => {
            return Err(Error::configuration(format!(
                "cannot listen on `{shown}`: the file exists and is not a socket; choose another path, or remove \
                 the file"
            )));
        }
    }
    let socket = open(kind).map_err(|error| cannot_listen(path, &error.into()))?;
    match connect(&socket, address) {
        Err(Errno::CONNREFUSED) => {
            fs::remove_file(path).map_err(|error| cannot_listen(path, &error))
        }
        // The socket was removed by another process meanwhile.
        Err(Errno::NOENT) => Ok(()),
        Err(Errno::ACCESS | Errno::PERM) => Err(Error::authentication(format!(
            "cannot listen on `{shown}`: a socket of another user exists there; remove it, or choose another path"
        ))),
        _ => Err(Error::connection_refused(format!(
            "cannot listen on `{shown}`: another process listens there; stop it, or choose another path"
        ))),
    }
}

fn cannot_listen(path: &Path, error: &io::Error) -> Error {
    let cause = io::Error::new(error.kind(), error.to_string());
    Error::from(cause).context(format_args!("cannot listen on `{}`", path.display()))
}

#[cfg(test)]
mod tests {
    use std::{
        fs,
        os::unix::{
            fs::PermissionsExt,
            net::{UnixDatagram, UnixListener, UnixStream},
        },
    };

    use tremor_pdk::ErrorKind;

    use super::{Kind, Mode, Socket, Starting};

    #[test]
    fn socket_left_by_another_process_is_removed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        drop(UnixListener::bind(&path).unwrap());
        assert!(path.exists());
        let socket = Socket::listen(&path, None, Kind::Stream).unwrap();
        UnixStream::connect(&path).unwrap();
        drop(socket);
        assert!(!path.exists());
    }

    #[test]
    fn socket_with_a_listener_is_not_removed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        let first = Socket::listen(&path, None, Kind::Stream).unwrap();
        let error = Socket::listen(&path, None, Kind::Stream).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::CONNECTION_REFUSED, "the error is not final");
        assert!(error.to_string().contains("another process listens there"), "{error}");
        UnixStream::connect(&path).unwrap();
        drop(first);
    }

    #[test]
    fn sockets_of_both_kinds_are_removed_only_if_unused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        for kind in [Kind::Stream, Kind::Datagram] {
            drop(UnixListener::bind(&path).unwrap());
            drop(Socket::listen(&path, None, kind).unwrap());
            drop(UnixDatagram::bind(&path).unwrap());
            drop(Socket::listen(&path, None, kind).unwrap());
            let expect_in_use = || {
                let error = Socket::listen(&path, None, kind).unwrap_err().to_string();
                assert!(
                    error.contains("process listens there") || error.contains("of another user"),
                    "{error}"
                );
                fs::remove_file(&path).unwrap();
            };
            let _stream = UnixListener::bind(&path).unwrap();
            expect_in_use();
            let receiver = UnixDatagram::bind(&path).unwrap();
            expect_in_use();
            // This socket accepts datagrams of its peer only.
            let other = folder.path().join("other");
            let _other = UnixDatagram::bind(&other).unwrap();
            let bound = UnixDatagram::bind(&path).unwrap();
            bound.connect(&other).unwrap();
            expect_in_use();
            fs::remove_file(&other).unwrap();
            drop(receiver);
        }
    }

    #[test]
    fn one_of_two_concurrent_servers_listens() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        // While one server holds the lock of the folder, the other one is rejected.
        let starting = Starting::at(&path).unwrap();
        let error = Socket::listen(&path, None, Kind::Stream).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::CONNECTION_REFUSED, "the error is not final");
        assert!(error.to_string().contains("has locked the folder"), "{error}");
        drop(starting);
        for _ in 0..100 {
            drop(UnixListener::bind(&path).unwrap());
            let start = || Socket::listen(&path, None, Kind::Stream);
            let both = std::thread::scope(|scope| {
                let other = scope.spawn(start);
                [start(), other.join().unwrap()]
            });
            assert_eq!(both.iter().filter(|it| it.is_ok()).count(), 1);
            UnixStream::connect(&path).unwrap();
            drop(both);
        }
    }

    #[test]
    fn file_that_is_not_a_socket_is_not_removed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        fs::write(&path, "precious").unwrap();
        let error = Socket::listen(&path, None, Kind::Stream).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::CONFIGURATION);
        assert_eq!(fs::read(&path).unwrap(), b"precious");
    }

    #[test]
    fn socket_of_a_successor_is_not_removed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        let first = Socket::listen(&path, None, Kind::Stream).unwrap();
        fs::rename(&path, folder.path().join("old")).unwrap();
        let second = Socket::listen(&path, None, Kind::Stream).unwrap();
        drop(first);
        UnixStream::connect(&path).unwrap();
        drop(second);
    }

    #[test]
    fn mode_sets_permissions_of_the_socket() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        let mode = Mode::try_from("0640".to_owned()).unwrap();
        for kind in [Kind::Stream, Kind::Datagram] {
            let _socket = Socket::listen(&path, Some(mode), kind).unwrap();
            assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o640);
        }
    }

    #[test]
    fn missing_folder_and_too_long_path_are_configuration_errors() {
        let folder = tempfile::tempdir().unwrap();
        for path in [folder.path().join("none/socket"), folder.path().join("x".repeat(200))] {
            let error = Socket::listen(&path, None, Kind::Stream).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::CONFIGURATION, "{error}");
            assert!(error.to_string().contains(path.to_str().unwrap()), "{error}");
        }
    }
}
