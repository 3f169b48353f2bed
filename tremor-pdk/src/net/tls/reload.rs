//! A value that is loaded from files, and loaded again after the files have changed.

use std::{
    fs, io,
    os::unix::fs::MetadataExt,
    path::Path,
    sync::{Arc, Mutex},
    time::Duration,
};

use crate::{Host, LimitedLog, Result, lock};

/// Minimum time between two checks of the files, in ns.
const CHECK_INTERVAL_NS: u64 = 1_000_000_000;

/// Interval in which at most one failure is logged.
const LOGGED_EVERY: Duration = Duration::from_mins(1);

/// Loads a value from files.
pub(super) trait Load: Clone + Send + Sync + 'static {
    /// The type of the value.
    type Output: Send + Sync;

    /// Returns the files from which the value is loaded.
    fn files(&self) -> Vec<&Path>;

    /// Reads the files and creates the value.
    fn load(&self) -> Result<Self::Output>;
}

/// A value that is loaded from files. Clones share the value.
pub(super) struct Reloading<L: Load> {
    host: Host,
    failures: LimitedLog,
    loader: Arc<L>,
    state: Arc<Mutex<State<L::Output>>>,
}

struct State<T> {
    current: Option<Arc<T>>,
    /// Stamps of the files from which `current` was loaded.
    stamps: Vec<Stamp>,
    checked_ns: Option<u64>,
}

/// Properties that show a change of a file without reading it: device, inode, length, and the times of the last change
/// of contents and metadata. `None` if the file does not exist.
type Stamp = Option<(u64, u64, u64, i128, i128)>;

impl<L: Load> Reloading<L> {
    /// Creates a value that is not loaded yet.
    pub(super) fn new(host: &Host, loader: L) -> Self {
        let state = State { current: None, stamps: Vec::new(), checked_ns: None };
        Self {
            host: host.clone(),
            failures: host.limited_log(1, LOGGED_EVERY),
            loader: Arc::new(loader),
            state: Arc::new(Mutex::new(state)),
        }
    }

    pub(super) fn host(&self) -> &Host {
        &self.host
    }

    pub(super) fn loader(&self) -> &L {
        &self.loader
    }

    /// Returns the loader, to change it before the first load.
    pub(super) fn loader_mut(&mut self) -> &mut L {
        Arc::make_mut(&mut self.loader)
    }

    /// Returns the current value. Files are read on a thread for blocking work.
    ///
    /// # Errors
    /// Returns the error of the loader if the value was never loaded.
    pub(super) async fn get(&self) -> Result<Arc<L::Output>> {
        if let Some(fresh) = self.fresh() {
            return Ok(fresh);
        }
        let this = self.clone();
        self.host.blocking(move || this.refresh()).await?
    }

    /// Returns the current value like [`Self::get`], but reads files on this thread, for callers that are not
    /// asynchronous. The files are small, are checked at most once a second, and are read only when they have changed.
    ///
    /// # Errors
    /// Returns the errors of [`Self::get`].
    pub(super) fn get_now(&self) -> Result<Arc<L::Output>> {
        self.fresh().map_or_else(|| self.refresh(), Ok)
    }

    /// Returns the value if the files were checked within the last second.
    fn fresh(&self) -> Option<Arc<L::Output>> {
        let now_ns = self.host.monotonic_ns();
        let state = lock(&self.state);
        let is_fresh = state.checked_ns.is_some_and(|at| now_ns.abs_diff(at) < CHECK_INTERVAL_NS);
        state.current.clone().filter(|_| is_fresh)
    }

    /// Checks the files, and loads the value again if they have changed.
    fn refresh(&self) -> Result<Arc<L::Output>> {
        let now_ns = self.host.monotonic_ns();
        let known = {
            let state = &mut *lock(&self.state);
            state.checked_ns = Some(now_ns);
            state.current.clone().map(|current| (current, state.stamps.clone()))
        };
        // The stamps are taken before the files are read, so that the next check detects a change during the read.
        let stamps: Vec<_> = self.loader.files().into_iter().map(stamp).collect();
        if let Some((current, known)) = &known
            && *known == stamps
        {
            return Ok(current.clone());
        }
        match (self.loader.load(), known) {
            (Ok(loaded), known) => {
                let loaded = Arc::new(loaded);
                {
                    let state = &mut *lock(&self.state);
                    (state.current, state.stamps) = (Some(loaded.clone()), stamps);
                }
                if known.is_some() {
                    info!(self.host, "reloaded {}, because the files had changed", self.names());
                }
                Ok(loaded)
            }
            (Err(error), Some((current, _))) => {
                warn!(
                    self.failures,
                    "{error}; the previous version stays in use until the files are valid"
                );
                Ok(current)
            }
            (Err(error), None) => Err(error),
        }
    }

    fn names(&self) -> String {
        let names: Vec<_> =
            self.loader.files().into_iter().map(|path| format!("`{}`", path.display())).collect();
        names.join(", ")
    }
}

impl<L: Load> Clone for Reloading<L> {
    fn clone(&self) -> Self {
        Self {
            host: self.host.clone(),
            failures: self.failures.clone(),
            loader: self.loader.clone(),
            state: self.state.clone(),
        }
    }
}

fn stamp(path: &Path) -> Stamp {
    let metadata: io::Result<fs::Metadata> = fs::metadata(path);
    let time = |seconds: i64, ns: i64| i128::from(seconds) * 1_000_000_000 + i128::from(ns);
    let metadata = metadata.ok()?;
    let modified = time(metadata.mtime(), metadata.mtime_nsec());
    let changed = time(metadata.ctime(), metadata.ctime_nsec());
    Some((metadata.dev(), metadata.ino(), metadata.len(), modified, changed))
}
