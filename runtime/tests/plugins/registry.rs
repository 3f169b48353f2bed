//! Tests of the search paths of the plugin registry.

use std::{fs, process::Command};

use serde_json::Value;
use tremor_runtime::plugin::{ErrorKind, Registry, SearchPath};

use crate::support::{library, workspace};

#[test]
fn no_build_puts_fixtures_on_the_plugin_path() {
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["metadata", "--no-deps", "--offline", "--format-version=1"]);
    let output = cargo.current_dir(workspace()).output().unwrap();
    let metadata: Value = serde_json::from_slice(&output.stdout).unwrap();
    let packages = metadata["packages"].as_array().unwrap().iter();
    let fixtures = packages.filter(|it| it["name"].as_str().unwrap().starts_with("fixture-"));
    let targets: Vec<_> = fixtures.flat_map(|it| it["targets"].as_array().unwrap()).collect();
    assert!(targets.len() > 5, "{targets:?}");
    for target in targets {
        // Cargo puts examples into a folder of their own, and other libraries beside the program.
        assert_eq!(target["kind"], serde_json::json!(["example"]), "{target}");
    }
}

#[test]
fn pipe_is_rejected_without_waiting_for_its_other_end() {
    let folder = tempfile::tempdir().unwrap();
    let pipe = folder.path().join("pipe.so");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    std::os::unix::fs::symlink(&pipe, folder.path().join("link.so")).unwrap();
    let (registry, problems) = Registry::scan(&[SearchPath::new(folder.path(), "test")]);
    assert!(registry.libraries().is_empty() && problems.is_empty(), "{problems:?}");
    let (_, problems) = Registry::scan(&[SearchPath::new(&pipe, "test")]);
    let [problem] = &problems[..] else { panic!("{problems:?}") };
    assert_eq!(problem.error.kind(), ErrorKind::Unreadable);
    assert!(problem.to_string().contains("not a regular file"), "{problem}");
}

#[test]
fn ambiguous_name_is_reported_and_fails_when_used() {
    let paths = [
        SearchPath::new(library("fixture-relay"), "test"),
        SearchPath::new(library("fixture-impostor"), "test"),
    ];
    let (registry, problems) = Registry::scan(&paths);
    let [problem] = &problems[..] else { panic!("{problems:?}") };
    assert_eq!(problem.error.kind(), ErrorKind::NameTaken);
    let error = registry.find("connector", "relay").unwrap_err();
    for name in ["libfixture_relay.so", "libfixture_impostor.so", "`relay`", "help: remove one"] {
        assert!(error.to_string().contains(name), "{error}");
    }
    // Names of only one plugin can still be used.
    let unique = registry.find("connector", "unique").unwrap().unwrap();
    assert_eq!(unique.path(), paths[1].path);
    assert_eq!(registry.names("connector"), ["relay", "unique"]);
    assert!(registry.find("codec", "relay").unwrap().is_none());
}

#[test]
fn copies_and_links_of_a_library_count_once() {
    let folder = tempfile::tempdir().unwrap();
    let original = library("fixture-relay");
    let deps = folder.path().join("deps");
    fs::create_dir(&deps).unwrap();
    fs::copy(&original, folder.path().join("librelay.so")).unwrap();
    fs::copy(&original, deps.join("librelay.so")).unwrap();
    std::os::unix::fs::symlink(&original, deps.join("link.so")).unwrap();
    let paths = [folder.path(), &deps, &original].map(|path| SearchPath::new(path, "test"));
    let (registry, problems) = Registry::scan(&paths);
    assert!(problems.is_empty(), "{problems:?}");
    let found = registry.find("connector", "relay").unwrap().unwrap();
    assert_eq!(
        found.path(),
        folder.path().join("librelay.so"),
        "the library of the first search path is used"
    );
    assert_eq!(registry.libraries().len(), 1);
    assert_eq!(registry.searched(), paths.map(|path| path.path));
}
