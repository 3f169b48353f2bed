//! A pull of one file.

use super::identity::Ending;

/// Description of a pull of one file. The events of the pull are in the batch.
pub(super) struct PullInfo {
    pub(super) stream: u64,
    /// Position after the last whole message.
    pub(super) position: u64,
    /// Number of bytes that were read from the file; decompressed bytes if the file is compressed.
    pub(super) bytes: usize,
    /// Length of the file in bytes when the pull was read.
    pub(super) length: u64,
    /// `true` if the events end in a part of a message.
    pub(super) is_partial: bool,
    /// Hash of the bytes before `position`, if known.
    pub(super) ending: Option<Ending>,
    /// The previous stream of the file, if the file was truncated and that stream was aborted
    /// within a message.
    pub(super) cut_off: Option<u64>,
}
