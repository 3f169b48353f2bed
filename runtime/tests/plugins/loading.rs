//! Tests of loading libraries: the current file of a path is loaded, and invalid libraries are rejected.

use std::{
    fs,
    path::{Path, PathBuf},
};

use object::{Object, ObjectSection};
use serde_json::json;
use tremor_runtime::plugin::{ConnectorFactory, ErrorKind, Library, Policy, load};

use crate::{
    drive::{Instance, factory, host},
    support::{library, library_with_flags},
};

#[test]
fn two_plugins_and_two_instances_of_each_run_in_one_process() {
    // Load two libraries, because an early version of the runtime returned the first library for every path.
    let relay = factory(&library("fixture-relay"), "relay");
    let hostile = factory(&library("fixture-faults"), "hostile");
    let start = |factory: &ConnectorFactory, id: &str, count: u64| {
        Instance::start(factory, &json!({ "count": count }), &host(id)).unwrap()
    };
    let mut instances = [
        start(&relay, "a", 2),
        start(&hostile, "b", 3),
        start(&relay, "c", 1),
        start(&hostile, "d", 1),
    ];
    let pulled = instances.each_mut().map(|instance| instance.pull_all().unwrap());
    assert_eq!(pulled, [&["a 0", "a 1"][..], &["0", "1", "2"], &["c 0"], &["0"]]);
    for instance in &mut instances {
        instance.deliver(&["x", "y"]).unwrap();
    }
}

#[test]
fn file_is_loaded_once_and_again_after_replacement() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("plugin.so");
    fs::copy(library("fixture-relay"), &path).unwrap();
    let first = load(&path, Policy::default()).unwrap();
    let linked = folder.path().join("link.so");
    std::os::unix::fs::symlink(&path, &linked).unwrap();
    let again = load(&linked, Policy::default()).unwrap();
    assert_eq!(again.library().path(), path, "the same as before");

    // Replace the library under the same name, as installers do. The cache of the system's loader must not return the
    // old library.
    let other = folder.path().join("other.so");
    fs::copy(library("fixture-faults"), &other).unwrap();
    fs::rename(&other, &path).unwrap();
    let replaced = factory(&path, "hostile");
    assert_ne!(replaced.plugin().unwrap().library().hash(), first.library().hash());
    let mut instance = Instance::start(&replaced, &json!({ "count": 1 }), &host("new")).unwrap();
    assert_eq!(instance.pull_all().unwrap(), ["0"]);
}

#[test]
fn library_is_loaded_from_current_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("found.so");
    fs::copy(library("fixture-relay"), &path).unwrap();
    let found = Library::inspect(&path).unwrap();
    let replace = |with: &Path| {
        let new = folder.path().join("new.so");
        fs::copy(with, &new).unwrap();
        fs::rename(&new, &path).unwrap();
    };

    replace(&with_other_metadata(folder.path(), "\"abi\":\"2.", "\"abi\":\"3."));
    let error = ConnectorFactory::load(&found, "relay", Policy::default()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::AbiVersion, "{error}");

    replace(&library("fixture-faults"));
    let factory = ConnectorFactory::load(&found, "hostile", Policy::default()).unwrap();
    let loaded = factory.plugin().unwrap().library().hash();
    assert_eq!(loaded.unwrap(), Library::inspect(&path).unwrap().hash().unwrap());

    fs::remove_file(&path).unwrap();
    let error = ConnectorFactory::load(&found, "relay", Policy::default()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound, "{error}");
}

/// Returns a copy of the relay whose metadata has `new` instead of `old`, which has the same length.
fn with_other_metadata(folder: &Path, old: &str, new: &str) -> PathBuf {
    assert_eq!(old.len(), new.len());
    let mut bytes = fs::read(library("fixture-relay")).unwrap();
    let file = object::File::parse(&*bytes).unwrap();
    let (start, len) = file.section_by_name(".tremor").unwrap().file_range().unwrap();
    let start = usize::try_from(start).unwrap();
    let record = &mut bytes[start..start + usize::try_from(len).unwrap()];
    let at = record.windows(old.len()).position(|window| window == old.as_bytes()).unwrap();
    record[at..at + new.len()].copy_from_slice(new.as_bytes());
    // Use a unique name, because a file that the loader has open must not be overwritten.
    let path = folder.join(format!("{}.so", letters(new)));
    fs::write(&path, bytes).unwrap();
    path
}

fn letters(text: &str) -> String {
    text.chars().filter(char::is_ascii_alphanumeric).collect()
}

#[test]
fn other_abi_major_is_rejected_before_opening() {
    let folder = tempfile::tempdir().unwrap();
    let path = with_other_metadata(folder.path(), "\"abi\":\"2.", "\"abi\":\"3.");
    let error = load(&path, Policy::default()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::AbiVersion);
    let text = error.to_string();
    for part in ["built for ABI 3.1", "this tremor supports ABI 2.1", "help: rebuild the plugin"] {
        assert!(text.contains(part), "{text}");
    }
}

#[test]
fn library_with_false_metadata_is_detected() {
    let folder = tempfile::tempdir().unwrap();
    for (old, new) in [
        ("\"name\":\"relay\"", "\"name\":\"delay\""),
        ("\"kind\":\"connector\"", "\"kind\":    \"codec\""),
    ] {
        let path = with_other_metadata(folder.path(), old, new);
        let error = load(&path, Policy::default()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::MetadataMismatch, "{new}: {error}");
    }
    let path =
        with_other_metadata(folder.path(), "\"kind\":\"connector\"", "\"kind\":\"connectar\"");
    assert_eq!(load(&path, Policy::default()).unwrap_err().kind(), ErrorKind::BadMetadata);
}

#[test]
fn plugin_with_panic_abort_is_rejected_unless_allowed() {
    let path = library_with_flags("fixture-abort", &["-C", "panic=abort"]);
    let error = load(&path, Policy::default()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::PanicAbort);
    assert!(error.to_string().contains("help: remove `panic = \"abort\"`"), "{error}");
    let policy = Policy { allow_panic_abort: true, ..Policy::default() };
    let library = Library::inspect(&path).unwrap();
    let factory = ConnectorFactory::load(&library, "abort", policy).unwrap();
    factory.create(&json!({}), &host("a")).unwrap();
}

#[test]
fn missing_artefact_error_names_library_and_artefact() {
    let library = Library::inspect(&library("fixture-relay")).unwrap();
    let error = ConnectorFactory::load(&library, "nothing", Policy::default()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::UnknownArtefact);
    assert!(
        error.to_string().ends_with("libfixture_relay.so: the plugin has no connector `nothing`")
    );
}
