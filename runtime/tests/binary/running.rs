//! A run of the binary while it goes on: its log, its signals, its end.

use std::{
    io::{BufRead, BufReader, Read},
    process::{Child, Command},
    sync::mpsc::{self, Receiver, TryRecvError},
    thread,
    time::{Duration, Instant},
};

use crate::tremor::{Run, Scene};

/// No test waits for anything for longer than this.
const LIMIT: Duration = Duration::from_mins(2);

/// What a server logs before its address.
const LISTENS: &str = "listens on ";

/// A process that runs. It is killed when this is dropped.
pub(crate) struct Running {
    pub(crate) scene: Scene,
    child: Child,
    log: Receiver<String>,
    /// What was read of the log so far.
    read: String,
    events: Receiver<String>,
}

/// The lines that come out of a pipe, read to its end whether or not anybody takes them.
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
    /// Starts `tremor run` with these arguments, logging everything from `debug` on, and with what
    /// else is `set`.
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

    /// Waits for a line of the log, and the errors and the summary at its end, with `part` in it.
    #[track_caller]
    pub(crate) fn until(&mut self, part: &str) -> String {
        self.find(|line| line.contains(part))
            .unwrap_or_else(|| panic!("no `{part}`: {}", self.read))
    }

    /// Waits until a server listens, and gives its address and what the log says after that.
    #[track_caller]
    pub(crate) fn listens(&mut self) -> (String, String) {
        let line = self.until(LISTENS);
        let (_, rest) = line.split_once(LISTENS).unwrap();
        let (address, rest) = rest.split_once(' ').unwrap_or((rest, ""));
        (address.to_owned(), rest.to_owned())
    }

    /// Reads until a line is found, or the log or the limit ends.
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

    /// Waits for lines with each of these, in any order. Gives them in the order in which they came.
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

    /// Waits for an event on stdout until this time.
    pub(crate) fn event_until(&self, end: Instant) -> Option<String> {
        self.events.recv_timeout(end.saturating_duration_since(Instant::now())).ok()
    }

    /// The number of the process.
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Sends these signals, one right after the other.
    pub(crate) fn signal(&self, names: &[&str]) {
        let pid = self.child.id();
        let kill = |name: &&str| format!("kill -{name} {pid}; ");
        let script: String = names.iter().map(kill).collect();
        assert!(Command::new("sh").args(["-c", &script]).status().unwrap().success());
    }

    /// Waits for the end, and gives what came out.
    #[track_caller]
    pub(crate) fn end(mut self) -> Run {
        // Its end closes its pipes.
        self.find(|_| false);
        let has_ended = self.log.try_recv() == Err(TryRecvError::Disconnected);
        assert!(has_ended, "it goes on: {}", self.read);
        let status = self.child.wait().unwrap().code();
        let stdout = self.events.iter().map(|line| line + "\n").collect();
        Run { stdout, stderr: std::mem::take(&mut self.read), status }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
