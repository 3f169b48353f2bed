//! Creating an event for each element of an array.

use super::{
    Batch, Edits, Event, Output, PayloadKind, SelectionError, Span, append::subtree, fill::narrow,
    metadata::LastCopied, select::check_depth,
};
use crate::{
    document::{Node, NodeKind, ValueRef},
    error::PluginError,
    value::Path,
};

/// A compiled instruction to create an event for each element of an array in the payload: see [`Output::unnest`].
#[derive(Clone, Debug)]
pub struct Unnest {
    array: Path,
    /// Keys of the path of the element in the new events.
    to: Wrapping,
    /// Edits that write the payload of an element's event. `None` if the element is the payload.
    edits: Option<Edits>,
    /// `true` if events without the array pass. `false` if they are rejected.
    passes_others: bool,
}

impl Unnest {
    /// Compiles an instruction for the array at `array`. In the events that are created, the element is at `to`, and
    /// the array itself is removed. Events that do not have the array pass unchanged if `passes_others` is set, and are
    /// rejected otherwise.
    ///
    /// # Errors
    /// Returns an error if a path contains an index.
    pub fn new(array: Path, to: &Path, passes_others: bool) -> Result<Self, SelectionError> {
        let is_inside = |outer: &Path, inner: &Path| match (outer.keys(), inner.keys()) {
            (Some(outer), Some(inner)) => inner.starts_with(&outer),
            _ => false,
        };
        // Checks that the path has no index.
        if !array.is_empty() {
            Edits::new(&[], std::slice::from_ref(&array))?;
        }
        let overlaps = is_inside(&array, to) || is_inside(to, &array);
        let remove = if overlaps { &[][..] } else { std::slice::from_ref(&array) };
        let edits = Edits::new(std::slice::from_ref(to), remove)?;
        let edits = (!to.is_empty()).then_some(edits);
        let keys = to.keys().unwrap_or_default();
        let to = Wrapping { depth: keys.len(), text: keys.iter().map(|key| key.len()).sum() };
        Ok(Self { array, to, edits, passes_others })
    }
}

/// The keys and objects around an element in its event.
#[derive(Clone, Copy, Debug)]
struct Wrapping {
    /// Number of keys.
    depth: usize,
    /// Size of the text of all keys, in bytes.
    text: usize,
}

impl Wrapping {
    /// Returns an upper bound of the memory that the keys and objects take, in bytes.
    const fn size(self) -> usize {
        2 * self.depth * size_of::<Node>() + self.text
    }
}

/// Memory of the events that one call creates.
#[derive(Default)]
struct Memory {
    /// Size of the events with arrays that the call has received, in bytes of nodes and text.
    received: usize,
    /// Upper bound of the size of the events that were created, in bytes, without elements and shared text.
    created: usize,
}

impl Memory {
    /// Returns the maximum of `created`. The events of one call may take a few times the limit of a single event.
    const fn most(&self) -> usize {
        Batch::decoded_at_most(self.received).saturating_mul(4)
    }
}

/// The array of an event.
struct Found {
    root: usize,
    head: usize,
    /// Number of elements.
    len: usize,
    /// Size of the event without the array, in bytes of nodes.
    nodes: usize,
    /// Size of the event without the array, in bytes of text.
    text: usize,
}

/// The events that replace those of the batch.
#[derive(Default)]
struct Created {
    events: Vec<Event>,
    /// Position of the first event of each batch except the first one.
    starts: Vec<usize>,
    /// Size of the events of the last batch in bytes, with shared text counted for each event.
    size: usize,
}

impl Created {
    fn push(&mut self, event: Event, size: usize) {
        let size = size + size_of::<Event>();
        if self.size > 0 && self.size + size > Batch::WEIGHT_AT_MOST {
            self.starts.push(self.events.len());
            self.size = 0;
        }
        self.size += size;
        self.events.push(event);
    }
}

impl Output {
    /// Replaces each event with one event for each element of an array in its payload. Each of these events also has
    /// the other fields of the payload, whose nodes are copied and whose text is shared. An event with an empty array
    /// is discarded.
    ///
    /// Text that events share counts for each of them when a batch is validated, encoded or copied. Therefore the
    /// events leave in several batches of at most [`Batch::WEIGHT_AT_MOST`] bytes, or of a single larger event: all but
    /// the last batch by [`Output::OUT`], and the last batch in `batch`.
    ///
    /// An event is rejected in these cases:
    /// - An element would be nested too deeply.
    /// - The nodes of the events that replace the event would take more than [`Batch::decoded_at_most`] allows for the
    ///   size of the event.
    /// - All events that this call creates would take more than four times what [`Batch::decoded_at_most`] allows for
    ///   the events that the call has replaced so far.
    pub fn unnest(&mut self, batch: &mut Batch, unnest: &mut Unnest) {
        let (mut created, mut memory) = (Created::default(), Memory::default());
        for position in 0..batch.len() {
            match batch.array_of(position, &unnest.array) {
                Ok(found) if found.len == 0 => self.discard(1),
                Ok(found) => match batch.admit(&found, unnest.to, &mut memory) {
                    Ok(()) => {
                        self.created(found.len - 1);
                        batch.unnest(position, &found, unnest, &mut created);
                    }
                    Err(error) => self.reject(batch.events[position], error),
                },
                Err(_) if unnest.passes_others => {
                    let event = batch.events[position];
                    created.push(event, batch.weight_of(&event));
                }
                Err(error) => self.reject(batch.events[position], error),
            }
        }
        batch.separate_values(&mut created.events);
        let mut first = 0;
        for &end in &created.starts {
            let (mut part, mut last_copied) = (batch.sharing_buffers(), LastCopied::default());
            for event in &created.events[first..end] {
                part.take_event(batch, *event, &mut last_copied);
            }
            self.send(Self::OUT, part);
            first = end;
        }
        created.events.drain(..first);
        batch.events = created.events.into();
    }
}

impl Batch {
    /// Returns the array at `path` in the payload of an event. An edited payload is first written to the document.
    fn array_of(&mut self, position: usize, path: &Path) -> Result<Found, PluginError> {
        let event = self.events[position];
        let value = self.value(&event).and_then(|value| value.get_path(path));
        if value.and_then(ValueRef::as_array).is_none() {
            let found = value.map_or("no such field", |value| value.shape().name());
            let message = format_args!("expected an array as `{path}`, found {found}");
            return Err(PluginError::bad_data(message));
        }
        let root = self.document_of(position)? as usize;
        let array = self.document(narrow(root)).get_path(path).and_then(ValueRef::nodes);
        let (Some(array), (all_nodes, all_text)) = (array, self.document_size(narrow(root))) else {
            return Err(PluginError::internal("a payload in the document has no nodes"));
        };
        let first = self.nodes().as_ptr().addr();
        let head = (array.as_ptr().addr() - first) / size_of::<Node>();
        let len = array.first().map_or(0, |head| head.len() as usize).min(array.len() - 1);
        let (nodes, text) = self.document_size(narrow(head));
        let (nodes, text) = (all_nodes.saturating_sub(nodes), all_text.saturating_sub(text));
        Ok(Found { root, head, len, nodes, text })
    }

    /// Adds the events for the elements of an array to `memory`.
    ///
    /// # Errors
    /// Returns an error if an event would be nested too deeply, or if the events would take too much memory by
    /// themselves or together with the events that the call has created before.
    fn admit(&self, found: &Found, to: Wrapping, memory: &mut Memory) -> Result<(), PluginError> {
        let (nodes, text) = self.document_size(narrow(found.root));
        memory.received = memory.received.saturating_add(nodes + text);
        if to.depth > 0 {
            let array = subtree(self.nodes(), found.head);
            // The elements are one level less deep than the array.
            check_depth(&self.nodes()[array], to.depth - 1)?;
        }
        let taken = found.len.saturating_mul(found.nodes);
        let most = Self::decoded_at_most(nodes + text);
        if taken > most {
            return Err(PluginError::bad_data(format_args!(
                "the events for {} elements take {taken} bytes of memory besides the elements, and the limit is \
                 {most}; first remove the fields that you do not need",
                found.len
            )));
        }
        let added = taken.saturating_add(found.len.saturating_mul(size_of::<Event>() + to.size()));
        let (total, most) = (memory.created.saturating_add(added), memory.most());
        if total > most {
            return Err(PluginError::bad_data(format_args!(
                "the events for {} elements and for those of earlier events of the batch take {total} bytes of memory \
                 besides the elements, and the limit is {most}; first remove the fields that you do not need",
                found.len
            )));
        }
        memory.created = total;
        Ok(())
    }

    /// Creates the events for the elements of an array.
    fn unnest(
        &mut self,
        position: usize,
        found: &Found,
        unnest: &mut Unnest,
        created: &mut Created,
    ) {
        let event = self.events[position];
        let is_object = self.nodes()[found.root].kind() == NodeKind::OBJECT;
        let root = is_object.then_some(found.root);
        let mut element = found.head + 1;
        for _ in 0..found.len {
            let nodes = subtree(self.nodes(), element);
            let (size, text) = self.document_size(narrow(element));
            let (start, size) = match &mut unnest.edits {
                None => (element, size + text),
                Some(edits) => {
                    let (bytes, buffer) = self.buffers_mut();
                    let start = edits.put(bytes, buffer, root, nodes.clone());
                    (start, size + text + found.nodes + found.text + unnest.to.size())
                }
            };
            let payload = Span { start: narrow(start), len: 0 };
            let mut event = event.with_payload(PayloadKind::DOCUMENT, payload);
            // The bytes that the whole event was decoded from are not the bytes of an element.
            event.original = Span::default();
            created.push(event, size);
            element = nodes.end;
        }
    }
}

#[cfg(test)]
mod tests;
