//! Test of a plugin that was built by another compiler.

use std::process::Command;

use serde_json::json;

use crate::{
    drive::{Instance, factory, host},
    support::{JSON, built_library, target_folder, workspace},
};

#[test]
fn nightly_plugin_with_shuffled_layouts_runs() {
    let cargo = |arguments: &[&str]| {
        let mut rustup = Command::new("rustup");
        // Remove the variables because of which cargo would use the toolchain of this test.
        for variable in
            ["RUSTUP_TOOLCHAIN", "CARGO", "RUSTC", "RUSTFLAGS", "CARGO_ENCODED_RUSTFLAGS"]
        {
            rustup.env_remove(variable);
        }
        rustup.args(["run", "nightly", "cargo"]).args(arguments).current_dir(workspace());
        rustup
    };
    if !cargo(&["--version"]).output().is_ok_and(|output| output.status.success()) {
        eprintln!("SKIPPED: no nightly toolchain; `rustup toolchain install nightly` provides it");
        return;
    }
    let package = "fixture-relay";
    let mut build = cargo(&["build", JSON, "--package", package, "--example", package]);
    build
        .arg("--target-dir")
        .arg(target_folder().join("nightly"))
        .env("RUSTFLAGS", "-Zrandomize-layout");
    let path = built_library(&mut build, package);

    let relay = factory(&path, "relay");
    let mut instance = Instance::start(&relay, &json!({ "count": 300 }), &host("other")).unwrap();
    assert_eq!(instance.pull_all().unwrap().len(), 300);
    let delivery = instance.deliver(&["good", "bad", "later"]).unwrap();
    assert_eq!(delivery.len(), 2);
    assert!(relay.create(&json!({ "count": 1_001 }), &host("x")).is_err());
}
