//! A root folder for a program that contains only the unpacked archive and the system libraries that its files require.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use super::elf::Needs;
use crate::project::{output, run, text};

/// Message if the system does not permit running a program with another root folder.
pub(super) const SKIPPED: &str = "the run with only the archive and the required system libraries, which needs `unshare` with \
user namespaces, or root; it is unknown whether the archive needs other files of this machine";
/// Libraries that every Linux with glibc has: those of glibc, and GCC's library for unwinding stacks.
const EVERYWHERE: [&str; 6] =
    ["libc.so.6", "libm.so.6", "libgcc_s.so.1", "libpthread.so.0", "libdl.so.2", "librt.so.1"];

/// Options of `unshare` that permit running a program with another root folder.
type Way = &'static [&'static str];
const WAYS: [Way; 2] = [&["--user", "--map-root-user"], &[]];

/// Returns the first options that the system permits, if any.
pub(super) fn way() -> Option<Way> {
    let is_permitted = |way: &Way| {
        let mut command = Command::new("unshare");
        output(command.args(*way).args(["--root=/", "true"])).is_ok()
    };
    WAYS.into_iter().find(is_permitted)
}

/// Returns a command that runs a program with the root folder `root` and an empty environment. `folder` and `program`
/// are paths within `root`.
pub(super) fn command(way: Way, root: &Path, folder: &str, program: &str) -> Command {
    let mut command = Command::new("unshare");
    command.args(way).arg("--root").arg(root).arg(format!("--wd={folder}"));
    command.arg(program).env_clear();
    command
}

/// Checks that files require only libraries that every machine has.
pub(super) fn common(needs: &Needs) -> Result<()> {
    let is_loader = |name: &str| needs.interpreters.iter().any(|path| path.ends_with(name));
    let is_common = |name: &&String| EVERYWHERE.contains(&&***name) || is_loader(name);
    let others: Vec<_> = needs.libraries.iter().filter(|name| !is_common(name)).collect();
    ensure!(
        others.is_empty(),
        "the program or a plugin needs the libraries {others:?}, which other machines may not have: link them statically"
    );
    Ok(())
}

/// Copies the loader and the libraries that these files need to `root`, with the same paths as on this machine.
pub(super) fn furnish(root: &Path, files: &[PathBuf], needs: &Needs) -> Result<()> {
    let loader = needs.interpreters.first().context("no file names a loader")?;
    let mut paths = needs.interpreters.clone();
    for file in files {
        paths.extend(listed(&text(Command::new(loader).arg("--list").arg(file))?));
    }
    // `cp` copies the files, because a file cannot be executed while this process or a child of it has it open for
    // writing.
    let mut command = Command::new("cp");
    command.args(["--dereference", "--parents"]).args(paths).arg(root);
    run(command)
}

/// Returns the paths of libraries in lines such as `libc.so.6 => /lib/libc.so.6 (0x7f00)`.
fn listed(text: &str) -> impl Iterator<Item = PathBuf> {
    let library = |line: &str| Some(line.split_once(" => ")?.1.rsplit_once(" (")?.0.into());
    text.lines().filter_map(library)
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;
    use std::process::Command;
    use std::{env, fs, process};

    use walkdir::WalkDir;

    use super::{Needs, SKIPPED, command, common, furnish, listed, way};
    use crate::project::empty_folder;

    #[test]
    fn only_libraries_with_a_path_are_listed() {
        let text = "\tlinux-vdso.so.1 (0x7ff)\n\tlibc.so.6 => /lib/a (b)/libc.so.6 (0x7f0)\n\
                    \tlibnone.so => not found\n\t/lib64/ld-linux-x86-64.so.2 (0x7f1)\n";
        let found = listed(text);
        assert_eq!(found.collect::<Vec<_>>(), [PathBuf::from("/lib/a (b)/libc.so.6")]);
    }

    #[test]
    fn uncommon_library_is_refused() {
        let of = |library: &str| Needs {
            libraries: ["libc.so.6", "ld-linux-x86-64.so.2", library].map(str::to_owned).into(),
            interpreters: ["/lib64/ld-linux-x86-64.so.2".into()].into(),
            ..Needs::default()
        };
        assert!(common(&of("libm.so.6")).is_ok());
        let refused = common(&of("libsasl2.so.2")).unwrap_err().to_string();
        assert!(refused.contains("[\"libsasl2.so.2\"]"), "{refused}");
    }

    #[test]
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    fn program_runs_with_its_libraries_and_not_without_one() {
        let Some(way) = way() else {
            eprintln!("SKIPPED: {SKIPPED}");
            return;
        };
        let program = env::current_exe().unwrap();
        let needs = Needs::of(std::slice::from_ref(&program)).unwrap();
        let root = env::temp_dir().join(format!("xtask-bare-{}", process::id()));
        empty_folder(&root.join("here")).unwrap();
        let mut copies = Command::new("cp");
        let copies = copies.arg(&program).arg(root.join("here/program"));
        assert!(copies.status().unwrap().success());
        furnish(&root, std::slice::from_ref(&program), &needs).unwrap();
        let run = || {
            let mut command = command(way, &root, "/here", "./program");
            let output = command.args(["--list", "bare::"]).output().unwrap();
            let printed = [output.stdout, output.stderr].map(|it| String::from_utf8(it).unwrap());
            (output.status.success(), printed.concat())
        };
        let (succeeds, printed) = run();
        assert!(succeeds && printed.contains("bare::tests::program_runs"), "{printed}");
        let all = WalkDir::new(&root).into_iter().map(|it| it.unwrap().into_path());
        let library = all.into_iter().find(|path| path.ends_with("libgcc_s.so.1")).unwrap();
        fs::remove_file(library).unwrap();
        let (succeeds, printed) = run();
        fs::remove_dir_all(&root).unwrap();
        assert!(!succeeds && printed.contains("libgcc_s.so.1"), "{printed}");
    }
}
