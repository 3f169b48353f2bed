//! Segments that are ready for use: filled with zeros before, because a commit to blocks that exist is twice as fast.

use std::io::IoSlice;
use std::sync::Arc;

use crate::disk::{DiskFile, Open};
use crate::error::{DeviceError, at};
use crate::faults::fault;
use crate::files::Files;
use crate::segment::{DATA, SegmentHeader};

/// Bytes between two syncs while a segment is filled, so that a commit never waits for more than these.
const SYNC_EVERY: u64 = 4 << 20;

/// Zeros that one call writes.
static ZEROS: [u8; 1 << 20] = [0; 1 << 20];

/// A segment without records that matter.
pub(crate) struct Free {
    pub(crate) id: u64,
    pub(crate) file: Arc<dyn DiskFile>,
    /// Sequence of the earlier use, or 0.
    pub(crate) before: u64,
}

/// A segment that is being filled with zeros.
struct Preparing {
    id: u64,
    file: Arc<dyn DiskFile>,
    written: u64,
    is_renamed: bool,
}

/// The free segments, and the one that is being made.
pub(crate) struct Pool {
    files: Files,
    /// Length of a segment in bytes.
    pub(crate) segment_bytes: u64,
    /// Maximum bytes of all segments.
    budget: u64,
    /// Bytes of all segments: live, free, and in preparation.
    used: u64,
    next_id: u64,
    pub(crate) free: Vec<Free>,
    preparing: Option<Preparing>,
    /// `true` after the disk had no space.
    is_disk_full: bool,
}

impl Pool {
    pub(crate) fn new(files: Files, segment_bytes: u64, budget: u64) -> Self {
        Self {
            files,
            segment_bytes,
            budget,
            used: 0,
            next_id: 1,
            free: Vec::new(),
            preparing: None,
            is_disk_full: false,
        }
    }

    /// Counts a segment that exists.
    pub(crate) fn add_existing(&mut self, id: u64, len: u64) {
        self.next_id = self.next_id.max(id + 1);
        self.used += len;
    }

    /// Counts bytes that a segment no longer has.
    pub(crate) fn give_back(&mut self, len: u64) {
        self.used -= len;
        self.is_disk_full = false;
    }

    /// Adds a segment whose records are all settled.
    pub(crate) fn reuse(&mut self, free: Free) {
        self.free.push(free);
    }

    /// Takes the segment that was free first. The last one is reserved for records whose sync has failed, unless
    /// `takes_reserve`.
    pub(crate) fn take(&mut self, takes_reserve: bool) -> Option<Free> {
        let least = if takes_reserve { 1 } else { 2 };
        (self.free.len() >= least).then(|| self.free.remove(0))
    }

    /// Returns a segment that got no durable records.
    pub(crate) fn put_back(&mut self, free: Free) {
        self.free.insert(0, free);
    }

    /// Returns whether another segment may be made, or one is being made.
    pub(crate) fn may_grow(&self, is_limit_lifted: bool) -> bool {
        self.preparing.is_some() || is_limit_lifted || self.used + self.segment_bytes <= self.budget
    }

    /// Returns whether making a segment ahead of its use is useful and possible.
    pub(crate) fn wants_more(&self) -> bool {
        self.free.len() < 2 && !self.is_disk_full && self.may_grow(false)
    }

    /// Returns whether the next record may find no segment because the disk had no space.
    pub(crate) fn lacks_space(&self) -> bool {
        self.is_disk_full && self.free.len() < 2
    }

    /// Fills about `bytes` of the next segment. Returns `true` if the segment is ready.
    pub(crate) fn prepare(&mut self, bytes: u64) -> Result<bool, DeviceError> {
        let result = self.fill(bytes);
        if let Err(error) = &result
            && error.is_full()
        {
            self.is_disk_full = true;
            self.abandon();
        }
        result
    }

    /// Makes a whole segment.
    pub(crate) fn prepare_now(&mut self) -> Result<(), DeviceError> {
        while !self.prepare(u64::MAX)? {}
        Ok(())
    }

    fn fill(&mut self, bytes: u64) -> Result<bool, DeviceError> {
        if self.preparing.is_none() {
            let id = self.next_id;
            let file = self.files.open(&Files::unfinished(&self.files.segment(id)), Open::Empty)?;
            self.next_id += 1;
            self.used += self.segment_bytes;
            self.preparing = Some(Preparing { id, file, written: 0, is_renamed: false });
        }
        let Some(segment) = &mut self.preparing else { return Ok(false) };
        let path = self.files.segment(segment.id);
        let unfinished = Files::unfinished(&path);
        let until = segment.written.saturating_add(bytes).min(self.segment_bytes);
        while segment.written < until {
            let mut head = Vec::new();
            let mut zeros = &ZEROS[..(ZEROS.len() as u64).min(until - segment.written) as usize];
            if segment.written == 0 {
                head = SegmentHeader::default().encode();
                head.extend_from_within(..);
                zeros = &zeros[..zeros.len().saturating_sub(DATA as usize)];
            }
            let buffers = [IoSlice::new(&head), IoSlice::new(zeros)];
            segment
                .file
                .write_at(&buffers, segment.written)
                .map_err(at("write to", &unfinished))?;
            let before = segment.written;
            segment.written += (head.len() + zeros.len()) as u64;
            let is_due = before / SYNC_EVERY != segment.written / SYNC_EVERY;
            if is_due || segment.written >= self.segment_bytes {
                let synced = segment.file.sync();
                if synced.is_err() {
                    // The bytes of the failed sync have to be written again.
                    segment.written = 0;
                }
                synced.map_err(at("sync", &unfinished))?;
            }
        }
        if segment.written < self.segment_bytes {
            return Ok(false);
        }
        if !segment.is_renamed {
            self.files.disk.rename(&unfinished, &path).map_err(at("rename", &unfinished))?;
            segment.is_renamed = true;
        }
        if !fault("folder not synced") {
            self.files.sync_dir()?;
        }
        if let Some(segment) = self.preparing.take() {
            self.free.push(Free { id: segment.id, file: segment.file, before: 0 });
        }
        Ok(true)
    }

    /// Removes a segment that does not become ready.
    fn abandon(&mut self) {
        if let Some(segment) = self.preparing.take() {
            self.used -= self.segment_bytes;
            // If this fails, opening the log removes the file.
            let _ = self.files.remove(&Files::unfinished(&self.files.segment(segment.id)));
        }
    }
}
