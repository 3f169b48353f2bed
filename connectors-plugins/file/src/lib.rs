//! The `file` connector: reads a file, or writes one.
//!
//! ```yaml
//! connectors:
//!   input:
//!     type: file
//!     preprocessors: [lines]
//!     codec: json
//!     config: { path: logs.json, mode: read }
//! ```
//!
//! Without a preprocessor, a file is one message. Writing puts one message after the other, as
//! the codec and the postprocessors made them, and nothing in between.
//!
//! Files that end in `.gz`, `.zst` or `.xz` are decompressed and compressed on the way.

mod compression;
mod open;
mod read;
mod write;

use std::{fs::File, path::PathBuf, sync::Arc};

use tremor_pdk::prelude::*;

pub use self::{compression::Compression, read::Reader, write::Writer};

/// Which file, and what to do with it.
#[tremor_pdk::config]
#[derive(Clone, Debug)]
pub struct Config {
    /// The file. A relative path starts at the folder of the flow file.
    pub path: PathBuf,
    /// What to do with it.
    pub mode: Mode,
    /// How the file is compressed.
    #[serde(default)]
    pub compression: Compression,
    /// How much to read at once, in bytes; of a compressed file, decompressed bytes.
    #[serde(default = "default_chunk_bytes")]
    pub chunk_bytes: ChunkBytes,
}

const fn default_chunk_bytes() -> ChunkBytes {
    ChunkBytes::new(256 << 10)
}

/// What to do with the file.
#[tremor_pdk::config]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// Read it from its start to its end.
    Read,
    /// Write a new file. One that exists and is not empty is left alone, with an error.
    Write,
    /// Write after what is in the file; make it where it does not exist.
    Append,
    /// Write from scratch: what is in the file is lost.
    Truncate,
}

/// The connector.
#[derive(Debug)]
pub struct FileConnector {
    config: Config,
    host: Host,
    /// Opened once: a second time, `write` would refuse what it has written itself, and
    /// `truncate` would lose it.
    file: Option<Arc<File>>,
}

impl Component for FileConnector {
    const NAME: &str = "file";
    const DESCRIPTION: &str = env!("CARGO_PKG_DESCRIPTION");
    type Config = Config;

    fn new(mut config: Config, context: Context) -> Result<Self> {
        if config.path.as_os_str().is_empty() {
            return Err(Error::configuration("`path` is empty: name a file"));
        }
        config.path = context.resolve(&config.path);
        Ok(Self { config, host: context.into(), file: None })
    }
}

impl Connector for FileConnector {
    type Source = Reader;
    type Sink = Writer;

    async fn connect(&mut self, _attempt: u64) -> Result<bool> {
        if self.file.is_none() {
            let Config { path, mode, .. } = self.config.clone();
            let file = self.host.blocking(move || open::open(&path, mode)).await??;
            self.file = Some(Arc::new(file));
        }
        Ok(true)
    }

    async fn create_source(&mut self) -> Result<Option<Reader>> {
        let reader = |file: &Arc<File>| Reader::new(&self.config, file.clone(), self.host.clone());
        let file = self.file.as_ref().filter(|_| self.config.mode == Mode::Read);
        file.map(reader).transpose()
    }

    async fn create_sink(&mut self) -> Result<Option<Writer>> {
        let writer = |file: &Arc<File>| Writer::new(&self.config, file.clone(), self.host.clone());
        Ok(self.file.as_ref().filter(|_| self.config.mode != Mode::Read).map(writer))
    }
}

tremor_pdk::export! { connectors: [FileConnector] }
