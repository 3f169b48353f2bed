//! A pull of one file.

use memchr::memmem;
use tremor_pdk::RawBatch;

use super::identity::Ending;

/// Description of a pull of one file. The events of the pull are in the batch.
pub(super) struct PullInfo {
    pub(super) stream: u64,
    /// Position after the last whole message.
    pub(super) position: u64,
    /// Positions after the events of the pull, if it has several; the last one is `position`.
    pub(super) ends: Vec<u64>,
    /// Number of bytes that were read from the file; decompressed bytes if the file is compressed.
    pub(super) bytes: usize,
    /// Length of the file in bytes when the pull was read.
    pub(super) length: u64,
    /// `true` if the events end in a part of a message.
    pub(super) is_partial: bool,
    /// Hashes of the bytes before `ends`, or before `position` if `ends` is empty and the hash is known.
    pub(super) endings: Vec<Ending>,
    /// The previous stream of the file, if the file was truncated and that stream was aborted
    /// within a message.
    pub(super) cut_off: Option<u64>,
}

/// Divides the only event of a pull after messages, so that the pull can be acknowledged in parts of at
/// least `least` bytes.
pub(super) fn divide(batch: &mut RawBatch, message_end: &[u8], least: usize) {
    let Some(event) = batch.get(0).filter(|_| batch.len() == 1) else { return };
    let (bytes, mut ends) = (event.raw(), Vec::new());
    let (mut begin, mut at) = (0, 0);
    // A search for each message would take longer. The matches of a longer terminator may overlap, so it is searched from
    // each match on.
    let skipped = if message_end.len() == 1 { least.saturating_sub(1) } else { 0 };
    while let Some(rest) = bytes.get(at + skipped..)
        && let Some(found) = memmem::find(rest, message_end)
    {
        at = bytes.len() - rest.len() + found + message_end.len();
        if at - begin >= least {
            begin = at;
            ends.push(at);
        }
    }
    batch.divide_last_fragment(ends);
}

/// Returns the positions after the events of a pull that ends at `position`. Returns nothing if the pull has a single event
/// or the end of a stream.
pub(super) fn ends(batch: &RawBatch, position: u64) -> Vec<u64> {
    let lengths: Vec<_> = batch.iter().map(|event| event.raw().len() as u64).collect();
    let Some(mut end) = position.checked_sub(lengths.iter().sum()) else { return Vec::new() };
    if lengths.len() < 2 || lengths.len() != batch.len() {
        return Vec::new();
    }
    let after = |length: u64| {
        end += length;
        end
    };
    lengths.into_iter().map(after).collect()
}

/// Returns the hashes of the bytes before `ends`, the positions after the events of a pull.
pub(super) fn endings(batch: &RawBatch, ends: &[u64]) -> Vec<Ending> {
    let mut before = Vec::new();
    let events = batch.iter().zip(ends);
    events.map(|(event, end)| Ending::after(&mut before, event.raw(), *end)).collect()
}
