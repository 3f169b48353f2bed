//! Limits of processes to a tenth of a core.

use std::{
    fs, io,
    path::{Path, PathBuf},
    process::Command,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, JoinHandle},
    time::Duration,
};

/// Period of the limit. A process may run for a tenth of the period.
const PERIOD: Duration = Duration::from_millis(100);

/// Possible roots of control groups (versions 1 and 2), each with the file of the limit and the content that sets a
/// tenth of a core. The default period of both versions is 100 ms.
const GROUPS: [(&str, &str, &str); 2] = [
    ("/sys/fs/cgroup/cpu", "cpu.cfs_quota_us", "10000"),
    ("/sys/fs/cgroup", "cpu.max", "10000 100000"),
];

/// A process that is limited until this value is dropped.
pub(super) enum Tenth {
    /// The control group of the process limits it.
    Group(PathBuf),
    /// A thread limits the process by stopping and continuing it.
    Stopped { ends: Arc<AtomicBool>, thread: Option<JoinHandle<()>> },
}

impl Tenth {
    /// Limits a process.
    pub(super) fn of(process: u32) -> Self {
        let groups = GROUPS.iter().find_map(|group| group_of(process, *group).ok());
        groups.map_or_else(|| Self::stopped(process), Self::Group)
    }

    /// Returns how the process is limited.
    pub(super) fn name(&self) -> &'static str {
        match self {
            Self::Group(_) => "a control group",
            Self::Stopped { .. } => "SIGSTOP and SIGCONT",
        }
    }

    fn stopped(process: u32) -> Self {
        let ends = Arc::new(AtomicBool::new(false));
        let own = ends.clone();
        let thread = thread::spawn(move || {
            while !own.load(Ordering::Relaxed) {
                signal(process, "CONT");
                thread::sleep(PERIOD / 10);
                signal(process, "STOP");
                thread::sleep(PERIOD * 9 / 10);
            }
            signal(process, "CONT");
        });
        Self::Stopped { ends, thread: Some(thread) }
    }
}

/// Moves the process into a control group of its own.
fn group_of(process: u32, (root, file, limit): (&str, &str, &str)) -> io::Result<PathBuf> {
    let folder = Path::new(root).join(format!("tremor-scale-out-{process}"));
    fs::create_dir(&folder)?;
    let enter = || {
        fs::write(folder.join(file), limit)?;
        fs::write(folder.join("cgroup.procs"), process.to_string())
    };
    // The writes fail if this version of control groups is not available.
    enter().inspect_err(|_| _ = fs::remove_dir(&folder))?;
    Ok(folder)
}

fn signal(process: u32, name: &str) {
    // Ignore the error, which means that the process has ended.
    let _ = Command::new("kill").args(["-s", name, &process.to_string()]).status();
}

impl Drop for Tenth {
    fn drop(&mut self) {
        match self {
            // Retry, because a control group can only be removed after its process has ended, which may take a moment
            // after a kill.
            Self::Group(folder) => {
                for _ in 0..100 {
                    if fs::remove_dir(&*folder).is_ok() {
                        break;
                    }
                    thread::sleep(PERIOD / 10);
                }
            }
            Self::Stopped { ends, thread } => {
                ends.store(true, Ordering::Relaxed);
                let _ = thread.take().map(JoinHandle::join);
            }
        }
    }
}
