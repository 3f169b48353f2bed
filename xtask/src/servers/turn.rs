//! A turn: the flow reads new lines of its input to their end, and meanwhile it or the server is disturbed.

use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::{fmt::Display, thread, time::Duration};

use anyhow::Result;
use hostile_peers::Reserved;
use serde_json::Map;

use super::{Finding, finding};
use crate::broker::node::Node;
use crate::process::{Signal, exchange};
use crate::scenario::Stage;

/// Maximum time of a turn, and of a wait for a server.
pub(super) const PATIENCE: Duration = Duration::from_mins(1);
/// Duration of [`Disturbance::Pause`]. It is longer than the timeout of the sinks, which is 1 s.
const PAUSE: Duration = Duration::from_secs(2);

/// The flow file of a turn, which ends at the end of the input.
pub(super) const FLOW: &str = "flow.yaml";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Disturbance {
    /// The process of the flow is killed, and started again.
    KillFlow,
    /// The server gets a signal that ends it, and is started again.
    EndServer(Signal),
    /// The server does not answer for [`PAUSE`].
    Pause,
}

/// The input of the flow: the file `in` in the folder of the part, which has more lines in each turn.
pub(super) struct Input {
    path: PathBuf,
    /// Number of lines.
    pub(super) count: u64,
}

impl Input {
    pub(super) fn new(stage: &Stage<'_>) -> Self {
        Self { path: stage.folder.join("in"), count: 0 }
    }

    /// Adds `count` lines. `line` returns the line with a number, without its line feed.
    pub(super) fn add<T: Display>(&mut self, count: u64, line: impl Fn(u64) -> T) -> Result<()> {
        let file = File::options().create(true).append(true).open(&self.path)?;
        let mut file = BufWriter::new(file);
        for number in self.count..self.count + count {
            writeln!(file, "{}", line(number))?;
        }
        self.count += count;
        Ok(file.flush()?)
    }
}

/// A server with a reserved port.
pub(super) struct Served {
    node: Node,
    /// Address of the server.
    pub(super) address: String,
    _reserved: Reserved,
    /// Number of turns, and of those whose flow had ended before the disturbance.
    turns: u32,
    late: u32,
}

impl Served {
    /// Starts a program with the arguments that `arguments` returns for its address and its data folder. The server is
    /// ready once its log contains `ready`.
    pub(super) fn start(
        stage: &Stage<'_>,
        program: &Path,
        ready: &'static str,
        arguments: impl FnOnce(&str, &Path) -> Vec<String>,
    ) -> Result<Self> {
        let reserved = Reserved::tcp()?;
        let address = reserved.address();
        let data = stage.folder.join("data");
        fs::create_dir_all(&data)?;
        let arguments = arguments(&address, &data);
        let mut node = Node::new(1, (program, arguments), &stage.folder, ready, Map::new());
        node.start()?;
        node.wait()?;
        Ok(Self { node, address, _reserved: reserved, turns: 0, late: 0 })
    }

    /// Requests a path, and returns the status and the body.
    pub(super) fn get(&self, path: &str) -> Result<(u16, String)> {
        get(&self.address, path)
    }

    /// Runs the flow to the end of its input, and disturbs it or the server once `is_time` returns `true`.
    ///
    /// # Errors
    /// The flow fails, does not end within [`PATIENCE`], or ends although `is_time` never returns `true`.
    pub(super) fn turn(
        &mut self,
        stage: &Stage<'_>,
        disturbance: Disturbance,
        mut is_time: impl FnMut(&Self) -> Result<bool>,
    ) -> Result<()> {
        let start = || stage.start("tremor", &[FLOW]);
        let mut process = start()?;
        let what = format!("{disturbance:?}");
        process.until(&what, PATIENCE, |_| Ok(is_time(self)?.then_some(())))?;
        self.turns += 1;
        self.late += u32::from(process.ended()?.is_some());
        match disturbance {
            Disturbance::KillFlow => {
                process.kill()?;
                process = start()?;
            }
            Disturbance::EndServer(signal) => {
                self.node.end(signal)?;
                self.node.start()?;
                self.node.wait()?;
            }
            Disturbance::Pause => {
                self.node.signal(Signal::STOP)?;
                thread::sleep(PAUSE);
                self.node.signal(Signal::CONT)?;
            }
        }
        process.end(PATIENCE)?;
        process.finish()
    }
}

impl Served {
    /// Returns the finding whether any turn was disturbed before its flow had ended.
    pub(super) fn disturbed(&self) -> Finding {
        let disturbed = self.turns - self.late;
        finding("disturbed", format!("{disturbed} of {} turns", self.turns), disturbed > 0)
    }
}

/// Requests a path of a server, and returns the status and the body.
pub(super) fn get(address: &str, path: &str) -> Result<(u16, String)> {
    // With version 1.0, no server sends a body in chunks.
    exchange(address, &format!("GET {path} HTTP/1.0\r\nhost: {address}\r\n\r\n"))
}
