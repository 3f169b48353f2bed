//! Tests of files that are not valid plugins. Such files are rejected because of their contents, before the system's
//! loader opens them.

use std::{
    collections::BTreeSet,
    fs::{self, OpenOptions},
    path::Path,
    process::Command,
};

use object::{Object, ObjectSection, ObjectSegment};
use tremor_runtime::plugin::{ErrorKind, Library, Policy, load};

use crate::support::library;

/// Returns the kind of the error with which `path` is rejected. Checks that [`load`] and [`Library::inspect`] report
/// the same kind.
fn rejection(path: &Path) -> ErrorKind {
    let error = Library::inspect(path).unwrap_err();
    assert!(error.to_string().starts_with(&path.display().to_string()), "names the file: {error}");
    assert!(error.to_string().lines().count() < 10, "on one screen: {error}");
    assert_eq!(load(path, Policy::default()).unwrap_err().kind(), error.kind());
    error.kind()
}

#[test]
fn metadata_of_plugin_is_read_without_loading() {
    let library = Library::inspect(&library("fixture-relay")).unwrap();
    let metadata = library.metadata();
    assert_eq!((&*metadata.name, metadata.panic.as_deref()), ("fixture-relay", Some("unwind")));
    let artefact = &metadata.artefacts[0];
    assert_eq!((&*artefact.kind, &*artefact.name), ("connector", "relay"));
    library.check(Policy::default()).unwrap();
}

#[test]
fn truncated_library_is_rejected_at_any_length() {
    const STEPS: u64 = 200;
    let folder = tempfile::tempdir().unwrap();
    let copy = folder.path().join("cut.so");
    fs::copy(library("fixture-relay"), &copy).unwrap();
    let bytes = fs::read(&copy).unwrap();
    let whole = bytes.len() as u64;
    let lengths = lengths(&bytes, STEPS);
    assert!(lengths.len() > 200);
    let file = OpenOptions::new().write(true).open(&copy).unwrap();
    // Start with the longest length, so that each step only has to truncate the file further.
    for &length in lengths.iter().rev().filter(|&&length| length < whole) {
        file.set_len(length).unwrap();
        let error = Library::inspect(&copy).unwrap_err();
        let expected = if length < 4 { ErrorKind::NotALibrary } else { ErrorKind::Damaged };
        assert_eq!(error.kind(), expected, "{length} of {whole} bytes: {error}");
        assert!(load(&copy, Policy::default()).is_err());
    }
}

/// Returns the lengths at which the test truncates a library: 0 to 128 bytes, the lengths around the start and the end
/// of each segment and section, and `steps` evenly spaced lengths.
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
fn library_that_is_not_a_plugin_is_rejected() {
    let folder = tempfile::tempdir().unwrap();
    let source = folder.path().join("plain.c");
    fs::write(&source, "int answer(void) { return 42; }\n").unwrap();
    let plain = folder.path().join("plain.so");
    let compiler =
        Command::new("cc").args(["-shared", "-fPIC", "-o"]).arg(&plain).arg(&source).status();
    assert!(compiler.expect("Rust needs a C compiler's linker as well").success());
    assert_eq!(rejection(&plain), ErrorKind::NotAPlugin);
}

#[test]
fn executable_is_rejected() {
    let error = Library::inspect(&std::env::current_exe().unwrap()).unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::NotAPlugin | ErrorKind::NotALibrary), "{error}");
}

#[test]
fn other_files_are_rejected_with_matching_error_kind() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("x.so");
    assert_eq!(rejection(&file), ErrorKind::NotFound);
    assert_eq!(rejection(folder.path()), ErrorKind::Unreadable);
    for contents in ["", "not a library", "#!/bin/sh\nexit 1\n"] {
        fs::write(&file, contents).unwrap();
        assert_eq!(rejection(&file), ErrorKind::NotALibrary, "{contents:?}");
    }
}

#[test]
fn library_with_millions_of_sections_is_rejected() {
    const SECTIONS: u64 = 8_000_000;
    /// Size of a section header in bytes.
    const SECTION_HEADER: u64 = 64;
    /// Offset of `e_shoff` in the ELF header: the position of the table of section headers.
    const TABLE_POSITION: usize = 0x28;
    /// Offset of `e_shnum` in the ELF header: the number of section headers.
    const SECTION_COUNT: usize = 0x3c;
    /// Offset of `sh_size` in a section header.
    const SECTION_SIZE: usize = 0x20;
    let folder = tempfile::tempdir().unwrap();
    let copy = folder.path().join("many.so");
    let mut bytes = fs::read(library("fixture-relay")).unwrap();
    bytes.resize(bytes.len().next_multiple_of(16), 0);
    let table = bytes.len();
    // If `e_shnum` is 0, `sh_size` of the first section header contains the number of section headers.
    bytes[TABLE_POSITION..TABLE_POSITION + 8].copy_from_slice(&(table as u64).to_le_bytes());
    bytes[SECTION_COUNT..SECTION_COUNT + 2].fill(0);
    bytes.resize(table + 64, 0);
    let count = table + SECTION_SIZE;
    bytes[count..count + 8].copy_from_slice(&SECTIONS.to_le_bytes());
    fs::write(&copy, &bytes).unwrap();
    // The section headers after the first one are a hole in the file, which uses no space on the disk.
    let file = OpenOptions::new().write(true).open(&copy).unwrap();
    file.set_len(table as u64 + SECTIONS * SECTION_HEADER).unwrap();
    let error = Library::inspect(&copy).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unreadable, "{error}");
    assert!(error.to_string().contains("more than 64 MiB of headers"), "{error}");
}

#[test]
fn library_for_another_machine_is_rejected() {
    /// Offset of `e_machine` in the ELF header.
    const MACHINE: usize = 18;
    const SPARC: u8 = 2;
    let folder = tempfile::tempdir().unwrap();
    let copy = folder.path().join("other.so");
    let mut bytes = fs::read(library("fixture-relay")).unwrap();
    bytes[MACHINE] = SPARC;
    fs::write(&copy, bytes).unwrap();
    assert_eq!(rejection(&copy), ErrorKind::OtherMachine);
}
