//! The `stdio` connector: reads standard input and writes standard output.
//!
//! ```yaml
//! connectors:
//!   terminal:
//!     type: stdio
//!     codec: json
//!     preprocessors: [lines]
//!     postprocessors: [lines]
//! ```
//!
//! Standard input is one stream; if several connectors read it, each gets a part.

#[cfg(not(unix))]
compile_error!("the stdio connector needs Unix, because it waits for file descriptors");

mod descriptor;
mod input;
mod output;

use std::{fs::File, io, os::fd::AsFd};

use tremor_pdk::{ChunkBytes, prelude::*};

pub use self::{input::Input, output::Output};

/// Configuration of the connector.
#[tremor_pdk::config]
#[derive(Clone, Debug)]
pub struct Config {
    /// Maximum number of bytes per read.
    #[serde(default = "default_chunk_bytes")]
    pub chunk_bytes: ChunkBytes,
}

/// Default of `chunk_bytes`: the capacity of a pipe on Linux.
const fn default_chunk_bytes() -> ChunkBytes {
    ChunkBytes::new(64 << 10)
}

/// Reads standard input and writes standard output.
#[derive(Debug)]
pub struct Stdio {
    config: Config,
    host: Host,
}

impl Component for Stdio {
    const NAME: &str = "stdio";
    const DESCRIPTION: &str = env!("CARGO_PKG_DESCRIPTION");
    type Config = Config;

    fn new(config: Config, context: ComponentContext) -> Result<Self> {
        Ok(Self { config, host: context.into() })
    }
}

impl Connector for Stdio {
    type Source = Input;
    type Sink = Output;

    async fn connect(&mut self, wanted: Sides) -> Result<Halves<Input, Output>> {
        let (host, chunk) = (&self.host, self.config.chunk_bytes.get());
        let source = |file| Input::new(host.clone(), file, chunk);
        let sink = |file| Output::new(host.clone(), file);
        Ok(Halves {
            source: open(wanted.has_source(), &io::stdin()).map_err(input::error)?.map(source),
            sink: open(wanted.has_sink(), &io::stdout()).map_err(output::error)?.map(sink),
        })
    }
}

/// Duplicates the descriptor of `stream` if `is_wanted` is set, because the standard library's
/// stream has a buffer and a lock.
fn open(is_wanted: bool, stream: &impl AsFd) -> io::Result<Option<File>> {
    let copy = || stream.as_fd().try_clone_to_owned().map(File::from);
    is_wanted.then(copy).transpose()
}

tremor_pdk::export! { connectors: [Stdio] }
