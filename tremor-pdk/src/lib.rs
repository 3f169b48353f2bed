//! The plugin development kit: the API for plugins of the event processor tremor.
//!
//! A plugin depends on no other crate of the project. It is a crate of the type `cdylib` with one or more components
//! and one [`export!`] line. The following is a complete plugin, with a source that emits a single event:
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
//! The attribute [`config`](macro@config) derives a configuration from a struct. To create a new plugin, run
//! `tremor plugin new NAME --kind source`: the command creates a crate with a component, a test, and a flow that runs
//! the component.

#[macro_use]
mod debug;
#[macro_use]
mod host;

mod batch;
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
mod field;
mod limited_log;
mod linked;
mod memory;
pub mod metadata;
#[cfg(all(feature = "net", target_os = "linux"))]
pub mod net;
mod network;
/// A channel that passes one value from one task to another, such as the answer to a delivery or a call.
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
mod problem;
mod processor;
mod runs;
mod sink;
mod source;
mod splitter;
#[cfg(unix)]
mod state_file;
mod sync;
#[cfg(feature = "template")]
pub mod template;
#[cfg(all(feature = "testing", unix))]
pub mod testing;
mod tickets;
#[cfg(feature = "tokio")]
pub mod tokio;
pub mod units;
mod upkeep;
mod watermarks;
mod yield_now;

pub use tremor_abi::{
    ByteBuffer,
    batch::{
        Batch, Buffered, Cutter, Edits, EventMut, EventRef, FieldWriter, Insertion, MetadataFields,
        Origin, Output, Part, RemainingInput, Replacement, SelectionError, StreamKey, TextFields,
        Verdict,
    },
    connector::Sides,
    document::{Document, Exact, Key, MAX_DEPTH, Shape, ValueRef, Writer, scaled},
    error::{ErrorKind, ErrorPolicy, PluginError as Error},
    literal, lock,
    value::{Number, Object, Path, PathError, Value},
};

#[cfg(all(feature = "net", target_os = "linux"))]
pub use self::descriptors::{Descriptors, Registered};
pub(crate) use self::sink::BatchId;
#[cfg(unix)]
pub use self::state_file::{StateFile, StateFileNames, lock_file};
pub use self::{
    batch::{
        AnyBatch, Form, Limit, Raw, RawBatch, RawEvent, Stream, Structured, StructuredBatch,
        StructuredEvent, TypedBatch, TypedEvent, TypedEvents,
    },
    codec::{Codec, Message},
    component::{Component, ComponentContext},
    config::{
        NoConfig, header_without_placeholders, names_credentials, path_without_placeholders,
        placeholder, without_placeholders,
    },
    connector::{Connector, Halves},
    field::{EventParts, Field},
    host::{Blocking, Counter, Gauge, Histogram, Host, LogLevel, Task},
    limited_log::LimitedLog,
    memory::Memory,
    network::Network,
    operator::Operator,
    problem::Problem,
    processor::{Postprocessor, Preprocessor},
    runs::raw_runs,
    sink::{
        BatchSize, Delivery, Demand, Exception, Exceptions, Grant, NoSink, ParallelSink, Sink,
        Undelivered,
    },
    source::{Acks, InFlight, NoSource, Pull, Source},
    splitter::{Found, Input, Splitter, StreamSplitter, WholeMessages},
    tickets::{FailedTicket, TicketProgress, TicketWriter, Tickets},
    units::ChunkBytes,
    upkeep::{Held, Upkeep},
    watermarks::{Begin, PositionWriter, Progress, Rewind, Watermarks},
    yield_now::yield_now,
};
/// Turns a struct or an enum into a configuration, or into a part of a configuration.
///
/// The type is then deserialised from the `config` of a flow file, has a JSON Schema, and rejects unknown keys. Doc
/// comments become descriptions in the schema. Attributes of serde and schemars, such as `#[serde(default)]`, may be
/// added. `#[serde(flatten)]` cannot be used, because serde does not combine it with the rejection of unknown keys.
///
/// ```
/// use std::num::NonZeroU32;
///
/// /// Configuration of a client.
/// #[tremor_pdk::config]
/// pub struct Config {
///     /// Host name of the peer.
///     host: String,
///     /// Number of connections to keep open.
///     #[serde(default = "one")]
///     connections: NonZeroU32,
///     #[serde(default)]
///     mode: Mode,
/// }
///
/// /// Encryption of the connections.
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
/// The crates on which configurations and values are based, so that a plugin needs no other dependency.
///
/// To push or emit a value of your own type, derive its `Serialize` with the path of this crate:
///
/// ```
/// use tremor_pdk::{StructuredBatch, serde::Serialize};
///
/// #[derive(Serialize)]
/// #[serde(crate = "tremor_pdk::serde")]
/// struct Reading<'a> {
///     sensor: &'a str,
///     celsius: f64,
/// }
///
/// let mut batch = StructuredBatch::new();
/// batch.push(&Reading { sensor: "attic", celsius: 21.5 })?;
/// # Ok::<_, tremor_pdk::Error>(())
/// ```
pub use {schemars, serde};

/// The `Result` type of the kit and of plugins. The error type is [`Error`] by default.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// The traits and types that most plugins need. Import all other items by their paths.
///
/// A plugin without a configuration, for example, begins with `use tremor_pdk::{NoConfig, prelude::*};`. `Result` and
/// `Error` replace those of the standard library. Names that plugins often import from the standard library, such as
/// `std::task::Context` and `std::path::Path`, are not in the prelude.
pub mod prelude {
    pub use crate::{
        Batch, Codec, Component, ComponentContext, Connector, Delivery, Error, EventRef,
        Exceptions, Found, Halves, Host, Input, Message, Operator, Output, Postprocessor, Pull,
        RawBatch, Result, Sides, Sink, Source, StreamSplitter, StructuredBatch, ValueRef, Verdict,
        Writer,
    };
}

/// Items that the expansion of [`export!`] refers to, and items that the runtime shares with them. Not for authors: a
/// change of these items is not a breaking change of the kit.
#[doc(hidden)]
pub mod __private {
    pub use crate::{
        export::{is_name, metadata, text},
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
