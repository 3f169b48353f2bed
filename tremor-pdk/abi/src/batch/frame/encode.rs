//! Writing of frames.

use zerocopy::IntoBytes as _;

use super::{
    FrameError, Header, MAX_LEN, Medium,
    decode::Sections,
    flatten::Flat,
    gather::Gathered,
    known::{Seen, Side},
    source::Source,
};
use crate::{
    batch::{Batch, Event},
    document::Node,
};

/// A writer of frames for one medium. Reuse an encoder for several frames, because its lists keep the allocated
/// capacity, except that of unusually large batches.
///
/// If a batch has no edited values, writing it copies its events, nodes and bytes once, unchanged. Two kinds of batches
/// are copied event by event instead, without what no event refers to: batches whose events use less than half of their
/// buffers, as parts and filtered clones do, and batches for the disk with unedited events or forgotten messages.
pub struct Encoder {
    medium: Medium,
    limit: usize,
    flat: Flat,
    gathered: Gathered,
}

impl Encoder {
    /// Creates an encoder of frames for `medium`.
    pub fn new(medium: Medium) -> Self {
        Self::with_limit(medium, MAX_LEN)
    }

    /// Creates an encoder of frames of at most `limit` bytes; at most [`MAX_LEN`].
    pub fn with_limit(medium: Medium, limit: usize) -> Self {
        let limit = limit.min(MAX_LEN);
        Self { medium, limit, flat: Flat::default(), gathered: Gathered::default() }
    }

    /// Prepares the frame of a batch, whose length is then known. The batch must be valid; an invalid batch results in
    /// an error, or in a frame that [`decode`](super::decode()) rejects.
    ///
    /// # Errors
    /// - [`FrameError::TooManyEvents`] or [`FrameError::TooLong`]: pass the batch to [`divide`](super::divide()).
    /// - [`FrameError::Event`]: a record on disk must not contain the end of a stream, and no frame may contain an
    ///   event with a flag or a kind of payload that is unknown.
    /// - [`FrameError::Value`]: an edited value is nested deeper than
    ///   [`MAX_DEPTH`](crate::document::MAX_DEPTH).
    pub fn prepare<'e>(&'e mut self, batch: &'e Batch) -> Result<Prepared<'e>, FrameError> {
        let (source, seen) = self.flat.source(batch, self.medium)?;
        // A record contains no message that must not be shown, and no document of an unedited event.
        let is_selective = self.medium == Medium::Disk && (seen.is_unedited || seen.is_forgotten);
        if !is_selective && !source.is_sparse() {
            match Prepared::whole(source, None, seen, self.limit) {
                // Without contents that no event refers to, the frame may be short enough.
                Err(error) if error.is_too_large() => {}
                prepared => return prepared,
            }
        }
        self.gathered.fill(&source, self.medium, self.limit)?;
        Prepared::gathered(source, &self.gathered, seen, self.limit)
    }

    /// Prepares the frame of a batch to which a delta will be applied. Moves edited values of the batch to its buffers,
    /// which copies buffers that other batches share. Then the frame has exactly the nodes and bytes of the batch, so
    /// that the answer can be a delta on them: see [`apply_delta`](super::apply_delta). Do not change the batch until
    /// the answer arrives.
    ///
    /// # Errors
    /// Returns the same errors as [`Encoder::prepare`]; the events of the batch are then unchanged.
    pub fn prepare_call<'e>(
        &'e mut self,
        batch: &'e mut Batch,
    ) -> Result<Prepared<'e>, FrameError> {
        self.flat.flatten(batch)?;
        if Header::LEN + batch.flat_weight() > self.limit {
            // Without contents that no event refers to, the frame may be short enough.
            batch.compact_if_below(usize::MAX);
        }
        let (source, seen) = self.flat.source(batch, self.medium)?;
        Prepared::whole(source, None, seen, self.limit)
    }

    /// Prepares the answer to a call: a batch that was made from the frame `call`. If the buffers of the batch begin
    /// with the contents of that frame, which is usually the case, because edits append to them, the answer is a delta
    /// that contains only what follows. Otherwise the answer is a complete frame.
    ///
    /// # Errors
    /// Returns the same errors as [`Encoder::prepare`], and an error if `call` is not a complete frame.
    pub fn prepare_answer<'e>(
        &'e mut self,
        batch: &'e Batch,
        call: &[u8],
    ) -> Result<Prepared<'e>, FrameError> {
        let call = Sections::read(call)?;
        call.require_delta(false)?;
        // Contents are compared instead of addresses, because buffers move when they grow, and because a new buffer may
        // have the address of an earlier one.
        let begins = batch.nodes().as_bytes().starts_with(call.nodes)
            && batch.bytes().starts_with(call.bytes);
        if !begins {
            return self.prepare(batch);
        }
        let (source, seen) = self.flat.source(batch, self.medium)?;
        let bases = [call.nodes.len() / size_of::<Node>(), call.bytes.len()];
        Prepared::whole(source, Some(bases), seen, self.limit)
    }
}

impl Flat {
    /// Returns the contents of a batch with documents instead of edited values.
    fn source<'e>(
        &'e mut self,
        batch: &'e Batch,
        medium: Medium,
    ) -> Result<(Source<'e>, Seen), FrameError> {
        let events = batch.events();
        if events.len() > super::MAX_EVENTS {
            return Err(FrameError::TooManyEvents { events: events.len() });
        }
        let seen = Seen::of(events);
        seen.check(events, medium, Side::Writer)?;
        let halves = (batch.nodes(), batch.bytes());
        if !seen.is_in_table {
            let source = Source { events, nodes: [halves.0, &[]], bytes: [halves.1, &[]] };
            return Ok((source, seen));
        }
        self.fill(batch)?;
        let source = Source {
            events: &self.events,
            nodes: [halves.0, &self.nodes],
            bytes: [halves.1, &self.bytes],
        };
        Ok((source, seen))
    }
}

/// A frame whose contents and length are known and that is not written yet.
pub struct Prepared<'e> {
    header: Header,
    events: &'e [Event],
    nodes: [&'e [Node]; 2],
    source: Source<'e>,
    bytes: Bytes<'e>,
}

/// The bytes of a frame.
enum Bytes<'e> {
    /// The bytes of the source from an offset to the end.
    From(u64),
    /// Ranges of the bytes of the source.
    Pieces(&'e [(u64, u64)]),
}

impl<'e> Prepared<'e> {
    fn whole(
        source: Source<'e>,
        bases: Option<[usize; 2]>,
        seen: Seen,
        limit: usize,
    ) -> Result<Self, FrameError> {
        let [base_nodes, base_bytes] = bases.unwrap_or_default();
        let [first, second] = source.nodes;
        let nodes = [&first[base_nodes..], second];
        let bytes = source.bytes.iter().map(|half| half.len()).sum::<usize>() - base_bytes;
        let counts = [source.events.len(), nodes[0].len() + nodes[1].len(), bytes];
        let header = Header::new(seen.minor(nodes), counts, bases, limit)?;
        Ok(Self {
            header,
            events: source.events,
            nodes,
            source,
            bytes: Bytes::From(base_bytes as u64),
        })
    }

    fn gathered(
        source: Source<'e>,
        gathered: &'e Gathered,
        seen: Seen,
        limit: usize,
    ) -> Result<Self, FrameError> {
        let nodes = [&gathered.nodes[..], &[]];
        let bytes =
            usize::try_from(gathered.bytes).map_err(|_| FrameError::too_long(gathered.bytes))?;
        let counts = [gathered.events.len(), gathered.nodes.len(), bytes];
        let header = Header::new(seen.minor(nodes), counts, None, limit)?;
        let (events, bytes) = (&gathered.events[..], Bytes::Pieces(&gathered.pieces));
        Ok(Self { header, events, nodes, source, bytes })
    }

    /// Returns the length of the frame in bytes, which is a multiple of 8.
    #[allow(clippy::cast_possible_truncation)] // at most `MAX_LEN`
    pub const fn len(&self) -> usize {
        self.header.total_len as usize
    }

    /// Returns `false`, because every frame has a header.
    pub const fn is_empty(&self) -> bool {
        false
    }

    /// Returns the header of the frame, with number 0.
    pub const fn header(&self) -> Header {
        self.header
    }

    /// Writes the frame to `out`, whose length must be [`Prepared::len`]. `number` is the number of the call; for a
    /// record, pass 0, and call [`stamp`](super::stamp()) afterwards.
    ///
    /// # Errors
    /// Returns [`FrameError::Buffer`] if `out` has another length; then nothing is written.
    pub fn write(&self, number: u64, out: &mut [u8]) -> Result<(), FrameError> {
        if out.len() != self.len() {
            return Err(FrameError::Buffer { expected: self.len(), found: out.len() });
        }
        let mut left = out;
        self.put(number, |part| {
            // The parts have the length of the frame together, so each of them fits.
            if let Some(space) = left.split_off_mut(..part.len()) {
                space.copy_from_slice(part);
            }
        });
        debug_assert!(left.is_empty(), "the header counts every part");
        Ok(())
    }

    /// Appends the frame to `out`. The arguments are those of [`Prepared::write`].
    pub fn append_to(&self, number: u64, out: &mut Vec<u8>) {
        out.reserve(self.len());
        self.put(number, |part| out.extend_from_slice(part));
    }

    /// Calls `put` with all parts of the frame, in order.
    fn put(&self, number: u64, mut put: impl FnMut(&[u8])) {
        put(&Header { number, ..self.header }.to_bytes());
        put(self.events.as_bytes());
        self.nodes.iter().for_each(|half| put(half.as_bytes()));
        match self.bytes {
            Bytes::From(start) => self.source.put(start, self.source.bytes_len(), &mut put),
            Bytes::Pieces(pieces) => {
                pieces.iter().for_each(|(start, end)| self.source.put(*start, *end, &mut put));
            }
        }
        let bytes = self.header.bytes as usize;
        put(&[0; 8][..bytes.next_multiple_of(8) - bytes]);
    }
}
