//! Methods of batches and outputs for hosts, in addition to the methods for authors. With these methods, a host sets
//! the sources, pulls and times of events, decodes, encodes and validates them, and limits memory. No type of this
//! module is part of the ABI.

use std::ops::Range;

use super::{
    Batch, CarriedFields, Claims, Event, Extent, Failed, Format, Mark, MetadataFields, Output,
    Payload, Pool, PortBatch, Rejected, Share, Span,
};
use crate::{
    ByteBuffer, NodeBuffer,
    document::{Node, ValueRef, Writer},
    error::PluginError,
    value::Value,
};

/// Declares the trait, and forwards each method to the private method of the same name.
macro_rules! host_side {
    ($(#[$about:meta])* $trait:ident for $subject:ty;
    $($(#[$doc:meta])* fn $name:ident[$($receiver:tt)+]$this:ident($($argument:ident: $type:ty),*) $(-> $result:ty)?;)*) => {
        $(#[$about])*
        pub trait $trait {
            $($(#[$doc])* fn $name($($receiver)+ $(, $argument: $type)*) $(-> $result)?;)*
        }

        impl $trait for $subject {
            $(
                #[inline]
                fn $name($($receiver)+ $(, $argument: $type)*) $(-> $result)? {
                    Self::$name($this $(, $argument)*)
                }
            )*
        }
    };
}

host_side! {
    /// Methods of a [`Batch`] for hosts. Arguments called `event` must come from [`HostBatch::events`] of the same
    /// batch.
    HostBatch for Batch;

    /// Returns an empty batch, whose buffers come from `pool` and return to it.
    fn from_pool[pool: &Pool]pool() -> Self;

    /// Returns the events, in order.
    fn events[&self]self() -> &[Event];

    /// Returns the events for editing, so that the host can set their sources, pulls and times.
    fn events_mut[&mut self]self() -> &mut [Event];

    /// Replaces the events. Every event must refer to contents of this batch.
    fn set_events[&mut self]self(events: &[Event]);

    /// Appends `data` to the bytes of the batch, for [`Event::with_raw`]. Returns the range of the copy, or `None` if
    /// the batch would reach 4 GiB.
    fn append_bytes[&mut self]self(data: &[u8]) -> Option<Span>;

    /// Appends a document, whose nodes are the concatenation of `parts`, for [`Event::set_metadata_node`]. Returns the
    /// index of its root node, or `None` if the batch has too many nodes.
    fn append_nodes[&mut self]self(parts: &[&[Node]]) -> Option<u32>;

    /// Returns a copy of `event`, an event of the batch `from`, with copies of its metadata and its origin in this
    /// batch. The payload of the result is empty. The event is not added to the batch.
    fn adopt[&mut self]self(from: &Batch, event: &Event) -> Event;

    /// Returns the nodes of all documents.
    fn nodes[&self]self() -> &[Node];

    /// Returns the capacity of the byte buffer, in bytes.
    fn byte_capacity[&self]self() -> usize;

    /// Returns the bytes of a raw payload, or `None` if the payload is a value or the event has none.
    fn raw[&self]self(event: &Event) -> Option<&[u8]>;

    /// Returns the payload as a value, or `None` if the payload is raw or the event has none.
    fn value[&self]self(event: &Event) -> Option<ValueRef<'_>>;

    /// Returns the bytes that the event was decoded from; empty if it was not decoded from bytes.
    fn original[&self]self(event: &Event) -> &[u8];

    /// Returns the origin of the event, a text that the connector chooses, such as a path or the address of a peer.
    fn origin[&self]self(event: &Event) -> Option<&str>;

    /// Returns the metadata: information about the event besides its payload.
    fn metadata[&self]self(event: &Event) -> Option<ValueRef<'_>>;

    /// Replaces the metadata of the event at `position`.
    ///
    /// # Panics
    /// Panics if the batch has no such position.
    fn set_metadata[&mut self]self(position: usize, metadata: Value<'static>);

    /// Returns the metadata of the event at `position` for editing, which is an empty object if the event had no
    /// metadata. The metadata of other events stays unchanged.
    ///
    /// # Panics
    /// Panics if the batch has no such position.
    fn metadata_mut[&mut self]self(position: usize) -> &mut Value<'static>;

    /// Replaces the metadata of the event at `position` with the value that `write` writes directly into the batch's
    /// document. Memory is allocated only if the buffers grow, or are shared with another batch.
    ///
    /// # Errors
    /// Returns an error of kind "internal" if `write` does not write exactly one value; the event then keeps its
    /// metadata.
    ///
    /// # Panics
    /// Panics if the batch has no such position.
    fn write_metadata[&mut self]self(position: usize, write: impl FnOnce(&mut Writer<'_>)) -> Result<(), PluginError>;

    /// Adds fields to the metadata of all events, with the same result as [`EventMut::add_metadata`] for each of them.
    /// Consecutive events with the same metadata share one copy.
    ///
    /// # Errors
    /// Returns the first error; an event with an error keeps its metadata.
    ///
    /// [`EventMut::add_metadata`]: super::EventMut::add_metadata
    fn add_metadata_to_all[&mut self]self(fields: &MetadataFields) -> Result<(), PluginError>;

    /// Returns a batch that contains only a copy of `event`, with separate buffers.
    fn copy_of[&self]self(event: &Event) -> Batch;

    /// Copies the metadata and the origins of events of the batch `from` to the events of this batch, in order.
    /// Consecutive events with the same metadata share one copy.
    fn inherit[&mut self]self(from: &Batch, events: &[Event]);

    /// Returns the payload of the event at `position` for editing, or `None` if the payload is raw or the event has
    /// none. The first call converts the payload of this event to a [`Value`]; the other events of the batch stay
    /// unchanged.
    ///
    /// # Panics
    /// Panics if the batch has no such position.
    fn value_mut[&mut self]self(position: usize) -> Option<&mut Value<'static>>;

    /// Decodes every raw payload: `decode` appends a document to the buffers and returns its root. Removes and returns
    /// the events on which `decode` fails, and the events whose decoded form exceeds [`Batch::decoded_at_most`].
    ///
    /// Once the batch [is heavy](HostBatch::is_heavy), the remaining events stay raw: see
    /// [`HostBatch::take_undecoded`].
    fn decode_with[&mut self]self(
        decode: impl FnMut(&mut ByteBuffer, &mut NodeBuffer, Span) -> Result<u32, PluginError>
    ) -> Vec<Rejected>;

    /// Decodes as [`HostBatch::decode_with`] does. If `decode` also returns a format, the message can later leave as it
    /// came: its [`Payload`] refers to the message until the event is edited.
    fn decode_as[&mut self]self(
        decode: impl FnMut(
            &mut ByteBuffer,
            &mut NodeBuffer,
            Span,
        ) -> Result<(u32, Option<Format>), PluginError>
    ) -> Vec<Rejected>;

    /// Encodes every value into the buffer of a new batch with the same events in the same order, including metadata
    /// and origins. Events on which `encode` fails are removed from both batches and returned.
    fn encode_with[&mut self]self(
        pool: &Pool,
        encode: impl FnMut(Payload<'_>, &mut ByteBuffer) -> Result<(), PluginError>
    ) -> (Batch, Vec<Rejected>);

    /// Encodes as [`HostBatch::encode_with`] does, into `encoded`, which must be empty.
    fn encode_into[&mut self]self(
        encoded: &mut Batch,
        encode: impl FnMut(Payload<'_>, &mut ByteBuffer) -> Result<(), PluginError>
    ) -> Vec<Rejected>;

    /// Returns the messages of a batch whose payloads are all unedited, as a batch that shares the buffers of this
    /// batch. `message` returns the range of the message in the bytes of the batch, including what a receiver needs to
    /// find its end. Returns `None` if a payload was edited, or if `message` returns `None`.
    fn share_messages[&self]self(message: impl FnMut(Payload<'_>) -> Option<Range<usize>>) -> Option<Batch>;

    /// Adds fields of the payloads of `from` to the metadata of the events of this batch, which are the same events,
    /// encoded. The metadata keeps its other keys. A missing field is left out. In place of an array, an object or
    /// binary data there is an empty one, and in place of a text that is too long there is an object with its length,
    /// as `length`.
    ///
    /// Messages that share their buffers with another batch are copied to a batch of `pool`, unless they are large.
    fn carry[&mut self]self(from: &Batch, pool: &Pool, fields: &CarriedFields);

    /// Returns the size of an event in bytes. The size is the length of the bytes that the event was decoded from, if
    /// they are known. Otherwise the size is the length of the raw payload, or the length of the text and data of the
    /// value plus 16 for each node of the value.
    fn size_of[&self]self(event: &Event) -> usize;

    /// Returns the sum of the sizes of all events in bytes: see [`HostBatch::size_of`].
    fn size_of_all[&self]self() -> usize;

    /// Returns the events at `positions`, in this order, as a batch that shares the buffers of this batch.
    ///
    /// # Panics
    /// Panics if the batch has no such position.
    fn pick[&self]self(positions: &[usize]) -> Batch;

    /// Divides the batch, in order, into batches that share its buffers; batch `i` has `counts[i]` events. Edited
    /// values are moved instead of copied.
    fn divide[self]self(counts: &[usize]) -> Vec<Batch>;

    /// Returns the maximum size in bytes of what a component of a plugin may write for the events of the batch: 64 MiB,
    /// or eight times the weight of the batch if that is more.
    fn output_at_most[&self]self() -> usize;

    /// Returns the memory of the batch's contents in bytes, including edited values. The limits of batches and queues
    /// apply to this weight. The call takes time linear in the number of nodes of edited values; most batches have
    /// none.
    fn weight[&self]self() -> usize;

    /// Returns an estimate of the part of the batch's weight that `event` accounts for, in bytes.
    fn weight_of[&self]self(event: &Event) -> usize;

    /// Returns whether the weight of the batch exceeds [`Batch::WEIGHT_AT_MOST`].
    fn is_heavy[&self]self() -> bool;

    /// Copies the contents that the events refer to into new buffers and releases the old buffers, if most of the old
    /// buffers is unused and the unused part is large.
    fn compact_if_large[&mut self]self();

    /// Copies the contents that the events refer to into new buffers and releases the old buffers, if the events use
    /// less than half of the old buffers.
    fn compact_sparse[&mut self]self();

    /// Calls [`HostBatch::compact_sparse`] if the buffers contain more than `limit` bytes and `limit` is not 0. If they
    /// contain more than `limit` bytes, then sets `limit` to twice the bytes that remain. A batch that components edit
    /// repeatedly is therefore read in full only each time that its size has doubled.
    fn compact_if_grown[&mut self]self(limit: &mut usize);

    /// Returns the memory of the events and edited values in bytes, without the buffers.
    fn weight_without_buffers[&self]self() -> usize;

    /// Returns whether this batch and `other` share their buffers.
    fn has_buffers_of[&self]self(other: &Batch) -> bool;

    /// Returns whether another batch shares the buffers. If so, the first edit copies them.
    fn shares_buffers[&self]self() -> bool;

    /// Returns the memory that the batch retains, in bytes. Unlike [`HostBatch::weight`], this includes unused capacity
    /// of buffers that are much larger than their contents. The memory of buffers that `n` batches share is divided by
    /// `n`, so that the results of these batches add up to the whole.
    fn retained_bytes[&self]self() -> usize;

    /// Returns the memory that the batch occupies, for example in a queue, in bytes. In addition to
    /// [`HostBatch::weight`], this includes unused capacity of buffers that are larger than their contents, lists of
    /// events, and the headers of the buffers. Buffers that are shared with other batches count in full. The call takes
    /// time linear in the number of nodes of edited values.
    fn footprint[&self]self() -> usize;

    /// Copies the contents that the events refer to into new buffers and releases the old buffers, if most of the old
    /// buffers is unused.
    fn compact[&mut self]self();

    /// Removes the events that [`HostBatch::decode_with`] or a codec left undecoded because the batch was heavy, and
    /// returns them in a new batch.
    fn take_undecoded[&mut self]self() -> Option<Batch>;

    /// Checks that every event points to contents of the batch: raw payloads to the bytes, documents to nodes that form
    /// a valid value, all other payloads to the table of values. The host validates every batch that a plugin filled.
    ///
    /// The call takes time linear in the number of events and nodes. The contents of raw payloads are not read. Returns
    /// the claims of events, for [`HostBatch::confirm`].
    ///
    /// # Errors
    /// Returns an error of kind "internal" if the plugin's code created an invalid batch.
    fn validate[&self]self() -> Result<Claims, PluginError>;

    /// Returns the extent of the batch, for [`HostBatch::has_extent`].
    fn extent[&self]self() -> Extent;

    /// Returns whether the batch, which had `extent` before a call, still has all of its events, and none of them has
    /// another payload or other metadata. Returns `false` if the batch has values that can be edited in place.
    fn has_extent[&self]self(extent: &Extent) -> bool;

    /// Records the contents of the batch in `mark`. Call this method before a plugin receives the batch, which must be
    /// valid.
    fn mark[&self]self(mark: &mut Mark);

    /// Validates a batch, or a part of it, that was valid when it was marked. Only contents that no event referred to
    /// at that time are checked. Returns the claims of events that changed, for [`HostBatch::confirm`].
    ///
    /// # Errors
    /// Returns the same errors as [`HostBatch::validate`].
    fn validate_changes[&self]self(mark: &Mark) -> Result<Claims, PluginError>;

    /// Calls `is_true` for each claim of a validated batch that an event is unedited: with the format, the message that
    /// the event was decoded from, and its payload. The events for which it returns `false` count as edited.
    fn confirm[&mut self]self(claims: &Claims, is_true: impl FnMut(Format, &[u8], ValueRef<'_>) -> bool);
}

host_side! {
    /// Methods of an [`Output`] for hosts. With these methods, a host numbers the batches and takes the results of
    /// calls.
    HostOutput for Output;

    /// Sets the number of the batch of the next call, which [`Buffered`](super::Buffered) records; 0 if the host does
    /// not number batches. Discards absorbed and released events of earlier calls that were not taken.
    fn begin[&mut self]self(batch: u64);

    /// Takes the number of events that were absorbed in this call.
    fn take_absorbed[&mut self]self() -> u64;

    /// Takes the numbers of events that are no longer buffered, by the batch in which they arrived.
    fn take_released[&mut self]self() -> impl Iterator<Item = Share> + '_;

    /// Takes the buffered events that could not be processed.
    fn take_failed[&mut self]self() -> impl Iterator<Item = Failed> + '_;

    /// Takes the batches that leave by ports.
    fn take_ports[&mut self]self() -> impl Iterator<Item = PortBatch> + '_;

    /// Takes the events that could not be processed.
    fn take_rejected[&mut self]self() -> Vec<Rejected>;

    /// Takes the number of events that were dropped on purpose.
    fn take_discarded[&mut self]self() -> usize;

    /// Takes the number of events that were created.
    fn take_created[&mut self]self() -> usize;

    /// Takes the number of events that were merged into others.
    fn take_merged[&mut self]self() -> usize;

    /// Returns all batches that leave: those of ports, and those of buffered events that could not be processed.
    fn all_batches[&self]self() -> impl Iterator<Item = &Batch>;

    /// Returns all batches that leave, as [`HostOutput::all_batches`] does, for editing.
    fn all_batches_mut[&mut self]self() -> impl Iterator<Item = &mut Batch>;
}
