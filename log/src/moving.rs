//! Moving the records that may not be durable to a segment of the new run.

use std::io::IoSlice;
use std::sync::Arc;

use crate::commit::Previous;
use crate::disk::DiskFile;
use crate::error::{DeviceError, at};
use crate::faults::fault;
use crate::find::Segment;
use crate::layout::{BLOCK, align};
use crate::open::{Repair, Unsettled};
use crate::prepare::Free;
use crate::record::stamp;
use crate::segment::{DATA, SegmentHeader, write_header};
use crate::settled::Settled;
use crate::state::Live;
use crate::walker::{Step, Walker};

/// A last segment with at most this many bytes of records is moved to the new one as a whole.
const MOVE_WHOLE: u64 = 1 << 20;

impl Repair<'_> {
    /// Moves the records of the last segment that may not be durable to a new segment, and gives the space behind the
    /// remaining ones back. Returns the new segment, with the offset of its next commit.
    ///
    /// A sync of the old segment would not prove that they are durable, because an earlier sync may have failed.
    #[expect(clippy::type_complexity, reason = "the parts have nothing in common")]
    pub(crate) fn move_last(
        &mut self,
        last: Unsettled,
        epoch: u64,
        settled: &Settled,
        sequence: u64,
        previous: &mut Previous,
        live: &mut std::collections::BTreeMap<u64, Live>,
    ) -> Result<Option<(u64, Arc<dyn DiskFile>, u64)>, DeviceError> {
        let Unsettled { segment, scan } = last;
        let path = self.files.segment(segment.id);
        if fault("found records not synced") {
            live.insert(segment.header.sequence, self.live(segment, scan.last, scan.end));
            return Ok(None);
        }
        let is_small = scan.end - DATA <= MOVE_WHOLE.min(self.limits.segment_bytes / 4);
        let whole = (DATA, segment.header.first.saturating_sub(1));
        let (start, last_before) = if is_small { whole } else { scan.commit };
        let mut records = self.read_from(&segment, start, last_before, scan.end)?;
        records.retain(|(number, _)| !settled.contains(*number));
        let bytes: u64 = records.iter().map(|it| it.1.len() as u64).sum();
        let numbers = records.first().map(|it| it.0).zip(records.last().map(|it| it.0));
        let target = match numbers {
            Some(numbers) if DATA + bytes <= self.limits.segment_bytes => {
                self.target()?.zip(Some(numbers))
            }
            _ => None,
        };
        let Some((free, (first, last))) = target else {
            // No record has to be moved, or no space is left for the copy.
            write_again(&*segment.file, start, scan.end).map_err(at("write to", &path))?;
            live.insert(segment.header.sequence, self.live(segment, scan.last, scan.end));
            return Ok(None);
        };
        for (number, record) in &mut records {
            stamp(record, *number, epoch);
        }
        let header = SegmentHeader {
            sequence,
            epoch,
            first,
            previous: segment.header.sequence,
            previous_end: if fault("tail not cut") { segment.len } else { start },
            previous_last: last_before,
            before: free.before,
        };
        let records: Vec<Vec<u8>> = records.into_iter().map(|it| it.1).collect();
        write_moved(&*free.file, &header, &records)
            .map_err(at("write to", &self.files.segment(free.id)))?;
        let end = DATA + bytes;
        *previous = Previous { sequence, end, last };
        let size = self.limits.segment_bytes;
        let (id, file) = (free.id, free.file);
        let moved = Live {
            id,
            file: Arc::clone(&file),
            epoch,
            first,
            last,
            end,
            size,
            is_sealed: false,
            is_reusable: true,
        };
        live.insert(sequence, moved);
        if start == DATA || settled.covers(segment.header.first, last_before) {
            let before = segment.header.sequence;
            self.add_free(segment, before)?;
        } else {
            let mut remaining = self.live(segment, last_before, start);
            self.cut(&mut remaining);
            live.insert(header.previous, remaining);
        }
        Ok(Some((id, file, align(end))))
    }

    /// Gives the space behind the records back, if it is a quarter of the segment or more. The next opening repeats
    /// what fails.
    fn cut(&mut self, live: &mut Live) {
        let used = align(live.end);
        if live.size - used.min(live.size) >= live.size / 4 && live.file.set_len(used).is_ok() {
            self.pool.give_back(live.size - used);
            live.size = used;
            live.is_reusable = false;
        }
    }

    /// Returns the segment to which records are moved.
    fn target(&mut self) -> Result<Option<Free>, DeviceError> {
        if self.pool.free.is_empty() && self.pool.may_grow(false) {
            match self.pool.prepare_now() {
                Err(error) if !error.is_full() => return Err(error),
                _ => {}
            }
        }
        Ok(self.pool.take(true))
    }

    /// Reads the records from `start`.
    fn read_from(
        &self,
        segment: &Segment,
        start: u64,
        last: u64,
        end: u64,
    ) -> Result<Vec<(u64, Vec<u8>)>, DeviceError> {
        let path = self.files.segment(segment.id);
        let mut walker = Walker::new(segment.file.clone(), segment.header.epoch, start, last);
        let mut records = Vec::new();
        loop {
            match walker.next(end).map_err(at("read", &path))? {
                Step::Record { number, offset, len } => {
                    let bytes = walker.bytes(offset, len, end).map_err(at("read", &path))?;
                    records.push((number, bytes.to_vec()));
                }
                Step::Damage { .. } => {}
                Step::End { .. } => return Ok(records),
            }
        }
    }
}

/// Writes records that may be durable elsewhere. The header names their old segment as cut off, so it is written after
/// they are durable here, and a header of an earlier use is removed before they overwrite what it describes.
fn write_moved(
    file: &dyn DiskFile,
    header: &SegmentHeader,
    records: &[Vec<u8>],
) -> std::io::Result<()> {
    if header.before != 0 {
        for copy in 0..2 {
            write_header(file, &SegmentHeader::default(), copy)?;
        }
    }
    let len: usize = records.iter().map(Vec::len).sum();
    let padding = vec![0; len.next_multiple_of(BLOCK as usize) - len];
    let records = records.iter().map(|it| IoSlice::new(it));
    let buffers: Vec<_> = records.chain([IoSlice::new(&padding)]).collect();
    if fault("header of moved records written first") {
        write_header(file, header, 0)?;
    }
    file.write_at(&buffers, DATA)?;
    if !fault("header of moved records written first") {
        file.sync()?;
    }
    write_header(file, header, 0)?;
    write_header(file, header, 1)
}

/// Makes records durable where they are. They are written again with equal bytes, because an earlier sync of them may
/// have failed, and then a sync alone would not write them.
fn write_again(file: &dyn DiskFile, start: u64, end: u64) -> std::io::Result<()> {
    let mut bytes = vec![0; (end - start) as usize];
    let read = file.read_at(&mut bytes, start)?;
    bytes.truncate(read);
    bytes.resize((align(end) - start) as usize, 0);
    file.write_at(&[IoSlice::new(&bytes)], start)?;
    file.sync()
}
