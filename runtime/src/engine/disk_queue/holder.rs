//! The process that uses the folder of a queue.

use std::{fmt::Write, fs, os::unix::fs::MetadataExt, path::Path};

/// Describes the process that has locked a queue. The system may not know which process that is, for example because it
/// runs in another container.
pub(super) fn of(folder: &Path) -> String {
    let inode = fs::metadata(folder.join("lock")).ok().map(|it| it.ino());
    let locks = fs::read_to_string("/proc/locks").unwrap_or_default();
    let Some(process) = inode.and_then(|inode| process(&locks, inode)) else {
        return "another process".to_owned();
    };
    let mut holder = format!("process {process}");
    if let Ok(name) = fs::read_to_string(format!("/proc/{process}/comm")) {
        // Writing to a string cannot fail.
        _ = write!(holder, " (`{}`)", name.trim_end());
    }
    holder
}

/// Returns the number of the process that has locked the file with this inode, from the text of `/proc/locks`.
fn process(locks: &str, inode: u64) -> Option<u32> {
    let mut locks = locks.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
    locks.find_map(|fields| match fields[..] {
        [_, "FLOCK", _, _, process, file, ..] => {
            let is_same = file.rsplit(':').next()?.parse() == Ok(inode);
            process.parse().ok().filter(|it| is_same && *it > 0)
        }
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use super::process;

    #[test]
    fn holder_is_the_process_with_a_lock_of_the_file() {
        let locks = "1: POSIX  ADVISORY  WRITE 11 fd:00:77 0 EOF\n\
                     2: FLOCK  ADVISORY  WRITE 12 fd:00:78 0 EOF\n\
                     2: -> FLOCK  ADVISORY  WRITE 13 fd:00:77 0 EOF\n\
                     3: FLOCK  ADVISORY  WRITE 14 fd:00:77 0 EOF\n\
                     4: FLOCK  ADVISORY  WRITE 0 fd:00:79 0 EOF\n";
        assert_eq!([77, 78, 79].map(|it| process(locks, it)), [Some(14), Some(12), None]);
    }
}
