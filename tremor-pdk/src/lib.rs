//! The plugin development kit: everything that a plugin needs, and the only crate of ours that it
//! depends on.
//!
//! A plugin is a crate of type `cdylib` with components and one line that exports them. This is a whole
//! one, a source of one event:
//!
//! ```
//! use tremor_pdk::{NoConfig, prelude::*};
//!
//! pub struct Hello;
//!
//! impl Component for Hello {
//!     const NAME: &str = "hello";
//!     type Config = NoConfig;
//!     fn new(_config: NoConfig, _context: ComponentContext) -> Result<Self> {
//!         Ok(Self)
//!     }
//! }
//!
//! impl Source for Hello {
//!     type Batch = StructuredBatch;
//!     async fn pull(&mut self, batch: &mut StructuredBatch) -> Result<Pull> {
//!         batch.push("hello")?;
//!         Ok(Pull::Finished)
//!     }
//! }
//!
//! tremor_pdk::export! { sources: [Hello] }
//! # fn main() {}
//! ```
//!
//! The attribute [`config`](macro@config) makes a struct its configuration. `tremor plugin new NAME --kind source` makes a
//! crate with both, a test, and a flow that runs it.

#[macro_use]
mod debug;
#[macro_use]
mod host;

mod batch;
mod chunk;
mod codec;
mod component;
mod config;
mod connector;
#[cfg(all(feature = "net", target_os = "linux"))]
mod descriptors;
mod driver;
mod dynamic;
mod export;
mod ffi;
mod limited_log;
mod linked;
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

pub use tremor_abi::{
    ByteBuffer,
    batch::{Batch, Buffered, Cutter, EventMut, EventRef, Limit, Output, Rest, StreamKey, Verdict},
    connector::Sides,
    document::{Document, Key, Shape, ValueRef, Writer},
    error::{ErrorKind, ErrorPolicy, PluginError as Error},
    literal,
    value::{Number, Object, Path, PathError, Value},
};

#[cfg(all(feature = "net", target_os = "linux"))]
pub use self::descriptors::{Descriptors, Registered};
pub(crate) use self::sink::BatchId;
pub use self::{
    batch::{
        AnyBatch, Form, Raw, RawBatch, RawEvent, Stream, Structured, StructuredBatch,
        StructuredEvent, TypedBatch, TypedEvent, TypedEvents,
    },
    chunk::ChunkBytes,
    codec::Codec,
    component::{Component, ComponentContext},
    config::NoConfig,
    connector::{Connector, Halves},
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

/// Names that nearly every plugin of a kind needs. Import all other items by their paths.
///
/// A plugin without a configuration, for example, begins with `use tremor_pdk::{NoConfig, prelude::*};`. `Result` and
/// `Error` replace those of the standard library. Other names that plugins often import from there, such as
/// `std::task::Context` and `std::path::Path`, are not in the prelude.
pub mod prelude {
    pub use crate::{
        Batch, ByteBuffer, Codec, Component, ComponentContext, Connector, Delivery, Error,
        EventRef, Exceptions, Found, Halves, Host, Input, Operator, Output, Postprocessor, Pull,
        RawBatch, Result, Sides, Sink, Source, StreamSplitter, StructuredBatch, ValueRef, Verdict,
        Writer,
    };
}

/// The parts of the kit that [`export!`] expands to, and those that the runtime shares with them. Not for authors:
/// changes here are not breaking changes of the kit.
#[doc(hidden)]
pub mod __private {
    pub use crate::{
        export::{metadata, text},
        ffi::{LibHeader, Library, RVec, artefact, header},
        units::parse::{parse_size, parse_time},
    };
    pub use tremor_abi::{metadata::Record, module::ArtefactRef};

    pub mod dynamic {
        pub use crate::dynamic::*;
    }

    pub mod linked {
        pub use crate::linked::*;
    }
}
