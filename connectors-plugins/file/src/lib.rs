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
//! With `checkpoint` the next run goes on after the last acknowledged message; with `follow` the source
//! waits for more. With `sync` the sink acknowledges what is on the disk, and with `rotate` it begins a new
//! file by size and by time. `docs/decisions/0013-files-positions-and-torn-messages.md` says why so.
//!
//! Files that end in `.gz`, `.zst` or `.xz` are decompressed and compressed on the way.

mod compression;
mod config;
mod connector;
mod folder;
mod open;
mod read;
mod source;
mod tail;
mod write;

pub use self::{
    compression::Compression,
    config::{Config, Mode, Rotate, SyncMode},
    connector::FileConnector,
    read::Reader,
    source::FileSource,
    tail::Tail,
    write::Writer,
};

tremor_pdk::export! { connectors: [FileConnector] }
