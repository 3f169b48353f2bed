//! A node of a broker, or another server: a process with a log that can be ended and restarted.

use std::{fmt::Display, path::Path, time::Duration};

use anyhow::{Context, Result, ensure};
use serde_json::{Map, Value};

use crate::process::{Process, Program, Signal};

/// Maximum time until a node is ready, or has ended.
const PATIENCE: Duration = Duration::from_mins(2);

/// A node. Its process is killed when the node is dropped, and when this process is killed.
pub(crate) struct Node {
    pub(super) id: u16,
    program: Program,
    /// Text that the log contains once the node is ready.
    ready: &'static str,
    /// Address of each listener, by the name of the listener.
    addresses: Map<String, Value>,
    /// The process; `None` before the start and after the end.
    pub(super) process: Option<Process>,
}

impl Node {
    /// Creates a node that runs a program with these arguments, with its log in `folder`.
    pub(crate) fn new<T: Display>(
        id: u16,
        (program, arguments): (&Path, impl IntoIterator<Item = T>),
        folder: &Path,
        ready: &'static str,
        addresses: Map<String, Value>,
    ) -> Self {
        let name = format!("node-{id}");
        // `setpriv` makes the node end if this process is killed.
        let command = Program::new("setpriv", &name, folder).arguments(["--pdeathsig", "KILL"]);
        let program = command.argument(program.display()).arguments(arguments);
        Self { id, program, ready, addresses, process: None }
    }

    pub(super) fn described(&self) -> Value {
        let mut all = self.addresses.clone();
        all.insert("id".into(), self.id.into());
        all.insert("pid".into(), self.process.as_ref().map(|process| process.child.id()).into());
        all.insert("log".into(), super::shown(&self.program.log).into());
        all.into()
    }

    /// Starts the process. [`Self::wait`] waits until it is ready.
    pub(crate) fn start(&mut self) -> Result<()> {
        if let Some(process) = &mut self.process {
            ensure!(process.ended()?.is_some(), "node {} is already running", self.id);
        }
        self.process = Some(self.program.start()?);
        Ok(())
    }

    /// Waits until the node is ready.
    pub(crate) fn wait(&mut self) -> Result<()> {
        let ready = self.ready;
        self.running()?.until("a node that is ready", PATIENCE, |process| {
            Ok(process.log()?.contains(ready).then_some(()))
        })
    }

    fn running(&mut self) -> Result<&mut Process> {
        self.process.as_mut().with_context(|| format!("node {} is not running", self.id))
    }

    pub(crate) fn signal(&mut self, signal: Signal) -> Result<()> {
        self.running()?.signal(signal)
    }

    /// Sends a signal, and waits for the end of the process.
    pub(crate) fn end(&mut self, signal: Signal) -> Result<()> {
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
        crate::project::empty_folder(&folder).expect("the folder can be created");
        Node::new(1, (Path::new("sh"), ["-c", script]), &folder, "is ready", Map::new())
    }

    #[test]
    fn node_is_ready_once_its_log_has_the_text() {
        let mut node = node("ready", "echo is ready; exec sleep 100");
        for _ in 0..2 {
            node.start().expect("the shell starts");
            node.wait().expect("the log has the text");
            assert!(node.start().is_err(), "the node is already running");
            node.end(Signal::KILL).expect("the node can be killed");
            assert!(node.described()["pid"].is_null());
        }
        assert_eq!(
            fs::read_to_string(&node.program.log).expect("the log can be read"),
            "is ready\nis ready\n"
        );
    }

    #[test]
    fn node_that_ends_by_itself_is_an_error_with_its_log() {
        let mut node = node("ends", "echo the port is taken; exit 3");
        node.start().expect("the shell starts");
        let error = node.wait().expect_err("the node has ended").to_string();
        assert!(error.contains("exit status: 3") && error.contains("the port is taken"), "{error}");
    }
}
