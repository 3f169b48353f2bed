//! The contents of a frame to be written: the buffers of a batch, followed by documents for its edited values.

use super::FrameError;
use crate::{
    batch::{Batch, Event, PayloadKind, append::subtree, event::Location},
    document::Node,
};

/// Events with the two halves of their buffers. Indices of nodes and offsets of bytes continue from the first half to
/// the second.
#[derive(Clone, Copy)]
pub(super) struct Source<'b> {
    pub(super) events: &'b [Event],
    pub(super) nodes: [&'b [Node]; 2],
    pub(super) bytes: [&'b [u8]; 2],
}

impl<'b> Source<'b> {
    /// Returns the nodes of the value at `root`, which are all in one half. The result ends with that half if the root
    /// specifies more nodes than exist, and is empty if the root does not exist.
    pub(super) fn subtree(&self, root: u32) -> &'b [Node] {
        let [first, second] = self.nodes;
        match (root as usize).checked_sub(first.len()) {
            None => &first[subtree(first, root as usize)],
            Some(root) => &second[subtree(second, root)],
        }
    }

    /// Returns the number of bytes of both halves.
    pub(super) fn bytes_len(&self) -> u64 {
        self.bytes.iter().map(|half| half.len() as u64).sum()
    }

    /// Calls `put` with the bytes in `start..end`, in one or two slices.
    pub(super) fn put(&self, start: u64, end: u64, put: &mut impl FnMut(&[u8])) {
        let [first, second] = self.bytes;
        let middle = first.len() as u64;
        let slice = |half: &'b [u8], start: u64, end: u64| {
            let range = usize::try_from(start).ok()?..usize::try_from(end).ok()?;
            half.get(range)
        };
        if start < middle {
            put(slice(first, start, end.min(middle)).unwrap_or_default());
        }
        if end > middle {
            let part = slice(second, start.saturating_sub(middle), end - middle);
            put(part.unwrap_or_default());
        }
    }

    /// Returns whether the events use less than half of the buffers, so that copying only what they use is worthwhile.
    ///
    /// The answer for the batch that a frame is decoded to is the same as for the batch from which it was written.
    /// Therefore writing the decoded batch again results in the same frame.
    pub(super) fn is_sparse(&self) -> bool {
        let nodes = self.nodes.iter().map(|half| half.len()).sum::<usize>() * size_of::<Node>();
        let events = size_of_val(self.events) as u64;
        let total = self.bytes_len() + nodes as u64 + events;
        // Usually the messages and the numbers of nodes are enough to know that most of the buffers is used. Only
        // otherwise the text of all nodes is counted.
        let messages = |count: &dyn Fn(u32, Option<&Event>) -> u64| {
            let (mut used, mut next) = (events, [0; 2]);
            for event in self.events {
                used += u64::from(event.original.len);
                match event.kind {
                    PayloadKind::RAW if event.payload.word() != event.original.word() => {
                        used += u64::from(event.payload.len);
                    }
                    PayloadKind::DOCUMENT => used += count(event.payload.start, Some(event)),
                    _ => {}
                }
                for (word, next) in [event.metadata, event.origin].into_iter().zip(&mut next) {
                    // Events may share metadata in any order. It counts once, because only a root after those of the
                    // earlier events counts.
                    if let Some(root) = Location::new(word).root().filter(|root| root >= next) {
                        used = used.saturating_add(count(root, None));
                        *next = root + 1;
                    }
                }
            }
            used
        };
        let nodes_of = |root, _: Option<&Event>| size_of_val(self.subtree(root)) as u64;
        let is_used = |used: u64| used >= total.div_ceil(2);
        if is_used(messages(&nodes_of)) {
            return false;
        }
        let all_of = |root, event: Option<&Event>| {
            let nodes = self.subtree(root);
            let known = event.map(|event| event.original.range()).unwrap_or_default();
            let data = nodes.iter().filter(|node| node.kind().has_data()).map(|node| {
                let is_known = node
                    .data()
                    .is_some_and(|data| known.start <= data.start && data.end <= known.end);
                if is_known { 0 } else { u64::from(node.len()) }
            });
            data.fold(size_of_val(nodes) as u64, u64::saturating_add)
        };
        !is_used(messages(&all_of))
    }
}

/// Maximum capacity in bytes that a list of an encoder keeps for the next batch, so that one huge batch does not occupy
/// memory permanently.
pub(super) const MAX_RETAINED_BYTES: usize = 2 * Batch::WEIGHT_AT_MOST;

/// Empties a list, and frees its memory if it is unusually large.
pub(super) fn reset<T>(list: &mut Vec<T>) {
    if list.capacity().saturating_mul(size_of::<T>()) > MAX_RETAINED_BYTES {
        *list = Vec::new();
    }
    list.clear();
}

/// Returns the error for an event that refers to bytes outside of its batch.
#[cold]
pub(super) fn outside(position: usize) -> FrameError {
    let fault = "refers to bytes outside of its batch; validate the batch before writing it";
    FrameError::Event { position, fault: fault.to_owned() }
}
