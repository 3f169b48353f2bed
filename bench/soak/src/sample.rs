//! What this process holds, as Linux tells it in `/proc/self`:
//! <https://man7.org/linux/man-pages/man5/proc.5.html>.

use std::{
    collections::BTreeSet,
    fmt, fs, io,
    path::Path,
    thread,
    time::{Duration, Instant},
};

use crate::heap::allocated;

/// The threads for blocking work. The pool grows with the work that waits at one time, and keeps
/// what it has, so that its size says nothing of what cycles leave behind.
const POOL: &str = "blocking-";
/// How long it may take until descriptors and threads are given back.
const LIMIT: Duration = Duration::from_secs(30);

/// What the process holds at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sample {
    /// What is allocated, in bytes.
    pub allocated: u64,
    /// Resident memory, in bytes.
    pub rss: u64,
    /// Open file descriptors.
    pub descriptors: usize,
    /// Threads, this one among them, but for those of the pool for blocking work.
    pub threads: usize,
    /// Different files of the plugin folder that are mapped.
    pub libraries: usize,
    /// Threads of the pool for blocking work.
    pub pool_threads: usize,
}

impl Sample {
    /// What [`Display`](fmt::Display) writes, as the head of a table.
    pub const COLUMNS: &str =
        "allocated_bytes,rss_bytes,descriptors,threads,libraries,pool_threads";

    /// Looks at this process, whose plugins are in this folder.
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
            // One of them is that of the folder that is being listed.
            descriptors: fs::read_dir("/proc/self/fd")?.count() - 1,
            threads: names.len() - pool_threads,
            libraries: ours.collect::<BTreeSet<_>>().len(),
            pool_threads,
        })
    }

    /// Whether it holds no more than `before`, but for memory.
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

/// Waits until descriptors and threads are back at what they were: what a cycle has ended may take
/// a moment to be gone. What is found after 30 seconds stays.
///
/// # Errors
/// Where there is no `/proc`.
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

/// Of the whole process: what `status` says of it is not exact.
fn resident() -> io::Result<u64> {
    let text = fs::read_to_string("/proc/self/smaps_rollup")?;
    let line = text.lines().find_map(|line| line.strip_prefix("Rss:"));
    let number = line.and_then(|rest| rest.trim().strip_suffix("kB")?.trim().parse::<u64>().ok());
    number.map(|kibibytes| kibibytes * 1_024).ok_or(io::ErrorKind::InvalidData.into())
}

fn thread_names() -> io::Result<Vec<String>> {
    let tasks = fs::read_dir("/proc/self/task")?;
    // A thread may end between the listing and the look at it: then it is not counted.
    let name = |task: fs::DirEntry| fs::read_to_string(task.path().join("comm")).ok();
    tasks.filter_map(|task| task.map(name).transpose()).collect()
}
