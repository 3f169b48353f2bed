//! Application of the answer to a call to the batch of the call.

use super::{
    FrameError, Medium,
    decode::Sections,
    known::{Seen, Side},
};
use crate::batch::{Batch, Claims, Mark};

/// Applies a delta, which is the answer to a call, to `batch`, the batch of the call as
/// [`Encoder::prepare_call`](super::Encoder::prepare_call) left it. Then the batch has the events of the answer, and
/// the nodes and bytes of the answer follow its own.
///
/// Only contents that the answer added or that no event referred to before are validated. For that, the call records
/// the batch in `mark` after it has made space for the new contents, so that the contents are still at the same address
/// afterwards. Reuse a mark for several calls, because its list keeps the allocated capacity.
///
/// If an operator answers with several deltas, apply each of them to a clone of the batch. If a delta adds contents and
/// another batch shares the buffers, they are copied once.
///
/// Returns the events that claim to be unedited and are not those of the call, for
/// [`HostBatch::confirm`](crate::batch::HostBatch::confirm). The caller still has to compare the identities of the
/// events with those that were sent: see [`Identities`](crate::batch::Identities).
///
/// # Errors
/// Returns an error if the frame is not a delta on the contents of the batch, or if it is invalid. The batch then
/// has its former events and contents.
pub fn apply_delta(batch: &mut Batch, mark: &mut Mark, frame: &[u8]) -> Result<Claims, FrameError> {
    let sections = Sections::read(frame)?;
    sections.require_delta(true)?;
    let lens = (batch.nodes().len(), batch.bytes().len());
    let header = sections.header;
    for (field, offset, found, len) in [
        ("base_nodes", 28, header.base_nodes, lens.0),
        ("base_bytes", 36, header.base_bytes, lens.1),
    ] {
        if found as usize != len {
            let expected = format!("{len}, as in the frame of the call");
            return Err(FrameError::Field { field, offset, found: found.into(), expected });
        }
    }
    if !batch.values.is_empty() {
        let fault = "may have an edited value; send the batch with `prepare_call` before applying a delta to it";
        return Err(FrameError::Event { position: 0, fault: fault.to_owned() });
    }
    if header.nodes > 0 || header.bytes > 0 {
        let (bytes, nodes) = batch.buffers_mut();
        bytes.reserve(header.bytes as usize);
        nodes.reserve(header.nodes as usize);
    }
    batch.mark(mark);
    batch.events.clear();
    sections.copy_events(&mut batch.events);
    let checked = Seen::of(&batch.events).check(&batch.events, Medium::Process, Side::Reader);
    let validated = checked.and_then(|()| {
        sections.append_buffers(batch);
        batch.validate_changes(mark).map_err(FrameError::Contents)
    });
    if validated.is_err() {
        batch.events.clear();
        batch.events.extend_from_copy_slice(mark.events());
        if batch.nodes().len() > lens.0 || batch.bytes().len() > lens.1 {
            let (bytes, nodes) = batch.buffers_mut();
            bytes.truncate(lens.1);
            nodes.truncate(lens.0);
        }
    }
    validated
}
