//! A log on disk that acknowledges what is durable, and nothing else. It keeps records until they are settled, across
//! crashes of the process and of the machine, within a limit in bytes.
//!
//! ```rust
//! use tremor_log::{Log, Options, record};
//!
//! # let folder = tempfile::tempdir()?;
//! # let folder = folder.path();
//! // At most 16 MiB on disk, all files included.
//! let (log, opened) = Log::open(folder, Options::new(16 << 20))?;
//! println!("{} records of earlier runs, {} damaged parts", opened.records, opened.damage.len());
//!
//! // The callback runs when the record has survived a loss of power, and not before.
//! log.appender().append(record(b"first"), |result| println!("durable: {result:?}"))?;
//! // The same with a thread that waits.
//! let number = log.appender().append_and_wait(record(b"second"))?;
//! assert_eq!(number, 2);
//!
//! // A reader returns the durable records that are not settled, in order.
//! let mut reader = log.reader();
//! while let Some(record) = reader.next()? {
//!     println!("{}: {:?}", record.number, record.payload());
//!     log.settle(record.number);
//! }
//! log.close();
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! A [`Log`] is a folder. Records are appended with an [`Appender`], read in order with a [`Reader`], and settled with
//! [`Log::settle`] when they are no longer needed, in any order. The space of settled records is reused.
#![allow(
    clippy::cast_possible_truncation,
    reason = "lengths and offsets in memory are those of segments, which have at most 1 GiB"
)]

mod commit;
mod disk;
mod error;
mod faults;
mod files;
mod find;
mod inspect;
mod kept;
mod layout;
mod limits;
mod log;
mod mend;
mod moving;
mod open;
mod positions;
mod prepare;
mod reader;
mod record;
mod report;
mod scan;
mod scanner;
mod segment;
mod settled;
mod state;
#[cfg(test)]
mod tests;
mod walker;

pub use disk::{Disk, DiskFile, Layer, Layered, Open, SystemDisk};
pub use error::{
    DeviceError, InUse, InspectError, NotDurable, OpenError, Reason, Refused, RepairError,
};
pub use inspect::{FileKind, InspectedSegment, Inspection, LogFile};
pub use log::{Appender, Closed, Log, Options, Status};
pub use mend::{Repair, repair};
pub use reader::Reader;
pub use record::{HEADER_LEN, Record, record};
pub use report::{Damage, DamageKind, Opened, RecordInfo};
