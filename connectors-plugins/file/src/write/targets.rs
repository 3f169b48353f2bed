//! The files of a sink whose events name their file.

mod deliver;
mod groups;
mod lru;
mod names;

use std::sync::{
    Arc, Mutex, MutexGuard, Weak,
    atomic::{AtomicUsize, Ordering},
};

use tremor_pdk::{Error, ErrorKind, ErrorPolicy, Gauge, Host, Memory, Result, lock, warn};

use self::{groups::Groups, lru::Lru, names::Namer};
use super::{
    location::Location,
    output::{Output, Shared},
    syncing::{Due, Syncing},
};
use crate::{Config, config::ByEvent, tail::default_max_open};

/// Time after which a file to which nothing was written is closed, in ns. The space of a file that another process has
/// deleted becomes free only when the file is closed.
const IDLE_NS: u64 = 60_000_000_000;

/// Maximum number of open files unless the configuration sets it. A sink that has fewer files than hosts opens and
/// closes a file for nearly each event.
const MAX_OPEN: u64 = 4_096;

/// The files of a sink whose events name their file. At most a fixed number of them is open. Nothing is kept of the
/// others, so the memory does not grow with the number of files.
pub(crate) struct Targets {
    config: Config,
    by_event: Arc<ByEvent>,
    shared: Shared,
    /// Maximum number of open files. Changed only while `open` is locked.
    max_open: AtomicUsize,
    namer: Mutex<Namer>,
    /// Open files. Locked while a batch is written.
    open: Mutex<Lru<Target>>,
    files_open: Gauge,
    /// Counts the memory of the open files.
    memory: Mutex<Memory>,
}

#[derive(Debug)]
struct Target {
    output: Arc<Output>,
    /// Time of the last use, by the host's monotonic clock.
    used_ns: u64,
}

/// Result of writing a group: the data that has to be synced before the acknowledgement, if any. An error whose policy
/// is neither to retry nor the dead letters concerns the whole sink.
type Answer = Result<Option<Written>>;

/// A part of a delivery that was written to one file.
#[derive(Clone)]
pub(super) struct Written {
    /// The file, while it is open.
    output: Weak<Output>,
    syncing: Arc<Syncing>,
    delivery: u64,
}

impl Targets {
    pub(crate) fn new(config: &Config, by_event: &Arc<ByEvent>, host: Host) -> Result<Self> {
        by_event.expect_base()?;
        let sets_aside = config.rotate.is_some() || config.sync != crate::SyncMode::Never;
        let help = "files that are open";
        Ok(Self {
            max_open: config
                .max_open_files
                .map_or_else(|| default_max_open(MAX_OPEN), |it| it.get() as usize)
                .into(),
            namer: Namer::new(by_event.clone(), sets_aside).into(),
            open: Mutex::default(),
            files_open: host.gauge("files_open", help),
            memory: host.memory().into(),
            by_event: by_event.clone(),
            shared: Shared::new(config, host)?,
            config: config.clone(),
        })
    }

    /// Returns whether acknowledgements wait for a sync to the disk.
    pub(super) fn waits_for_disk(&self) -> bool {
        self.config.sync != crate::SyncMode::Never
    }

    /// Writes the groups that have no result yet, each to its file. May block.
    ///
    /// The open files are locked meanwhile. Nobody waits for the lock: later deliveries wait for their turn, and
    /// [`Targets::close_idle`] leaves the files for the next time.
    fn write(&self, bytes: &[u8], groups: &Groups, results: &mut [Option<Answer>]) {
        let now_ns = self.shared.host.monotonic_ns();
        let mut open = self.open();
        let write = |output: &Arc<Output>, group| {
            self.answer(output, output.write(bytes, groups.runs(group)))
        };
        let mut closed = Vec::new();
        // Files that are open come first, because they may be closed for the others.
        for (group, result) in results.iter_mut().enumerate().filter(|(_, it)| it.is_none()) {
            match open.get(groups.name(group)) {
                Some(target) => {
                    target.used_ns = now_ns;
                    *result = Some(write(&target.output, group));
                }
                None => closed.push(group),
            }
        }
        for group in closed {
            let output = self.open_file(&mut open, groups.name(group), now_ns);
            let answer = output.map_err(of_one_file).and_then(|output| write(output, group));
            results[group] = Some(answer);
        }
        self.count(&open);
    }

    /// Writes the groups whose writes are short and not expected to block, on the calling thread.
    fn write_inline(&self, bytes: &[u8], groups: &Groups, results: &mut [Option<Answer>]) {
        let Ok(mut open) = self.open.try_lock() else { return };
        let now_ns = self.shared.host.monotonic_ns();
        for (group, result) in results.iter_mut().enumerate() {
            if let Some(target) = open.get(groups.name(group)) {
                target.used_ns = now_ns;
                let written = target.output.try_write_inline(bytes, groups.runs(group));
                *result = written.map(|written| self.answer(&target.output, written));
            }
        }
    }

    /// Returns the answer for a group that was written to a file. `delivery` is its number in that file.
    fn answer(&self, output: &Arc<Output>, delivery: Result<u64>) -> Answer {
        match delivery {
            Ok(delivery) => Ok(self.waits_for_disk().then(|| Written::of(output, delivery))),
            // After a failed sync, the system may have discarded data of other deliveries.
            Err(error) if output.syncing.has_failed() => Err(error),
            Err(error) => Err(of_one_file(error)),
        }
    }

    /// Opens a file that is not open, and closes others for it.
    fn open_file<'o>(
        &self,
        open: &'o mut Lru<Target>,
        name: &Arc<str>,
        now_ns: u64,
    ) -> Result<&'o Arc<Output>> {
        while open.len() >= self.max_open.load(Ordering::Relaxed) {
            self.close_oldest(open);
        }
        let location = Location::below(&self.by_event.base, name);
        let format = self.by_event.format;
        let begin = || Output::open_at(location.clone(), format, &self.config, &self.shared);
        let mut output = begin();
        while let Err(error) = &output
            && error.kind() == ErrorKind::SHORTAGE
            && open.len() > 0
        {
            self.use_fewer(open, error);
            output = begin();
        }
        let target = Target { output: output?.into(), used_ns: now_ns };
        Ok(&open.insert(name.clone(), target).output)
    }

    /// Closes a quarter of the files after the process had no more descriptors, and keeps their number from then on,
    /// because other components need descriptors as well.
    fn use_fewer(&self, open: &mut Lru<Target>, error: &Error) {
        let fewer = (open.len() * 3 / 4).max(1);
        self.max_open.store(fewer, Ordering::Relaxed);
        warn!(
            self.shared.host,
            "{error}; from now on, at most {fewer} files are open: set `max_open_files` to such a number, or raise the \
             limit of file descriptors (`ulimit -n`)"
        );
        self.close_oldest(open);
        while open.len() > fewer {
            self.close_oldest(open);
        }
    }

    fn close_oldest(&self, open: &mut Lru<Target>) {
        let Some(target) = open.take_oldest() else { return };
        // The deliveries that wait for the sync get its error as well.
        if let Err(error) = target.output.retire() {
            warn!(self.shared.host, "cannot close a file as intended: {error}");
        }
    }

    /// Returns whether a file can be closed by [`Targets::close_idle`]. Does not block.
    pub(super) fn has_idle(&self) -> bool {
        self.open.try_lock().is_ok_and(|open| self.is_oldest_idle(&open))
    }

    fn is_oldest_idle(&self, open: &Lru<Target>) -> bool {
        let now_ns = self.shared.host.monotonic_ns();
        open.oldest().is_some_and(|target| now_ns.saturating_sub(target.used_ns) >= IDLE_NS)
    }

    /// Closes the files to which nothing was written for a minute, unless a delivery writes at this time. May block.
    pub(super) fn close_idle(&self) {
        let Ok(mut open) = self.open.try_lock() else { return };
        while self.is_oldest_idle(&open) {
            self.close_oldest(&mut open);
        }
        self.count(&open);
    }

    /// Updates the metric of the open files, and the count of their memory.
    fn count(&self, open: &Lru<Target>) {
        self.files_open.set_integer(open.len());
        // Each file has its whole path as well.
        let file =
            size_of::<Output>() + size_of::<Syncing>() + self.by_event.base.as_os_str().len();
        let bytes = open.weight() + open.len() * file + open.name_bytes();
        lock(&self.memory).resize(bytes);
    }

    fn open(&self) -> MutexGuard<'_, Lru<Target>> {
        lock(&self.open)
    }
}

impl Written {
    fn of(output: &Arc<Output>, delivery: u64) -> Self {
        Self { output: Arc::downgrade(output), syncing: output.syncing.clone(), delivery }
    }

    /// Returns when this part has to be synced to the disk. Does not block.
    fn due(&self, now_ns: u64) -> Due {
        self.syncing.due(self.delivery, now_ns)
    }

    /// Makes this part durable. May block.
    fn sync(&self, now_ns: u64) -> Result<()> {
        if let Some(output) = self.output.upgrade() {
            return output.sync(self.delivery, now_ns);
        }
        // The file was synced when it was closed. If that failed, it stays an error.
        let closed = || Err(std::io::Error::other("the file is closed"));
        let synced = self.syncing.sync(self.delivery, now_ns, closed);
        synced.map_err(|error| {
            Error::unsupported(format!("cannot sync a closed file to the disk: {error}"))
        })
    }
}

/// Restricts an error to the events of one file, so that the sink continues with the other files.
fn of_one_file(error: Error) -> Error {
    let policy = match error.policy() {
        policy @ (ErrorPolicy::RETRY | ErrorPolicy::DEAD_LETTER) => policy,
        ErrorPolicy::RECONNECT => ErrorPolicy::RETRY,
        _ => ErrorPolicy::DEAD_LETTER,
    };
    error.with_policy(policy)
}

#[cfg(test)]
mod tests;
