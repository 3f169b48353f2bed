//! The flow, and the process that runs it.

use std::fs::{self, File};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};

use crate::built::Built;

const LOG: &str = "tremor.log";

/// From `in` to `out`, with the checkpoint in `at`, and these keys of the source besides.
pub(super) fn flow(follow: bool, keys: &str) -> String {
    format!(
        "connectors:
  input:
    type: file
    preprocessors: [lines]
    codec: string
    config:
      path: in
      mode: read
      follow: {follow}
      poll_interval: 10ms
      checkpoint: at
{keys}  output:
    type: file
    codec: string
    postprocessors: [lines]
    config: {{ path: out, mode: append, sync: batch }}
links: [input -> output]
"
    )
}

/// A process that runs a flow. Dropped, it is killed.
pub(super) struct Running(Child);

impl Running {
    pub(super) fn start(built: &Built, folder: &Path, flow: &str) -> Result<Self> {
        let log = File::options().append(true).create(true).open(folder.join(LOG));
        let mut command = Command::new(&built.tremor);
        command.args(["run", flow]).current_dir(folder);
        command.env("TREMOR_PLUGIN_PATH", &built.plugins).env_remove("TREMOR_LOG");
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log?);
        Ok(Self(
            command.spawn().with_context(|| format!("cannot start {}", built.tremor.display()))?,
        ))
    }

    /// # Errors
    /// It has ended by itself.
    pub(super) fn expect_alive(&mut self) -> Result<()> {
        match self.0.try_wait()? {
            None => Ok(()),
            Some(status) => bail!("the flow has ended by itself: {status}; see {LOG}"),
        }
    }

    /// How long it has waited for a processor: the thread of which that took the longest.
    pub(super) fn waited(&self) -> Duration {
        let threads = fs::read_dir(format!("/proc/{}/task", self.0.id())).into_iter().flatten();
        let waited = threads.flatten().filter_map(|thread| {
            let text = fs::read_to_string(thread.path().join("schedstat")).ok()?;
            text.split_whitespace().nth(1)?.parse().ok()
        });
        Duration::from_nanos(waited.max().unwrap_or(0))
    }

    /// Kills it, as `kill -9` does.
    pub(super) fn kill(&mut self) -> Result<()> {
        self.0.kill().context("cannot kill the flow")?;
        self.0.wait().map(drop).context("cannot wait for the flow")
    }

    /// Waits for its end.
    pub(super) fn finish(&mut self) -> Result<()> {
        let status = self.0.wait().context("cannot wait for the flow")?;
        ensure!(status.success(), "the flow failed: {status}; see {LOG}");
        Ok(())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.kill();
    }
}

/// How often the sink has cut off a part of a message, by the log.
pub(super) fn cut_off(folder: &Path) -> Result<usize> {
    let log = fs::read_to_string(folder.join(LOG)).context("the flow has no log")?;
    Ok(log.lines().filter(|line| line.contains("not written in whole")).count())
}
