//! Limits processes to a tenth of a core.

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

/// Out of each of these, a process may run for a tenth.
const PERIOD: Duration = Duration::from_millis(100);

/// Where control groups may be, with the file of the limit and what is written to it. Both count in periods of
/// 100 ms unless told otherwise.
const GROUPS: [(&str, &str, &str); 2] = [
    ("/sys/fs/cgroup/cpu", "cpu.cfs_quota_us", "10000"),
    ("/sys/fs/cgroup", "cpu.max", "10000 100000"),
];

/// A process that is limited until this is dropped.
pub(super) enum Tenth {
    /// By the system: its control group.
    Group(PathBuf),
    /// By a thread that stops it and has it go on.
    Stopped { ends: Arc<AtomicBool>, thread: Option<JoinHandle<()>> },
}

impl Tenth {
    /// Limits this process.
    pub(super) fn of(process: u32) -> Self {
        let groups = GROUPS.iter().find_map(|group| group_of(process, *group).ok());
        groups.map_or_else(|| Self::stopped(process), Self::Group)
    }

    /// How.
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

/// Has the process in a group of its own.
fn group_of(process: u32, (root, file, limit): (&str, &str, &str)) -> io::Result<PathBuf> {
    let folder = Path::new(root).join(format!("tremor-scale-out-{process}"));
    fs::create_dir(&folder)?;
    let enter = || {
        fs::write(folder.join(file), limit)?;
        fs::write(folder.join("cgroup.procs"), process.to_string())
    };
    // Without the file there is no such limit here.
    enter().inspect_err(|_| _ = fs::remove_dir(&folder))?;
    Ok(folder)
}

fn signal(process: u32, name: &str) {
    // It may have ended.
    let _ = Command::new("kill").args(["-s", name, &process.to_string()]).status();
}

impl Drop for Tenth {
    fn drop(&mut self) {
        match self {
            // Once its process has ended; what was killed may take a moment.
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
