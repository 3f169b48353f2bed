//! Limits of the unfinished messages of a splitter, and the errors for what exceeds them.

use tremor_abi::batch::Rejected;

use crate::Error;

/// Bytes of a message that its dead letter shows.
pub(super) const SHOWN: usize = Rejected::SHOWN;

/// Maximum size of the unfinished messages of all streams in bytes, if a single one may not be larger.
const TOGETHER: usize = 32 << 20;

/// Limits of a preprocessor.
pub(super) struct Limits {
    /// Name of the preprocessor in flow files.
    pub(super) name: &'static str,
    /// Maximum length of a message in bytes.
    pub(super) bytes: usize,
}

impl Limits {
    /// Bytes that are kept of a message whose beginning was discarded. Beginnings of this size are not counted: they
    /// take no more than a connection takes anyway.
    pub(super) const KEPT: usize = 64;

    /// Returns the maximum size of the unfinished messages of all streams in bytes.
    pub(super) fn together(&self) -> usize {
        self.bytes.max(TOGETHER)
    }
}

/// Reason why a message was discarded.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum TooLong {
    /// The message is longer than a message may be.
    Alone,
    /// With the message, the beginnings of messages of all streams are larger than they may be.
    Together,
    /// With the message, the flow exceeds its memory limit.
    ForMemory,
}

impl TooLong {
    pub(super) fn error(self, length: usize, limits: &Limits) -> Error {
        let Limits { name, bytes: limit } = limits;
        let kept = Limits::KEPT;
        match self {
            Self::Alone => Error::bad_data(format_args!(
                "a message of {length} bytes is longer than `max_length` of `{name}`, {limit} bytes; shown are its \
                 first {SHOWN}"
            )),
            Self::Together => Error::bad_data(format_args!(
                "a message of {length} bytes came while the beginnings of messages of all streams took the most \
                 that they may, {} bytes; shown are its first {kept}: raise `max_length` of `{name}` if they may \
                 take more",
                limits.together()
            )),
            Self::ForMemory => Error::bad_data(format_args!(
                "cannot complete a message of {length} bytes: its beginning was discarded, because the flow had \
                 reached its memory limit and no stream of `{name}` buffered more; raise `--memory-limit`, or limit the \
                 number of connections. Shown are its first {kept} bytes"
            )),
        }
    }
}
