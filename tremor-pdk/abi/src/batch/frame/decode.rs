//! Reading of frames.

use abi_stable::std_types::RVec;
use zerocopy::FromBytes;

use super::{
    FrameError, Header, Medium,
    header::whole,
    known::{Seen, Side},
};
use crate::{
    batch::{Batch, Claims, Event, Pool},
    document::{Budget, Node},
};

/// A batch that was read from a frame.
#[derive(Debug)]
pub struct Decoded {
    /// The batch, which is valid.
    pub batch: Batch,
    /// The events that claim to be unedited, for [`HostBatch::confirm`](crate::batch::HostBatch::confirm). Always empty
    /// for a record on disk, whose flags are believed.
    pub claims: Claims,
    /// The header of the frame.
    pub header: Header,
}

/// Reads a complete frame into a batch with buffers from `pool`. `frame` may be followed by other bytes, which are
/// ignored.
///
/// The frame is copied first and then validated in the copy. It may contain anything. The call allocates no more than
/// the frame's own contents need.
///
/// - The time for a frame of a process is limited by the [budget of the validation](Batch::decoded_at_most): 16 MiB, or
///   four times the size of the batch if that is more.
/// - A record on disk has no such budget, because a record that was acknowledged must be readable. Pass a record only
///   after [`verify`](super::verify()) has accepted it. Its events were valid when they were written.
///
/// Unedited events of a record are raw, with a flag: call [`restore`](super::restore()) before anything else reads
/// them.
///
/// # Errors
/// Returns the first fault of the frame: of a field of its header, of an event, or of the contents that an event refers
/// to. [`FrameError::is_newer`] distinguishes a frame of a later version.
pub fn decode(frame: &[u8], pool: &Pool, medium: Medium) -> Result<Decoded, FrameError> {
    let sections = Sections::read(frame)?;
    sections.require_delta(false)?;
    let mut batch = Batch::from_pool(pool);
    sections.copy_events(&mut batch.events);
    Seen::of(&batch.events).check(&batch.events, medium, Side::Reader)?;
    sections.append_buffers(&mut batch);
    let claims = match medium {
        Medium::Process => batch.validate().map_err(FrameError::Contents)?,
        Medium::Disk => {
            // An acknowledged record must be readable, even if events share more than a batch of a plugin may.
            let claims = batch.validate_within(Budget::new(usize::MAX));
            claims.map_err(FrameError::Contents)?;
            Claims::default()
        }
    };
    Ok(Decoded { batch, claims, header: sections.header })
}

/// The sections of a frame.
pub(super) struct Sections<'f> {
    pub(super) header: Header,
    events: &'f [u8],
    pub(super) nodes: &'f [u8],
    pub(super) bytes: &'f [u8],
}

impl<'f> Sections<'f> {
    /// Finds the sections of a complete frame. Their contents are not checked.
    pub(super) fn read(frame: &'f [u8]) -> Result<Self, FrameError> {
        let header = Header::read(frame)?;
        let frame = whole(frame, &header)?;
        // The total length is the sum of the sections, so each section is in the frame.
        let truncated = || FrameError::Truncated { expected: header.total_len, found: frame.len() };
        let mut left = frame;
        let mut section = |len: usize| left.split_off(..len).ok_or_else(truncated);
        section(header.header_len.into())?;
        let events = section(header.events as usize * usize::from(header.event_size))?;
        let nodes = section(header.nodes as usize * size_of::<Node>())?;
        let bytes = section(header.bytes as usize)?;
        if let Some(at) = left.iter().position(|byte| *byte != 0) {
            return Err(FrameError::Padding { offset: frame.len() - left.len() + at });
        }
        Ok(Self { header, events, nodes, bytes })
    }

    pub(super) fn require_delta(&self, is_delta: bool) -> Result<(), FrameError> {
        if self.header.is_delta() == is_delta {
            return Ok(());
        }
        let expected =
            if is_delta { "a sum with 1 (delta)" } else { "a sum without 1 (delta)" }.to_owned();
        let found = self.header.flags.into();
        Err(FrameError::Field { field: "flags", offset: 22, found, expected })
    }

    /// Appends the events to `to`. Fields that a later minor version added to them are skipped.
    pub(super) fn copy_events(&self, to: &mut RVec<Event>) {
        let size = usize::from(self.header.event_size);
        if size == size_of::<Event>() {
            return copy(self.events, to);
        }
        to.reserve(self.header.events as usize);
        for event in self.events.chunks_exact(size) {
            to.extend(Event::read_from_prefix(event).map(|(event, _)| event));
        }
    }

    /// Appends the nodes and the bytes to the buffers of a batch.
    pub(super) fn append_buffers(&self, batch: &mut Batch) {
        if self.nodes.is_empty() && self.bytes.is_empty() {
            return;
        }
        let (bytes, nodes) = batch.buffers_mut();
        bytes.extend_from_copy_slice(self.bytes);
        copy(self.nodes, nodes);
    }
}

/// Appends elements to a list. If the elements are aligned in memory, as they are in a buffer of their own, they are
/// copied in one step.
fn copy<T: FromBytes + zerocopy::KnownLayout + zerocopy::Immutable + Copy>(
    from: &[u8],
    to: &mut RVec<T>,
) {
    if let Ok(aligned) = <[T]>::ref_from_bytes(from) {
        return to.extend_from_copy_slice(aligned);
    }
    to.reserve(from.len() / size_of::<T>());
    to.extend(
        from.chunks_exact(size_of::<T>()).filter_map(|element| T::read_from_bytes(element).ok()),
    );
}
