//! Opening libraries: of which files, and what stays behind of those that are refused.
//!
//! These libraries are written in C: they say of themselves that they are plugins, and have nothing but
//! an initialiser.

use std::{
    fs::{self, OpenOptions},
    io::Write,
    path::{Path, PathBuf},
    process::Command,
};

use object::{Object, ObjectSection};
use tremor_runtime::plugin::{Error, ErrorKind, Policy, load};

use crate::support::library;

/// Compiles a library that has the metadata of the relay, in a folder.
fn compiled(folder: &Path, name: &str, code: &str, flags: &[&str]) -> PathBuf {
    let bytes = fs::read(library("fixture-relay")).unwrap();
    let file = object::File::parse(&*bytes).unwrap();
    let record = file.section_by_name(".tremor").unwrap().data().unwrap().to_vec();
    let record: Vec<_> = record.iter().map(ToString::to_string).collect();
    let text = format!(
        "__attribute__((section(\".tremor\"), used)) static const unsigned char record[] = {{{}}};\n\
         {code}\n",
        record.join(",")
    );
    let source = folder.join(format!("{name}.c"));
    fs::write(&source, text).unwrap();
    let path = folder.join(format!("lib{name}.so"));
    let mut compiler = Command::new("cc");
    compiler.args(["-shared", "-fPIC", "-pthread", "-o"]).arg(&path).arg(&source).args(flags);
    assert!(compiler.status().expect("Rust needs a C compiler's linker as well").success());
    path
}

fn refused(path: &Path) -> Error {
    load(path, Policy::default()).unwrap_err()
}

/// Whether code of the library is still there.
fn is_mapped(path: &Path) -> bool {
    let name = path.to_string_lossy().into_owned();
    fs::read_to_string("/proc/self/maps").unwrap().lines().any(|line| line.contains(&name))
}

#[test]
fn a_library_that_is_refused_once_it_is_open_is_not_closed_under_its_own_threads() {
    let folder = tempfile::tempdir().unwrap();
    let code = "#include <pthread.h>\n#include <unistd.h>\n
        static void *run(void *none) { for (;;) usleep(1000); return none; }
        __attribute__((constructor)) static void start(void) {
            pthread_t thread;
            pthread_create(&thread, 0, run, 0);
        }";
    let path = compiled(folder.path(), "threads", code, &[]);
    let error = refused(&path);
    assert_eq!(error.kind(), ErrorKind::Header, "{error}");
    assert!(is_mapped(&path));
    // Nor is it opened again.
    assert_eq!(refused(&path).kind(), ErrorKind::Header);
}

/// An initialiser that renames the file `from` to the library's own name, and says that it ran.
fn replaces_itself(folder: &Path, name: &str) -> String {
    let folder = folder.display();
    format!(
        "#include <stdio.h>\n
        __attribute__((constructor)) static void start(void) {{
            rename(\"{folder}/other.so\", \"{folder}/lib{name}.so\");
        }}"
    )
}

#[test]
fn the_file_that_was_read_is_the_one_that_is_opened_whatever_has_its_name_by_then() {
    let folder = tempfile::tempdir().unwrap();
    let path = compiled(folder.path(), "renamed", &replaces_itself(folder.path(), "renamed"), &[]);
    fs::copy(library("fixture-relay"), folder.path().join("other.so")).unwrap();
    let error = refused(&path);
    assert_eq!(error.kind(), ErrorKind::Header, "what was read has no header: {error}");
    let replaced = load(&path, Policy::default()).unwrap();
    assert_eq!(replaced.library().path(), path, "what took its place is a plugin");
}

#[test]
fn a_library_that_names_another_one_beside_it_finds_it_and_is_refused_where_it_was_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let own = folder.path().display().to_string();
    compiled(folder.path(), "helper", "int helper(void) { return 1; }", &[]);
    let code = "int helper(void); int useful(void) { return helper(); }";
    let beside = ["-L", &own, "-lhelper", "-Wl,-rpath,$ORIGIN", "-Wl,--no-as-needed"];
    let path = compiled(folder.path(), "finds", code, &beside);
    let error = refused(&path);
    assert_eq!(error.kind(), ErrorKind::Header, "the system finds what it needs: {error}");

    let code = format!("{code}\n{}", replaces_itself(folder.path(), "replaced"));
    let path = compiled(folder.path(), "replaced", &code, &beside);
    fs::copy(library("fixture-relay"), folder.path().join("other.so")).unwrap();
    let error = refused(&path);
    assert_eq!(error.kind(), ErrorKind::Changed, "{error}");
}

#[test]
fn a_library_that_was_written_to_while_it_is_open_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("written.so");
    fs::copy(library("fixture-relay"), &path).unwrap();
    load(&path, Policy::default()).unwrap();
    // What is in use of it stays as it is.
    OpenOptions::new().append(true).open(&path).unwrap().write_all(&[0]).unwrap();
    let error = refused(&path);
    assert_eq!(error.kind(), ErrorKind::Changed, "{error}");
    assert!(error.to_string().contains("by renaming another file to its name"), "{error}");
}

#[test]
fn what_the_system_says_of_a_library_names_its_file() {
    let folder = tempfile::tempdir().unwrap();
    let own = folder.path().display().to_string();
    let helper = compiled(folder.path(), "missing", "int helper(void) { return 1; }", &[]);
    let code = "int helper(void); int useful(void) { return helper(); }";
    let path = compiled(folder.path(), "needs", code, &["-L", &own, "-lmissing"]);
    fs::remove_file(helper).unwrap();
    let error = refused(&path);
    assert_eq!(error.kind(), ErrorKind::Open, "{error}");
    let text = error.to_string();
    assert!(text.contains("libmissing.so") && !text.contains("/proc/"), "{text}");
}
