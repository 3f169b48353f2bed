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

use std::{sync::Arc, time::Duration};

use tremor_pdk::prelude::*;

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
    /// Number of processes so far, which numbers the streams of their output.
    processes: u64,
}

/// A process, and the resources of the sides that the flow does not use.
#[derive(Debug)]
struct Running {
    process: Arc<Process>,
    /// `true` if a sink writes to the standard input; otherwise that is closed.
    has_input: bool,
    /// Logs the standard output if it is not a source.
    _logger: Option<Logger>,
}

impl Component for Exec {
    const NAME: &str = "exec";
    const DESCRIPTION: &str = env!("CARGO_PKG_DESCRIPTION");
    type Config = Config;

    fn new(config: Config, context: Context) -> Result<Self> {
        config.check()?;
        let config = Arc::new(config);
        Ok(Self { config, context, running: None, processes: 0 })
    }
}

impl Connector for Exec {
    type Source = Output;
    type Sink = Input;

    async fn connect(&mut self, wanted: Sides) -> Result<Halves<Output, Input>> {
        self.end(Duration::ZERO).await;
        let Started { process, stdin, stdout } =
            Process::start(self.config.clone(), &self.context).await?;
        let (source, logger) = if wanted.has_source() {
            self.processes += 1;
            (Some(Output::new(process.clone(), stdout, self.processes)), None)
        } else {
            (None, Some(Logger::start(&self.context, stdout, "stdout")))
        };
        let input = |stdin| Input::new(process.clone(), stdin, wanted.has_source());
        let sink = wanted.has_sink().then_some(stdin).map(input);
        self.running = Some(Running { process, has_input: wanted.has_sink(), _logger: logger });
        Ok(Halves { source, sink })
    }

    async fn close(&mut self) -> Result<()> {
        let has_input = self.running.as_ref().is_some_and(|it| it.has_input);
        self.end(if has_input { AFTER_CLOSE } else { Duration::ZERO }).await;
        Ok(())
    }
}

impl Exec {
    /// Ends the process, where there is one, and whatever it has started. Its pipes were closed before.
    async fn end(&mut self, patience: Duration) {
        let Some(running) = &self.running else { return };
        // It stays in its place: if this is dropped, the process is ended with the connector.
        running.process.end(patience).await;
        self.running = None;
    }
}

tremor_pdk::export! { connectors: [Exec] }
