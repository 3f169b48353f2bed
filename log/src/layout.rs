//! Common parts of all structures on disk: blocks, checksums, and sheets, which are structures that carry a
//! version.

use std::hash::Hasher;

use twox_hash::XxHash3_64;

/// Unit of writes in bytes. Commits and headers begin at a multiple of it, so that no block with durable bytes is
/// written again.
pub(crate) const BLOCK: u64 = 4096;

/// Version of the format that this crate writes.
pub(crate) const VERSION: u16 = 1;

/// Bytes before the contents of a sheet.
pub(crate) const SHEET_HEADER: usize = 64;

/// Position of the checksum in a sheet and in a record.
const CHECKSUM: usize = 56;

/// Returns whether all bytes are zero. Reads all of them, which is faster than a branch for each byte.
pub(crate) fn is_zero(bytes: &[u8]) -> bool {
    bytes.iter().fold(0, |any, byte| any | byte) == 0
}

/// Returns the next multiple of [`BLOCK`], or `offset` if it is one.
pub(crate) const fn align(offset: u64) -> u64 {
    offset.next_multiple_of(BLOCK)
}

pub(crate) fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes(array(bytes, at))
}

pub(crate) fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(array(bytes, at))
}

pub(crate) fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(array(bytes, at))
}

/// Copies `N` bytes. Panics if `bytes` is shorter than `at + N`, so callers check the length first.
fn array<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    let mut array = [0; N];
    array.copy_from_slice(&bytes[at..at + N]);
    array
}

pub(crate) fn put(bytes: &mut [u8], at: usize, value: &[u8]) {
    bytes[at..at + value.len()].copy_from_slice(value);
}

/// Returns the XXH3-64 checksum of at least 64 bytes, except the 8 bytes at 56 in which it is stored.
pub(crate) fn checksum(seed: u64, bytes: &[u8]) -> u64 {
    let mut hasher = XxHash3_64::with_seed(seed);
    hasher.write(&bytes[..CHECKSUM]);
    hasher.write(&bytes[CHECKSUM + 8..]);
    hasher.finish()
}

pub(crate) fn stored_checksum(bytes: &[u8]) -> u64 {
    u64_at(bytes, CHECKSUM)
}

pub(crate) fn put_checksum(seed: u64, bytes: &mut [u8]) {
    let checksum = checksum(seed, bytes);
    put(bytes, CHECKSUM, &checksum.to_le_bytes());
}

/// The result of reading a sheet.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Sheet<'a> {
    /// The bytes of the sheet from its beginning, at least [`SHEET_HEADER`] of them.
    Valid(&'a [u8]),
    /// The checksum is valid, and the version is one that this crate does not know.
    Newer(u16),
    /// The bytes are not a sheet with this magic, or are damaged.
    Invalid,
}

/// Returns a sheet of `len` bytes, padded with zeros to whole blocks. The caller fills it and calls [`seal`].
pub(crate) fn sheet(magic: [u8; 4], len: usize) -> Vec<u8> {
    let mut bytes = vec![0; len.next_multiple_of(BLOCK as usize)];
    put(&mut bytes, 0, &magic);
    put(&mut bytes, 4, &VERSION.to_le_bytes());
    put(&mut bytes, 8, &(len as u64).to_le_bytes());
    bytes
}

/// Writes the checksum of a sheet.
pub(crate) fn seal(bytes: &mut [u8]) {
    let len = u64_at(bytes, 8) as usize;
    put_checksum(0, &mut bytes[..len]);
}

/// Reads a sheet. Magic, version, length and checksum have the same offsets in every version of the format, so that an
/// older program distinguishes a newer version from damage.
pub(crate) fn read_sheet(bytes: &[u8], magic: [u8; 4]) -> Sheet<'_> {
    if bytes.len() < SHEET_HEADER || bytes[..4] != magic {
        return Sheet::Invalid;
    }
    let len = u64_at(bytes, 8);
    if len < SHEET_HEADER as u64 || len > bytes.len() as u64 {
        return Sheet::Invalid;
    }
    let bytes = &bytes[..len as usize];
    if checksum(0, bytes) != stored_checksum(bytes) {
        return Sheet::Invalid;
    }
    match u16_at(bytes, 4) {
        VERSION => Sheet::Valid(bytes),
        newer => Sheet::Newer(newer),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sealed() -> Vec<u8> {
        let mut bytes = sheet(*b"TEST", 80);
        put(&mut bytes, 72, &7u64.to_le_bytes());
        seal(&mut bytes);
        bytes
    }

    #[test]
    fn each_flipped_bit_of_a_sheet_is_found() {
        let sealed = sealed();
        assert_eq!(read_sheet(&sealed, *b"TEST"), Sheet::Valid(&sealed[..80]));
        for bit in 0..80 * 8 {
            let mut flipped = sealed.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(read_sheet(&flipped, *b"TEST"), Sheet::Invalid, "bit {bit}");
        }
    }

    #[test]
    fn newer_version_is_not_damage() {
        let mut bytes = sealed();
        put(&mut bytes, 4, &9u16.to_le_bytes());
        seal(&mut bytes);
        assert_eq!(read_sheet(&bytes, *b"TEST"), Sheet::Newer(9));
    }
}
