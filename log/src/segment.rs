//! The header of a segment, which is written twice, in the first two blocks of the file.

use std::io::{self, IoSlice};

use crate::disk::DiskFile;
use crate::layout::{BLOCK, Sheet, put, read_sheet, seal, sheet, u64_at};

const MAGIC: [u8; 4] = *b"TRLS";
const LEN: usize = 96;

/// Offset of the first record in a segment, in bytes.
pub(crate) const DATA: u64 = 2 * BLOCK;

/// The header of a segment. The sequence 0 stands for a segment that has no records.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct SegmentHeader {
    /// Orders segments by the time when they were taken into use. No sequence is used twice.
    pub(crate) sequence: u64,
    pub(crate) epoch: u64,
    /// Lower bound of the numbers in this segment.
    pub(crate) first: u64,
    /// The segment whose records precede those of this one, or 0. Segments with sequences between the two were given
    /// back without durable records.
    pub(crate) previous: u64,
    /// Offset of the end of the previous segment's durable records.
    pub(crate) previous_end: u64,
    /// Number of the last durable record before this segment, or 0.
    pub(crate) previous_last: u64,
    /// Sequence of an earlier use of the file, or 0 if it was filled with zeros for this one.
    pub(crate) before: u64,
}

impl SegmentHeader {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut bytes = sheet(MAGIC, LEN);
        put(&mut bytes, 16, &self.sequence.to_le_bytes());
        put(&mut bytes, 24, &self.epoch.to_le_bytes());
        put(&mut bytes, 32, &self.first.to_le_bytes());
        put(&mut bytes, 64, &self.previous.to_le_bytes());
        put(&mut bytes, 72, &self.previous_end.to_le_bytes());
        put(&mut bytes, 80, &self.previous_last.to_le_bytes());
        put(&mut bytes, 88, &self.before.to_le_bytes());
        seal(&mut bytes);
        bytes
    }
}

/// The state of the two copies of a header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Copies {
    /// Both are equal, so the first one was durable before the second one was written.
    Equal,
    /// Only this copy has the header in force, and the other one is an older header.
    Single(u64),
    /// Only this copy has the header in force, and the other one is unreadable.
    Unreadable(u64),
}

/// The headers of a segment that were read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Headers {
    /// The header in force, and the state of its copies.
    Valid(SegmentHeader, Copies),
    Newer(u16),
    /// Neither copy is valid.
    Invalid,
}

/// Reads both headers. The copy with the higher sequence is in force, because the first copy is durable before the
/// second one is written, and the segment has no records that matter until then.
pub(crate) fn read_headers(file: &dyn DiskFile) -> io::Result<Headers> {
    let mut bytes = vec![0; DATA as usize];
    let len = file.read_at(&mut bytes, 0)?;
    bytes.truncate(len);
    let mut found: Option<SegmentHeader> = None;
    let mut copies = Copies::Equal;
    for copy in 0..2u64 {
        let bytes = bytes.get((copy * BLOCK) as usize..).unwrap_or_default();
        match read_sheet(&bytes[..bytes.len().min(BLOCK as usize)], MAGIC) {
            Sheet::Valid(bytes) if bytes.len() == LEN => {
                let header = SegmentHeader {
                    sequence: u64_at(bytes, 16),
                    epoch: u64_at(bytes, 24),
                    first: u64_at(bytes, 32),
                    previous: u64_at(bytes, 64),
                    previous_end: u64_at(bytes, 72),
                    previous_last: u64_at(bytes, 80),
                    before: u64_at(bytes, 88),
                };
                match found {
                    Some(first) if first.sequence > header.sequence => copies = Copies::Single(0),
                    Some(first) if first.sequence < header.sequence => copies = Copies::Single(1),
                    _ => {}
                }
                if found.is_none_or(|it| it.sequence < header.sequence) {
                    found = Some(header);
                }
            }
            Sheet::Newer(version) => return Ok(Headers::Newer(version)),
            _ => copies = Copies::Unreadable(1 - copy),
        }
    }
    Ok(found.map_or(Headers::Invalid, |it| Headers::Valid(it, copies)))
}

/// Makes both copies of a header durable, if they may not be.
///
/// A copy that was found may be in the page cache only, after a sync that has failed. It is therefore written again, with
/// equal bytes, before the other copy.
pub(crate) fn repair(
    file: &dyn DiskFile,
    header: &SegmentHeader,
    copies: Copies,
) -> io::Result<()> {
    match copies {
        Copies::Equal => Ok(()),
        Copies::Single(copy) | Copies::Unreadable(copy) => {
            write_header(file, header, copy)?;
            write_header(file, header, 1 - copy)
        }
    }
}

/// Writes one copy of a header and makes it durable.
pub(crate) fn write_header(
    file: &dyn DiskFile,
    header: &SegmentHeader,
    copy: u64,
) -> io::Result<()> {
    file.write_at(&[IoSlice::new(&header.encode())], copy * BLOCK)?;
    file.sync()
}
