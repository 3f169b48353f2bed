//! Memory of the machine and of the control group of the process.

use std::{
    fs,
    path::{Path, PathBuf},
};

/// Returns the memory that the process may use, in bytes: the minimum of the machine's memory and the limits of
/// the control group of the process and its ancestors. `None` if the system reports neither.
pub(super) fn available() -> Option<usize> {
    available_below(Path::new("/"))
}

fn available_below(root: &Path) -> Option<usize> {
    let machine = fs::read_to_string(root.join("proc/meminfo")).ok().and_then(|text| {
        let line = text.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
        line.trim().strip_suffix(" kB")?.trim().parse::<usize>().ok()?.checked_mul(1024)
    });
    let groups = fs::read_to_string(root.join("proc/self/cgroup")).unwrap_or_default();
    let limits = groups.lines().flat_map(|line| of_group(root, line));
    machine.into_iter().chain(limits).min()
}

/// Returns the memory limits of the control group that a line of `/proc/self/cgroup` names, and of its ancestors.
fn of_group(root: &Path, line: &str) -> Vec<usize> {
    let mut fields = line.splitn(3, ':').skip(1);
    let (Some(controllers), Some(group)) = (fields.next(), fields.next()) else {
        return Vec::new();
    };
    let (folder, file) = match controllers {
        "" => ("sys/fs/cgroup", "memory.max"),
        _ if controllers.split(',').any(|it| it == "memory") => {
            ("sys/fs/cgroup/memory", "memory.limit_in_bytes")
        }
        _ => return Vec::new(),
    };
    let group = PathBuf::from(group.trim_start_matches('/'));
    // In a container, the path may belong to the host's hierarchy, of which only the root exists here.
    let around = group.ancestors();
    let read = |group: &Path| fs::read_to_string(root.join(folder).join(group).join(file)).ok();
    // The value `max` means that there is no limit. It is not a number, so it is skipped.
    around.filter_map(read).filter_map(|text| text.trim().parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use std::{fs, path::Path};

    use super::available_below;

    fn write(root: &Path, path: &str, text: &str) {
        let path = root.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    #[test]
    fn least_limit_of_machine_and_groups_counts() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        assert_eq!(available_below(root), None);
        write(root, "proc/meminfo", "MemFree: 1 kB\nMemTotal:       1000 kB\n");
        assert_eq!(available_below(root), Some(1_024_000));
        write(root, "proc/self/cgroup", "0::/a/b\n");
        write(root, "sys/fs/cgroup/a/b/memory.max", "max\n");
        assert_eq!(available_below(root), Some(1_024_000));
        write(root, "sys/fs/cgroup/a/memory.max", "5000\n");
        assert_eq!(available_below(root), Some(5_000));
        write(root, "proc/self/cgroup", "7:cpu:/x\n4:memory,hugetlb:/c\n");
        write(root, "sys/fs/cgroup/memory/c/memory.limit_in_bytes", "3000\n");
        assert_eq!(available_below(root), Some(3_000));
    }
}
