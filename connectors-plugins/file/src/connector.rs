//! The connector: opens the file and creates the source or the sink.

use std::{fs::File, sync::Arc, time::Duration};

use tremor_pdk::prelude::*;

use crate::{
    Config, Mode, Reader, Writer, open,
    source::FileSource,
    tail::{Files, Tail, is_for_tail},
    write::Destination,
};

/// Time between two attempts to open a pipe that no process reads. The delay is too short for the
/// person who starts the reader to notice.
const UNTIL_READ: Duration = Duration::from_millis(100);

/// Reads or writes a file.
pub struct FileConnector {
    config: Config,
    host: Host,
    /// The open file, which is kept across connections. If a second connection opened it again, the
    /// mode `write` would reject it because it is not empty, and `truncate` would discard its
    /// contents.
    opened: Option<Opened>,
}

enum Opened {
    Input(Arc<File>),
    /// Files of a source with a checkpoint, `follow` or a pattern. They are opened for each
    /// connection, because reading continues from the checkpoint.
    Files(Box<Files>),
    Output(Destination),
}

impl Component for FileConnector {
    const NAME: &str = "file";
    const DESCRIPTION: &str = env!("CARGO_PKG_DESCRIPTION");
    type Config = Config;

    fn new(config: Config, context: ComponentContext) -> Result<Self> {
        Ok(Self { config: config.check(&context)?, host: context.into(), opened: None })
    }
}

impl Opened {
    /// Opens the file for the configured mode. If the file is a named pipe that no process reads,
    /// waits for a reader without blocking a thread.
    async fn open(config: &Config, host: &Host) -> Result<Self> {
        let mut waits = false;
        loop {
            let (open_config, open_host) = (config.clone(), host.clone());
            let opened = host.blocking(move || Self::try_open(&open_config, open_host));
            if let Some(opened) = opened.await?? {
                return Ok(opened);
            }
            if !std::mem::replace(&mut waits, true) {
                let path = config.path.display();
                tremor_pdk::info!(
                    host,
                    "waiting for a process to read the pipe `{path}`; start its reader, or correct `path`"
                );
            }
            host.sleep(UNTIL_READ).await;
        }
    }

    /// Opens the file for the configured mode. Returns `None` for a pipe that no process reads. May
    /// block.
    fn try_open(config: &Config, host: Host) -> Result<Option<Self>> {
        Ok(Some(match config.mode {
            Mode::Read if is_for_tail(config) => Self::Files(Files::open(config, host)?.into()),
            Mode::Read => Self::Input(open::open(&config.path, config.mode)?.into()),
            _ => match Destination::open(config, host) {
                Err(error) if open::lacks_reader(&config.path, &error) => return Ok(None),
                destination => Self::Output(destination?),
            },
        }))
    }
}

impl Connector for FileConnector {
    type Source = FileSource;
    type Sink = Writer;

    fn sides(&self) -> Sides {
        if self.config.mode == Mode::Read { Sides::SOURCE } else { Sides::SINK }
    }

    async fn connect(&mut self, _wanted: Sides) -> Result<Halves<FileSource, Writer>> {
        let opened = match self.opened.take() {
            // Open the pipe again as soon as a process reads it. The old descriptor stays open
            // until then, because the system discards the contents of a pipe that no process has
            // open.
            Some(Opened::Output(destination)) if destination.has_lost_reader() => {
                self.opened = Some(Opened::Output(destination));
                Opened::open(&self.config, &self.host).await?
            }
            Some(opened) => opened,
            None => Opened::open(&self.config, &self.host).await?,
        };
        let host = self.host.clone();
        Ok(match opened {
            Opened::Files(files) => {
                let tail = Tail::new(&self.config, *files, host);
                Halves::source(FileSource::Tail(tail.into()))
            }
            Opened::Input(file) => {
                let reader = Reader::new(&self.config, file.clone(), host)?;
                self.opened = Some(Opened::Input(file));
                Halves::source(FileSource::Once(Box::new(reader)))
            }
            Opened::Output(destination) => {
                self.opened = Some(Opened::Output(destination.clone()));
                Halves::sink(Writer::new(destination, host))
            }
        })
    }
}
