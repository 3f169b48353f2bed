//! Open file descriptors and threads of the process.

use std::{
    collections::BTreeMap,
    fs, thread,
    time::{Duration, Instant},
};

use super::report::{Finding, Verdict, fault};

/// Maximum time that the check waits for threads to end, because a thread ends some time after its last action.
const PATIENCE: Duration = Duration::from_secs(1);

/// Descriptors with their targets, and threads with their names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Open {
    descriptors: BTreeMap<String, String>,
    threads: BTreeMap<String, String>,
}

impl Open {
    /// Returns the current state; `None` if the system has no `/proc` file system.
    pub(super) fn now() -> Option<Self> {
        let list = |folder: &str, text: fn(&fs::DirEntry) -> Option<String>| {
            let entries = fs::read_dir(folder).ok()?.flatten();
            Some(
                entries
                    // The descriptor with which the folder itself was read no longer exists, and is skipped.
                    .filter_map(|entry| {
                        Some((entry.file_name().into_string().ok()?, text(&entry)?))
                    })
                    .collect(),
            )
        };
        Some(Self {
            descriptors: list("/proc/self/fd", |entry| {
                Some(fs::read_link(entry.path()).ok()?.to_string_lossy().into_owned())
                    .filter(|target| !target.starts_with("/proc/"))
            })?,
            threads: list("/proc/self/task", |entry| {
                fs::read_to_string(entry.path().join("comm")).ok()
            })?,
        })
    }

    /// Checks that the process has no descriptors and threads that are not in `self`, after waiting for threads to end.
    pub(super) fn is_as_before(&self, what: &str, help: &'static str) -> Verdict {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let Some(now) = Self::now() else { return Err(cannot_tell()) };
            let further = |now: &BTreeMap<String, String>, before: &BTreeMap<String, String>| {
                let new = now.iter().filter(|(key, _)| !before.contains_key(*key));
                new.map(|(_, text)| text.trim().to_owned()).collect::<Vec<_>>()
            };
            let descriptors = further(&now.descriptors, &self.descriptors);
            let threads = further(&now.threads, &self.threads);
            if descriptors.is_empty() && threads.is_empty() {
                return Ok(());
            }
            if Instant::now() > deadline {
                let list = |what: &str, names: Vec<String>| match names.len() {
                    0 => String::new(),
                    _ => format!(" further {what}: {}.", names.join(", ")),
                };
                let (descriptors, threads) =
                    (list("file descriptors", descriptors), list("threads", threads));
                let seen = format!("{what}, the process has{descriptors}{threads}");
                return Err(fault(seen, help));
            }
            // The end of a detached thread cannot be awaited.
            thread::sleep(Duration::from_millis(5));
        }
    }
}

pub(super) fn cannot_tell() -> Finding {
    Finding::skip("this system does not report the descriptors and threads of a process")
}
