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
//! A flow may link the source, the sink or both. The connector needs no thread of its own: the
//! pipes are non-blocking, and the host waits for them and for the end of the process.

#[cfg(not(target_os = "linux"))]
compile_error!(
    "the exec connector needs Linux, because it waits for pipes and processes with epoll"
);

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
    process::{Ending, Lease, Process, Started},
};

/// Maximum time for a process with a sink to end by itself after the halves were dropped, which
/// closes its standard input. After that the process gets SIGTERM.
const AFTER_CLOSE: Duration = Duration::from_secs(1);

/// Starts a process, reads its output, and writes to its standard input.
#[derive(Debug)]
pub struct Exec {
    config: Arc<Config>,
    context: ComponentContext,
    running: Option<Running>,
    /// Number of processes that were started, which is the stream number of the last one's output.
    processes: u64,
}

/// State of the current connection that the connector keeps. The process itself is owned by the
/// halves.
#[derive(Debug)]
struct Running {
    ending: Arc<Ending>,
    /// Logs the standard output of the process if no source reads it.
    _logger: Option<Logger>,
}

impl Component for Exec {
    const NAME: &str = "exec";
    const DESCRIPTION: &str = env!("CARGO_PKG_DESCRIPTION");
    type Config = Config;

    fn new(config: Config, context: ComponentContext) -> Result<Self> {
        config.check()?;
        let config = Arc::new(config);
        Ok(Self { config, context, running: None, processes: 0 })
    }
}

impl Connector for Exec {
    type Source = Output;
    type Sink = Input;

    async fn connect(&mut self, wanted: Sides) -> Result<Halves<Output, Input>> {
        self.wait_for_end().await;
        let Started { process, stdin, stdout } =
            Process::start(self.config.clone(), &self.context).await?;
        let patience = if wanted.has_sink() { AFTER_CLOSE } else { Duration::ZERO };
        let ending = Arc::default();
        let lease = Lease::new(process.clone(), patience, &ending);
        let (source, logger) = if wanted.has_source() {
            self.processes += 1;
            (Some(Output::new(process.clone(), stdout, lease.clone(), self.processes)), None)
        } else {
            (None, Some(Logger::start(&self.context, stdout, "stdout")))
        };
        let input = |stdin| Input::new(process, stdin, wanted.has_source(), lease);
        let sink = wanted.has_sink().then_some(stdin).map(input);
        self.running = Some(Running { ending, _logger: logger });
        Ok(Halves { source, sink })
    }

    async fn close(&mut self) -> Result<()> {
        self.wait_for_end().await;
        Ok(())
    }
}

impl Exec {
    /// Waits until the process of the previous connection has ended. The halves of that connection
    /// must have been dropped before this call.
    async fn wait_for_end(&mut self) {
        let Some(running) = &self.running else { return };
        // Keep `running` in `self` during the wait, so that the process still ends with the
        // connector if this future is dropped.
        running.ending.wait().await;
        self.running = None;
    }
}

tremor_pdk::export! { connectors: [Exec] }
