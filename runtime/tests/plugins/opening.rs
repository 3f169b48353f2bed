//! Tests of opening libraries: which file is opened, and what happens to rejected libraries.
//!
//! The libraries of these tests are written in C. They have the metadata of a plugin and at most an initialiser, but no
//! header of a plugin.

use std::{
    fs::{self, OpenOptions},
    io::Write,
    path::{Path, PathBuf},
    process::Command,
};

use object::{Object, ObjectSection};
use tremor_runtime::plugin::{Error, ErrorKind, Policy, load};

use crate::support::library;

/// Compiles a library with the metadata of the relay, in a folder.
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

/// Returns whether a part of the library is mapped into this process.
fn is_mapped(path: &Path) -> bool {
    let name = path.to_string_lossy().into_owned();
    fs::read_to_string("/proc/self/maps").unwrap().lines().any(|line| line.contains(&name))
}

#[test]
fn library_rejected_after_opening_stays_open() {
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
    // The rejected library is not opened a second time.
    assert_eq!(refused(&path).kind(), ErrorKind::Header);
}

/// Returns an initialiser that renames the file `other.so` to the name of the library.
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
fn inspected_file_is_opened_even_if_renamed_over() {
    let folder = tempfile::tempdir().unwrap();
    let path = compiled(folder.path(), "renamed", &replaces_itself(folder.path(), "renamed"), &[]);
    fs::copy(library("fixture-relay"), folder.path().join("other.so")).unwrap();
    let error = refused(&path);
    assert_eq!(
        error.kind(),
        ErrorKind::Header,
        "the library that was inspected has no header: {error}"
    );
    let replaced = load(&path, Policy::default()).unwrap();
    assert_eq!(replaced.library().path(), path, "the file that replaced the library is a plugin");
}

#[test]
fn library_finds_dependency_beside_it_unless_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let own = folder.path().display().to_string();
    compiled(folder.path(), "helper", "int helper(void) { return 1; }", &[]);
    let code = "int helper(void); int useful(void) { return helper(); }";
    let beside = ["-L", &own, "-lhelper", "-Wl,-rpath,$ORIGIN", "-Wl,--no-as-needed"];
    let path = compiled(folder.path(), "finds", code, &beside);
    let error = refused(&path);
    assert_eq!(error.kind(), ErrorKind::Header, "the loader finds the neighbour: {error}");

    let code = format!("{code}\n{}", replaces_itself(folder.path(), "replaced"));
    let path = compiled(folder.path(), "replaced", &code, &beside);
    fs::copy(library("fixture-relay"), folder.path().join("other.so")).unwrap();
    let error = refused(&path);
    assert_eq!(error.kind(), ErrorKind::Changed, "{error}");
}

#[test]
fn library_modified_while_open_is_rejected() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("written.so");
    fs::copy(library("fixture-relay"), &path).unwrap();
    load(&path, Policy::default()).unwrap();
    // Append a byte, so that the bytes that are in use do not change.
    OpenOptions::new().append(true).open(&path).unwrap().write_all(&[0]).unwrap();
    let error = refused(&path);
    assert_eq!(error.kind(), ErrorKind::Changed, "{error}");
    assert!(error.to_string().contains("rename another file to its name"), "{error}");
}

#[test]
fn loader_error_names_the_library_file() {
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
