//! The plugin development kit: everything that a plugin needs, and the only crate of ours that it
//! depends on.
//!
//! A plugin is a crate of type `cdylib` with components and one line that exports them. This is a whole
//! one, a source that counts:
//!
//! ```
//! use tremor_pdk::prelude::*;
//!
//! /// Counts down to one.
//! #[tremor_pdk::config]
//! pub struct Config {
//!     /// The first number.
//!     from: u64,
//! }
//!
//! pub struct Countdown {
//!     left: u64,
//! }
//!
//! impl Component for Countdown {
//!     const NAME: &str = "countdown";
//!     type Config = Config;
//!
//!     fn new(config: Config, _context: Context) -> Result<Self> {
//!         Ok(Self { left: config.from })
//!     }
//! }
//!
//! impl Source for Countdown {
//!     async fn pull(&mut self, batch: &mut Batch) -> Result<Pull> {
//!         while self.left > 0 && !batch.is_full() {
//!             batch.push(&self.left)?;
//!             self.left -= 1;
//!         }
//!         Ok(if self.left > 0 { Pull::Events } else { Pull::Finished })
//!     }
//! }
//!
//! tremor_pdk::export! { sources: [Countdown] }
//! # fn main() {}
//! ```

#[macro_use]
mod debug;
#[macro_use]
mod host;

mod chunk;
mod codec;
mod component;
mod config;
mod connector;
#[cfg(all(feature = "net", target_os = "linux"))]
mod descriptors;
mod driver;
pub mod dynamic;
mod export;
mod ffi;
mod limited_log;
#[doc(hidden)]
pub mod linked;
mod lock;
mod memory;
pub mod metadata;
#[cfg(all(feature = "net", target_os = "linux"))]
pub mod net;
/// Channels for the answer to a delivery or a call.
///
/// ```
/// # use tremor_pdk::{oneshot, testing::TestHost};
/// let (sender, receiver) = oneshot::channel();
/// sender.send(7);
/// assert_eq!(TestHost::new().block_on(receiver), Some(7));
/// ```
pub mod oneshot;
mod only;
mod operator;
mod processor;
mod runs;
mod sink;
mod source;
mod splitter;
#[cfg(all(feature = "testing", unix))]
pub mod testing;
mod tickets;
#[cfg(feature = "tokio")]
pub mod tokio;
pub mod units;
mod watermarks;
mod yield_now;

pub use tremor_abi as abi;
pub use tremor_abi::{
    ByteBuffer,
    batch::{
        Batch, Buffered, Cutter, Event, EventMut, EventRef, Limit, Output, Rest, Stream, StreamKey,
        Verdict,
    },
    connector::Sides,
    document::{Document, Key, Shape, ValueRef, Writer},
    error::{ErrorKind, ErrorPolicy, PluginError as Error},
    literal,
    value::{Number, Object, Path, PathError, Value},
};

#[cfg(all(feature = "net", target_os = "linux"))]
pub use self::descriptors::{Descriptors, Registered};
pub use self::{
    chunk::ChunkBytes,
    codec::{Codec, CodecRequirement},
    component::{Component, Context},
    config::NoConfig,
    connector::{Connector, Halves},
    driver::{ConnectorDriver, ParallelSinkDriver, SinkDriver, SourceDriver},
    host::{Blocking, Counter, Gauge, Histogram, Host, LogLevel, Task},
    limited_log::LimitedLog,
    memory::Memory,
    operator::Operator,
    processor::{Postprocessor, Preprocessor},
    runs::raw_runs,
    sink::{
        BatchSize, Delivery, Demand, Exception, Exceptions, Grant, NoSink, ParallelSink, Sink,
        Undelivered,
    },
    source::{Acks, InFlight, NoSource, Pull, Source},
    splitter::{Found, Input, Splitter, StreamSplitter, WholeMessages},
    tickets::{FailedTicket, TicketProgress, TicketWriter, Tickets},
    watermarks::{Begin, PositionWriter, Progress, Rewind, Watermarks},
    yield_now::yield_now,
};
/// Makes a struct or an enum a configuration, or a part of one: it is deserialised from the `config`
/// of a flow file, has a JSON Schema, and refuses keys that it does not know.
///
/// Doc comments are the descriptions in the schema. Everything else is said with the attributes of
/// serde and schemars, as in `#[serde(default)]`; `#[serde(flatten)]` is the one that does not go with
/// it, for then any key may be known.
///
/// ```
/// use std::num::NonZeroU32;
///
/// /// Where to connect to.
/// #[tremor_pdk::config]
/// pub struct Config {
///     /// The name of the peer.
///     host: String,
///     /// How many connections to keep.
///     #[serde(default = "one")]
///     connections: NonZeroU32,
///     #[serde(default)]
///     mode: Mode,
/// }
///
/// /// How to talk.
/// #[tremor_pdk::config]
/// #[derive(Default)]
/// #[serde(rename_all = "snake_case")]
/// enum Mode {
///     #[default]
///     Plain,
///     Encrypted,
/// }
///
/// fn one() -> NonZeroU32 {
///     NonZeroU32::MIN
/// }
/// ```
pub use tremor_pdk_macros::config;
pub use {schemars, serde};

/// The result of everything that can fail in a plugin.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What a plugin usually needs.
pub mod prelude {
    pub use crate::{
        Acks, Batch, Buffered, ByteBuffer, ChunkBytes, Codec, CodecRequirement, Component,
        Connector, Context, Cutter, Delivery, Error, ErrorKind, ErrorPolicy, EventMut, EventRef,
        Exceptions, Found, Halves, Host, Input, LogLevel, NoConfig, NoSink, NoSource, Operator,
        Output, ParallelSink, Postprocessor, Preprocessor, Pull, Rest, Result, Sides, Sink, Source,
        StreamKey, StreamSplitter, Task, Value, ValueRef, Verdict, WholeMessages, Writer,
    };
    pub use schemars::JsonSchema;
    pub use serde::{Deserialize, Serialize};
}

/// What the export macro needs. Not for anybody else.
#[doc(hidden)]
pub mod __private {
    pub use crate::{
        export::{metadata, text},
        ffi::{LibHeader, Library, RVec, artefact, header},
    };
    pub use tremor_abi::{metadata::Record, module::ArtefactRef};
}
