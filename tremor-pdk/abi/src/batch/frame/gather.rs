//! Selection of what the events of a batch refer to, for a frame that contains nothing else.

use std::{collections::HashMap, ops::Range};

use super::{
    FrameError, Medium,
    source::{Source, outside, reset},
};
use crate::{
    batch::{
        Event, PayloadKind, Span,
        event::{IN_NODES, Location},
    },
    document::Node,
};

/// Maximum capacity of the map of locations that is kept for the next batch.
const MAX_LOCATIONS: usize = 1 << 16;

/// The events and nodes of a frame with their new locations, and the ranges of the source from which the frame's bytes
/// are copied.
#[derive(Default)]
pub(super) struct Gathered {
    pub(super) events: Vec<Event>,
    pub(super) nodes: Vec<Node>,
    /// Ranges of the bytes of the source, in the order in which the frame contains them.
    pub(super) pieces: Vec<(u64, u64)>,
    /// Sum of the lengths of the pieces.
    pub(super) bytes: u64,
    /// Locations of metadata and origins in the source, each with its location in the frame.
    located: HashMap<u32, u32>,
    /// The last entry that was used for metadata, and the last one for an origin.
    last: [(u32, u32); 2],
}

impl Gathered {
    pub(super) fn fill(
        &mut self,
        source: &Source<'_>,
        medium: Medium,
        limit: usize,
    ) -> Result<(), FrameError> {
        reset(&mut self.events);
        reset(&mut self.nodes);
        reset(&mut self.pieces);
        self.bytes = 0;
        // A map of locations takes about 12 bytes an entry.
        if self.located.capacity() > MAX_LOCATIONS {
            self.located = HashMap::new();
        }
        self.located.clear();
        self.last = [(0, 0); 2];
        self.events.reserve(source.events.len());
        for (position, event) in source.events.iter().enumerate() {
            let event = Gather { source, position, limit, to: self }.event(*event, medium)?;
            self.events.push(event);
        }
        Ok(())
    }
}

/// Adds one event.
struct Gather<'g, 's> {
    source: &'g Source<'s>,
    position: usize,
    /// Maximum length of the frame, in bytes.
    limit: usize,
    to: &'g mut Gathered,
}

impl Gather<'_, '_> {
    fn event(&mut self, event: Event, medium: Medium) -> Result<Event, FrameError> {
        let mut new = event;
        let is_unedited = medium == Medium::Disk && event.unedited().is_some();
        // A value cannot be decoded from nothing, so an event without a message has a wrong flag.
        if is_unedited && event.original.len == 0 {
            new.set_edited();
        }
        if is_unedited && event.original.len > 0 {
            (new.kind, new.payload) = (PayloadKind::RAW, self.span(event.original)?);
            new.original = Span::default();
        } else {
            if !event.is_forgotten() {
                new.original = self.span(event.original)?;
            }
            match event.kind {
                PayloadKind::RAW if event.payload == event.original => new.payload = new.original,
                PayloadKind::RAW => new.payload = self.span(event.payload)?,
                PayloadKind::DOCUMENT => {
                    let known = if event.is_forgotten() { 0..0 } else { event.original.range() };
                    let known = (&known, new.original.start.into());
                    new.payload.start = self.document(event.payload.start, known)?;
                }
                _ => {}
            }
        }
        new.metadata = self.located(0, event.metadata)?;
        new.origin = self.located(1, event.origin)?;
        Ok(new)
    }

    /// Returns the location of a copy of the metadata or the origin at `word`. All events that share it share the copy.
    fn located(&mut self, field: usize, word: u32) -> Result<u32, FrameError> {
        let Some(root) = Location::new(word).root() else { return Ok(0) };
        if self.to.last[field].0 == word {
            return Ok(self.to.last[field].1);
        }
        let copy = match self.to.located.get(&word) {
            Some(copy) => *copy,
            None => {
                let copy = (self.document(root, (&(0..0), 0))? + 1) | IN_NODES;
                self.to.located.insert(word, copy);
                copy
            }
        };
        self.to.last[field] = (word, copy);
        Ok(copy)
    }

    /// Adds a range of bytes. An empty range becomes the empty range at 0.
    fn span(&mut self, span: Span) -> Result<Span, FrameError> {
        if span.len == 0 {
            return Ok(Span::default());
        }
        let Range { start, end } = span.range();
        let start = self.piece(start as u64, end as u64)?;
        // A frame is far shorter than 4 GiB.
        let start = u32::try_from(start).map_err(|_| self.too_long(start))?;
        Ok(Span { start, len: span.len })
    }

    /// Adds the value at `root` and returns its new root. `known` is a range of the source that was added before, and
    /// the offset at which it was added.
    fn document(
        &mut self,
        root: u32,
        (known, known_at): (&Range<usize>, u64),
    ) -> Result<u32, FrameError> {
        let nodes = self.source.subtree(root);
        let new = self.to.nodes.len();
        let size = (new + nodes.len()) * size_of::<Node>();
        if size > self.limit {
            return Err(self.too_long(size as u64));
        }
        let known = known.start as u64..known.end as u64;
        self.to.nodes.reserve(nodes.len());
        for node in nodes {
            let node = match u64::from(node.len()) {
                _ if !node.kind().has_data() => *node,
                0 => node.moved_to(0),
                len => {
                    let start = node.payload();
                    let end = start.checked_add(len).ok_or_else(|| outside(self.position))?;
                    if known.start <= start && end <= known.end {
                        node.moved_to(start - known.start + known_at)
                    } else {
                        node.moved_to(self.piece(start, end)?)
                    }
                }
            };
            self.to.nodes.push(node);
        }
        u32::try_from(new).map_err(|_| self.too_long(size as u64))
    }

    const fn too_long(&self, len: u64) -> FrameError {
        FrameError::TooLong { len, limit: self.limit }
    }

    /// Adds bytes of the source, and returns their offset in the frame.
    fn piece(&mut self, start: u64, end: u64) -> Result<u64, FrameError> {
        if end > self.source.bytes_len() {
            return Err(outside(self.position));
        }
        let at = self.to.bytes;
        self.to.bytes += end - start;
        if self.to.bytes > self.limit as u64 {
            return Err(self.too_long(self.to.bytes));
        }
        match self.to.pieces.last_mut() {
            Some(last) if last.1 == start => last.1 = end,
            _ => self.to.pieces.push((start, end)),
        }
        Ok(at)
    }
}
