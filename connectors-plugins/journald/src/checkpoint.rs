//! The checkpoint file: the cursor up to which entries are acknowledged.

use std::{
    fs::{self, File, Metadata, TryLockError},
    io::{self, Write},
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    thread,
    time::{Duration, Instant},
};

use tremor_pdk::{
    Error, ErrorKind, Result,
    serde::{Deserialize, Serialize},
};

use crate::point::Point;

/// Format version of the checkpoint.
const VERSION: u64 = 1;

#[derive(Deserialize, Serialize)]
#[serde(crate = "tremor_pdk::serde", deny_unknown_fields)]
struct Content {
    version: u64,
    /// Cursor of the last acknowledged entry; `None` before the first acknowledgement.
    #[serde(default)]
    cursor: Option<String>,
    /// Time at which the first run started to read, if it is not the start of the journal.
    #[serde(default)]
    since: Option<String>,
}

/// The checkpoint file. The file is always complete on disk, because new contents are written to a second file, which
/// is then renamed.
///
/// A source locks its checkpoint, so that no other source uses it. The source locks each new file before the rename.
/// The system releases a lock when its process ends.
#[derive(Debug)]
pub(crate) struct Checkpoint {
    path: PathBuf,
    /// The current checkpoint file, which is locked.
    locked: File,
    /// Function that syncs the folder, so that the name of the checkpoint is durable. Tests replace it by a function
    /// that fails.
    sync_folder: fn(&Path) -> io::Result<()>,
}

impl Checkpoint {
    /// Opens and locks the checkpoint, and returns its point. If the file does not exist, creates it with the point
    /// `start`. May block.
    pub(crate) fn open(path: &Path, start: Point) -> Result<(Self, Point)> {
        let path = path.to_owned();
        loop {
            match File::options().read(true).write(true).open(&path) {
                Ok(locked) => {
                    lock(&locked, &path)?;
                    // A second process may have renamed a new checkpoint to this path since the file was opened.
                    if is_at(&path, &locked) {
                        let bytes =
                            fs::read(&path).map_err(|error| failed("read", &path, &error))?;
                        let point = parse(&bytes, &path)?;
                        // Create the second file now, so that a checkpoint that cannot be written is reported at the
                        // start.
                        begin_new(&path)?;
                        return Ok((Self { path, locked, sync_folder }, point));
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    let new = begin_new(&path)?;
                    // A second source may have created its first checkpoint since the path was looked up.
                    if !path.exists() {
                        let locked = write(&path, new, &start)?;
                        sync_folder(&path).map_err(|error| failed("write", &path, &error))?;
                        return Ok((Self { path, locked, sync_folder }, start));
                    }
                }
                Err(error) => return Err(failed("read", &path, &error)),
            }
        }
    }

    /// Writes the point. It is durable on disk when this function returns. May block.
    pub(crate) fn save(&mut self, point: &Point) -> Result<()> {
        // The rename has succeeded, so the new file is the current one even if the sync of the folder fails.
        self.locked = write(&self.path, begin_new(&self.path)?, point)?;
        (self.sync_folder)(&self.path).map_err(|error| failed("write", &self.path, &error))
    }
}

/// Creates and locks the empty file that will replace the checkpoint.
fn begin_new(path: &Path) -> Result<File> {
    let failed = |error| failed("write", path, &error);
    let new = File::options().write(true).create(true).truncate(false).open(new_path(path));
    let new = new.map_err(failed)?;
    lock(&new, path)?;
    // A process that was killed may have left data in this file.
    new.set_len(0).map_err(failed)?;
    Ok(new)
}

/// Writes the contents of the new file, and renames it to `path`. The new name is durable only once the folder is
/// synced.
fn write(path: &Path, mut new: File, point: &Point) -> Result<File> {
    let (cursor, since) = match point {
        Point::Start => (None, None),
        Point::Since(time) => (None, Some(time.to_string())),
        Point::Cursor(cursor) => (Some(cursor.to_string()), None),
    };
    let content = Content { version: VERSION, cursor, since };
    let text = serde_json::to_string_pretty(&content).map_err(Error::internal)? + "\n";
    let replaced = new
        .write_all(text.as_bytes())
        .and_then(|()| new.sync_all())
        .and_then(|()| fs::rename(new_path(path), path));
    replaced.map_err(|error| failed("write", path, &error))?;
    Ok(new)
}

/// Syncs the folder of `path`, so that the name of the file is durable.
fn sync_folder(path: &Path) -> io::Result<()> {
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    File::open(parent.unwrap_or(Path::new(".")))?.sync_all()
}

/// Returns the path of the file with new contents, before it replaces the checkpoint.
fn new_path(path: &Path) -> PathBuf {
    let mut name = path.to_owned().into_os_string();
    name.push(".new");
    name.into()
}

/// Returns whether `path` still names `file`.
fn is_at(path: &Path, file: &File) -> bool {
    let identity = |metadata: Metadata| (metadata.dev(), metadata.ino());
    let (ours, named) = (file.metadata().map(identity).ok(), fs::metadata(path).map(identity).ok());
    ours.is_some() && ours == named
}

/// Time for which a lock is retried. A child process that another thread is starting has a copy of the lock until it
/// executes its program.
const RETRIED: Duration = Duration::from_millis(100);

/// Locks the checkpoint, so that no other source uses it, in this process or in another one.
fn lock(file: &File, path: &Path) -> Result<()> {
    let begin = Instant::now();
    let mut locked = file.try_lock();
    while matches!(locked, Err(TryLockError::WouldBlock)) && begin.elapsed() < RETRIED {
        thread::sleep(Duration::from_millis(1));
        locked = file.try_lock();
    }
    match locked {
        // An instance that has just ended may still have the lock, so the error is not final.
        Err(TryLockError::WouldBlock) => Err(Error::connection_refused(format!(
            "cannot lock the checkpoint `{}`: another source, in this process or in another one, uses it; \
             give each source a `checkpoint` of its own, or stop the other source",
            path.display()
        ))),
        // Some file systems do not support locks.
        Ok(()) | Err(TryLockError::Error(_)) => Ok(()),
    }
}

fn parse(bytes: &[u8], path: &Path) -> Result<Point> {
    let unusable = |why: &dyn std::fmt::Display| {
        Error::configuration(format!(
            "cannot read the checkpoint `{}`: {why}; replace it with a good copy, or delete it to start according to \
             `since`",
            path.display()
        ))
    };
    let content: Content = serde_json::from_slice(bytes).map_err(|error| {
        unusable(&format_args!("it is damaged, or is not a checkpoint ({error})"))
    })?;
    match content {
        Content { version: VERSION, cursor: Some(cursor), .. } => Ok(Point::Cursor(cursor.into())),
        Content { version: VERSION, since: Some(since), .. } => Ok(Point::Since(since.into())),
        Content { version: VERSION, .. } => Ok(Point::Start),
        Content { version, .. } => Err(unusable(&format_args!(
            "it has version {version}, but this plugin supports version {VERSION}"
        ))),
    }
}

/// Returns the error of an operation on the checkpoint. The error is final unless the cause may be temporary, such as a
/// full disk.
fn failed(doing: &str, path: &Path, error: &io::Error) -> Error {
    let cause = match ErrorKind::of_shortage(error) {
        Some(kind) => Error::new(kind, error),
        None => Error::from(io::Error::new(error.kind(), error.to_string())),
    };
    cause.context(format!("cannot {doing} the checkpoint `{}`", path.display()))
}

#[cfg(test)]
mod tests {
    use std::{fs, io};

    use super::{Checkpoint, Point};

    #[test]
    fn point_is_read_again_and_a_second_source_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("at");
        let since = Point::Since("@1.5".into());
        let (mut checkpoint, point) = Checkpoint::open(&path, since.clone()).unwrap();
        assert_eq!(point, since);
        let error = Checkpoint::open(&path, Point::Start).unwrap_err();
        assert!(error.to_string().contains("another source") && !error.is_final(), "{error}");
        drop(checkpoint);
        (checkpoint, _) = Checkpoint::open(&path, Point::Start).unwrap();
        let cursor = Point::Cursor("s=1".into());
        checkpoint.save(&cursor).unwrap();
        assert!(Checkpoint::open(&path, Point::Start).is_err(), "the new file is locked too");
        drop(checkpoint);
        assert_eq!(Checkpoint::open(&path, Point::Start).unwrap().1, cursor);
    }

    #[test]
    fn failed_folder_sync_fails_the_save_and_keeps_the_lock() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("at");
        let (mut checkpoint, _) = Checkpoint::open(&path, Point::Start).unwrap();
        let sync_folder = checkpoint.sync_folder;
        let cursor = Point::Cursor("s=1".into());
        checkpoint.sync_folder = |_| Err(io::Error::other("the disk is broken"));
        for _ in 0..2 {
            let error = checkpoint.save(&cursor).unwrap_err();
            assert!(error.to_string().contains("the disk is broken"), "{error}");
            assert!(
                Checkpoint::open(&path, Point::Start).is_err(),
                "the file with the name is locked"
            );
        }
        checkpoint.sync_folder = sync_folder;
        checkpoint.save(&cursor).unwrap();
        drop(checkpoint);
        assert_eq!(Checkpoint::open(&path, Point::Start).unwrap().1, cursor);
    }

    #[test]
    fn damaged_checkpoint_is_an_error_with_a_remedy() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("at");
        for text in ["", "{}", r#"{"version":2}"#, r#"{"version":1,"cursor":"s=1"#, "\0\0"] {
            fs::write(&path, text).unwrap();
            let error = Checkpoint::open(&path, Point::Start).unwrap_err();
            assert!(error.is_final() && error.to_string().contains("delete it"), "{error}");
        }
    }
}
