//! The steps `vrl` and `brokers`: the workspaces besides the main one.

use anyhow::Result;

use crate::project::{Skipped, cargo, is_on_path, run};

const VRL: &str = "--manifest-path=operators-plugins/vrl/Cargo.toml";
const BROKERS: &str = "--manifest-path=brokers/Cargo.toml";

/// Checks the plugin `vrl`, and runs the tests of the runtime that load it.
pub(crate) fn vrl() -> Result<Skipped> {
    check(VRL)?;
    // With the selection of the step `test`, cargo builds nothing again.
    let loading = ["test", "--workspace", "--test=binary", "--test=book", "--", "--ignored", "vrl"];
    run(cargo(loading)).map(|()| None)
}

/// Checks the clients of brokers, and runs the tests against real brokers. These tests report what they skip.
pub(crate) fn brokers() -> Result<Skipped> {
    check(BROKERS)?;
    let is_whole = ["java", "mvn", "go"].iter().all(|program| is_on_path(program));
    Ok((!is_whole).then_some(
        "the tests against real brokers (at least one of `java`, `mvn` and `go` is not installed)",
    ))
}

/// Checks a workspace: runs rustfmt, clippy, the tests and rustdoc.
fn check(manifest: &str) -> Result<()> {
    run(cargo(["fmt", manifest, "--all", "--check"]))?;
    let shared = [manifest, "--workspace", "--target-dir=target"];
    let lints = ["--all-targets", "--", "--deny", "warnings"];
    run(cargo([&["clippy"][..], &shared, &lints].concat()))?;
    run(cargo([&["test"][..], &shared].concat()))?;
    // `--examples` selects none, but enables the features that tests need, with which the dependencies were checked.
    let mut doc =
        cargo([&["doc", "--no-deps"], &shared[..], &["--lib", "--bins", "--examples"]].concat());
    doc.env("RUSTDOCFLAGS", "--deny warnings");
    run(doc)
}
