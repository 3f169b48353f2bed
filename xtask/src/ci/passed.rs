//! The successful runs (*passes*) of steps, which are remembered in the user's cache folder by the name of the step and
//! the hash of its inputs.

use std::path::{Path, PathBuf};
use std::{fs, process};

use anyhow::{Context, Result, anyhow};

use crate::project::cache;

pub(super) const NOT_REMEMBERED: &str = "a successful run is not remembered";

/// Maximum number of passes that are kept for each step. The oldest ones are removed.
const KEPT: usize = 32;

/// Creates and returns the folder with a file for each step. A line of a file is a hash, and the part that the step
/// skipped when it passed with that hash. Several processes may use the folder at once, because a file is
/// replaced as a whole.
///
/// # Errors
/// Returns the errors of [`cache`].
pub(super) fn folder() -> Result<PathBuf> {
    cache("ci")
}

/// Returns the part that the step skipped when it passed with this hash, which may be empty; `None` if no pass is
/// remembered.
pub(super) fn find(step: &str, hash: &str) -> Option<String> {
    let text = fs::read_to_string(folder().ok()?.join(step)).ok()?;
    find_in(&text, hash).map(str::to_owned)
}

fn find_in<'a>(text: &'a str, hash: &str) -> Option<&'a str> {
    text.lines().find_map(|line| line.strip_prefix(hash)).map(str::trim_start)
}

/// Remembers that the step passed with the hash `before`, except for the skipped part `left_out`. If the hash is
/// another one after the step, files have changed meanwhile, and the step has read one or the other version: such a
/// pass is not remembered. A pass that is not remembered is reported, and does not fail the step.
pub(super) fn keep_if_unchanged(step: &str, before: &str, after: &str, left_out: &str) {
    let kept = if before == after {
        folder().and_then(|folder| keep_in(&folder, step, before, left_out))
    } else {
        Err(anyhow!("files of the step have changed while it ran"))
    };
    kept.unwrap_or_else(|why| eprintln!("{NOT_REMEMBERED} ({step}): {why:#}"));
}

/// Returns the remark of a step that remembers a pass for each of `count` parts, of which it did not run `known`.
pub(super) fn remark(known: usize, count: usize, parts: &str) -> String {
    if known == 0 {
        return String::new();
    }
    format!("{known} of {count} {parts} passed with the same inputs")
}

fn keep_in(folder: &Path, step: &str, hash: &str, left_out: &str) -> Result<()> {
    let path = folder.join(step);
    let before = fs::read_to_string(&path).unwrap_or_default();
    let mut lines = vec![format!("{hash} {left_out}")];
    lines.extend(before.lines().take(KEPT - 1).map(str::to_owned));
    let new = folder.join(format!(".{step}-{}", process::id()));
    fs::write(&new, lines.join("\n") + "\n")
        .and_then(|()| fs::rename(&new, &path))
        .with_context(|| format!("cannot write {}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn newest_passes_are_kept() {
        let folder = std::env::temp_dir().join(format!("xtask-passed-{}", process::id()));
        fs::create_dir_all(&folder).expect("the folder can be created");
        for hash in 0..=KEPT {
            keep_in(&folder, "vrl", &format!("{hash:032x}"), "Miri")
                .expect("the record can be written");
        }
        let text = fs::read_to_string(folder.join("vrl")).expect("the record exists");
        fs::remove_dir_all(&folder).expect("the folder can be removed");
        let find = |hash: usize| find_in(&text, &format!("{hash:032x}"));
        assert_eq!((find(0), find(1), find(KEPT)), (None, Some("Miri"), Some("Miri")));
        assert_eq!(find_in("1 \n", "1"), Some(""));
    }
}
