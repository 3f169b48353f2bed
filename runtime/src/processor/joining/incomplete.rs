//! The calls that received the first bytes of incomplete lines.

use halfbrown::{DefaultHashBuilder, SizedHashMap};
use tremor_abi::batch::{Event, Rejected};

use super::FEW;

/// The calls that received the first bytes of incomplete lines, by stream.
///
/// A line may be received by several calls. The pulls of all these calls have bytes in the message that the line
/// becomes part of.
#[derive(Default)]
pub(super) struct IncompleteLines {
    since: SizedHashMap<u64, u64, DefaultHashBuilder, FEW>,
    /// Streams with input in the current call. May contain duplicates.
    inputs: Vec<u64>,
    /// Streams of which the current call rejected a line. May contain duplicates.
    rejected: Vec<u64>,
}

impl IncompleteLines {
    /// Begins a call with the fragments `input`, which are not yet split into lines.
    pub(super) fn begin_call(&mut self, input: &[Event]) {
        self.inputs.clear();
        self.inputs.extend(input.iter().map(|event| event.stream));
        self.inputs.dedup();
        self.rejected.clear();
    }

    /// Adds the lines that the current call rejected.
    pub(super) fn add_rejected(&mut self, rejected: &[Rejected]) {
        self.rejected.extend(rejected.iter().map(|it| it.event.stream));
    }

    /// Removes and returns the number of the call that received the first bytes of the incomplete line of `stream`.
    /// Returns `None` if the stream had no incomplete line before the current call.
    pub(super) fn take(&mut self, stream: u64) -> Option<u64> {
        if self.since.is_empty() { None } else { self.since.remove(&stream) }
    }

    /// Ends a call that emitted `lines`. `arrival` is the number of the call that received the input. `buffers` returns
    /// whether a stream has an incomplete line now.
    pub(super) fn end_call(
        &mut self,
        lines: &[Event],
        arrival: u64,
        buffers: impl Fn(u64) -> bool,
    ) {
        let emitted = lines.chunk_by(|a, b| a.stream == b.stream).map(|chunk| chunk[0].stream);
        for stream in emitted.chain(self.rejected.drain(..)) {
            // The incomplete line follows a line that the current call completed, so this input contains its first
            // byte.
            if buffers(stream) {
                self.since.insert(stream, arrival);
            } else {
                self.since.remove(&stream);
            }
        }
        for stream in self.inputs.drain(..) {
            if !buffers(stream) {
                self.since.remove(&stream);
            } else if !self.since.contains_key(&stream) {
                self.since.insert(stream, arrival);
            }
        }
    }

    /// Returns the number of the call that received the first bytes of the incomplete line of `stream`, if there is
    /// one.
    pub(super) fn since(&self, stream: u64) -> Option<u64> {
        self.since.get(&stream).copied()
    }
}
