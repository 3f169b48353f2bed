//! A node of a broker: a process with a log, that can be ended and started again.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use serde_json::{Map, Value};

/// How often is looked whether it is ready.
const LOOK: Duration = Duration::from_millis(10);
/// How long it may take to be ready, or to end.
const PATIENCE: Duration = Duration::from_mins(2);

/// A process. Dropped, it is killed; so it is where we are killed.
pub(super) struct Node {
    pub(super) id: u16,
    program: OsString,
    arguments: Vec<OsString>,
    log: PathBuf,
    /// What its log says once it is ready.
    ready: &'static str,
    /// Where in the log its last start begins.
    from: u64,
    /// How it is reached.
    addresses: Map<String, Value>,
    child: Option<Child>,
}

impl Node {
    pub(super) fn new(
        id: u16,
        command: (OsString, Vec<OsString>),
        log: PathBuf,
        ready: &'static str,
        addresses: Map<String, Value>,
    ) -> Self {
        let (program, arguments) = command;
        Self { id, program, arguments, log, ready, from: 0, addresses, child: None }
    }

    pub(super) fn log(&self) -> &Path {
        &self.log
    }

    /// The process, while there is one.
    pub(super) fn process(&self) -> Option<u32> {
        self.child.as_ref().map(Child::id)
    }

    pub(super) fn described(&self) -> Value {
        let mut all = self.addresses.clone();
        all.insert("id".into(), self.id.into());
        all.insert("pid".into(), self.process().into());
        all.insert("log".into(), super::shown(&self.log).into());
        all.into()
    }

    /// Starts the process. [`Self::wait`] waits for it.
    pub(super) fn start(&mut self) -> Result<()> {
        if let Some(child) = &mut self.child {
            ensure!(child.try_wait()?.is_some(), "node {} runs", self.id);
        }
        let log = File::options().create(true).append(true).open(&self.log);
        let log = log.with_context(|| format!("cannot write {}", self.log.display()))?;
        self.from = log.metadata()?.len();
        // Where we are killed, what we have started ends as well.
        let mut command = Command::new("setpriv");
        command.args(["--pdeathsig", "KILL"]).arg(&self.program).args(&self.arguments);
        command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
        let child = command.spawn();
        self.child =
            Some(child.with_context(|| format!("cannot start {}", self.program.display()))?);
        Ok(())
    }

    /// Waits until it is ready.
    pub(super) fn wait(&mut self) -> Result<()> {
        let start = Instant::now();
        loop {
            self.expect_running()?;
            let mut log = File::open(&self.log)?;
            log.seek(SeekFrom::Start(self.from))?;
            let mut said = Vec::new();
            log.read_to_end(&mut said)?;
            if String::from_utf8_lossy(&said).contains(self.ready) {
                return Ok(());
            }
            let log = self.log.display();
            ensure!(start.elapsed() < PATIENCE, "node {} is not ready yet; see {log}", self.id);
            thread::sleep(LOOK);
        }
    }

    /// # Errors
    /// It has ended by itself.
    pub(super) fn expect_running(&mut self) -> Result<()> {
        let Some(child) = &mut self.child else { bail!("node {} does not run", self.id) };
        if let Some(status) = child.try_wait()? {
            let log = fs::read(&self.log).unwrap_or_default();
            let log = String::from_utf8_lossy(&log);
            let lines: Vec<_> = log.lines().collect();
            let last = lines[lines.len().saturating_sub(5)..].join("\n  ");
            bail!("node {} has ended: {status}; see {}:\n  {last}", self.id, self.log.display());
        }
        Ok(())
    }

    pub(super) fn signal(&self, name: &str) -> Result<()> {
        let child = self.child.as_ref();
        let child = child.with_context(|| format!("node {} does not run", self.id))?;
        let status =
            Command::new("kill").args([&format!("-{name}"), &child.id().to_string()]).status();
        ensure!(status.context("cannot run kill")?.success(), "cannot signal node {}", self.id);
        Ok(())
    }

    /// Sends it a signal, and waits for its end.
    pub(super) fn end(&mut self, name: &str) -> Result<()> {
        self.signal(name)?;
        let start = Instant::now();
        while let Some(child) = &mut self.child {
            if child.try_wait()?.is_some() {
                self.child = None;
            }
            ensure!(start.elapsed() < PATIENCE, "node {} does not end", self.id);
            thread::sleep(LOOK);
        }
        Ok(())
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        if let Some(child) = &mut self.child {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(name: &str, script: &str) -> Node {
        let log = std::env::temp_dir().join(format!("xtask-node-{name}-{}", std::process::id()));
        let _ = fs::remove_file(&log);
        let command = ("sh".into(), vec!["-c".into(), script.into()]);
        Node::new(1, command, log, "is ready", Map::new())
    }

    #[test]
    fn a_node_is_ready_once_its_log_says_so_also_when_it_is_started_again() {
        let mut node = node("ready", "echo is ready; exec sleep 100");
        for _ in 0..2 {
            node.start().expect("there is a shell");
            node.wait().expect("it says so");
            assert!(node.start().is_err(), "it runs");
            node.end("KILL").expect("it can be killed");
            assert!(node.described()["pid"].is_null());
        }
        assert_eq!(fs::read_to_string(node.log()).expect("a log"), "is ready\nis ready\n");
    }

    #[test]
    fn a_node_that_ends_by_itself_is_an_error_with_its_last_words() {
        let mut node = node("ends", "echo the port is taken; exit 3");
        node.start().expect("there is a shell");
        let error = node.wait().expect_err("it has ended").to_string();
        assert!(error.contains("exit status: 3") && error.contains("the port is taken"), "{error}");
    }
}
