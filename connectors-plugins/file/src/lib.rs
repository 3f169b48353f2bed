//! The `file` connector: reads or writes a file.
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
//! Without a preprocessor the whole file is one message. The sink writes messages one after the
//! other, as encoded by the codec and the postprocessors, without separators.
//!
//! With `checkpoint` the next run continues after the last acknowledged message; with `follow` the
//! source waits for more data. With `sync` the sink acknowledges events once they are on the disk,
//! and with `rotate` it starts a new file by size and by time. The reasons for this design are in
//! `docs/decisions/0013-files-positions-and-torn-messages.md`.
//!
//! Files that end in `.gz`, `.zst` or `.xz` are decompressed when read and compressed when written.
//! If the path is a pattern, files whose contents begin like a compressed file are also decompressed.

mod compression;
mod config;
mod connector;
mod folder;
mod offset;
mod open;
mod origin;
mod read;
mod source;
mod tail;
mod write;

pub use self::{
    compression::Compression,
    config::{Config, Mode, Rotate, Start, SyncMode, TimeOfDay},
    connector::FileConnector,
    read::Reader,
    source::FileSource,
    tail::Tail,
    write::Writer,
};

tremor_pdk::export! { connectors: [FileConnector] }
