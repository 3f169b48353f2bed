//! The plugin development kit: everything that a plugin needs, and the only crate of ours that it
//! depends on.
//!
//! A plugin is a crate of type `cdylib` with a type that implements [`Connector`] and one line
//! that exports it. This is a whole one, a source that counts:
//!
//! ```
//! use tremor_pdk::prelude::*;
//!
//! /// Emits the numbers from zero on.
//! #[tremor_pdk::config]
//! pub struct Config {
//!     /// How many numbers to emit.
//!     count: u64,
//! }
//!
//! pub struct Count(u64);
//!
//! impl Component for Count {
//!     const NAME: &str = "count";
//!     type Config = Config;
//!
//!     fn new(config: Config, _context: Context) -> Result<Self> {
//!         Ok(Self(config.count))
//!     }
//! }
//!
//! impl Connector for Count {
//!     const CODEC: CodecRequirement = CodecRequirement::Structured;
//!     type Source = Numbers;
//!     type Sink = NoSink;
//!
//!     async fn create_source(&mut self) -> Result<Option<Numbers>> {
//!         Ok(Some(Numbers(0..self.0)))
//!     }
//! }
//!
//! pub struct Numbers(std::ops::Range<u64>);
//!
//! impl Source for Numbers {
//!     async fn pull(&mut self, batch: &mut Batch) -> Result<Pull> {
//!         while !batch.is_full() {
//!             let Some(number) = self.0.next() else { return Ok(Pull::Finished) };
//!             batch.push_value(0, &number)?;
//!         }
//!         Ok(Pull::Events)
//!     }
//! }
//!
//! tremor_pdk::export! { connectors: [Count] }
//! # fn main() {}
//! ```

#[macro_use]
mod host;

mod chunk;
mod codec;
mod component;
mod config;
mod connector;
mod driver;
pub mod dynamic;
mod export;
mod ffi;
#[doc(hidden)]
pub mod linked;
mod oneshot;
mod operator;
mod processor;
mod runs;
#[cfg(all(feature = "testing", unix))]
pub mod testing;

pub use tremor_abi as abi;
pub use tremor_abi::{
    batch::{Batch, Event, Holds, Limit, Output, Verdict},
    document::{Document, ValueRef, Writer},
    error::{ErrorKind, PluginError as Error},
    literal,
    value::{Object, Path, PathError, Value},
};

pub use self::{
    chunk::ChunkBytes,
    codec::Codec,
    component::{Component, Context},
    config::NoConfig,
    connector::{
        CodecRequirement, Connector, Delivery, Exception, NoSink, NoSource, Pull, Signal, Sink,
        Source,
    },
    driver::{ConnectorDriver, SinkDriver, SourceDriver},
    host::{Blocking, Counter, Gauge, Histogram, Host, LogLevel},
    operator::Operator,
    processor::{Postprocessor, Preprocessor},
    runs::raw_runs,
};
pub use tremor_pdk_macros::config;
pub use {schemars, serde};

/// The result of everything that can fail in a plugin.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What a plugin usually needs.
pub mod prelude {
    pub use crate::{
        Batch, ChunkBytes, Codec, CodecRequirement, Component, Connector, Context, Delivery, Error,
        ErrorKind, Event, Holds, Host, LogLevel, NoConfig, NoSink, NoSource, Operator, Output,
        Postprocessor, Preprocessor, Pull, Result, Signal, Sink, Source, Value, ValueRef, Verdict,
        Writer,
    };
    pub use schemars::JsonSchema;
    pub use serde::{Deserialize, Serialize};
}

/// What the export macro needs. Not for anybody else.
#[doc(hidden)]
pub mod __private {
    pub use crate::{
        export::{ArtefactText, metadata},
        ffi::{
            LibHeader, Library, RVec, codec_artefact, connector_artefact, header,
            operator_artefact, postprocessor_artefact, preprocessor_artefact,
        },
    };
    pub use tremor_abi::{metadata::Record, module::ArtefactRef};
}
