//! Processes with a log: functions that start them, wait for them, signal them, and measure them by the figures in
//! `/proc`.

use std::fs::{self, File};
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};
use std::{ffi::OsStr, fmt::Display, net::TcpStream, thread};

use anyhow::{Context, Result, anyhow, bail, ensure};
pub(crate) use rustix::process::Signal;
use rustix::process::{Pid, WaitId, WaitIdOptions, kill_process, waitid};
use serde_json::Value;

use crate::built::Built;
use crate::project::is_on_path;

/// Time between two checks of a condition.
const CHECK: Duration = Duration::from_millis(2);
/// Maximum time for which a server may send nothing of its response.
const ANSWER: Duration = Duration::from_mins(1);
/// Text of the log before the address of the admin API.
const LISTENS: &str = "the admin API listens address=";
/// Number of lines of a log that an error shows.
const LAST: usize = 5;

/// A program with its arguments. Standard output and standard error of its processes are appended to a log.
#[derive(Debug)]
pub(crate) struct Program {
    command: Command,
    name: String,
    /// Path of the log.
    pub(crate) log: PathBuf,
}

impl Program {
    /// Creates a program that runs in `folder`, with the log `NAME.log` there.
    pub(crate) fn new(program: impl AsRef<OsStr>, name: &str, folder: &Path) -> Self {
        let mut command = Command::new(program);
        command.current_dir(folder).env_remove("TREMOR_LOG");
        Self { command, name: name.to_owned(), log: folder.join(format!("{name}.log")) }
    }

    /// Creates a program `tremor run` with the plugins of a build.
    pub(crate) fn tremor(built: &Built, name: &str, folder: &Path) -> Self {
        let program = Self::new(&built.tremor, name, folder).argument("run");
        program.variable("TREMOR_PLUGIN_PATH", built.plugins.display())
    }

    pub(crate) fn argument(mut self, argument: impl Display) -> Self {
        self.command.arg(argument.to_string());
        self
    }

    pub(crate) fn arguments<T: Display>(self, all: impl IntoIterator<Item = T>) -> Self {
        all.into_iter().fold(self, Self::argument)
    }

    pub(crate) fn variable(mut self, name: &str, value: impl Display) -> Self {
        self.command.env(name, value.to_string());
        self
    }

    /// Pins the program to one processor.
    pub(crate) fn on_processor(self, number: usize) -> Self {
        let mut command = Command::new("taskset");
        command.args(["-c", &number.to_string()]).arg(self.command.get_program());
        command.args(self.command.get_args()).env_remove("TREMOR_LOG");
        command.envs(self.command.get_envs().filter_map(|(name, value)| Some((name, value?))));
        if let Some(folder) = self.command.get_current_dir() {
            command.current_dir(folder);
        }
        Self { command, ..self }
    }

    /// Sets the working folder. The path of the log does not change.
    pub(crate) fn within(mut self, folder: &Path) -> Self {
        self.command.current_dir(folder);
        self
    }

    pub(crate) fn start(&mut self) -> Result<Process> {
        self.spawn(Stdio::null(), None)
    }

    /// Starts the program with this input. Without an `output`, standard output goes to the log.
    pub(crate) fn spawn(&mut self, input: Stdio, output: Option<Stdio>) -> Result<Process> {
        let file = File::options().create(true).append(true).open(&self.log);
        let file = file.with_context(|| format!("cannot write {}", self.log.display()))?;
        let begins = file.metadata()?.len();
        let output = output.map_or_else(|| file.try_clone().map(Stdio::from), Ok)?;
        let begun = Instant::now();
        let child = self.command.stdin(input).stdout(output).stderr(file).spawn();
        let child = child.with_context(|| format!("cannot start {}", self.name))?;
        Ok(Process { child, begun, name: self.name.clone(), log: self.log.clone(), begins })
    }

    /// Starts a server, and waits until it listens on a port.
    pub(crate) fn listen(&mut self, port: u16) -> Result<Process> {
        let mut process = self.start()?;
        process.until_it_listens(port)?;
        Ok(process)
    }
}

/// A process, which is killed when it is dropped.
#[derive(Debug)]
pub(crate) struct Process {
    pub(crate) child: Child,
    /// Time of the start.
    pub(crate) begun: Instant,
    name: String,
    log: PathBuf,
    /// Length of the log when the process was started.
    begins: u64,
}

impl Process {
    /// Returns the exit status if the process has ended.
    pub(crate) fn ended(&mut self) -> Result<Option<ExitStatus>> {
        self.child.try_wait().with_context(|| format!("cannot wait for {}", self.name))
    }

    /// Waits until `found` returns a value, at most for `within`.
    ///
    /// # Errors
    /// `found` returned no value within the time, or the process ended before. The error contains
    /// the end of the log.
    pub(crate) fn until<T>(
        &mut self,
        what: &str,
        within: Duration,
        mut found: impl FnMut(&mut Self) -> Result<Option<T>>,
    ) -> Result<T> {
        let result = wait(what, within, || {
            // The process may have written the value right before it ended.
            let ended = self.ended()?;
            match (found(self)?, ended) {
                (None, Some(status)) => bail!("{} has ended before {what}: {status}", self.name),
                (found, _) => Ok(found),
            }
        });
        result.map_err(|error| self.explained(&error))
    }

    pub(crate) fn until_it_listens(&mut self, port: u16) -> Result<()> {
        let what = format!("a listener on port {port}");
        self.until(&what, Duration::from_mins(1), |_| {
            Ok(has_listener(&fs::read_to_string("/proc/net/tcp")?, port).then_some(()))
        })
    }

    /// Checks that the process has not ended by itself.
    pub(crate) fn expect_alive(&mut self) -> Result<()> {
        let Some(status) = self.ended()? else { return Ok(()) };
        Err(self.explained(&anyhow!("{} has ended: {status}", self.name)))
    }

    fn explained(&self, error: &anyhow::Error) -> anyhow::Error {
        let log = self.log().unwrap_or_default();
        let lines: Vec<_> = log.lines().collect();
        let last = lines[lines.len().saturating_sub(LAST)..].join("\n  ");
        anyhow!("{error:#}; see {}:\n  {last}", self.log.display())
    }

    pub(crate) fn signal(&self, signal: Signal) -> Result<()> {
        let sent = kill_process(Pid::from_child(&self.child), signal);
        sent.with_context(|| format!("cannot signal {}", self.name))
    }

    /// Waits for the end of the process, at most for `within`.
    pub(crate) fn end(&mut self, within: Duration) -> Result<ExitStatus> {
        let ended = wait("an end", within, || self.ended());
        ended.map_err(|error| self.explained(&error))
    }

    /// Waits for the end of the process without a time limit.
    ///
    /// # Errors
    /// The process fails.
    pub(crate) fn finish(&mut self) -> Result<()> {
        let status = self.child.wait().with_context(|| format!("cannot wait for {}", self.name))?;
        ensure!(status.success(), "{} failed: {status}; see {}", self.name, self.log.display());
        Ok(())
    }

    /// Waits for the end of the process, at most for `within`, and returns its processor time.
    ///
    /// # Errors
    /// The process fails, or continues after `within`.
    pub(crate) fn finish_and_measure(&mut self, within: Duration) -> Result<Duration> {
        // The kernel keeps the times of a process until its parent has taken the exit status.
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        let id = WaitId::Pid(Pid::from_child(&self.child));
        wait("an end", within, || Ok(waitid(id.clone(), options)?))
            .map_err(|error| self.explained(&error))?;
        let time = self.processor_time()?;
        self.finish().map(|()| time)
    }

    /// Ends the process with SIGTERM and returns its log.
    ///
    /// # Errors
    /// The process continues after `within`, or fails.
    pub(crate) fn stop(&mut self, within: Duration) -> Result<String> {
        self.signal(Signal::TERM)?;
        self.end(within)?;
        self.finish()?;
        self.log()
    }

    /// Kills the process with SIGKILL.
    pub(crate) fn kill(&mut self) -> Result<()> {
        let ended = self.child.kill().and_then(|()| self.child.wait());
        ended.map(drop).with_context(|| format!("cannot kill {}", self.name))
    }

    /// Returns what the process has logged since its start.
    pub(crate) fn log(&self) -> Result<String> {
        let mut bytes = Vec::new();
        let mut file =
            File::open(&self.log).with_context(|| format!("cannot read {}", self.log.display()))?;
        file.seek(SeekFrom::Start(self.begins))?;
        file.read_to_end(&mut bytes)?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    /// Waits until the admin API listens, and returns it.
    pub(crate) fn api(&mut self) -> Result<Api> {
        self.until("an admin API", Duration::from_mins(1), |process| {
            let log = process.log()?;
            let address = log.lines().find_map(|line| line.split_once(LISTENS));
            Ok(address.map(|(_, address)| Api { address: address.trim().to_owned() }))
        })
    }

    /// Returns the resident memory in bytes, with shared pages counted in full.
    pub(crate) fn memory(&self) -> Result<u64> {
        bytes(self.child.id(), "smaps_rollup", "Rss:")
    }

    /// Returns the maximum of the resident memory since the start, in bytes.
    pub(crate) fn peak_memory(&self) -> Result<u64> {
        bytes(self.child.id(), "status", "VmHWM:")
    }

    pub(crate) fn processor_time(&self) -> Result<Duration> {
        processor_time(self.child.id())
    }

    /// Returns the number of entries of a folder in `/proc/PID`: descriptors in `fd`, threads in `task`.
    pub(crate) fn count(&self, folder: &str) -> Result<usize> {
        let entries = fs::read_dir(format!("/proc/{}/{folder}", self.child.id()));
        Ok(entries.context("cannot read /proc")?.count())
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.kill();
    }
}

/// The admin API of a process.
#[derive(Clone)]
pub(crate) struct Api {
    address: String,
}

impl Api {
    /// Sends a request, and returns the status and the body of the response.
    pub(crate) fn ask(&self, method: &str, path: &str) -> Result<(u16, String)> {
        let head = format!("{method} {path} HTTP/1.1\r\nhost: {}\r\n", self.address);
        exchange(&self.address, &format!("{head}connection: close\r\n\r\n"))
    }

    /// Sends a request, and returns the body of the response, parsed as JSON.
    ///
    /// # Errors
    /// The server does not respond, the status is not a success, or the body is not JSON.
    pub(crate) fn json(&self, method: &str, path: &str) -> Result<Value> {
        let (status, body) = self.ask(method, path)?;
        ensure!(status < 300, "{method} {path}: {status}: {body}");
        serde_json::from_str(&body).with_context(|| format!("{path}: the body is not JSON: {body}"))
    }
}

/// Sends an HTTP request, and returns the status and the body of the response.
pub(crate) fn exchange(address: &str, request: &str) -> Result<(u16, String)> {
    let connection = TcpStream::connect(address);
    let mut connection = connection.with_context(|| format!("cannot connect to {address}"))?;
    connection.set_read_timeout(Some(ANSWER))?;
    connection.write_all(request.as_bytes())?;
    let mut answer = String::new();
    connection.read_to_string(&mut answer)?;
    let (head, body) = answer.split_once("\r\n\r\n").context("the response has no body")?;
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok());
    Ok((status.context("the response has no status")?, body.to_owned()))
}

/// Checks that the program is on `PATH`. The error names the package or command that provides the
/// program.
pub(crate) fn need(program: &str, provider: &str) -> Result<()> {
    ensure!(is_on_path(program), "missing: `{program}`; {provider} provides it");
    Ok(())
}

/// Waits until `found` returns a value, at most for `within`.
pub(crate) fn wait<T>(
    what: &str,
    within: Duration,
    mut found: impl FnMut() -> Result<Option<T>>,
) -> Result<T> {
    let start = Instant::now();
    loop {
        if let Some(found) = found()? {
            return Ok(found);
        }
        ensure!(start.elapsed() < within, "timed out after {within:?}: expected {what}");
        thread::sleep(CHECK);
    }
}

/// Returns a field of a file of `/proc`, in bytes.
fn bytes(process: u32, file: &str, field: &str) -> Result<u64> {
    let text =
        fs::read_to_string(format!("/proc/{process}/{file}")).context("cannot read /proc")?;
    let line = text.lines().find_map(|line| line.strip_prefix(field));
    let number = line.and_then(|line| line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok());
    Ok(number.with_context(|| format!("cannot find {field} in {file} of /proc"))? * 1_024)
}

/// Returns the processor time that a process has taken.
pub(crate) fn processor_time(process: u32) -> Result<Duration> {
    let text = fs::read_to_string(format!("/proc/{process}/stat")).context("cannot read /proc")?;
    // The name in parentheses may contain spaces, so fields are counted after it. The 14th and 15th field of the line
    // are the user and system time in hundredths of a second.
    let fields = text.rsplit_once(')').context("cannot find the name in stat of /proc")?.1;
    let ticks = fields.split_whitespace().skip(11).take(2);
    let ticks: u64 = ticks.filter_map(|it| it.parse::<u64>().ok()).sum();
    Ok(Duration::from_millis(ticks * 10))
}

/// Returns the load averages of the machine.
pub(crate) fn load() -> String {
    let text = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split(' ').take(3).collect::<Vec<_>>().join(", ")
}

/// Returns whether `/proc/net/tcp` lists a listener on a port. Opening a connection would disturb
/// servers that accept only one.
fn has_listener(text: &str, port: u16) -> bool {
    text.lines().skip(1).any(|line| {
        let mut fields = line.split_whitespace().skip(1);
        let local = fields.next().and_then(|address| address.rsplit_once(':'));
        let is_ours = local.is_some_and(|(_, found)| found == format!("{port:04X}"));
        // The next field is the other side's address, and the one after it the state.
        is_ours && fields.nth(1) == Some("0A")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn listener_is_distinguished_from_a_connection() {
        let text = "  sl  local_address rem_address   st\n   \
            0: 0100007F:1F90 00000000:0000 0A 00000000:00000000\n   \
            1: 0100007F:1F91 0100007F:1F90 01 00000000:00000000\n";
        assert!(has_listener(text, 8080));
        assert!(!has_listener(text, 8081));
        assert!(!has_listener(text, 80));
    }

    #[test]
    fn value_written_right_before_the_end_is_found() {
        let folder = std::env::temp_dir();
        let name = format!("xtask-process-{}", std::process::id());
        let mut program = Program::new("sh", &name, &folder).arguments(["-c", "echo it is there"]);
        for _ in 0..2 {
            let mut process = program.start().expect("the shell starts");
            let found = process.until("a line", Duration::from_mins(1), |it| {
                Ok(it.log()?.contains("it is there").then_some(()))
            });
            assert!(found.is_ok(), "{found:?}");
            assert_eq!(
                process.log().expect("the log can be read"),
                "it is there\n",
                "the log has only lines of this start"
            );
            let error = process.until::<()>("a value", Duration::from_mins(1), |_| Ok(None));
            let error = error.expect_err("the process has ended").to_string();
            assert!(error.contains("before a value") && error.ends_with("it is there"), "{error}");
        }
        fs::remove_file(&program.log).expect("the log exists");
    }

    #[test]
    fn missing_program_is_named_with_its_provider() {
        let error = need("no-such-program", "nobody").expect_err("the program does not exist");
        let error = error.to_string();
        assert!(error.starts_with("missing: `no-such-program`"), "{error}");
        assert!(error.ends_with("nobody provides it"), "{error}");
    }
}
