//! The `exec` connector: starts a process, reads what it writes, and writes to its standard input.
//!
//! ```yaml
//! connectors:
//!   words:
//!     type: exec
//!     preprocessors: [lines]
//!     postprocessors: [lines]
//!     codec: string
//!     config: { command: tr, args: [a-z, A-Z] }
//! ```
//!
//! A flow may link either side of it, or both. There is no thread: the pipes do not block, and the host waits
//! for them and for the end of the process.

#[cfg(not(target_os = "linux"))]
compile_error!("the exec connector waits for pipes and processes as Linux does, with epoll");

mod config;
mod input;
mod latch;
mod limit;
mod log;
mod output;
mod process;
#[cfg(test)]
mod tests;

use std::{os::fd::OwnedFd, sync::Arc, time::Duration};

use tremor_pdk::{Registered, prelude::*};

pub use self::{
    config::{Config, Restart},
    input::Input,
    output::Output,
};
use self::{
    log::Logger,
    process::{Process, Started},
};

/// How long a process may take to end after its standard input was closed, where that is the first that it
/// hears of its end.
const AFTER_CLOSE: Duration = Duration::from_secs(1);

/// The connector.
#[derive(Debug)]
pub struct Exec {
    config: Arc<Config>,
    context: Context,
    running: Option<Running>,
    /// Which sides the flow links, once it has asked for them.
    linked: Linked,
    is_started: bool,
}

/// Which sides there are.
#[derive(Clone, Copy, Debug, Default)]
struct Linked {
    output: bool,
    input: bool,
}

/// A process, and what nobody has taken of it yet.
#[derive(Debug)]
struct Running {
    process: Arc<Process>,
    stdin: Option<Registered<OwnedFd>>,
    stdout: Option<Registered<OwnedFd>>,
    /// Logs what it writes to its standard output, where that is no source.
    logger: Option<Logger>,
}

impl Component for Exec {
    const NAME: &str = "exec";
    const DESCRIPTION: &str = env!("CARGO_PKG_DESCRIPTION");
    type Config = Config;

    fn new(config: Config, context: Context) -> Result<Self> {
        config.check()?;
        let config = Arc::new(config);
        Ok(Self { config, context, running: None, linked: Linked::default(), is_started: false })
    }
}

impl Connector for Exec {
    type Source = Output;
    type Sink = Input;

    async fn connect(&mut self, _attempt: u64) -> Result<bool> {
        self.end(Duration::ZERO).await;
        let Started { process, stdin, stdout } =
            Process::start(self.config.clone(), &self.context).await?;
        let (stdin, stdout) = (Some(stdin), Some(stdout));
        self.running = Some(Running { process, stdin, stdout, logger: None });
        // A flow asks for the sides before the first start, and for the same ones from then on.
        if self.is_started {
            self.settle();
        }
        Ok(true)
    }

    async fn create_source(&mut self) -> Result<Option<Output>> {
        self.linked.output = true;
        let Some(running) = &mut self.running else { return Ok(None) };
        let stdout = running.stdout.take();
        Ok(stdout.map(|stdout| Output::new(running.process.clone(), stdout)))
    }

    async fn create_sink(&mut self) -> Result<Option<Input>> {
        self.linked.input = true;
        let has_output = self.linked.output;
        let Some(running) = &mut self.running else { return Ok(None) };
        let stdin = running.stdin.take();
        Ok(stdin.map(|stdin| Input::new(running.process.clone(), stdin, has_output)))
    }

    async fn on_start(&mut self) -> Result<()> {
        self.is_started = true;
        self.settle();
        Ok(())
    }

    async fn on_connection_lost(&mut self) -> Result<()> {
        self.end(Duration::ZERO).await;
        Ok(())
    }

    async fn on_stop(&mut self) -> Result<()> {
        self.end(if self.linked.input { AFTER_CLOSE } else { Duration::ZERO }).await;
        Ok(())
    }
}

impl Exec {
    /// Sees to the sides that the flow does not link: nothing comes in, and what comes out is logged.
    fn settle(&mut self) {
        let Some(running) = &mut self.running else { return };
        if !self.linked.input {
            running.stdin = None;
        }
        if !self.linked.output {
            let stdout = running.stdout.take();
            running.logger = stdout.map(|it| Logger::start(&self.context, it, "stdout"));
        }
    }

    /// Ends the process, where there is one, and whatever it has started. Its pipes were closed before.
    async fn end(&mut self, patience: Duration) {
        let Some(running) = &mut self.running else { return };
        (running.stdin, running.stdout) = (None, None);
        // It stays in its place: if this is dropped, the process is ended with the connector.
        running.process.end(patience).await;
        self.running = None;
    }
}

tremor_pdk::export! { connectors: [Exec] }
