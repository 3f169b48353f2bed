//! Resources of this process, as Linux reports them in `/proc/self`:
//! <https://man7.org/linux/man-pages/man5/proc.5.html>.

use std::{
    collections::BTreeSet,
    fmt, fs, io,
    path::Path,
    thread,
    time::{Duration, Instant},
};

use crate::heap::allocated;

/// Prefix of the names of threads for blocking work. They are counted separately, because their pool
/// keeps its threads, so that a larger number does not mean that a cycle leaks threads.
const POOL: &str = "blocking-";
/// Maximum wait for descriptors and threads that are released after the last cycle.
const LIMIT: Duration = Duration::from_secs(30);

/// Resources of the process at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sample {
    /// Allocated bytes.
    pub allocated: u64,
    /// Resident memory, in bytes.
    pub rss: u64,
    /// Open file descriptors.
    pub descriptors: usize,
    /// Number of threads, including this one, without the pool for blocking work.
    pub threads: usize,
    /// Number of files of the plugin folder that are mapped.
    pub libraries: usize,
    /// Number of threads in the pool for blocking work.
    pub pool_threads: usize,
}

impl Sample {
    /// Names of the columns that [`Display`](fmt::Display) writes.
    pub const COLUMNS: &str =
        "allocated_bytes,rss_bytes,descriptors,threads,libraries,pool_threads";

    /// Takes a sample of this process, whose plugins are in the folder `plugins`.
    pub fn take(plugins: &Path) -> io::Result<Self> {
        let plugins = plugins.canonicalize()?;
        let maps = fs::read_to_string("/proc/self/maps")?;
        let mapped = maps.lines().filter_map(|line| line.find('/').map(|at| &line[at..]));
        let ours = mapped.filter(|path| Path::new(path).starts_with(&plugins));
        let names = thread_names()?;
        let pool_threads = names.iter().filter(|name| name.starts_with(POOL)).count();
        Ok(Self {
            allocated: allocated(),
            rss: resident()?,
            // The listing itself uses one descriptor, that of the listed folder.
            descriptors: fs::read_dir("/proc/self/fd")?.count() - 1,
            threads: names.len() - pool_threads,
            libraries: ours.collect::<BTreeSet<_>>().len(),
            pool_threads,
        })
    }

    /// Returns whether descriptors and threads are not more than in `before`.
    pub fn is_back_at(&self, before: &Self) -> bool {
        self.descriptors <= before.descriptors && self.threads <= before.threads
    }
}

impl fmt::Display for Sample {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { allocated, rss, descriptors, threads, libraries, pool_threads } = self;
        write!(f, "{allocated},{rss},{descriptors},{threads},{libraries},{pool_threads}")
    }
}

/// Takes samples until one has at most as many descriptors and threads as `before`, because a cycle
/// may release resources with a delay. Returns that sample, or the last sample after 30 seconds.
///
/// # Errors
/// `/proc` is not available.
pub fn settled(plugins: &Path, before: &Sample) -> io::Result<Sample> {
    let start = Instant::now();
    loop {
        let sample = Sample::take(plugins)?;
        if sample.is_back_at(before) || start.elapsed() > LIMIT {
            return Ok(sample);
        }
        thread::sleep(Duration::from_millis(10));
    }
}

/// Returns the resident memory of the process in bytes, from `smaps_rollup`, because the value in `status` is
/// not exact.
fn resident() -> io::Result<u64> {
    let text = fs::read_to_string("/proc/self/smaps_rollup")?;
    let line = text.lines().find_map(|line| line.strip_prefix("Rss:"));
    let number = line.and_then(|rest| rest.trim().strip_suffix("kB")?.trim().parse::<u64>().ok());
    number.map(|kibibytes| kibibytes * 1_024).ok_or(io::ErrorKind::InvalidData.into())
}

fn thread_names() -> io::Result<Vec<String>> {
    let tasks = fs::read_dir("/proc/self/task")?;
    // A thread that ends between the listing and the read of its name is not counted.
    let name = |task: fs::DirEntry| fs::read_to_string(task.path().join("comm")).ok();
    tasks.filter_map(|task| task.map(name).transpose()).collect()
}
