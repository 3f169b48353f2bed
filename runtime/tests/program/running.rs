//! A running process of the binary: its log, its signals and its end.

use std::{
    io::{BufRead, BufReader, Read},
    process::{Child, Command},
    sync::mpsc::{self, Receiver, TryRecvError},
    thread,
    time::{Duration, Instant},
};

use crate::tremor::{Run, Scene};

/// Maximum time to wait for a line or an event.
const LIMIT: Duration = Duration::from_mins(2);

/// Text before the address in the log line of a server.
const LISTENS: &str = "listens on ";

/// A running process, killed when this value is dropped.
pub(crate) struct Running {
    pub(crate) scene: Scene,
    child: Child,
    log: Receiver<String>,
    /// Text of the log that was read so far.
    read: String,
    events: Receiver<String>,
}

/// Reads a pipe to its end on a thread, and sends the lines. Continues to read even if nobody receives the lines, so
/// that the process never blocks.
fn lines(pipe: impl Read + Send + 'static) -> Receiver<String> {
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || {
        for line in BufReader::new(pipe).lines().map_while(Result::ok) {
            let _ = sender.send(line);
        }
    });
    receiver
}

impl Running {
    /// Starts `tremor run` with these arguments and a log of all levels from `debug` on. `set` changes the
    /// command.
    pub(crate) fn of(
        scene: Scene,
        arguments: &[&str],
        set: impl FnOnce(&mut Command) -> &mut Command,
    ) -> Self {
        let mut command = scene.command(&["run"]);
        command.args(arguments).env("TREMOR_LOG", "debug");
        let mut child = set(&mut command).spawn().unwrap();
        let log = lines(child.stderr.take().unwrap());
        let events = lines(child.stdout.take().unwrap());
        Self { scene, child, log, read: String::new(), events }
    }

    /// Waits for a line on stderr that contains `part`: a line of the log, an error or the summary.
    #[track_caller]
    pub(crate) fn until(&mut self, part: &str) -> String {
        self.find(|line| line.contains(part))
            .unwrap_or_else(|| panic!("no `{part}`: {}", self.read))
    }

    /// Waits for the log line of a server that listens. Returns the address and the remainder of the line.
    #[track_caller]
    pub(crate) fn listens(&mut self) -> (String, String) {
        let line = self.until(LISTENS);
        let (_, rest) = line.split_once(LISTENS).unwrap();
        let (address, rest) = rest.split_once(' ').unwrap_or((rest, ""));
        (address.to_owned(), rest.to_owned())
    }

    /// Reads lines until `is_found` returns `true`, the log ends, or [`LIMIT`] has passed. Returns the line that was
    /// found.
    fn find(&mut self, mut is_found: impl FnMut(&str) -> bool) -> Option<String> {
        let end = Instant::now() + LIMIT;
        loop {
            let line = self.log.recv_timeout(end.saturating_duration_since(Instant::now())).ok()?;
            self.read.extend([&line, "\n"]);
            if is_found(&line) {
                return Some(line);
            }
        }
    }

    /// Waits for lines that contain each of these parts, in any order. Returns them in the order of the log.
    #[track_caller]
    pub(crate) fn until_all(&mut self, mut parts: Vec<String>) -> Vec<String> {
        let mut lines = Vec::new();
        self.find(|line| {
            let missing = parts.len();
            parts.retain(|part| !line.contains(part));
            if parts.len() < missing {
                lines.push(line.to_owned());
            }
            parts.is_empty()
        });
        assert!(parts.is_empty(), "no {parts:?}: {}", self.read);
        lines
    }

    /// Waits for an event on stdout.
    #[track_caller]
    pub(crate) fn event(&self) -> String {
        self.events.recv_timeout(LIMIT).unwrap_or_else(|error| {
            let rest: String = self.log.try_iter().map(|line| line + "\n").collect();
            panic!("no event, {error}: {}{rest}", self.read)
        })
    }

    /// Waits for an event on stdout until `end`.
    pub(crate) fn event_until(&self, end: Instant) -> Option<String> {
        self.events.recv_timeout(end.saturating_duration_since(Instant::now())).ok()
    }

    /// Returns the process ID.
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Sends these signals, one immediately after the other.
    pub(crate) fn signal(&self, names: &[&str]) {
        let pid = self.child.id();
        let kill = |name: &&str| format!("kill -{name} {pid}; ");
        let script: String = names.iter().map(kill).collect();
        assert!(Command::new("sh").args(["-c", &script]).status().unwrap().success());
    }

    /// Waits until the process has ended, and returns its status and output.
    #[track_caller]
    pub(crate) fn end(mut self) -> Run {
        // Read to the end of the log: the process closes its pipes when it ends.
        self.find(|_| false);
        let has_ended = self.log.try_recv() == Err(TryRecvError::Disconnected);
        assert!(has_ended, "the process still runs: {}", self.read);
        let status = self.child.wait().unwrap().code();
        let stdout = self.events.iter().map(|line| line + "\n").collect();
        Run { stdout, stderr: std::mem::take(&mut self.read), status }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // Ignore the error, which means that the process has ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
