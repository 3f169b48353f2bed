//! Test programs: cargo builds them, and they run side by side.

use std::collections::VecDeque;
use std::fs;
use std::io;
use std::num::NonZeroUsize;
use std::panic::resume_unwind;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::{Mutex, PoisonError};
use std::{thread, time::Instant};

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use crate::packages::{Package, Target};
use crate::project::{cargo, limited, root, shown};

/// Programs that take longest, in the order in which they are started. The others follow.
const FIRST: [&str; 3] =
    ["tremor-runtime binary", "tremor-runtime plugins", "connector-exec leaks"];

/// Maximum duration of a program. On two processors, each program takes less than a quarter of it.
const LIMIT: &str = "15m";

/// File with cargo's messages about the plugins, whose path the tests get in `TREMOR_TEST_BUILT`.
const BUILT: &str = "target/ci/built.json";

/// A test program that cargo has built.
pub(super) struct Executable {
    path: PathBuf,
    target: Target,
    /// Path of the manifest of the package.
    manifest: PathBuf,
}

impl Executable {
    /// Returns whether the program contains the tests of a target.
    pub(super) fn is_of(&self, package: &Package, target: &Target) -> bool {
        let is_target = self.target.kind == target.kind && self.target.name == target.name;
        is_target && self.manifest == root().join(&package.manifest)
    }

    /// Returns the command that runs the program as `cargo test` does.
    pub(super) fn command(&self, package: &Package) -> Command {
        let mut command = Command::new(&self.path);
        let folder = root().join(package.folder());
        command.env("CARGO_MANIFEST_DIR", &folder).current_dir(folder);
        command
    }
}

/// Builds the test programs that these options of cargo select.
pub(super) fn build(options: &[String]) -> Result<Vec<Executable>> {
    let mut command = cargo(["test", "--no-run"]);
    let messages = messages(command.args(options))?;
    let lines = messages.split(|it| *it == b'\n');
    Ok(lines.filter_map(|line| executable(&serde_json::from_slice(line).ok()?)).collect())
}

/// Builds `tremor` and all plugins, and writes cargo's messages to [`BUILT`]. The tests then find the plugins without
/// cargo, and do not wait while another step builds.
///
/// The selection is that with which the tests build plugins otherwise (`runtime/tests/support`).
pub(super) fn build_plugins() -> Result<()> {
    let messages =
        messages(&mut cargo(["build", "--workspace", "--lib", "--examples", "--bin=tremor"]))?;
    let path = root().join(BUILT);
    let folder = path.parent().unwrap_or(&path);
    fs::create_dir_all(folder)
        .and_then(|()| fs::write(&path, messages))
        .with_context(|| format!("cannot write {BUILT}"))
}

/// Runs cargo, and returns its messages about what it has built.
fn messages(command: &mut Command) -> Result<Vec<u8>> {
    command.arg("--message-format=json-render-diagnostics").stderr(Stdio::inherit());
    let output = command.output().context("cannot start cargo")?;
    ensure!(output.status.success(), "{} failed: {}", shown(command), output.status);
    Ok(output.stdout)
}

/// Returns the test program that a message of cargo reports.
fn executable(message: &Value) -> Option<Executable> {
    let is_test = message["profile"]["test"] == true;
    Some(Executable {
        path: message["executable"].as_str().filter(|_| is_test)?.into(),
        target: Target::parse(&message["target"]),
        manifest: message["manifest_path"].as_str()?.into(),
    })
}

/// A command that runs tests, and its name.
pub(super) struct Program {
    name: String,
    command: Command,
}

impl Program {
    pub(super) fn new(name: String, command: Command) -> Self {
        Self { name, command }
    }

    fn rank(&self) -> usize {
        FIRST.iter().position(|name| *name == self.name).unwrap_or(FIRST.len())
    }
}

/// Runs the programs, as many at once as there are processors, and prints the output of each with `print` when it has
/// ended. Returns the names of those that failed.
pub(super) fn run(
    mut programs: Vec<Program>,
    print: impl Fn(&[u8]) -> io::Result<()> + Sync,
) -> Result<Vec<String>> {
    programs.sort_by_key(Program::rank);
    let processors = thread::available_parallelism().map_or(1, NonZeroUsize::get);
    let queue = Mutex::new(VecDeque::from(programs));
    let failed = Mutex::new(Vec::new());
    let next = || queue.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
    let lane = || {
        while let Some(Program { name, command }) = next() {
            let mut command = limited(LIMIT, &command);
            // Most tests wait for a process, so there are more of them at once than processors.
            command.env("RUST_TEST_THREADS", (2 * processors).to_string()).stdin(Stdio::null());
            command.env("TREMOR_TEST_BUILT", root().join(BUILT));
            let start = Instant::now();
            let output = command.output().with_context(|| format!("cannot start {name}"))?;
            // The lock keeps the outputs of programs apart.
            let mut failed = failed.lock().unwrap_or_else(PoisonError::into_inner);
            let seconds = start.elapsed().as_secs_f64();
            let head = format!("     Running {name}: {}, {seconds:.1} s\n", output.status);
            print(&[head.as_bytes(), &output.stdout, &output.stderr].concat())?;
            if !output.status.success() {
                failed.push(name);
            }
        }
        Ok(())
    };
    let lanes: Vec<Result<()>> = thread::scope(|scope| {
        let lanes: Vec<_> = (0..processors).map(|_| scope.spawn(lane)).collect();
        lanes.into_iter().map(|lane| lane.join().unwrap_or_else(|it| resume_unwind(it))).collect()
    });
    lanes.into_iter().collect::<Result<()>>()?;
    Ok(failed.into_inner().unwrap_or_else(PoisonError::into_inner))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(name: &str, script: &str) -> Program {
        let mut command = Command::new("sh");
        command.args(["-c", script]).current_dir("/");
        Program::new(name.to_owned(), command)
    }

    #[test]
    fn failed_programs_are_named_after_all_have_run() {
        let folder = tempfile::tempdir().expect("a folder for temporary files");
        let file = folder.path().join("ran");
        let touches = format!("touch {}", file.display());
        let programs = vec![shell("a b", "exit 1"), shell("c", "kill -9 $$"), shell("d", &touches)];
        let mut failed = run(programs, |_| Ok(())).expect("the programs can be started");
        failed.sort();
        assert_eq!(failed, ["a b", "c"]);
        assert!(file.exists());
    }

    #[test]
    fn only_test_programs_are_executables() {
        let message = |is_test: bool, executable: Value| {
            serde_json::json!({
                "manifest_path": root().join("runtime/Cargo.toml"), "executable": executable,
                "profile": { "test": is_test }, "target": { "kind": ["bin"], "name": "tremor", "test": true },
            })
        };
        let found = executable(&message(true, "/target/tremor-1".into())).expect("a test program");
        let package = Package { manifest: "runtime/Cargo.toml".to_owned(), ..Package::default() };
        let target = |kind: &str| Target {
            kind: kind.to_owned(),
            name: "tremor".to_owned(),
            ..Target::default()
        };
        assert!(found.is_of(&package, &target("bin")) && !found.is_of(&package, &target("lib")));
        assert!(executable(&message(false, "/target/tremor".into())).is_none());
        assert!(executable(&message(true, Value::Null)).is_none());
    }
}
