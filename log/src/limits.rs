//! The limits of a log in bytes, and how they are divided among its files.

use crate::error::OpenError;
use crate::layout::BLOCK;
use crate::settled::positions_len;

/// Maximum number of ranges of settled records above the position.
const MAX_RANGES: u64 = 65_536;

/// Least bytes of a segment: its headers and a record of half its size fit.
const LEAST_SEGMENT: u64 = 8 * BLOCK;

/// Maximum bytes of a segment, because offsets are read into memory.
const MOST_SEGMENT: u64 = 1 << 30;

/// Maximum bytes that are kept of cut and damaged parts.
const MAX_KEPT: u64 = 64 << 20;

/// Maximum bytes that wait for the disk, unless a single record is larger.
pub(crate) const STAGING: u64 = 4 << 20;

/// Least number of segments: one for commits, one that is reserved, and one with records that are not settled.
const LEAST_SEGMENTS: u64 = 3;

/// Division of the bytes of a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Limits {
    pub(crate) segment_bytes: u64,
    /// Bytes of all segments.
    pub(crate) segments: u64,
    /// Bytes of what is kept.
    pub(crate) kept: u64,
    pub(crate) ranges: usize,
}

impl Limits {
    /// Divides `max_bytes`. Unless it is set, the size of a segment is the smaller of 64 MiB and an eighth.
    pub(crate) fn new(max_bytes: u64, segment_bytes: Option<u64>) -> Result<Self, OpenError> {
        let invalid = |name, value, expected| OpenError::Invalid { name, value, expected };
        let unless_set = (max_bytes / 8).min(64 << 20) / BLOCK * BLOCK;
        let segment_bytes = segment_bytes.unwrap_or(unless_set.max(LEAST_SEGMENT));
        if !(LEAST_SEGMENT..=MOST_SEGMENT).contains(&segment_bytes)
            || !segment_bytes.is_multiple_of(BLOCK)
        {
            let expected = format!("a multiple of {BLOCK} from {LEAST_SEGMENT} to {MOST_SEGMENT}");
            return Err(invalid("segment_bytes", segment_bytes, expected));
        }
        let ranges = (max_bytes / 512).clamp(128, MAX_RANGES) as usize;
        let kept = (max_bytes / 8).min(MAX_KEPT);
        let fixed = 2 * BLOCK + 2 * positions_len(ranges) as u64 + kept;
        let least = LEAST_SEGMENTS * segment_bytes;
        if max_bytes < fixed + least {
            let expected = format!("at least {} for segments of {segment_bytes}", fixed + least);
            return Err(invalid("max_bytes", max_bytes, expected));
        }
        Ok(Self { segment_bytes, segments: max_bytes - fixed, kept, ranges })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn smaller_of_64_mib_and_an_eighth_is_a_segment() {
        let segment = |max| Limits::new(max, None).map(|it| it.segment_bytes).ok();
        assert_eq!(segment(10 << 30), Some(64 << 20));
        assert_eq!(segment(64 << 20), Some(8 << 20));
        assert_eq!(segment(1 << 20), Some(128 << 10));
    }

    #[test]
    fn limits_that_cannot_be_kept_are_refused() {
        let error = |max, segment| Limits::new(max, segment).unwrap_err().to_string();
        assert!(error(4096, None).starts_with("invalid max_bytes 4096: expected at least "));
        assert!(
            error(1 << 30, Some(5000))
                .starts_with("invalid segment_bytes 5000: expected a multiple of 4096")
        );
        assert!(Limits::new(1 << 30, Some(512 << 20)).is_err());
    }
}
