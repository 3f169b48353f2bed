//! The user's cache folder with the steps that have passed, each under the hash of everything that it reads.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process;
use std::time::SystemTime;

use anyhow::{Context, Result};

/// Entries that are kept, of all steps together: the oldest are removed.
const ENTRIES: usize = 256;

/// The folder with the entries. Several processes may use it at once: an entry appears as a whole.
pub(super) struct Passed(PathBuf);

impl Passed {
    /// Opens the folder of this user, and creates it.
    ///
    /// # Errors
    /// The environment names no folder, or it cannot be created.
    pub(super) fn open() -> Result<Self> {
        let folder = |name| env::var_os(name).map(PathBuf::from).filter(|it| it.is_absolute());
        let caches = folder("XDG_CACHE_HOME").or_else(|| Some(folder("HOME")?.join(".cache")));
        Self::within(&caches.context("neither `XDG_CACHE_HOME` nor `HOME` is an absolute path")?)
    }

    fn within(caches: &Path) -> Result<Self> {
        let folder = caches.join("tremor/ci");
        fs::create_dir_all(&folder)
            .with_context(|| format!("cannot create {}", folder.display()))?;
        Ok(Self(folder))
    }

    /// Returns what the step left out when it passed with this hash; empty if nothing.
    pub(super) fn find(&self, step: &str, hash: &str) -> Option<String> {
        fs::read_to_string(self.entry(step, hash)).ok()
    }

    /// Remembers that the step passed with this hash.
    ///
    /// # Errors
    /// The entry cannot be written.
    pub(super) fn keep(&self, step: &str, hash: &str, left_out: &str) -> Result<()> {
        let entry = self.entry(step, hash);
        let new = self.0.join(format!(".{step}-{}", process::id()));
        fs::write(&new, left_out)
            .and_then(|()| fs::rename(&new, &entry))
            .with_context(|| format!("cannot write {}", entry.display()))?;
        self.remove_oldest();
        Ok(())
    }

    fn entry(&self, step: &str, hash: &str) -> PathBuf {
        self.0.join(format!("{step}-{hash}"))
    }

    /// Another process may remove the same ones, so that a failure is none.
    fn remove_oldest(&self) {
        let entries = fs::read_dir(&self.0).into_iter().flatten().flatten();
        let written = |it: &fs::DirEntry| it.metadata().and_then(|it| it.modified());
        let mut entries: Vec<_> =
            entries.map(|it| (written(&it).unwrap_or(SystemTime::UNIX_EPOCH), it.path())).collect();
        entries.sort();
        let extra = entries.len().saturating_sub(ENTRIES);
        for (_, path) in &entries[..extra] {
            let _ = fs::remove_file(path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with_folder(test: impl FnOnce(&Path)) {
        let name = std::thread::current().name().unwrap_or_default().replace("::", "-");
        let folder = env::temp_dir().join(format!("xtask-{name}-{}", process::id()));
        fs::create_dir_all(&folder).expect("a folder");
        test(&folder);
        fs::remove_dir_all(&folder).expect("it can be removed");
    }

    #[test]
    fn a_pass_is_found_by_its_step_and_its_hash() {
        with_folder(|caches| {
            let passed = Passed::within(caches).expect("a folder");
            assert_eq!(passed.find("vrl", "1"), None);
            passed.keep("vrl", "1", "").expect("it is written");
            passed.keep("models", "1", "Miri").expect("it is written");
            assert_eq!(passed.find("vrl", "1").as_deref(), Some(""));
            assert_eq!(passed.find("models", "1").as_deref(), Some("Miri"));
            assert_eq!(passed.find("vrl", "2"), None);
        });
    }

    #[test]
    fn oldest_entries_are_removed() {
        with_folder(|caches| {
            let passed = Passed::within(caches).expect("a folder");
            let old = passed.entry("vrl", "old");
            fs::write(&old, "").expect("it is written");
            let file = fs::File::options().write(true).open(&old).expect("it is there");
            file.set_modified(SystemTime::UNIX_EPOCH).expect("it is ours");
            for hash in 0..ENTRIES {
                passed.keep("vrl", &hash.to_string(), "").expect("it is written");
            }
            assert_eq!(fs::read_dir(&passed.0).expect("it is there").count(), ENTRIES);
            assert!(!old.exists());
        });
    }

    #[test]
    fn a_file_in_the_way_is_an_error() {
        with_folder(|caches| {
            fs::write(caches.join("tremor"), "").expect("it is written");
            let error = Passed::within(caches).err().expect("no folder can be made");
            assert!(error.to_string().starts_with("cannot create "), "{error}");
        });
    }
}
