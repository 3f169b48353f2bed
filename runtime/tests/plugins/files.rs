//! Files that are no plugins, or no longer whole: refused by their bytes, never opened by the
//! system's loader.

use std::{
    collections::BTreeSet,
    fs::{self, OpenOptions},
    path::Path,
    process::Command,
};

use object::{Object, ObjectSection, ObjectSegment};
use tremor_runtime::plugin::{ErrorKind, Library, Policy, load};

use crate::support::library;

/// The kind of error that loading and inspecting agree on.
fn refused(path: &Path) -> ErrorKind {
    let error = Library::inspect(path).unwrap_err();
    assert!(error.to_string().starts_with(&path.display().to_string()), "names the file: {error}");
    assert!(error.to_string().lines().count() < 10, "on one screen: {error}");
    assert_eq!(load(path, Policy::default()).unwrap_err().kind(), error.kind());
    error.kind()
}

#[test]
fn a_plugin_says_what_it_is_without_being_loaded() {
    let library = Library::inspect(&library("fixture-relay")).unwrap();
    let metadata = library.metadata();
    assert_eq!((&*metadata.name, metadata.panic.as_deref()), ("fixture-relay", Some("unwind")));
    let artefact = &metadata.artefacts[0];
    assert_eq!((&*artefact.kind, &*artefact.name), ("connector", "relay"));
    library.check(Policy::default()).unwrap();
}

#[test]
fn a_library_that_was_cut_short_is_refused_at_any_length() {
    const STEPS: u64 = 200;
    let folder = tempfile::tempdir().unwrap();
    let copy = folder.path().join("cut.so");
    fs::copy(library("fixture-relay"), &copy).unwrap();
    let bytes = fs::read(&copy).unwrap();
    let whole = bytes.len() as u64;
    let lengths = lengths(&bytes, STEPS);
    assert!(lengths.len() > 200);
    let file = OpenOptions::new().write(true).open(&copy).unwrap();
    // The longest first: cutting costs nothing.
    for &length in lengths.iter().rev().filter(|&&length| length < whole) {
        file.set_len(length).unwrap();
        let error = Library::inspect(&copy).unwrap_err();
        let expected = if length < 4 { ErrorKind::NotALibrary } else { ErrorKind::Damaged };
        assert_eq!(error.kind(), expected, "{length} of {whole} bytes: {error}");
        assert!(load(&copy, Policy::default()).is_err());
    }
}

/// Around each place where something begins or ends, each of the first bytes, and evenly between.
fn lengths(bytes: &[u8], steps: u64) -> BTreeSet<u64> {
    let whole = bytes.len() as u64;
    let file = object::File::parse(bytes).unwrap();
    let segments = file.segments().map(|segment| segment.file_range());
    let sections = file.sections().filter_map(|section| section.file_range());
    let mut lengths: BTreeSet<_> = (0..=128).chain([whole - 1]).collect();
    for (start, len) in segments.chain(sections) {
        lengths.extend([start.saturating_sub(1), start, start + 1, start + len - 1, start + len]);
    }
    lengths.extend((0..steps).map(|step| whole * step / steps));
    lengths
}

#[test]
fn a_library_that_is_no_plugin_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let source = folder.path().join("plain.c");
    fs::write(&source, "int answer(void) { return 42; }\n").unwrap();
    let plain = folder.path().join("plain.so");
    let compiler =
        Command::new("cc").args(["-shared", "-fPIC", "-o"]).arg(&plain).arg(&source).status();
    assert!(compiler.expect("Rust needs a C compiler's linker as well").success());
    assert_eq!(refused(&plain), ErrorKind::NotAPlugin);
}

#[test]
fn a_program_is_no_library() {
    let error = Library::inspect(&std::env::current_exe().unwrap()).unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::NotAPlugin | ErrorKind::NotALibrary), "{error}");
}

#[test]
fn files_that_are_no_libraries_are_told_apart() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("x.so");
    assert_eq!(refused(&file), ErrorKind::NotFound);
    assert_eq!(refused(folder.path()), ErrorKind::Unreadable);
    for contents in ["", "not a library", "#!/bin/sh\nexit 1\n"] {
        fs::write(&file, contents).unwrap();
        assert_eq!(refused(&file), ErrorKind::NotALibrary, "{contents:?}");
    }
}

#[test]
fn a_library_with_millions_of_section_headers_is_not_read_into_memory() {
    const SECTIONS: u64 = 8_000_000;
    const HEADER: u64 = 64;
    const TABLE: usize = 0x28;
    const COUNT: usize = 0x3c;
    const SIZE_OF_FIRST: usize = 0x20;
    let folder = tempfile::tempdir().unwrap();
    let copy = folder.path().join("many.so");
    let mut bytes = fs::read(library("fixture-relay")).unwrap();
    bytes.resize(bytes.len().next_multiple_of(16), 0);
    let table = bytes.len();
    // No number of headers means that it stands in the first of them.
    bytes[TABLE..TABLE + 8].copy_from_slice(&(table as u64).to_le_bytes());
    bytes[COUNT..COUNT + 2].fill(0);
    bytes.resize(table + 64, 0);
    let count = table + SIZE_OF_FIRST;
    bytes[count..count + 8].copy_from_slice(&SECTIONS.to_le_bytes());
    fs::write(&copy, &bytes).unwrap();
    // The rest is a hole, which takes no room on the disk.
    let file = OpenOptions::new().write(true).open(&copy).unwrap();
    file.set_len(table as u64 + SECTIONS * HEADER).unwrap();
    let error = Library::inspect(&copy).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unreadable, "{error}");
    assert!(error.to_string().contains("more than 64 MiB of headers"), "{error}");
}

#[test]
fn a_library_for_another_machine_is_refused() {
    const MACHINE: usize = 18;
    const SPARC: u8 = 2;
    let folder = tempfile::tempdir().unwrap();
    let copy = folder.path().join("other.so");
    let mut bytes = fs::read(library("fixture-relay")).unwrap();
    bytes[MACHINE] = SPARC;
    fs::write(&copy, bytes).unwrap();
    assert_eq!(refused(&copy), ErrorKind::OtherMachine);
}
