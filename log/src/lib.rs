//! A log on disk that acknowledges what is durable, and nothing else.
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
mod kept;
mod layout;
mod limits;
mod log;
mod moving;
mod open;
mod positions;
mod prepare;
mod reader;
mod record;
mod report;
mod scan;
mod segment;
mod settled;
mod state;
#[cfg(test)]
mod tests;
mod walker;

pub use disk::{Disk, DiskFile, Open, SystemDisk};
pub use error::{DeviceError, NotDurable, OpenError, Reason, Refused};
pub use log::{Appender, Log, Options, Status};
pub use reader::Reader;
pub use record::{HEADER_LEN, Record, record};
pub use report::{Damage, DamageKind, Opened};
