//! Programs that are started, waited for, told to begin, and asked by the operating system.

use std::fmt::Display;
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{self, Child, ChildStdin, ChildStdout, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;

use crate::running;

/// How often is looked whether something has come about.
const LOOK: Duration = Duration::from_millis(5);
const PATIENCE: Duration = Duration::from_mins(2);

/// A program with its arguments. Its messages go to a file that is named after it.
pub(super) struct Command {
    program: process::Command,
    name: String,
    log: PathBuf,
}

impl Command {
    pub(super) fn new(program: &Path, name: &str, folder: &Path) -> Self {
        let mut command = process::Command::new(program);
        command.current_dir(folder).env_remove("TREMOR_LOG");
        Self { program: command, name: name.to_owned(), log: folder.join(format!("{name}.log")) }
    }

    pub(super) fn argument(mut self, argument: impl Display) -> Self {
        self.program.arg(argument.to_string());
        self
    }

    pub(super) fn variable(mut self, name: &str, value: impl Display) -> Self {
        self.program.env(name, value.to_string());
        self
    }

    /// On this processor alone.
    pub(super) fn on_processor(self, number: usize) -> Self {
        let mut command = process::Command::new("taskset");
        command.args(["-c", &number.to_string()]).arg(self.program.get_program());
        command.args(self.program.get_args());
        if let Some(folder) = self.program.get_current_dir() {
            command.current_dir(folder);
        }
        for (name, value) in self.program.get_envs() {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
        Self { program: command, ..self }
    }

    /// Runs it to its end.
    pub(super) fn run(mut self) -> Result<()> {
        let status = self.program.status();
        let status = status.with_context(|| format!("cannot start {}", self.name))?;
        ensure!(status.success(), "{} failed: {status}", self.name);
        Ok(())
    }

    /// Starts it; what it writes is nobody's.
    pub(super) fn start(self) -> Result<Process> {
        self.spawn(Stdio::null(), Stdio::null())
    }

    /// Starts a server, and waits until it listens on this port.
    pub(super) fn listen(self, port: u16) -> Result<Process> {
        let mut process = self.start()?;
        process.until_it_listens(port)?;
        Ok(process)
    }

    pub(super) fn spawn(mut self, input: Stdio, output: Stdio) -> Result<Process> {
        let log = File::create(&self.log)
            .with_context(|| format!("cannot write {}", self.log.display()))?;
        self.program.stdin(input).stdout(output).stderr(log);
        let child = self.program.spawn();
        let child = child.with_context(|| format!("cannot start {}", self.name))?;
        Ok(Process { child, name: self.name, log: self.log })
    }

    /// Starts a client, which is told when to begin.
    pub(super) fn client(self) -> Result<Client> {
        let mut process = self.spawn(Stdio::piped(), Stdio::piped())?;
        let input = process.child.stdin.take().context("a client has an input")?;
        let output = process.child.stdout.take().context("a client has an output")?;
        let mut client = Client { process, input, output: BufReader::new(output) };
        let line = client.line()?;
        ensure!(line == "ready", "it said `{line}`");
        Ok(client)
    }
}

/// A program that runs. Dropped, it is killed.
pub(super) struct Process {
    pub(super) child: Child,
    name: String,
    log: PathBuf,
}

impl Process {
    /// Waits until something has come about.
    pub(super) fn until<T>(
        &mut self,
        what: &str,
        mut found: impl FnMut() -> Result<Option<T>>,
    ) -> Result<T> {
        let start = Instant::now();
        loop {
            if let Some(found) = found()? {
                return Ok(found);
            }
            let late = start.elapsed() > PATIENCE;
            ensure!(!late, "{}: not {what} after {PATIENCE:?}: {}", self.name, self.said());
            thread::sleep(LOOK);
        }
    }

    pub(super) fn until_it_listens(&mut self, port: u16) -> Result<()> {
        let start = Instant::now();
        loop {
            if listens(port)? {
                return Ok(());
            }
            let ended = self.child.try_wait()?.is_some() || start.elapsed() > PATIENCE;
            ensure!(!ended, "{} does not listen: {}", self.name, self.said());
            thread::sleep(LOOK);
        }
    }

    /// The last of its messages.
    fn said(&self) -> String {
        let text = fs::read_to_string(&self.log).unwrap_or_default();
        text.lines()
            .find(|line| line.contains("error"))
            .or(text.lines().next_back())
            .unwrap_or("it said nothing")
            .to_owned()
    }

    /// The processor time that it has taken.
    pub(super) fn processor_time(&self) -> Result<Duration> {
        running::processor_time(self.child.id())
    }

    /// The memory that it has, in bytes.
    pub(super) fn memory(&self) -> Result<u64> {
        running::memory(self.child.id())
    }

    /// How many threads it has.
    pub(super) fn threads(&self) -> Result<usize> {
        Ok(fs::read_dir(format!("/proc/{}/task", self.child.id())).context("no /proc")?.count())
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A client that waits for its beginning. Dropped, it is killed, and its connections are closed.
pub(super) struct Client {
    process: Process,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Client {
    /// Tells it to begin.
    pub(super) fn begin(&mut self) -> Result<()> {
        writeln!(self.input).context("the client has gone")
    }

    /// What it has found.
    pub(super) fn found(&mut self) -> Result<Found> {
        let line = self.line()?;
        Ok(Found(serde_json::from_str(&line).with_context(|| format!("no JSON: {line}"))?))
    }

    fn line(&mut self) -> Result<String> {
        let mut line = String::new();
        if self.output.read_line(&mut line)? == 0 {
            bail!("{} has ended: {}", self.process.name, self.process.said());
        }
        Ok(line.trim_end().to_owned())
    }
}

/// What a client has found.
pub(super) struct Found(Value);

impl Found {
    pub(super) fn read(text: &str) -> Result<Self> {
        Ok(Self(serde_json::from_str(text).with_context(|| format!("no JSON: {text}"))?))
    }

    pub(super) fn get(&self, name: &str) -> Result<f64> {
        self.0[name].as_f64().with_context(|| format!("no `{name}` in {}", self.0))
    }
}

/// A port that is free.
pub(super) fn free_port() -> Result<u16> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?.port())
}

/// Whether anybody listens on a port: asked without a connection, which some servers have only one of.
fn listens(port: u16) -> Result<bool> {
    let text = fs::read_to_string("/proc/net/tcp").context("no /proc/net/tcp")?;
    Ok(has_listener(&text, port))
}

fn has_listener(text: &str, port: u16) -> bool {
    text.lines().skip(1).any(|line| {
        let mut fields = line.split_whitespace().skip(1);
        let local = fields.next().and_then(|address| address.rsplit_once(':'));
        let is_ours = local.is_some_and(|(_, found)| found == format!("{port:04X}"));
        // The next one is the other side's address, and the one after it the state.
        is_ours && fields.nth(1) == Some("0A")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_listener_is_told_from_a_connection() {
        let text = "  sl  local_address rem_address   st\n   \
            0: 0100007F:1F90 00000000:0000 0A 00000000:00000000\n   \
            1: 0100007F:1F91 0100007F:1F90 01 00000000:00000000\n";
        assert!(has_listener(text, 8080));
        assert!(!has_listener(text, 8081));
        assert!(!has_listener(text, 80));
    }

    #[test]
    fn what_a_client_says_has_to_be_there() {
        let found = Found::read(r#"{ "lines": 5 }"#).expect("JSON");
        assert!((found.get("lines").expect("a number") - 5.0).abs() < f64::EPSILON);
        assert!(found.get("bytes").is_err());
    }
}
