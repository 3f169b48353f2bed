//! Methods of batches and outputs for hosts, in addition to those that authors use. A host accesses events by their
//! entry in the batch's list, stamps, bounds, decodes, encodes and checks. No type of this module crosses the boundary.

use super::{Batch, Event, Failed, Mark, Output, Payload, Pool, PortBatch, Rejected, Share, Span};
use crate::{
    ByteBuffer, NodeBuffer,
    document::{Node, ValueRef, Writer},
    error::PluginError,
    value::Value,
};

/// Declares the trait, and forwards each method to the one of the same name that the crate keeps to
/// itself.
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
    /// Methods of a [`Batch`] for hosts. Events are entries of this very batch's list.
    HostBatch for Batch;

    /// Returns an empty batch, whose buffers come from `pool` and return to it.
    fn from_pool[pool: &Pool]pool() -> Self;

    /// The events, in order.
    fn events[&self]self() -> &[Event];

    /// The events, to stamp: ids and times.
    fn events_mut[&mut self]self() -> &mut [Event];

    /// The nodes of all documents.
    fn nodes[&self]self() -> &[Node];

    /// Bytes that the byte buffer holds without growing.
    fn byte_capacity[&self]self() -> usize;

    /// The bytes of a raw payload; `None` where the payload is a value, or there is none.
    fn raw[&self]self(event: &Event) -> Option<&[u8]>;

    /// The payload as a value; `None` where it is raw, or there is none.
    fn value[&self]self(event: &Event) -> Option<ValueRef<'_>>;

    /// The bytes that the event was decoded from; empty where there were none.
    fn original[&self]self(event: &Event) -> &[u8];

    /// Where the event came from in the connector's own words: a path, a peer's address.
    fn origin[&self]self(event: &Event) -> Option<&str>;

    /// What is known about the event besides its payload; usually nothing.
    fn metadata[&self]self(event: &Event) -> Option<ValueRef<'_>>;

    /// Gives the event at `position` metadata in place of what it had.
    ///
    /// # Panics
    /// Where there is no such event.
    fn set_metadata[&mut self]self(position: usize, metadata: Value<'static>);

    /// The metadata of the event at `position`, to edit: an empty object where there was none.
    /// Others that shared it keep theirs.
    ///
    /// # Panics
    /// Where there is no such event.
    fn metadata_mut[&mut self]self(position: usize) -> &mut Value<'static>;

    /// Gives the event at `position` metadata in place of what it had: what `write` writes, straight
    /// into the batch's document. Nothing is allocated for it, unless the buffers are shared with
    /// another batch.
    ///
    /// # Errors
    /// Internal, where `write` does not write exactly one value; the event keeps what it had.
    ///
    /// # Panics
    /// Where there is no such event.
    fn write_metadata[&mut self]self(position: usize, write: impl FnOnce(&mut Writer<'_>)) -> Result<(), PluginError>;

    /// The payload of the event at `position`, to edit. The first edit turns this event, and no
    /// other, from a part of the document into a value of its own. `None` where the payload is
    /// raw or there is none.
    ///
    /// # Panics
    /// Where there is no such event.
    fn value_mut[&mut self]self(position: usize) -> Option<&mut Value<'static>>;

    /// Decodes every raw payload: `decode` appends a document to the buffers and returns its root.
    /// Events that it fails on, and those that become more than [`Batch::decoded_at_most`], are
    /// taken out and returned.
    ///
    /// Once the batch is heavy, what is left stays as it is: see [`HostBatch::take_undecoded`].
    fn decode_with[&mut self]self(
        decode: impl FnMut(&mut ByteBuffer, &mut NodeBuffer, Span) -> Result<u32, PluginError>
    ) -> Vec<Rejected>;

    /// Encodes every value into the buffer of a new batch with the same events in the same order,
    /// metadata and origins included.
    /// Events that `encode` fails on are taken out of both and returned.
    fn encode_with[&mut self]self(
        pool: &Pool,
        encode: impl FnMut(Payload<'_>, &mut ByteBuffer) -> Result<(), PluginError>
    ) -> (Batch, Vec<Rejected>);

    /// As [`HostBatch::encode_with`], into a batch that is empty.
    fn encode_into[&mut self]self(
        encoded: &mut Batch,
        encode: impl FnMut(Payload<'_>, &mut ByteBuffer) -> Result<(), PluginError>
    ) -> Vec<Rejected>;

    /// How much of the batch's memory an event takes, in bytes: what it was decoded from, where
    /// that is known, and otherwise its raw payload, or the text and data of its value and 16 for
    /// each value in it.
    fn size_of[&self]self(event: &Event) -> usize;

    /// The events at these positions, in this order, as a batch that shares this one's buffers.
    ///
    /// # Panics
    /// Where there is no such event.
    fn pick[&self]self(positions: &[usize]) -> Batch;

    /// Divides the batch into batches of so many events each, in order, which share its buffers. What was
    /// edited is moved, not copied.
    fn divide[self]self(counts: &[usize]) -> Vec<Batch>;

    /// How much memory the batch's contents take, in bytes, edited values included: what batches
    /// and queues are bounded by. It takes time linear in the edited values, of which there mostly
    /// are none.
    fn weight[&self]self() -> usize;

    /// About how much of the batch's weight is this event's, in bytes.
    fn weight_of[&self]self(event: &Event) -> usize;

    /// Whether the batch weighs more than one of several events should.
    fn is_heavy[&self]self() -> bool;

    /// Gives up what the batch holds besides what its events refer to, where that is most of it and
    /// much.
    fn shed[&mut self]self();

    /// How much memory the batch keeps, in bytes: of buffers that it shares with others, its share. The shares
    /// of all who have them come to the whole, and what is left of a batch alone keeps all of it. As
    /// [`HostBatch::weight`], but that buffers count which are much larger than what is in them.
    fn held[&self]self() -> usize;

    /// Returns the memory that the batch takes while it waits, in bytes: as [`HostBatch::weight`], but with buffers
    /// that are larger than their contents, event lists, and the headers of all of these. Buffers that other
    /// batches share count in full. It takes time linear in the edited values.
    fn footprint[&self]self() -> usize;

    /// Gives up what the batch holds besides what its events refer to, where that is most of it.
    fn let_go[&mut self]self();

    /// After [`HostBatch::decode_with`], or a codec: the events that were not decoded any more since the
    /// batch was heavy by then, as a batch of their own.
    fn take_undecoded[&mut self]self() -> Option<Batch>;

    /// Checks that every event points to what the batch has: raw payloads to its bytes, documents
    /// to nodes that make up a valid value, everything else to its table of values. The host does
    /// so once for every batch that a plugin filled.
    ///
    /// It takes time linear in the events and the nodes of documents, none for raw payloads.
    ///
    /// # Errors
    /// Kind internal: the plugin's code made a batch that cannot be.
    fn validate[&self]self() -> Result<(), PluginError>;

    /// Remembers what a batch that is known to be valid has, before a plugin gets it.
    fn mark[&self]self(mark: &mut Mark);

    /// As [`HostBatch::validate`], for a batch that was valid when it was marked, or a part of it: only
    /// what no event referred to then is looked at.
    ///
    /// # Errors
    /// As [`HostBatch::validate`].
    fn validate_changes[&self]self(mark: &Mark) -> Result<(), PluginError>;
}

host_side! {
    /// Methods of an [`Output`] for hosts, which number the batches of a call and take its results.
    HostOutput for Output;

    /// Sets the number of the batch of the next call, which [`Buffered`](super::Buffered) remembers; 0 if the host does
    /// not number batches. Removes what was absorbed and released, and was not taken.
    fn begin[&mut self]self(batch: u64);

    /// Takes the number of events of the batch of this call that were absorbed.
    fn take_absorbed[&mut self]self() -> u64;

    /// Takes the events that are not buffered any more.
    fn take_released[&mut self]self() -> impl Iterator<Item = Share> + '_;

    /// Takes the buffered events that could not be handled.
    fn take_failed[&mut self]self() -> impl Iterator<Item = Failed> + '_;

    /// Takes the batches that leave by ports.
    fn take_ports[&mut self]self() -> impl Iterator<Item = PortBatch> + '_;

    /// Takes the events that could not be handled.
    fn take_rejected[&mut self]self() -> Vec<Rejected>;

    /// Takes the number of events that were dropped on purpose.
    fn take_discarded[&mut self]self() -> usize;

    /// Takes the number of events that were created.
    fn take_created[&mut self]self() -> usize;

    /// Takes the number of events that have become parts of others.
    fn take_merged[&mut self]self() -> usize;

    /// Returns all batches that leave: those of ports, and those of buffered events that could not be handled.
    fn all_batches[&self]self() -> impl Iterator<Item = &Batch>;
}
