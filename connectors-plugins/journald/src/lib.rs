//! The `journald` connector: reads the journal of systemd.
//!
//! ```yaml
//! connectors:
//!   journal:
//!     type: journald
//!     config: { units: [nginx.service], checkpoint: journal.checkpoint }
//! ```
//!
//! The source starts `journalctl` and reads its output. Each entry is a message in JSON. The position of an entry is
//! its cursor. The reasons for this design are in `docs/decisions/0027-journal-by-journalctl.md`.

#[cfg(not(target_os = "linux"))]
compile_error!("the journald connector needs Linux, because systemd and epoll exist only there");

mod checkpoint;
mod config;
mod entries;
mod gaps;
mod point;
mod positions;
mod process;
mod source;
#[cfg(test)]
mod tests;

use std::sync::{Arc, Mutex};

use tremor_pdk::{NoSink, lock, prelude::*};

pub use self::{config::Config, source::JournalSource};
use self::{point::Position, positions::Positions, process::Process};

/// Reads the journal of systemd.
pub struct Journald {
    config: Arc<Config>,
    context: ComponentContext,
    /// Position after the last entry that the connector returned, from which the next connection
    /// reads if there is no checkpoint; `None` before the first connection.
    resume: Option<Arc<Mutex<Position>>>,
    /// Acknowledged positions; `None` without a checkpoint, and before the first connection.
    positions: Option<Positions>,
}

impl Component for Journald {
    const NAME: &str = "journald";
    const DESCRIPTION: &str = env!("CARGO_PKG_DESCRIPTION");
    type Config = Config;

    fn new(config: Config, context: ComponentContext) -> Result<Self> {
        let config = Arc::new(config.check(&context)?);
        Ok(Self { config, context, resume: None, positions: None })
    }
}

impl Connector for Journald {
    type Source = JournalSource;
    type Sink = NoSink;

    async fn connect(&mut self, _wanted: Sides) -> Result<Halves<JournalSource, NoSink>> {
        let host: Host = self.context.clone().into();
        let resume = match &self.resume {
            Some(resume) => resume.clone(),
            None => {
                let start = self.config.start(&host);
                let start = match &self.config.checkpoint {
                    None => start,
                    Some(path) => {
                        let (path, config, opens) =
                            (path.clone(), self.config.clone(), host.clone());
                        let opened =
                            host.blocking(move || Positions::open(&path, &config, start, opens));
                        let (positions, start) = opened.await??;
                        self.positions = Some(positions);
                        start
                    }
                };
                self.resume.insert(Arc::new(Mutex::new(start))).clone()
            }
        };
        let start = {
            let mut resume = lock(&resume);
            if let Some(position) = self.positions.as_ref().and_then(Positions::acknowledged) {
                *resume = position;
            }
            resume.clone()
        };
        if let Some(positions) = &mut self.positions {
            positions.begin_connection();
        }
        let process = Process::start(self.config.clone(), host.clone(), start.clone()).await?;
        let source = JournalSource::new(
            self.config.clone(),
            host,
            process,
            start,
            resume,
            self.positions.as_ref(),
        );
        Ok(Halves::source(source))
    }
}

tremor_pdk::export! { connectors: [Journald] }
