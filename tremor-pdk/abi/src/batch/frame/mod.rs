//! Frames: batches outside of memory.
//!
//! A frame is the one form of a batch on disk, between processes and in other languages. It is the batch's list of
//! events, its nodes and its bytes, one after the other, behind a header of 64 bytes. Nothing in a frame is an address,
//! and a frame has no table of values, because edited values become documents. `docs/frame.md` describes every byte.
//!
//! | task | function |
//! |---|---|
//! | write a batch | [`Encoder::prepare`], which knows the length in advance, then [`Prepared::write`] |
//! | read a frame | [`decode()`] |
//! | send a batch to an operator and apply its answer | [`Encoder::prepare_call`], then [`apply_delta`] |
//! | answer with the changes of a batch | [`Encoder::prepare_answer`] |
//! | number and protect a record on disk | [`stamp`], [`verify`] |
//! | decode unedited events of a record | [`restore`] |
//! | divide a batch that is too large | [`divide()`] |
//!
//! ```
//! # use tremor_abi::{batch::{Batch, Pool}, frame::{self, Encoder, Medium}};
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let mut batch = Batch::new();
//! batch.push(&["a", "value"])?;
//!
//! let mut encoder = Encoder::new(Medium::Disk);
//! let mut record = Vec::new();
//! encoder.prepare(&batch)?.append_to(0, &mut record);
//! frame::stamp(&mut record, 1, 0x5eed)?;
//!
//! assert_eq!(frame::verify(&record, 0x5eed)?.number, 1);
//! let decoded = frame::decode(&record, &Pool::new(1), Medium::Disk)?;
//! assert_eq!(decoded.batch.first().and_then(|event| event.value()).unwrap().to_string(), r#"["a","value"]"#);
//! # Ok(())
//! # }
//! ```

mod decode;
mod delta;
mod divide;
mod encode;
mod error;
mod flatten;
mod gather;
mod header;
mod known;
mod restore;
mod source;
#[cfg(test)]
mod tests;

pub use self::{
    decode::{Decoded, decode},
    delta::apply_delta,
    divide::{Divided, Refused, divide},
    encode::{Encoder, Prepared},
    error::FrameError,
    header::{Header, LAYOUT, MAGIC, MAX_EVENTS, MAX_LEN, stamp, verify},
    restore::restore,
};

/// The destination or the origin of a frame, which determines the events that it may contain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Medium {
    /// A message to or from another process. Ends of streams are allowed, and unedited events are sent with their
    /// documents.
    Process,
    /// A record on disk. Ends of streams are refused, and an unedited event is stored as the message that it was
    /// decoded from, without its document.
    Disk,
}
