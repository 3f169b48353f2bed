//! Names that logrotate and similar tools give to copies of log files.

use std::{
    ffi::OsStr,
    path::{Path, PathBuf},
};

/// Extensions of compressed files.
const COMPRESSED: [&str; 5] = [".gz", ".zst", ".xz", ".bz2", ".lz4"];

/// Returns the keys of the possible originals of a file named `copy`. A file in the same folder is
/// a possible original if [`keys`] returns one of these keys for its name.
///
/// | `copy` | names of the original |
/// |---|---|
/// | `app.log.1`, `app.log-20261126`, `app-20261126.log`, and these compressed | `app.log` |
/// | `app.log.2.gz` | `app.log.2`, and, because it was renamed since, `app.log.1` |
pub(super) fn originals(copy: &Path) -> Vec<PathBuf> {
    let Some(name) = copy.file_name().map(OsStr::to_string_lossy) else { return Vec::new() };
    let plain = COMPRESSED.iter().find_map(|extension| name.strip_suffix(extension));
    let name = plain.unwrap_or(&name);
    let mut originals: Vec<_> = numbers(name).map(|at| name[..at].to_owned()).collect();
    if let Some((stem, extension)) = name.rsplit_once('.') {
        originals.extend(numbers(stem).map(|at| format!("{}.{extension}", &stem[..at])));
    }
    // A compressed copy may have the number of its original or another number.
    if plain.is_some() {
        originals.push(name.to_owned());
        originals.extend(numbered(name));
    }
    originals.into_iter().map(|name| copy.with_file_name(name)).collect()
}

/// Returns the keys of a file by which [`originals`] finds it.
pub(super) fn keys(path: &Path) -> impl Iterator<Item = PathBuf> {
    let name = path.file_name().map(OsStr::to_string_lossy);
    let numbered = name.and_then(|name| numbered(&name)).map(|name| path.with_file_name(name));
    [path.to_owned()].into_iter().chain(numbered)
}

/// Returns the key of all files whose names differ from `name` only in the number at the end. No
/// file has the key as its name, because of the character at the end of the key.
fn numbered(name: &str) -> Option<String> {
    let start = numbers(name).next()?;
    Some(format!("{}\0", &name[..start]))
}

/// Returns the positions at which a number or date at the end of the name may begin, with the
/// character before it.
fn numbers(name: &str) -> impl Iterator<Item = usize> {
    let start = name.trim_end_matches(is_part).len();
    let starts = name[start..].match_indices(['.', '-', '_']);
    let starts = starts.map(move |(at, _)| start + at).filter(|at| *at > 0);
    starts.filter(|at| name[*at..].contains(|it: char| it.is_ascii_digit()))
}

fn is_part(it: char) -> bool {
    it.is_ascii_digit() || matches!(it, '.' | '-' | '_' | ':' | 'T' | 'Z')
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::{keys, originals};

    fn is_copy_name(copy: &Path, original: &Path) -> bool {
        let originals = originals(copy);
        keys(original).any(|key| originals.contains(&key))
    }

    #[test]
    fn names_of_rotated_copies_are_recognised() {
        for (copy, original, expected) in [
            ("app.log.1", "app.log", true),
            ("app.log-20261126", "app.log", true),
            ("app.log.2026-11-26T10:00:00Z", "app.log", true),
            ("app-20261126.log", "app.log", true),
            ("app-20261126.log.gz", "app.log", true),
            ("app.log.1.gz", "app.log", true),
            ("app.log.gz", "app.log", true),
            ("app.log.1.gz", "app.log.1", true),
            ("app.log.2.gz", "app.log.1", true),
            ("app.log-20261126.zst", "app.log-20261126", true),
            ("app.log", "app.log", false),
            ("app.log.2", "app.log.1", false),
            ("app.log.bak", "app.log", false),
            ("apple.log.1", "app.log", false),
            ("worker-2.log", "worker-1.log", false),
            ("worker-2.log.gz", "worker-1.log", false),
            ("app.log", "app.log.1", false),
            ("other.log.2.gz", "app.log.1", false),
        ] {
            let path = |name| Path::new("/var/log").join(name);
            assert_eq!(is_copy_name(&path(copy), &path(original)), expected, "{copy} {original}");
        }
        assert!(!is_copy_name(Path::new("/a/app.log.1"), Path::new("/b/app.log")));
    }
}
