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

/// The headers of a segment that were read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Headers {
    /// The header in force, and the index of a copy that is unreadable.
    Valid(SegmentHeader, Option<u64>),
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
    let mut unreadable = None;
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
                if found.is_none_or(|it| it.sequence < header.sequence) {
                    found = Some(header);
                }
            }
            Sheet::Newer(version) => return Ok(Headers::Newer(version)),
            _ => unreadable = Some(copy),
        }
    }
    Ok(found.map_or(Headers::Invalid, |it| Headers::Valid(it, unreadable)))
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
