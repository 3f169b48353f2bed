//! A table that several instances share, and that is read again after its file has changed.

use std::{
    fs,
    os::unix::fs::MetadataExt,
    path::PathBuf,
    sync::{Arc, Mutex, Weak},
    time::Duration,
};

use tremor_pdk::{Error, ErrorKind, Host, Result, Upkeep, info, lock, warn};

use crate::{config::TableConfig, data::Data};

/// Interval between two checks of the file.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// Properties that show a change of a file without reading it: device, inode, length, and the times of the last change
/// of contents and metadata. `None` if the file does not exist.
type Stamp = Option<(u64, u64, u64, [i64; 4])>;

/// Tables of all instances in the process. Not locked while a table is read, so that other tables need not wait.
static TABLES: Mutex<Vec<Arc<Entry>>> = Mutex::new(Vec::new());

/// A table that instances use, or that one of them is reading.
struct Entry {
    /// Name of the component in the flow. Only instances of one component share a table.
    id: String,
    path: PathBuf,
    config: TableConfig,
    /// Locked while the table is read for the first time, so that other instances with the same table wait for it.
    table: Mutex<Weak<Shared>>,
}

impl Entry {
    /// Returns the entry of a table, which is created if it does not exist. Removes entries that no instance uses.
    fn of(id: &str, path: PathBuf, config: TableConfig) -> Arc<Self> {
        let mut entries = lock(&TABLES);
        entries.retain(|entry| {
            let is_used = || entry.table.try_lock().map_or(true, |table| table.strong_count() > 0);
            Arc::strong_count(entry) > 1 || is_used()
        });
        let same =
            |entry: &&Arc<Self>| entry.id == id && entry.path == path && entry.config == config;
        if let Some(entry) = entries.iter().find(same) {
            return entry.clone();
        }
        let entry = Arc::new(Self { id: id.to_owned(), path, config, table: Mutex::default() });
        entries.push(entry.clone());
        entry
    }
}

/// The current version of a table, and the state of its file.
pub(crate) struct Shared {
    path: PathBuf,
    config: TableConfig,
    current: Mutex<Arc<Data>>,
    /// Locked while the file is checked and read, and never by calls of the operator.
    file: Mutex<FileState>,
    /// Token of the instance that watches the file, if it still exists.
    watcher: Mutex<Weak<()>>,
}

struct FileState {
    /// Properties of the file from which the current table was read.
    loaded: Stamp,
    /// Properties of the file at the last check.
    seen: Stamp,
    /// Reason why the file is not the current table, and the properties of the file that has this mistake, unless
    /// another attempt may succeed.
    failed: Option<(Error, Option<Stamp>)>,
}

impl Shared {
    /// Returns the table of a file. The file is read unless another instance has the same table.
    ///
    /// # Errors
    /// The file is not a valid table.
    pub(crate) fn open(
        id: &str,
        file: &str,
        config: TableConfig,
        host: &Host,
    ) -> Result<Arc<Self>> {
        let entry = Entry::of(id, host.resolve(file), config);
        let mut current = lock(&entry.table);
        if let Some(shared) = current.upgrade() {
            return Ok(shared);
        }
        let (path, config) = (entry.path.clone(), entry.config.clone());
        // The properties are taken before the file is read, so that the first check finds a change during the read.
        let stamp = stamp(&path);
        let table = Data::load(&path, &config, host.memory())?;
        report(&table, file, host);
        let shared = Arc::new(Self {
            path,
            config,
            current: Mutex::new(Arc::new(table)),
            file: Mutex::new(FileState { loaded: stamp, seen: stamp, failed: None }),
            watcher: Mutex::default(),
        });
        *current = Arc::downgrade(&shared);
        Ok(shared)
    }

    /// Returns the current version of the table.
    pub(crate) fn table(&self) -> Arc<Data> {
        lock(&self.current).clone()
    }

    /// Returns whether the instance with this token watches the file. If no instance watches
    /// the file, the instance with this token becomes the watcher.
    fn is_watched_by(&self, token: &Weak<()>) -> bool {
        let mut watcher = lock(&self.watcher);
        if watcher.strong_count() == 0 {
            *watcher = token.clone();
        }
        watcher.ptr_eq(token)
    }

    /// Checks the file, and reads it if it has changed, and if it is the same as at the last check. Otherwise a program
    /// may still be writing to the file.
    ///
    /// # Errors
    /// The file is not a valid table; the previous version stays in use.
    fn refresh(&self, host: &Host) -> Result<()> {
        let mut file = lock(&self.file);
        let now = stamp(&self.path);
        if now == file.loaded {
            file.seen = now;
            file.failed = None;
            return Ok(());
        }
        let is_settled = now == file.seen;
        file.seen = now;
        if let Some((error, of)) = &file.failed
            && (*of == Some(now) || !is_settled)
        {
            return Err(error.clone());
        }
        if !is_settled {
            return Ok(());
        }
        let loaded = Data::load(&self.path, &self.config, host.memory());
        if stamp(&self.path) != now {
            // The file was changed during the read, so that the result may be a part of the old and of the new table.
            return file.failed.as_ref().map_or(Ok(()), |(error, _)| Err(error.clone()));
        }
        match loaded {
            Ok(table) => {
                file.loaded = now;
                file.failed = None;
                let table = Arc::new(table);
                *lock(&self.current) = table.clone();
                let path = self.path.display();
                info!(host, "read the table `{path}` again, because the file has changed");
                report(&table, &path.to_string(), host);
                Ok(())
            }
            Err(error) => {
                let error = error.context("the previous version of the table stays in use");
                let is_of_file = error.kind() == ErrorKind::CONFIGURATION && now.is_some();
                file.failed = Some((error.clone(), is_of_file.then_some(now)));
                Err(error)
            }
        }
    }
}

/// Logs the size of a table, and the number of keys that occur several times.
fn report(table: &Data, file: &str, host: &Host) {
    let bytes = table.bytes();
    let Some((rows, duplicates)) = table.keys() else {
        tremor_pdk::debug!(host, "the database `{file}` takes {bytes} bytes");
        return;
    };
    tremor_pdk::debug!(host, "the table `{file}` has {rows} keys and takes {bytes} bytes");
    if duplicates > 0 {
        warn!(
            host,
            "the table `{file}` has {duplicates} rows whose key is also that of a later row; only the last row of a key \
             is used"
        );
    }
}

fn stamp(path: &std::path::Path) -> Stamp {
    let metadata = fs::metadata(path).ok()?;
    let times = [metadata.mtime(), metadata.mtime_nsec(), metadata.ctime(), metadata.ctime_nsec()];
    Some((metadata.dev(), metadata.ino(), metadata.len(), times))
}

/// The watch of an instance over the file of its table. Of all instances that share the table, one checks the file.
pub(crate) struct Watch {
    /// Identifies the instance.
    _token: Arc<()>,
    _upkeep: Upkeep<()>,
}

impl Watch {
    /// Starts to check the file on a thread for blocking work.
    pub(crate) fn start(shared: &Arc<Shared>, host: &Host) -> Self {
        let token = Arc::new(());
        let (shared, own, logs) = (Arc::downgrade(shared), Arc::downgrade(&token), host.clone());
        let upkeep = host.upkeep("table", CHECK_INTERVAL, (), move |()| match shared.upgrade() {
            Some(shared) if shared.is_watched_by(&own) => shared.refresh(&logs),
            _ => Ok(()),
        });
        Self { _token: token, _upkeep: upkeep }
    }
}
