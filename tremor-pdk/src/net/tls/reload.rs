//! What is made of files, and made again when they change.

use std::{
    fs, io,
    os::unix::fs::MetadataExt,
    path::Path,
    sync::{Arc, Mutex},
    time::Duration,
};

use crate::{Host, LimitedLog, Result, lock::lock};

/// How often the files are looked at, at most, in ns.
const LOOKED_EVERY_NS: u64 = 1_000_000_000;

/// Time in which at most one failure is logged.
const LOGGED_EVERY: Duration = Duration::from_mins(1);

/// Makes something of files.
pub(super) trait Load: Clone + Send + Sync + 'static {
    /// What it makes.
    type Output: Send + Sync;

    /// The files that it is made of.
    fn files(&self) -> Vec<&Path>;

    /// Reads the files.
    fn load(&self) -> Result<Self::Output>;
}

/// What was made of files. Clones share it.
pub(super) struct Reloading<L: Load> {
    host: Host,
    failures: LimitedLog,
    loader: Arc<L>,
    state: Arc<Mutex<State<L::Output>>>,
}

struct State<T> {
    current: Option<Arc<T>>,
    /// What the files of `current` were known by.
    stamps: Vec<Stamp>,
    looked_ns: Option<u64>,
}

/// What tells one content of a file from another, without reading it: device, inode, length, and when
/// content and metadata were changed. None if it is not there.
type Stamp = Option<(u64, u64, u64, i128, i128)>;

impl<L: Load> Reloading<L> {
    /// Reads nothing yet.
    pub(super) fn new(host: &Host, loader: L) -> Self {
        let state = State { current: None, stamps: Vec::new(), looked_ns: None };
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

    /// For a change of what it loads with, before it loads.
    pub(super) fn loader_mut(&mut self) -> &mut L {
        Arc::make_mut(&mut self.loader)
    }

    /// The newest, without waiting on this thread for files.
    ///
    /// # Errors
    /// Those of loading, where it was never loaded.
    pub(super) async fn get(&self) -> Result<Arc<L::Output>> {
        if let Some(fresh) = self.fresh() {
            return Ok(fresh);
        }
        let this = self.clone();
        self.host.blocking(move || this.look()).await?
    }

    /// As [`Self::get`], where a wait is not possible: a few small files are looked at once a second, and read
    /// when they have changed.
    ///
    /// # Errors
    /// As [`Self::get`].
    pub(super) fn get_now(&self) -> Result<Arc<L::Output>> {
        self.fresh().map_or_else(|| self.look(), Ok)
    }

    /// What there is, if the files were looked at a moment ago.
    fn fresh(&self) -> Option<Arc<L::Output>> {
        let now_ns = self.host.monotonic_ns();
        let state = lock(&self.state);
        let is_fresh = state.looked_ns.is_some_and(|at| now_ns.abs_diff(at) < LOOKED_EVERY_NS);
        state.current.clone().filter(|_| is_fresh)
    }

    /// Looks at the files, and reads them if they have changed.
    fn look(&self) -> Result<Arc<L::Output>> {
        let now_ns = self.host.monotonic_ns();
        let known = {
            let state = &mut *lock(&self.state);
            state.looked_ns = Some(now_ns);
            state.current.clone().map(|current| (current, state.stamps.clone()))
        };
        // Before they are read: what is written meanwhile is seen the next time.
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
                    info!(self.host, "read {} again, which had changed", self.names());
                }
                Ok(loaded)
            }
            (Err(error), Some((current, _))) => {
                warn!(
                    self.failures,
                    "{error}: what was read before stays in use, until the files are good again"
                );
                Ok(current)
            }
            (Err(error), None) => Err(error),
        }
    }

    fn names(&self) -> String {
        let names: Vec<_> =
            self.loader.files().into_iter().map(|it| format!("`{}`", it.display())).collect();
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
