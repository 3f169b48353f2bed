//! Errors of frames.

use std::fmt;

use super::header::{MAX_EVENTS, MAX_LEN};
use crate::{document::WriteError, error::PluginError};

/// The reason for which a frame cannot be read or written.
#[derive(Debug)]
#[non_exhaustive]
pub enum FrameError {
    /// The frame ends before the header says that it ends, or before the end of the header.
    Truncated {
        /// Length that the frame needs, in bytes.
        expected: u64,
        /// Length of the frame that was found, in bytes.
        found: usize,
    },
    /// The frame requires a later version of the reader.
    Newer {
        /// Name of the field, as in the description of the layout.
        field: &'static str,
        /// Value of the field.
        found: u64,
        /// Largest value that this reader knows.
        known: u64,
    },
    /// A field of the header has a value that it must not have.
    Field {
        /// Name of the field, as in the description of the layout.
        field: &'static str,
        /// Offset of the field in the frame, in bytes.
        offset: usize,
        /// Value of the field.
        found: u64,
        /// Description of the values that are allowed.
        expected: String,
    },
    /// The checksum in the header is not that of the frame.
    Checksum {
        /// Checksum in the header.
        stored: u64,
        /// Checksum of the frame.
        computed: u64,
    },
    /// A byte after the last section is not zero.
    Padding {
        /// Offset of the byte in the frame.
        offset: usize,
    },
    /// An event is not allowed in the frame.
    Event {
        /// Position of the event in the frame or batch, counted from 0.
        position: usize,
        /// Description of the fault, with the remedy if there is one.
        fault: String,
    },
    /// The events of the frame refer to contents that are not valid. The error names the event and the fault.
    Contents(PluginError),
    /// An edited value of a batch cannot be a document, for example because it is nested too deeply.
    Value {
        /// Position of the event that refers to the value, counted from 0.
        position: usize,
        /// Reason for which the value cannot be written.
        error: WriteError,
    },
    /// The batch has more events than a frame can contain. [`divide`](super::divide()) divides it.
    TooManyEvents {
        /// Number of events.
        events: usize,
    },
    /// The frame would be longer than a frame may be. [`divide`](super::divide()) divides the batch, if it has several
    /// events.
    TooLong {
        /// Length that the frame would have, or a smaller length that is already too long, in bytes.
        len: u64,
        /// Maximum length, in bytes.
        limit: usize,
    },
    /// The caller's buffer does not have the length of the frame.
    Buffer {
        /// Length of the frame, in bytes.
        expected: usize,
        /// Length of the buffer, in bytes.
        found: usize,
    },
}

impl FrameError {
    /// Returns whether the frame requires a later version of the reader, so that it may be valid.
    pub const fn is_newer(&self) -> bool {
        matches!(self, Self::Newer { .. })
    }

    /// Returns whether a batch of several events fits into several frames: see [`divide`](super::divide()).
    pub const fn is_too_large(&self) -> bool {
        matches!(self, Self::TooManyEvents { .. } | Self::TooLong { .. })
    }

    pub(super) const fn too_long(len: u64) -> Self {
        Self::TooLong { len, limit: MAX_LEN }
    }
}

impl fmt::Display for FrameError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Truncated { expected, found } => {
                write!(f, "invalid frame: expected {expected} bytes, found {found}")
            }
            Self::Newer { field, found, known } => write!(
                f,
                "cannot read the frame: its {field} is {found}, and this version reads frames up to {field} {known}; \
                 use the version that wrote it, or a later one"
            ),
            Self::Field { field, offset, found, expected } => write!(
                f,
                "invalid frame: {field} at offset {offset} is {found}, expected {expected}"
            ),
            Self::Checksum { stored, computed } => write!(
                f,
                "invalid frame: the checksum at offset 56 is {stored:#018x}, and that of the contents is \
                 {computed:#018x}; the frame was damaged after it was written"
            ),
            Self::Padding { offset } => {
                write!(f, "invalid frame: the padding at offset {offset} is not zero")
            }
            Self::Event { position, fault } => write!(f, "event {position} of a frame {fault}"),
            Self::Contents(error) => write!(f, "invalid frame: {error}"),
            Self::Value { position, error } => {
                write!(f, "cannot write the edited value of event {position} to a frame: {error}")
            }
            Self::TooManyEvents { events } => write!(
                f,
                "cannot write a batch of {events} events to one frame: the limit is {MAX_EVENTS} events; divide it"
            ),
            Self::TooLong { len, limit } => write!(
                f,
                "cannot write a frame of {len} bytes: the limit is {limit} bytes; divide the batch"
            ),
            Self::Buffer { expected, found } => {
                write!(f, "cannot write a frame of {expected} bytes to a buffer of {found} bytes")
            }
        }
    }
}

impl std::error::Error for FrameError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Value { error, .. } => Some(error),
            _ => None,
        }
    }
}
