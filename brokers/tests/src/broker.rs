//! Brokers started with `cargo xtask broker`.

use std::{
    fs,
    io::{BufRead, BufReader, Write},
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
};

use serde_json::Value;
use tempfile::TempDir;

use crate::built::built;

/// A broker that runs until this value is dropped or the test ends.
pub struct Broker {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    described: Value,
    _folder: TempDir,
}

impl Broker {
    /// Starts a broker, such as `kafka`, with further arguments for `cargo xtask broker`. If this machine lacks
    /// something that the broker needs, prints what is missing and returns `None`.
    pub fn start(name: &str, arguments: &[&str]) -> Option<Self> {
        Self::start_in(tempfile::tempdir().unwrap(), name, arguments)
    }

    /// Starts a broker like [`Self::start`], with its data in `folder`.
    pub fn start_in(folder: TempDir, name: &str, arguments: &[&str]) -> Option<Self> {
        let mut command = Command::new(&built().xtask);
        command.args(["broker", name, "--dir"]).arg(folder.path()).args(arguments);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let input = child.stdin.take().unwrap();
        let mut output = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        output.read_line(&mut line).unwrap();
        if line.is_empty() {
            let errors = child.wait_with_output().unwrap().stderr;
            let errors = String::from_utf8_lossy(&errors);
            assert!(errors.contains("missing:"), "the broker does not start: {errors}");
            eprintln!("SKIPPED: {name} cannot be started here: {}", errors.trim());
            return None;
        }
        let described = serde_json::from_str(&line).unwrap();
        Some(Self { child, input, output, described, _folder: folder })
    }

    /// Returns a value from the description that `cargo xtask broker` prints at the start: an
    /// address, a file or a name.
    pub fn get(&self, key: &str) -> &str {
        self.described[key].as_str().unwrap_or_else(|| panic!("there is `{key}`"))
    }

    /// Sends a signal to the process of a node, for which `cargo xtask broker` has no command.
    pub fn signal(&self, node: usize, name: &str) {
        let pid = self.pid(node).to_string();
        assert!(Command::new("kill").args(["-s", name, &pid]).status().unwrap().success());
    }

    /// Returns whether a node has ended by itself.
    pub fn has_ended(&self, node: usize) -> bool {
        // A node that has ended is a zombie, because its parent has not reaped it. A process is also shown as a zombie
        // if its first thread has ended and others still run.
        let folder = format!("/proc/{}", self.pid(node));
        let threads = fs::read_dir(format!("{folder}/task")).map_or(0, Iterator::count);
        let stat = fs::read_to_string(format!("{folder}/stat"));
        let state = stat.as_ref().ok().and_then(|stat| stat.rsplit_once(") "));
        threads <= 1 && state.is_some_and(|(_, state)| state.starts_with('Z'))
    }

    fn pid(&self, node: usize) -> u64 {
        self.described["nodes"][node - 1]["pid"].as_u64().unwrap()
    }

    /// Sends `cargo xtask broker` a command for a node, and waits for its result: `kill 1`, `stop 1`, `start 1`,
    /// `pause 1` or `resume 1`.
    pub fn order(&mut self, order: &str) {
        writeln!(self.input, "{order}").unwrap();
        let mut line = String::new();
        self.output.read_line(&mut line).unwrap();
        let answer: Value = serde_json::from_str(&line).unwrap();
        assert!(answer.get("error").is_none(), "{order}: {answer}");
        self.described = answer;
    }
}

impl Drop for Broker {
    fn drop(&mut self) {
        // The nodes end together with `cargo xtask broker`.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
