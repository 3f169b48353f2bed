//! A folder that is all there is for a program: what it and its plugins were unpacked to, and the libraries of the
//! system that they say they need.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use super::elf::Needs;
use crate::project::{run as run_command, shown};

/// What a run in such a folder shows, where the system does not permit it.
pub(super) const SKIPPED: &str = "the run with nothing but the archive and the libraries of the system: what of this \
machine it needs besides is not known (it takes `unshare` and a user namespace, or root)";
/// Libraries that every Linux with glibc has: those of glibc, and the one of GCC that unwinds stacks.
const EVERYWHERE: [&str; 6] =
    ["libc.so.6", "libm.so.6", "libgcc_s.so.1", "libpthread.so.0", "libdl.so.2", "librt.so.1"];

/// The ways to give a program another root folder: options of `unshare`.
type Way = &'static [&'static str];
const WAYS: [Way; 2] = [&["--user", "--map-root-user"], &[]];

/// The way that the system permits, if it does any.
pub(super) fn way() -> Option<Way> {
    let is_permitted = |way: &Way| {
        let mut command = Command::new("unshare");
        let output = command.args(*way).args(["--root=/", "true"]).output();
        output.is_ok_and(|output| output.status.success())
    };
    WAYS.into_iter().find(is_permitted)
}

/// Has a program run for which `root` is all there is, with nothing in its environment. `folder` and `program` are
/// as they are called in there.
pub(super) fn command(way: Way, root: &Path, folder: &str, program: &str) -> Command {
    let mut command = Command::new("unshare");
    command.args(way).arg("--root").arg(root).arg(format!("--wd={folder}"));
    command.arg(program).env_clear();
    command
}

/// Refuses what is not on every machine.
pub(super) fn common(needs: &Needs) -> Result<()> {
    let loaders = needs.loaders();
    let is_common = |name: &&String| EVERYWHERE.contains(&&***name) || loaders.contains(&***name);
    let others: Vec<&String> = needs.libraries.iter().filter(|name| !is_common(name)).collect();
    ensure!(
        others.is_empty(),
        "the program or a plugin needs {others:?}, which another machine may not have: link it statically"
    );
    Ok(())
}

/// Copies the loader, and those libraries that these files need and say so, to where they are on this machine.
pub(super) fn furnish(root: &Path, files: &[PathBuf], needs: &Needs) -> Result<()> {
    let mut found = BTreeMap::new();
    for file in files {
        found.append(&mut libraries(needs, file)?);
    }
    let loaders = needs.loaders();
    let mut open: Vec<String> = needs.libraries.iter().cloned().collect();
    let (mut seen, mut paths) = (BTreeSet::new(), Vec::new());
    while let Some(name) = open.pop() {
        if loaders.contains(&*name) || !seen.insert(name.clone()) {
            continue;
        }
        let path = found.get(&name).with_context(|| format!("the loader finds no {name}"))?;
        // What the system's own libraries need comes with them.
        open.extend(Needs::of(path)?.libraries);
        paths.push(path);
    }
    // Another program copies them: what this one has open to write, and its children with it, nobody can execute.
    let mut command = Command::new("cp");
    command.args(["--dereference", "--parents"]).args(paths).args(&needs.interpreters).arg(root);
    run_command(command)
}

/// Where the loader finds what a file needs.
fn libraries(needs: &Needs, file: &Path) -> Result<BTreeMap<String, PathBuf>> {
    let loader = needs.interpreters.first().context("no file names a loader")?;
    let mut command = Command::new(loader);
    command.arg("--list").arg(file);
    let output = command.output().with_context(|| format!("cannot start {}", loader.display()))?;
    let said = String::from_utf8_lossy(&output.stdout);
    ensure!(output.status.success(), "{} failed: {}\n{said}", shown(&command), output.status);
    Ok(listed(&said))
}

/// The libraries of a list like this: `libc.so.6 => /lib/libc.so.6 (0x7f00)`.
fn listed(text: &str) -> BTreeMap<String, PathBuf> {
    let library = |line: &str| {
        let (name, rest) = line.trim().split_once(" => ")?;
        let (path, _) = rest.rsplit_once(" (")?;
        Some((name.to_owned(), path.into()))
    };
    text.lines().filter_map(library).collect()
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;
    use std::process::Command;
    use std::{env, fs, process};

    use super::{Needs, SKIPPED, command, common, furnish, listed, way};
    use crate::running::empty_folder;

    #[test]
    fn what_the_loader_lists_has_a_path_for_each_library_that_is_a_file() {
        let text = "\tlinux-vdso.so.1 (0x7ff)\n\tlibc.so.6 => /lib/a (b)/libc.so.6 (0x7f0)\n\
                    \tlibnone.so => not found\n\t/lib64/ld-linux-x86-64.so.2 (0x7f1)\n";
        let found = listed(text);
        assert_eq!(
            found.into_iter().collect::<Vec<_>>(),
            [("libc.so.6".to_owned(), PathBuf::from("/lib/a (b)/libc.so.6"))]
        );
    }

    #[test]
    fn a_library_that_not_every_machine_has_is_refused() {
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
    fn a_program_runs_with_the_libraries_that_it_says_it_needs_and_not_without_one_of_them() {
        let Some(way) = way() else {
            eprintln!("SKIPPED: {SKIPPED}");
            return;
        };
        let program = env::current_exe().unwrap();
        let all = Needs::of(&program).unwrap();
        let mut fewer = all.clone();
        assert!(fewer.libraries.remove("libgcc_s.so.1"), "{all:?}");
        let root = env::temp_dir().join(format!("xtask-bare-{}", process::id()));
        let runs = |needs: &Needs| {
            empty_folder(&root.join("here")).unwrap();
            let mut copies = Command::new("cp");
            let copies = copies.arg(&program).arg(root.join("here/program"));
            assert!(copies.status().unwrap().success());
            furnish(&root, std::slice::from_ref(&program), needs).unwrap();
            let mut command = command(way, &root, "/here", "./program");
            let output = command.args(["--list", "bare::"]).output().unwrap();
            fs::remove_dir_all(&root).unwrap();
            let said = [output.stdout, output.stderr].map(|it| String::from_utf8(it).unwrap());
            (output.status.success(), said.concat())
        };
        let (succeeds, said) = runs(&all);
        assert!(succeeds && said.contains("bare::tests::a_program_runs"), "{said}");
        let (succeeds, said) = runs(&fewer);
        assert!(!succeeds && said.contains("libgcc_s.so.1"), "{said}");
    }
}
