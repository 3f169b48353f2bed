//! Limits for the unfinished messages of a splitter, and the errors of messages that exceed these limits.

use tremor_abi::batch::Rejected;

use crate::Error;

/// Maximum number of bytes of a message that its dead letter shows.
pub(super) const SHOWN: usize = Rejected::SHOWN;

/// Maximum size in bytes of the unfinished messages of all streams together. A larger `max_length` replaces this limit.
const TOGETHER: usize = 32 << 20;

/// Limits of one preprocessor.
pub(super) struct Limits {
    /// Name of the preprocessor in flow files.
    pub(super) name: &'static str,
    /// Maximum length of a message in bytes.
    pub(super) bytes: usize,
}

impl Limits {
    /// Number of bytes that are kept of the beginning of a message that is discarded for [`TooLong::Together`] or
    /// [`TooLong::ForMemory`]. As many bytes are kept of its end. Unfinished messages of up to twice this size are not
    /// counted, because every connection needs more memory than that.
    pub(super) const KEPT: usize = 64;

    /// Returns the maximum size in bytes of the unfinished messages of all streams together.
    pub(super) fn together(&self) -> usize {
        self.bytes.max(TOGETHER)
    }
}

/// Reason why a message was discarded.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum TooLong {
    /// The message exceeds the maximum length.
    Alone,
    /// The unfinished messages of all streams together exceed their limit.
    Together,
    /// The flow exceeds its memory limit.
    ForMemory,
}

impl TooLong {
    pub(super) fn error(self, length: usize, limits: &Limits) -> Error {
        let Limits { name, bytes: limit } = limits;
        let kept = Limits::KEPT;
        match self {
            Self::Alone => Error::bad_data(format_args!(
                "a message of {length} bytes is longer than `max_length` of `{name}`, {limit} bytes; the dead letter \
                 contains its first {SHOWN} bytes"
            )),
            Self::Together => Error::bad_data(format_args!(
                "cannot complete a message of {length} bytes: its beginning was discarded, because the unfinished \
                 messages of all streams had reached their limit of {} bytes; raise `max_length` of `{name}` to \
                 raise the limit. The dead letter contains its first {kept} bytes",
                limits.together()
            )),
            Self::ForMemory => Error::bad_data(format_args!(
                "cannot complete a message of {length} bytes: its beginning was discarded, because the flow had \
                 reached its memory limit and no stream of `{name}` buffered more; raise `--memory-limit`, or limit the \
                 number of connections. The dead letter contains its first {kept} bytes"
            )),
        }
    }
}
