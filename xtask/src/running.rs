//! A `tremor` that runs: asked by its admin API and by the operating system.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;

use crate::built::Built;

/// How often is looked whether something has come about.
const LOOK: Duration = Duration::from_millis(2);
/// What the log says before the address of the admin API.
const LISTENS: &str = "the admin API listens address=";

/// A process. Dropped, it is killed.
pub(crate) struct Running {
    child: Child,
    log: PathBuf,
}

impl Running {
    /// Starts `tremor run` with these arguments in a folder; the log goes to `log` there.
    pub(crate) fn start(
        built: &Built,
        folder: &Path,
        log: &str,
        arguments: &[&str],
    ) -> Result<Self> {
        let log = folder.join(log);
        let file = File::create(&log).with_context(|| format!("cannot write {}", log.display()))?;
        let mut command = Command::new(&built.tremor);
        command.arg("run").args(arguments).current_dir(folder);
        command.env("TREMOR_PLUGIN_PATH", &built.plugins).env_remove("TREMOR_LOG");
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(file);
        let started = command.spawn();
        let child = started.with_context(|| format!("cannot start {}", built.tremor.display()))?;
        Ok(Self { child, log })
    }

    /// Its number.
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// How it has ended, if it has.
    pub(crate) fn ended(&mut self) -> Result<Option<ExitStatus>> {
        self.child.try_wait().context("cannot wait for tremor")
    }

    /// Waits until something has come about while the process runs, but no longer than this.
    ///
    /// # Errors
    /// It has not; the log is named.
    pub(crate) fn until<T>(
        &mut self,
        what: &str,
        within: Duration,
        mut found: impl FnMut(&mut Self) -> Result<Option<T>>,
    ) -> Result<T> {
        let start = Instant::now();
        loop {
            if let Some(found) = found(self)? {
                return Ok(found);
            }
            if let Some(status) = self.ended()? {
                bail!("tremor has ended before {what}: {status}; see {}", self.log.display());
            }
            let log = self.log.display();
            ensure!(start.elapsed() < within, "there was not {what} within {within:?}; see {log}");
            thread::sleep(LOOK);
        }
    }

    /// Sends it a signal.
    pub(crate) fn signal(&self, name: &str) -> Result<()> {
        let status =
            Command::new("kill").args([&format!("-{name}"), &self.id().to_string()]).status();
        ensure!(status.context("cannot run kill")?.success(), "cannot signal tremor");
        Ok(())
    }

    /// Waits for its end, but no longer than this.
    pub(crate) fn end(&mut self, within: Duration) -> Result<ExitStatus> {
        let start = Instant::now();
        loop {
            if let Some(status) = self.ended()? {
                return Ok(status);
            }
            ensure!(start.elapsed() < within, "tremor goes on; see {}", self.log.display());
            thread::sleep(LOOK);
        }
    }

    /// What it has logged.
    pub(crate) fn log(&self) -> Result<String> {
        fs::read_to_string(&self.log).with_context(|| format!("no {}", self.log.display()))
    }

    /// Its admin API, once it listens.
    pub(crate) fn api(&mut self) -> Result<Api> {
        self.until("an admin API", Duration::from_mins(1), |running| {
            let log = running.log()?;
            let address = log.lines().find_map(|line| line.split_once(LISTENS));
            Ok(address.map(|(_, address)| Api { address: address.trim().to_owned() }))
        })
    }

    /// A file of `/proc` about it.
    pub(crate) fn proc(&self, name: &str) -> PathBuf {
        PathBuf::from(format!("/proc/{}/{name}", self.id()))
    }

    /// The memory that it has to itself and its share of what it has with others, in bytes.
    pub(crate) fn memory(&self) -> Result<u64> {
        memory(self.id())
    }

    /// The most memory that it has ever had, in bytes.
    pub(crate) fn peak_memory(&self) -> Result<u64> {
        let text = fs::read_to_string(self.proc("status")).context("no /proc")?;
        let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let number =
            line.and_then(|rest| rest.trim().strip_suffix("kB")?.trim().parse::<u64>().ok());
        Ok(number.context("no VmHWM in status")? * 1_024)
    }

    /// The processor time that it has taken.
    pub(crate) fn processor_time(&self) -> Result<Duration> {
        processor_time(self.id())
    }

    /// How many entries a folder of `/proc` about it has: descriptors in `fd`, threads in `task`.
    pub(crate) fn count(&self, folder: &str) -> Result<usize> {
        Ok(fs::read_dir(self.proc(folder)).context("no /proc")?.count())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The admin API of a process.
#[derive(Clone)]
pub(crate) struct Api {
    address: String,
}

impl Api {
    /// The status and the body of an answer.
    pub(crate) fn ask(&self, method: &str, path: &str) -> Result<(u16, String)> {
        let mut connection = TcpStream::connect(&self.address).context("no admin API")?;
        let head = format!("{method} {path} HTTP/1.1\r\nhost: {}\r\n", self.address);
        write!(connection, "{head}connection: close\r\n\r\n")?;
        let mut answer = String::new();
        connection.read_to_string(&mut answer)?;
        let (head, body) = answer.split_once("\r\n\r\n").context("no answer")?;
        let status = head.split(' ').nth(1).and_then(|status| status.parse().ok());
        Ok((status.context("no status")?, body.to_owned()))
    }

    /// An answer as JSON.
    ///
    /// # Errors
    /// It is a refusal, or there is none.
    pub(crate) fn json(&self, method: &str, path: &str) -> Result<Value> {
        let (status, body) = self.ask(method, path)?;
        ensure!(status < 300, "{method} {path}: {status}: {body}");
        serde_json::from_str(&body).with_context(|| format!("{path}: no JSON: {body}"))
    }
}

/// The memory that a process has to itself and its share of what it has with others, in bytes.
pub(crate) fn memory(process: u32) -> Result<u64> {
    let text = fs::read_to_string(format!("/proc/{process}/smaps_rollup")).context("no /proc")?;
    let line = text.lines().find_map(|line| line.strip_prefix("Rss:"));
    let number = line.and_then(|rest| rest.trim().strip_suffix("kB")?.trim().parse::<u64>().ok());
    Ok(number.context("no Rss in smaps_rollup")? * 1_024)
}

/// The processor time that a process has taken.
pub(crate) fn processor_time(process: u32) -> Result<Duration> {
    let text = fs::read_to_string(format!("/proc/{process}/stat")).context("no /proc")?;
    // The name, in parentheses, may have anything in it. The fields are the 14th and the 15th, in
    // hundredths of a second.
    let fields = text.rsplit_once(')').context("no name in stat")?.1;
    let ticks = fields.split_whitespace().skip(11).take(2);
    let ticks: u64 = ticks.filter_map(|it| it.parse::<u64>().ok()).sum();
    Ok(Duration::from_millis(ticks * 10))
}

/// The smallest, the median and the largest.
pub(crate) fn spread(values: impl Iterator<Item = f64>) -> [f64; 3] {
    let mut values: Vec<_> = values.collect();
    values.sort_by(f64::total_cmp);
    match values.len() {
        0 => [f64::NAN; 3],
        count => [values[0], values[count / 2], values[count - 1]],
    }
}

/// How many processes wanted a processor, in the last minutes.
pub(crate) fn load() -> String {
    let text = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split(' ').take(3).collect::<Vec<_>>().join(", ")
}

/// Makes a folder that is empty.
pub(crate) fn empty_folder(folder: &Path) -> Result<()> {
    if folder.exists() {
        fs::remove_dir_all(folder).with_context(|| format!("cannot empty {}", folder.display()))?;
    }
    fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))
}

/// Writes a file.
pub(crate) fn write(path: &Path, text: &str) -> Result<()> {
    fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::spread;

    #[test]
    fn the_median_lies_between_the_smallest_and_the_largest() {
        let spread = spread([3.0, 1.0, 2.0].into_iter()).map(|it| format!("{it}"));
        assert_eq!(spread, ["1", "2", "3"]);
    }
}
