//! A node of a broker: a process with a log, that can be ended and started again.

use std::fmt::Display;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::{Map, Value};

use crate::process::{Process, Program, Signal};

/// Maximum time until a node is ready, or has ended.
const PATIENCE: Duration = Duration::from_mins(2);

/// A node. Dropped, its process is killed, also where this process is killed.
pub(super) struct Node {
    pub(super) id: u16,
    program: Program,
    /// Text of the log once the node is ready.
    ready: &'static str,
    /// Address of each listener, by the name of the listener.
    addresses: Map<String, Value>,
    process: Option<Process>,
}

impl Node {
    /// A node of this program with these arguments, with its log in `folder`.
    pub(super) fn new<T: Display>(
        id: u16,
        (program, arguments): (&Path, impl IntoIterator<Item = T>),
        folder: &Path,
        ready: &'static str,
        addresses: Map<String, Value>,
    ) -> Self {
        let name = format!("node-{id}");
        // Where this process is killed, the node ends as well.
        let command = Program::new("setpriv", &name, folder).arguments(["--pdeathsig", "KILL"]);
        let program = command.argument(program.display()).arguments(arguments);
        Self { id, program, ready, addresses, process: None }
    }

    pub(super) fn log(&self) -> &Path {
        self.program.log()
    }

    /// Returns the process, while there is one.
    pub(super) fn process(&self) -> Option<&Process> {
        self.process.as_ref()
    }

    pub(super) fn described(&self) -> Value {
        let mut all = self.addresses.clone();
        all.insert("id".into(), self.id.into());
        all.insert("pid".into(), self.process().map(Process::id).into());
        all.insert("log".into(), super::shown(self.log()).into());
        all.into()
    }

    /// Starts the process. [`Self::wait`] waits for it.
    pub(super) fn start(&mut self) -> Result<()> {
        if let Some(process) = &mut self.process {
            ensure!(process.ended()?.is_some(), "node {} runs", self.id);
        }
        self.process = Some(self.program.start()?);
        Ok(())
    }

    /// Waits until the node is ready.
    pub(super) fn wait(&mut self) -> Result<()> {
        let ready = self.ready;
        self.running()?.until("a node that is ready", PATIENCE, |process| {
            Ok(process.log()?.contains(ready).then_some(()))
        })
    }

    /// # Errors
    /// The node has ended by itself.
    pub(super) fn expect_running(&mut self) -> Result<()> {
        self.running()?.expect_alive()
    }

    fn running(&mut self) -> Result<&mut Process> {
        self.process.as_mut().with_context(|| format!("node {} does not run", self.id))
    }

    pub(super) fn signal(&mut self, signal: Signal) -> Result<()> {
        self.running()?.signal(signal)
    }

    /// Sends a signal, and waits for the end.
    pub(super) fn end(&mut self, signal: Signal) -> Result<()> {
        let process = self.running()?;
        process.signal(signal)?;
        process.end(PATIENCE)?;
        self.process = None;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn node(name: &str, script: &str) -> Node {
        let folder = std::env::temp_dir().join(format!("xtask-node-{name}-{}", std::process::id()));
        crate::running::empty_folder(&folder).expect("a folder");
        Node::new(1, (Path::new("sh"), ["-c", script]), &folder, "is ready", Map::new())
    }

    #[test]
    fn node_is_ready_once_its_log_says_so_also_when_restarted() {
        let mut node = node("ready", "echo is ready; exec sleep 100");
        for _ in 0..2 {
            node.start().expect("there is a shell");
            node.wait().expect("it says so");
            assert!(node.start().is_err(), "it runs");
            node.end(Signal::KILL).expect("it can be killed");
            assert!(node.described()["pid"].is_null());
        }
        assert_eq!(fs::read_to_string(node.log()).expect("a log"), "is ready\nis ready\n");
    }

    #[test]
    fn node_that_ends_by_itself_is_an_error_with_its_last_words() {
        let mut node = node("ends", "echo the port is taken; exit 3");
        node.start().expect("there is a shell");
        let error = node.wait().expect_err("it has ended").to_string();
        assert!(error.contains("exit status: 3") && error.contains("the port is taken"), "{error}");
    }
}
