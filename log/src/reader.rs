//! Reads durable records in order.

use std::path::PathBuf;
use std::sync::Arc;

use crate::error::{DeviceError, at};
use crate::faults::fault;
use crate::record::Record;
use crate::segment::DATA;
use crate::state::{Live, Shared};
use crate::walker::{Step, Walker};

/// Reads the records of a log that are durable and not settled, in the order of their numbers.
///
/// A reader does not wait. [`Reader::notify`] reports when there may be more.
pub struct Reader {
    shared: Arc<Shared>,
    dir: PathBuf,
    max_ranges: usize,
    /// The segment that is read, and its sequence.
    current: Option<(u64, Walker)>,
    /// Least sequence of the next segment.
    next_sequence: u64,
    /// Number of the last record that was returned or skipped.
    last: u64,
    /// `true` while a record is read again, which does not increase the number of ranges.
    is_again: bool,
}

/// The durable part of a segment.
struct Part {
    sequence: u64,
    id: u64,
    end: u64,
    last: u64,
    is_complete: bool,
}

impl Reader {
    pub(crate) fn new(shared: Arc<Shared>, dir: PathBuf, max_ranges: usize) -> Self {
        Self { shared, dir, max_ranges, current: None, next_sequence: 0, last: 0, is_again: false }
    }

    /// Returns the next record, or `None` if there is none at present.
    ///
    /// Returns `None` as well while there are 65,536 ranges of settled records above one that is not settled (fewer if
    /// the log is smaller than 32 MiB), because more would be delivered again after a crash.
    ///
    /// # Errors
    ///
    /// The file could not be read. The call may be repeated, and skips nothing.
    #[expect(clippy::should_implement_trait, reason = "an iterator would end at the first `None`")]
    pub fn next(&mut self) -> Result<Option<Record>, DeviceError> {
        loop {
            let Some(part) = self.part() else { return Ok(None) };
            let Some((_, walker)) = &mut self.current else { return Ok(None) };
            let path = self.dir.join(format!("{:010}.segment", part.id));
            let before = walker.last();
            let step = walker.next(part.end).map_err(at("read", &path))?;
            let record = match step {
                Step::Record { number, offset, len } if number > self.last => {
                    let bytes = walker.bytes(offset, len, part.end).map_err(at("read", &path))?;
                    Some(Record { number, bytes: bytes.to_vec() })
                }
                _ => None,
            };
            let mut state = self.shared.lock();
            // A segment whose records were settled meanwhile may contain others now.
            if !state.live.contains_key(&part.sequence) {
                self.next_sequence = part.sequence + 1;
                self.current = None;
                continue;
            }
            match (step, record) {
                (Step::Record { number, .. }, Some(record)) => {
                    self.last = number;
                    if !state.settled.contains(number) {
                        return Ok(Some(record));
                    }
                }
                (Step::Damage { .. }, _) => {
                    state.damaged_parts += 1;
                    // The numbers that are lost are known when the record after the damage was read.
                    drop(state);
                    self.settle_lost(&path, before, part.end)?;
                }
                (Step::End { at }, _) => {
                    if at < part.end {
                        state.damaged_parts += 1;
                        state.settled.insert(before + 1, part.last);
                        state.is_settled_changed = true;
                        self.shared.work.notify_all();
                        walker.skip(part.end, part.last);
                    }
                    if !part.is_complete {
                        return Ok(None);
                    }
                    self.next_sequence = part.sequence + 1;
                    self.current = None;
                }
                // The record was skipped.
                (Step::Record { .. }, None) => {}
            }
        }
    }

    /// Settles the numbers between `before` and the next record, whose records are damaged.
    fn settle_lost(
        &mut self,
        path: &std::path::Path,
        before: u64,
        end: u64,
    ) -> Result<(), DeviceError> {
        let Some((_, walker)) = &mut self.current else { return Ok(()) };
        let found = walker.peek(end).map_err(at("read", path))?;
        if let Some(number) = found {
            let mut state = self.shared.lock();
            state.settled.insert(before + 1, number - 1);
            state.is_settled_changed = true;
            self.shared.work.notify_all();
        }
        Ok(())
    }

    /// Returns the durable part of the segment to read.
    fn part(&mut self) -> Option<Part> {
        let state = self.shared.lock();
        let is_at_limit = state.settled.ranges().len() >= self.max_ranges;
        if is_at_limit && !self.is_again {
            return None;
        }
        if let Some((sequence, _)) = &self.current
            && !state.live.contains_key(sequence)
        {
            self.current = None;
        }
        // No record of a segment is left if the reader has returned or skipped its last one.
        let is_left = |it: &Live| !it.is_sealed || it.last > self.last;
        let mut segments = state.live.range(self.next_sequence..);
        let (sequence, live) = segments.find(|(_, it)| is_left(it))?;
        if self.current.as_ref().is_none_or(|it| it.0 != *sequence) {
            let before = live.first.saturating_sub(1);
            let walker = Walker::new(Arc::clone(&live.file), live.epoch, DATA, before);
            self.current = Some((*sequence, walker));
            self.next_sequence = *sequence;
        }
        let end = if fault("records read before they are durable") { live.size } else { live.end };
        Some(Part {
            sequence: *sequence,
            id: live.id,
            end,
            last: live.last,
            is_complete: live.is_sealed,
        })
    }

    /// Continues with the first record whose number is at least `number`, which may have been returned before. Reads
    /// the segment of this record from its beginning.
    pub fn seek(&mut self, number: u64) {
        let state = self.shared.lock();
        let holds = |it: &Live| it.last >= number;
        let found =
            state.live.iter().find(|(_, it)| holds(it)).or_else(|| state.live.iter().next_back());
        self.next_sequence = found.map_or(0, |it| *it.0);
        self.current = None;
        self.last = number.saturating_sub(1);
    }

    /// Skips the records up to the record `number`. Segments that contain no later record are not read.
    pub fn skip_to(&mut self, number: u64) {
        self.last = self.last.max(number);
    }

    /// Returns the record `number`, which was returned before, or `None` if it is settled or damaged. Reads it also
    /// while [`Reader::next`] returns `None` because of the number of ranges. [`Reader::next`] then continues after this
    /// record, so use a reader of its own.
    ///
    /// # Errors
    ///
    /// The file could not be read. The call may be repeated.
    pub fn again(&mut self, number: u64) -> Result<Option<Record>, DeviceError> {
        self.seek(number);
        self.is_again = true;
        let record = self.next();
        self.is_again = false;
        Ok(record?.filter(|it| it.number == number))
    }

    /// Calls `notify` once when more records are durable, or when the log is closed. Call [`Reader::next`] again after
    /// this call, because records may have become durable before it.
    pub fn notify(&self, notify: impl FnOnce() + Send + 'static) {
        let mut state = self.shared.lock();
        if state.is_closed {
            drop(state);
            return notify();
        }
        state.on_record.push(Box::new(notify));
    }
}
