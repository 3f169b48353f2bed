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
    process::{Ending, Lease, Process, Started},
};

/// How long a process may take to end after its standard input was closed, where that is the first that it
/// hears of its end.
const AFTER_CLOSE: Duration = Duration::from_secs(1);

/// The connector.
#[derive(Debug)]
pub struct Exec {
    config: Arc<Config>,
    context: ComponentContext,
    running: Option<Running>,
    /// Number of processes so far, which numbers the streams of their output.
    processes: u64,
}

/// The process of a connection, which the halves own, and the resources of the sides that the flow does not use.
#[derive(Debug)]
struct Running {
    ending: Arc<Ending>,
    /// Logs the standard output if it is not a source.
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
    /// Waits for the end of the process of the last connection, whose halves were dropped.
    async fn wait_for_end(&mut self) {
        let Some(running) = &self.running else { return };
        // `running` stays in `self` meanwhile: if the future is dropped, the process ends with the connector.
        running.ending.wait().await;
        self.running = None;
    }
}

tremor_pdk::export! { connectors: [Exec] }
