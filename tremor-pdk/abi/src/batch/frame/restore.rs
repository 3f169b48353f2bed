//! Decoding of unedited events that were stored as messages.

use super::known::is_stored;
use crate::{
    ByteBuffer, NodeBuffer,
    batch::{Batch, Format, PayloadKind, Rejected, Span, rewrite::admit},
    document::Node,
    error::PluginError,
};

/// Decodes the unedited events of a batch that was read from disk. [`Encoder`](super::Encoder) has stored each of them
/// as the message that it was decoded from. `decode` is the runtime's own codec of the format: it appends a document to
/// the buffers and returns its root. The events are unedited again afterwards. All other events stay unchanged.
///
/// Removes and returns the events on which `decode` fails, and those whose decoded form exceeds
/// [`Batch::decoded_at_most`]. This happens only if the codec has changed since the record was written.
pub fn restore(
    batch: &mut Batch,
    mut decode: impl FnMut(Format, &mut ByteBuffer, &mut NodeBuffer, Span) -> Result<u32, PluginError>,
) -> Vec<Rejected> {
    let mut rejected = Vec::new();
    if !batch.events.iter().any(is_stored) {
        return rejected;
    }
    let mut events = std::mem::take(&mut batch.events);
    let (bytes, nodes) = batch.buffers_mut();
    let mut kept = 0;
    for position in 0..events.len() {
        let mut event = events[position];
        if let Some(format) = Format::of(event.flags).filter(|_| is_stored(&event)) {
            let before = (bytes.len(), nodes.len());
            let decoded = decode(format, bytes, nodes, event.payload).and_then(|root| {
                let size = (bytes.len() - before.0) + (nodes.len() - before.1) * size_of::<Node>();
                admit(event.payload, size)?;
                Ok(root)
            });
            match decoded {
                Ok(root) => {
                    event.original = event.payload;
                    event.kind = PayloadKind::DOCUMENT;
                    event.payload = Span { start: root, len: 0 };
                }
                Err(error) => {
                    bytes.truncate(before.0);
                    nodes.truncate(before.1);
                    event.set_edited();
                    rejected.push(Rejected { event, error });
                    continue;
                }
            }
        }
        events[kept] = event;
        kept += 1;
    }
    events.truncate(kept);
    batch.events = events;
    rejected
}
