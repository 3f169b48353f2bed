//! The header of a record, which is the header of a frame.
//!
//! The log reads the magic, the length, the number, the epoch and the checksum, and writes the last three and the flag
//! that announces the checksum. When a log is opened, it also reads the number of events, for its report. All other
//! bytes belong to the caller.

use crate::faults::fault;
use crate::layout::{checksum, put, put_checksum, stored_checksum, u16_at, u32_at, u64_at};

/// Length of a record's header in bytes, and the least length of a record.
pub const HEADER_LEN: usize = 64;

const MAGIC: [u8; 4] = *b"TRB2";
const EVENTS: usize = 16;
const FLAGS: usize = 22;
/// Flag of a frame whose checksum is set.
const HAS_CHECKSUM: u16 = 2;
const NUMBER: usize = 40;
const EPOCH: usize = 48;

/// A record that was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// The number of the record. Numbers increase in the order of appends, start at 1 and may have gaps.
    pub number: u64,
    /// The record, with its header.
    pub bytes: Vec<u8>,
}

impl Record {
    /// Returns the bytes that [`record`] was called with.
    pub fn payload(&self) -> &[u8] {
        let end = HEADER_LEN + u32_at(&self.bytes, 32) as usize;
        self.bytes.get(HEADER_LEN..end).unwrap_or_default()
    }
}

/// Makes a record of bytes that are not a frame: a frame without events whose bytes are `payload`, at most 4 GiB.
pub fn record(payload: &[u8]) -> Vec<u8> {
    let len = (HEADER_LEN + payload.len()).next_multiple_of(8);
    let mut bytes = vec![0; len];
    put(&mut bytes, 0, &MAGIC);
    bytes[4] = 1;
    put(&mut bytes, 6, &(HEADER_LEN as u16).to_le_bytes());
    put(&mut bytes, 8, &(len as u64).to_le_bytes());
    put(&mut bytes, 20, &56u16.to_le_bytes());
    put(&mut bytes, 32, &(payload.len() as u32).to_le_bytes());
    put(&mut bytes, HEADER_LEN, payload);
    bytes
}

/// Returns whether the bytes begin with a header whose length is theirs.
pub(crate) fn is_record(bytes: &[u8]) -> bool {
    header_len(bytes) == Some(bytes.len() as u64)
}

/// Returns the length of the record that begins here, if the header has a valid magic and length.
fn header_len(bytes: &[u8]) -> Option<u64> {
    if bytes.len() < HEADER_LEN || bytes[..4] != MAGIC {
        return None;
    }
    let len = u64_at(bytes, 8);
    (len >= HEADER_LEN as u64 && len.is_multiple_of(8)).then_some(len)
}

/// Writes number, epoch and checksum into a record.
pub(crate) fn stamp(record: &mut [u8], number: u64, epoch: u64) {
    let flags = u16_at(record, FLAGS) | HAS_CHECKSUM;
    put(record, FLAGS, &flags.to_le_bytes());
    put(record, NUMBER, &number.to_le_bytes());
    put(record, EPOCH, &epoch.to_le_bytes());
    put_checksum(seed(epoch), record);
}

fn seed(epoch: u64) -> u64 {
    if fault("checksum without epoch") { 0 } else { epoch }
}

/// Returns the number of events of a record, which its header contains.
pub(crate) fn events(record: &[u8]) -> u32 {
    if record.len() < HEADER_LEN { 0 } else { u32_at(record, EVENTS) }
}

/// The number and the length of a record, from a header that seems to be one of this epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) number: u64,
    pub(crate) len: u64,
}

/// Reads a header. Returns `None` unless the epoch is `epoch`, the number is above `last`, and the record is at most
/// `limit` bytes long.
pub(crate) fn header(bytes: &[u8], epoch: u64, last: u64, limit: u64) -> Option<Header> {
    let len = header_len(bytes).filter(|it| *it <= limit)?;
    let number = u64_at(bytes, NUMBER);
    let is_of_epoch = u64_at(bytes, EPOCH) == epoch || fault("checksum without epoch");
    let is_later = number > last || (fault("older frames taken") && number > 0);
    (is_of_epoch && is_later).then_some(Header { number, len })
}

/// Returns whether the checksum of a whole record is valid.
pub(crate) fn is_intact(record: &[u8], epoch: u64) -> bool {
    checksum(seed(epoch), record) == stored_checksum(record)
}

/// Returns whether the bytes may be the header of a record of this epoch that was appended after number `last`, even
/// if one bit of them is damaged. Otherwise they are zeros, or what a segment that is reused contained before.
pub(crate) fn may_be_new(bytes: &[u8], epoch: u64, last: u64, first: u64) -> bool {
    if bytes.len() < HEADER_LEN {
        return false;
    }
    let number = u64_at(bytes, NUMBER);
    let is_magic = bytes[..4] == MAGIC;
    let is_epoch = u64_at(bytes, EPOCH) == epoch;
    // A segment contains at most one record for each 64 bytes.
    let is_next = number > last && number - last < 1 << 32;
    let is_older = header_len(bytes).is_some_and(|len| {
        len <= bytes.len() as u64
            && number < first
            && is_intact(&bytes[..len as usize], u64_at(bytes, EPOCH))
    });
    !is_older && (is_magic || is_epoch) && (is_next || is_epoch)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn payload_of_any_length_is_returned() {
        for len in 0..100u8 {
            let payload: Vec<u8> = (0..len).collect();
            let bytes = record(&payload);
            assert!(is_record(&bytes) && bytes.len().is_multiple_of(8));
            assert_eq!(Record { number: 1, bytes }.payload(), payload);
        }
    }

    #[test]
    fn each_flipped_bit_of_a_record_is_found() {
        let mut bytes = record(b"payload");
        stamp(&mut bytes, 7, 99);
        let limit = bytes.len() as u64;
        let is_valid = |it: &[u8]| {
            header(it, 99, 6, limit).is_some_and(|it| it.len == limit) && is_intact(it, 99)
        };
        assert!(is_valid(&bytes) && !is_intact(&bytes, 98));
        for bit in 0..bytes.len() * 8 {
            bytes[bit / 8] ^= 1 << (bit % 8);
            assert!(!is_valid(&bytes), "bit {bit}");
            assert!(may_be_new(&bytes, 99, 6, 1), "bit {bit}");
            bytes[bit / 8] ^= 1 << (bit % 8);
        }
    }

    #[test]
    fn stamped_record_is_the_documented_frame() {
        let frame = include_bytes!("../../tremor-pdk/abi/tests/golden/example.frame");
        let mut bytes = frame.to_vec();
        put(&mut bytes, FLAGS, &[0; 2]);
        put(&mut bytes, NUMBER, &[0; 24]);
        assert!(is_record(&bytes) && !is_intact(&bytes, 0x5eed));
        stamp(&mut bytes, 1, 0x5eed);
        assert_eq!(bytes, frame);
        assert_eq!(events(&bytes), 1);
    }

    #[test]
    fn record_of_an_earlier_use_is_not_new() {
        let mut bytes = record(b"payload");
        stamp(&mut bytes, 7, 99);
        assert!(!may_be_new(&bytes, 99, 100, 90) && !may_be_new(&bytes, 98, 100, 90));
        assert!(!may_be_new(&[0; 64], 99, 100, 90));
    }
}
