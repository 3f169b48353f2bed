//! The connector: opens the file, and makes the side that its mode asks for.

use std::{fs::File, sync::Arc};

use tremor_pdk::prelude::*;

use crate::{Config, Mode, Reader, Writer, open, write::Output};

/// The connector.
#[derive(Debug)]
pub struct FileConnector {
    config: Config,
    host: Host,
    /// Opened once: a second time, `write` would refuse what it has written itself, and
    /// `truncate` would lose it.
    opened: Option<Opened>,
}

#[derive(Debug)]
enum Opened {
    Input(Arc<File>),
    Output(Arc<Output>),
}

impl Component for FileConnector {
    const NAME: &str = "file";
    const DESCRIPTION: &str = env!("CARGO_PKG_DESCRIPTION");
    type Config = Config;

    fn new(config: Config, context: Context) -> Result<Self> {
        Ok(Self { config: config.check(&context)?, host: context.into(), opened: None })
    }
}

impl Connector for FileConnector {
    type Source = Reader;
    type Sink = Writer;

    async fn connect(&mut self, _attempt: u64) -> Result<bool> {
        if self.opened.is_none() {
            let (config, host) = (self.config.clone(), self.host.clone());
            let open = move || match config.mode {
                Mode::Read => Ok(Opened::Input(open::open(&config.path, config.mode)?.into())),
                _ => Output::open(&config, &host).map(|output| Opened::Output(output.into())),
            };
            self.opened = Some(self.host.blocking(open).await??);
        }
        Ok(true)
    }

    async fn create_source(&mut self) -> Result<Option<Reader>> {
        match &self.opened {
            Some(Opened::Input(file)) => {
                Reader::new(&self.config, file.clone(), self.host.clone()).map(Some)
            }
            _ => Ok(None),
        }
    }

    async fn create_sink(&mut self) -> Result<Option<Writer>> {
        Ok(match &self.opened {
            Some(Opened::Output(output)) => Some(Writer::new(output.clone(), self.host.clone())),
            _ => None,
        })
    }
}
