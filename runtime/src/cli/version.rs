//! The text of `tremor --version`: the version of the program, the version of the ABI, and the commit.

use std::{str, sync::LazyLock};

use tremor_abi::version::AbiVersion;

/// Number of digits of the hash that are shown.
const DIGITS: usize = 8;

/// Start of the hash of the commit that was checked out; `None` for a build outside of a git repository.
///
/// The compiler includes the log of `HEAD`, which changes with each commit, but only the hash becomes a part of the
/// program. After a commit, therefore only this crate is compiled again. The output of a build script would cause the
/// library `tremor_runtime` to be compiled again as well.
const COMMIT: Option<[u8; DIGITS]> = last_commit(include_bytes!(env!("TREMOR_BUILD_HEAD_LOG")));

/// Returns the version without the name of the program, such as `0.1.0 (ABI 2.1, 8ee43463)`.
pub(super) fn version() -> &'static str {
    static VERSION: LazyLock<String> =
        LazyLock::new(|| text(COMMIT.as_ref().and_then(|digits| str::from_utf8(digits).ok())));
    &VERSION
}

fn text(commit: Option<&str>) -> String {
    let (version, abi) = (env!("CARGO_PKG_VERSION"), AbiVersion::CURRENT);
    match commit {
        Some(commit) => format!("{version} (ABI {abi}, {commit})"),
        None => format!("{version} (ABI {abi})"),
    }
}

/// Returns the start of the hash in the last line of a log of `HEAD`. Each line begins with two hashes: the hash before
/// a change and the hash after it.
const fn last_commit(log: &[u8]) -> Option<[u8; DIGITS]> {
    // The last line ends with a line feed.
    let mut start = log.len().saturating_sub(1);
    while start > 0 && log[start - 1] != b'\n' {
        start -= 1;
    }
    let mut at = start;
    while at < log.len() && log[at] != b' ' {
        at += 1;
    }
    let mut digits = [0; DIGITS];
    let mut count = 0;
    while count < DIGITS {
        at += 1;
        if at >= log.len() || !log[at].is_ascii_hexdigit() {
            return None;
        }
        digits[count] = log[at];
        count += 1;
    }
    Some(digits)
}

#[cfg(test)]
mod tests {
    use super::*;

    const OLD: &str = "8ee4346389c3d593586fa42b4e7d6e7da15c2d15";
    const NEW: &str = "081c12b7fc87b6720588f90e00de11af9632bfda";

    #[test]
    fn commit_is_new_hash_of_last_line() {
        let first =
            format!("{NEW} {OLD} Jane Doe <jane@example.com> 1795695733 +0000\tclone: from x\n");
        assert_eq!(last_commit(first.as_bytes()), Some(*b"8ee43463"));
        let both =
            format!("{first}{OLD} {NEW} Jane Doe <jane@example.com> 1795696403 +0000\tcommit: y\n");
        assert_eq!(last_commit(both.as_bytes()), Some(*b"081c12b7"));
    }

    #[test]
    fn incomplete_log_has_no_commit() {
        for log in ["", "\n", OLD, &OLD[..20], "old new\n", &format!("{OLD} 081c12b\n")] {
            assert_eq!(last_commit(log.as_bytes()), None, "{log}");
        }
    }

    #[test]
    fn version_without_repository_names_no_commit() {
        let (version, abi) = (env!("CARGO_PKG_VERSION"), AbiVersion::CURRENT);
        assert_eq!(text(None), format!("{version} (ABI {abi})"));
        assert_eq!(text(Some("081c12b7")), format!("{version} (ABI {abi}, 081c12b7)"));
    }
}
