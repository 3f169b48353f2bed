//! Files with the state of one component, such as the position of a source.

use std::{
    fs::{self, File, Metadata, TryLockError},
    io::{self, Read, Write},
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    sync::Mutex,
    thread,
    time::{Duration, Instant},
};

use crate::{Error, ErrorKind, Result, lock};

/// Names in the errors of a [`StateFile`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StateFileNames {
    /// Kind of the file, such as `checkpoint`.
    pub file: &'static str,
    /// Key of the configuration that names the file.
    pub key: &'static str,
    /// Kind of the component that uses the file: `source` or `sink`.
    pub user: &'static str,
}

impl StateFileNames {
    /// The checkpoint of a source, which the key `checkpoint` names.
    pub const CHECKPOINT: Self = Self { file: "checkpoint", key: "checkpoint", user: "source" };
}

/// A file with the state of one component, such as the position up to which a source was acknowledged.
///
/// - The file is always complete: new contents are written to a second file, whose name ends in `.new`, and which then
///   gets the name of the state file.
/// - The contents are durable when [`StateFile::replace`] returns: the new file and its folder are synced.
/// - Only one component uses the file, in this process and in all others: the file is locked, and each new file is
///   locked before it gets the name. The system releases the lock when the process ends. On a file system without
///   locks, nothing prevents a second use.
///
/// Choose a format in which damage is found, such as JSON. All methods block, so call them with
/// [`Host::blocking`](crate::Host::blocking).
///
/// ```
/// # use tremor_pdk::{Result, StateFile, StateFileNames};
/// # fn main() -> Result<()> {
/// # let folder = tempfile::tempdir()?;
/// let path = folder.path().join("at");
/// let (file, position) = StateFile::open(&path, StateFileNames::CHECKPOINT, b"0")?;
/// assert_eq!(position, None, "the file is new, and contains 0");
/// file.replace(|| Ok(b"17".to_vec()))?;
/// drop(file);
/// let (_, position) = StateFile::open(&path, StateFileNames::CHECKPOINT, b"0")?;
/// assert_eq!(position.as_deref(), Some(&b"17"[..]));
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct StateFile {
    path: PathBuf,
    names: StateFileNames,
    /// The file that has the name now, which is locked.
    locked: Mutex<File>,
    /// Function that makes the name of the file durable. Tests replace it by a function that fails.
    sync_folder: fn(&Path) -> io::Result<()>,
}

impl StateFile {
    /// Opens and locks a state file, and returns its contents. If there is no file, creates one with the contents
    /// `first` and returns `None`. A folder in which no file can be written is found here, and not with the first
    /// [`StateFile::replace`].
    ///
    /// # Errors
    /// - The file cannot be read or written. The error is [final](Error::is_final), unless its cause may be temporary,
    ///   such as a full disk.
    /// - Another component uses the file. This error is not final, because an instance that has just ended may still
    ///   have the lock.
    pub fn open(
        path: &Path,
        names: StateFileNames,
        first: &[u8],
    ) -> Result<(Self, Option<Vec<u8>>)> {
        let (path, at) = (path.to_owned(), At { path, names });
        let opened = |file| Self { path, names, locked: Mutex::new(file), sync_folder };
        for _ in 0..ROUNDS {
            // NFS permits an exclusive lock only on a file that is open for writing.
            match File::options().read(true).write(true).open(at.path) {
                Ok(mut file) => {
                    at.lock(&file)?;
                    // The name may belong to a new file of another process since this one was opened.
                    if has_name(at.path, &file) {
                        let mut contents = Vec::new();
                        file.read_to_end(&mut contents)
                            .map_err(|error| at.failed("read", &error))?;
                        at.begin_new()?;
                        return Ok((opened(file), Some(contents)));
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    let new = at.begin_new()?;
                    // The first file of another process may exist since the name was looked up.
                    if !at.path.exists() {
                        let file = at.rename(new, first)?;
                        sync_folder(at.path).map_err(|error| at.failed("write", &error))?;
                        return Ok((opened(file), None));
                    }
                }
                Err(error) => return Err(at.failed("read", &error)),
            }
        }
        Err(at.in_use())
    }

    /// Replaces the contents by those that `contents` returns. `contents` is called while no other thread replaces them,
    /// so that an earlier state never replaces a later one. The contents are durable when this function returns.
    ///
    /// # Errors
    /// The error of `contents`, or the file cannot be written. The file then has its previous contents or the new ones.
    pub fn replace(&self, contents: impl FnOnce() -> Result<Vec<u8>>) -> Result<()> {
        let at = At { path: &self.path, names: self.names };
        let mut locked = lock(&self.locked);
        let contents = contents()?;
        // The new file has the name from here on, even if the folder cannot be synced.
        *locked = at.rename(at.begin_new()?, &contents)?;
        (self.sync_folder)(&self.path).map_err(|error| at.failed("write", &error))
    }
}

impl Drop for StateFile {
    /// Releases the lock. Closing the file is not enough, because a child process that another thread is starting has a
    /// copy of the descriptor.
    fn drop(&mut self) {
        // If this fails, the lock is released when the last copy of the descriptor is closed.
        _ = lock(&self.locked).unlock();
    }
}

/// The path of a state file, and its names in errors.
#[derive(Clone, Copy)]
struct At<'a> {
    path: &'a Path,
    names: StateFileNames,
}

impl At<'_> {
    /// Returns the path of the new file, before it gets the name of the state file.
    fn new_path(self) -> PathBuf {
        let mut name = self.path.to_owned().into_os_string();
        name.push(".new");
        name.into()
    }

    /// Creates and locks the empty file that will replace the state file.
    fn begin_new(self) -> Result<File> {
        let failed = |error| self.failed("write", &error);
        let path = self.new_path();
        for _ in 0..ROUNDS {
            let new = File::options().write(true).create(true).truncate(false).open(&path);
            let new = new.map_err(failed)?;
            self.lock(&new)?;
            // Before it released the lock, another process may have given the file the name of the state file.
            if has_name(&path, &new) {
                // A process that was killed may have left data in this file.
                new.set_len(0).map_err(failed)?;
                return Ok(new);
            }
        }
        Err(self.in_use())
    }

    /// Writes and syncs the new file, and gives it the name of the state file. The name is durable only once the folder
    /// is synced.
    fn rename(self, mut new: File, contents: &[u8]) -> Result<File> {
        let renamed = new
            .write_all(contents)
            .and_then(|()| new.sync_all())
            .and_then(|()| fs::rename(self.new_path(), self.path));
        renamed.map_err(|error| self.failed("write", &error))?;
        Ok(new)
    }

    fn lock(self, file: &File) -> Result<()> {
        match lock_file(file) {
            Err(TryLockError::WouldBlock) => Err(self.in_use()),
            // Some file systems do not support locks.
            Ok(()) | Err(TryLockError::Error(_)) => Ok(()),
        }
    }

    fn in_use(self) -> Error {
        let StateFileNames { file: what, key, user } = self.names;
        Error::connection_refused(format_args!(
            "cannot lock the {what} `{}`: another {user}, in this process or in another one, uses it; give each {user} \
             a `{key}` of its own, or stop the other {user}",
            self.path.display()
        ))
    }

    fn failed(self, doing: &str, error: &io::Error) -> Error {
        let cause = match ErrorKind::of_shortage(error) {
            Some(kind) => Error::new(kind, error),
            None => Error::from(io::Error::new(error.kind(), error.to_string())),
        };
        cause.context(format!("cannot {doing} the {} `{}`", self.names.file, self.path.display()))
    }
}

/// Number of attempts to open a file whose name another process gives to another file meanwhile.
const ROUNDS: usize = 10;

/// Time for which a lock is retried. A child process that another thread is starting has a copy of the lock until it
/// executes its program.
const RETRIED: Duration = Duration::from_millis(100);

/// Locks a file exclusively, in this process and in all others. Blocks the thread for up to 100 ms.
///
/// # Errors
/// The lock belongs to another open file, or the file system does not support locks.
pub fn lock_file(file: &File) -> Result<(), TryLockError> {
    let begin = Instant::now();
    let mut locked = file.try_lock();
    while matches!(locked, Err(TryLockError::WouldBlock)) && begin.elapsed() < RETRIED {
        thread::sleep(Duration::from_millis(1));
        locked = file.try_lock();
    }
    locked
}

/// Returns whether `path` names `file`.
fn has_name(path: &Path, file: &File) -> bool {
    let identity = |metadata: Metadata| (metadata.dev(), metadata.ino());
    let (ours, named) = (file.metadata().map(identity).ok(), fs::metadata(path).map(identity).ok());
    ours.is_some() && ours == named
}

/// Makes the name of a file durable.
fn sync_folder(path: &Path) -> io::Result<()> {
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    File::open(parent.unwrap_or(Path::new(".")))?.sync_all()
}

#[cfg(test)]
mod tests {
    use std::{fs, io, iter, sync::Arc, thread};

    use super::{StateFile, StateFileNames, TryLockError, lock_file};

    fn open(path: &std::path::Path) -> crate::Result<(StateFile, Option<Vec<u8>>)> {
        StateFile::open(path, StateFileNames::CHECKPOINT, b"first")
    }

    #[test]
    fn contents_are_read_again_and_a_second_user_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("at");
        let (file, contents) = open(&path).unwrap();
        assert_eq!((contents, fs::read(&path).unwrap()), (None, b"first".to_vec()));
        for _ in 0..2 {
            let error = open(&path).unwrap_err();
            assert!(error.to_string().contains("another source") && !error.is_final(), "{error}");
            // The new file is locked as well.
            file.replace(|| Ok(b"second".to_vec())).unwrap();
        }
        drop(file);
        assert_eq!(open(&path).unwrap().1, Some(b"second".to_vec()));
    }

    #[test]
    fn rest_of_a_killed_process_is_not_in_the_contents() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("at");
        fs::write(folder.path().join("at.new"), "a longer rest").unwrap();
        let (file, _) = open(&path).unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"first");
        fs::write(folder.path().join("at.new"), "a longer rest").unwrap();
        file.replace(|| Ok(b"2".to_vec())).unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"2");
    }

    #[test]
    fn failed_sync_of_the_folder_is_an_error_and_keeps_the_lock() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("at");
        let (mut file, _) = open(&path).unwrap();
        let sync_folder = file.sync_folder;
        file.sync_folder = |_| Err(io::Error::other("the disk is broken"));
        for _ in 0..2 {
            let error = file.replace(|| Ok(b"second".to_vec())).unwrap_err();
            assert!(error.to_string().contains("the disk is broken"), "{error}");
            assert!(open(&path).is_err(), "the file with the name is locked");
        }
        file.sync_folder = sync_folder;
        file.replace(|| Ok(b"third".to_vec())).unwrap();
        drop(file);
        assert_eq!(open(&path).unwrap().1, Some(b"third".to_vec()));
    }

    /// The first user gives the new file the name of the state file, while the second one waits for its lock.
    #[test]
    fn file_that_got_the_name_meanwhile_is_not_emptied() {
        let folder = tempfile::tempdir().unwrap();
        let (path, new) = (folder.path().join("at"), folder.path().join("at.new"));
        fs::write(&new, "whole").unwrap();
        let first = fs::File::options().write(true).open(&new).unwrap();
        first.try_lock().unwrap();
        thread::scope(|scope| {
            let second = scope.spawn(|| iter::repeat_with(|| open(&path)).find_map(Result::ok));
            fs::rename(&new, &path).unwrap();
            drop(first);
            let (_, contents) = second.join().unwrap().unwrap();
            assert_eq!(contents, Some(b"whole".to_vec()));
        });
    }

    #[test]
    fn failed_contents_change_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("at");
        let (file, _) = open(&path).unwrap();
        file.replace(|| Err(crate::Error::internal("no contents"))).unwrap_err();
        assert_eq!(fs::read(&path).unwrap(), b"first");
    }

    #[test]
    fn missing_folder_is_a_final_error_at_the_start() {
        let folder = tempfile::tempdir().unwrap();
        let error = open(&folder.path().join("none/at")).unwrap_err();
        assert!(error.to_string().starts_with("cannot write the checkpoint `"), "{error}");
        assert!(error.is_final());
    }

    #[test]
    fn file_of_several_threads_has_the_latest_contents() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("at");
        let file = Arc::new(open(&path).unwrap().0);
        let latest = Arc::new(std::sync::atomic::AtomicU64::new(0));
        let writes = |_| {
            let (file, latest) = (file.clone(), latest.clone());
            thread::spawn(move || {
                for _ in 0..20 {
                    latest.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
                    let contents = || latest.load(std::sync::atomic::Ordering::SeqCst).to_string();
                    file.replace(|| Ok(contents().into_bytes())).unwrap();
                }
            })
        };
        let threads: Vec<_> = (0..4).map(writes).collect();
        threads.into_iter().for_each(|it| it.join().unwrap());
        assert_eq!(fs::read(&path).unwrap(), b"80");
    }

    #[test]
    fn lock_is_released_although_a_copy_of_the_file_is_open() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("at");
        let (file, _) = open(&path).unwrap();
        let _copy = crate::lock(&file.locked).try_clone().unwrap();
        drop(file);
        open(&path).unwrap();
    }

    #[test]
    fn lock_that_is_released_soon_is_acquired() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let other = file.reopen().unwrap();
        other.try_lock().unwrap();
        assert!(matches!(lock_file(file.as_file()), Err(TryLockError::WouldBlock)));
        thread::scope(|scope| {
            // Beside busy programs, a single attempt may end before the release.
            let ours = scope.spawn(|| while lock_file(file.as_file()).is_err() {});
            other.unlock().unwrap();
            ours.join().unwrap();
        });
    }
}
