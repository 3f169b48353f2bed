//! The steps `vrl` and `brokers`: the workspaces besides the main one.

use std::num::NonZeroUsize;
use std::process::Stdio;
use std::thread;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use crate::project::{Skipped, cargo, is_on_path, root, run, shown};

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
        "the tests against real brokers (at least one of `java`, `mvn` and `go` is not installed)"
            .into(),
    ))
}

/// Checks a workspace: runs rustfmt, the tests, clippy and rustdoc.
///
/// `cargo clippy` and `cargo doc` would compile all dependencies once more, without code, which takes longer than
/// everything else here. Therefore both tools use the artefacts of the tests: clippy as the compiler of the packages of
/// the workspace, and rustdoc where cargo would run the examples of the documentation.
fn check(manifest: &str) -> Result<()> {
    run(cargo(["fmt", manifest, "--all", "--check"]))?;
    let shared = [manifest, "--workspace", "--target-dir=target"];
    // Most tests wait for a process, so there are more of them at once than processors.
    let processors = thread::available_parallelism().map_or(1, NonZeroUsize::get);
    let mut test = cargo([&["test"][..], &shared].concat());
    test.env("RUST_TEST_THREADS", (2 * processors).to_string());
    run(test)?;
    lint(&shared)?;
    let mut doc = cargo([&["test", "--doc"][..], &shared].concat());
    doc.env("RUSTDOC", root().join("scripts/rustdoc.sh")).env("RUSTDOCFLAGS", "--deny warnings");
    run(doc)
}

/// Compiles all targets with clippy.
///
/// # Errors
/// A package has a warning.
fn lint(shared: &[&str]) -> Result<()> {
    let mut command =
        cargo([&["build", "--all-targets", "--message-format=json"], shared].concat());
    command.env("RUSTC_WORKSPACE_WRAPPER", "clippy-driver").stderr(Stdio::inherit());
    let output = command.output().context("cannot start cargo")?;
    let found: Vec<_> = output.stdout.split(|it| *it == b'\n').filter_map(finding).collect();
    found.iter().for_each(|text| eprint!("{text}"));
    ensure!(output.status.success(), "{} failed: {}", shown(&command), output.status);
    ensure!(found.is_empty(), "clippy has {} findings", found.len());
    Ok(())
}

/// Returns the text of a warning or an error that a line of cargo's output contains.
fn finding(line: &[u8]) -> Option<String> {
    let message: Value = serde_json::from_slice(line).ok()?;
    let message = message.get("message")?;
    let is_finding = ["warning", "error"].iter().any(|level| message["level"] == *level);
    message["rendered"].as_str().filter(|_| is_finding).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::finding;

    #[test]
    fn only_warnings_and_errors_of_the_compiler_are_findings() {
        let message = |level: &str| {
            format!(
                r#"{{"reason":"compiler-message","message":{{"level":"{level}","rendered":"text"}}}}"#
            )
        };
        assert_eq!(finding(message("warning").as_bytes()).as_deref(), Some("text"));
        assert_eq!(finding(message("error").as_bytes()).as_deref(), Some("text"));
        assert_eq!(finding(message("note").as_bytes()), None);
        assert_eq!(finding(br#"{"reason":"build-finished","success":true}"#), None);
    }
}
