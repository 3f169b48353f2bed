//! Finds bytes that JSON must escape, 32 at a time, with instructions of the processor.
//!
//! Functions that scan text take a [`Scan`] and are inlined completely. They are compiled twice: for every processor of
//! the target, and for processors with AVX2.

use crate::codec::output::BLOCK;

/// Searches blocks of text.
pub(super) trait Scan: Copy {
    /// Returns a mask in which bit i is set if byte i needs an escape: a control character, a quote or a backslash.
    fn dirty(self, block: &[u8; BLOCK]) -> u32;
}

/// A scan that works on all processors of the target.
#[derive(Clone, Copy, Debug)]
pub(super) struct Baseline;

/// Proof that the processor has AVX2 and the bit manipulation instructions that came with it.
#[derive(Clone, Copy, Debug)]
#[cfg_attr(not(target_arch = "x86_64"), allow(dead_code))] // never constructed
pub(super) struct Avx2(());

impl Avx2 {
    /// Returns the proof, if this processor has the instructions.
    pub(super) fn new() -> Option<Self> {
        #[cfg(target_arch = "x86_64")]
        {
            let has_it = is_x86_feature_detected!("avx2")
                && is_x86_feature_detected!("bmi1")
                && is_x86_feature_detected!("bmi2")
                && is_x86_feature_detected!("lzcnt")
                && is_x86_feature_detected!("popcnt");
            has_it.then_some(Self(()))
        }
        #[cfg(not(target_arch = "x86_64"))]
        None
    }
}

#[cfg(target_arch = "x86_64")]
impl Scan for Avx2 {
    #[inline(always)]
    fn dirty(self, block: &[u8; BLOCK]) -> u32 {
        use std::arch::x86_64::{
            __m256i, _mm256_cmpeq_epi8, _mm256_loadu_si256, _mm256_min_epu8, _mm256_movemask_epi8,
            _mm256_or_si256, _mm256_set1_epi8,
        };
        #[allow(clippy::cast_ptr_alignment)] // the load need not be aligned
        // SAFETY: an `Avx2` exists only if the processor has the instructions, and a block has 32 bytes.
        let mask = unsafe {
            let bytes = _mm256_loadu_si256(block.as_ptr().cast::<__m256i>());
            let control = _mm256_cmpeq_epi8(_mm256_min_epu8(bytes, _mm256_set1_epi8(0x1f)), bytes);
            let quote = _mm256_cmpeq_epi8(bytes, _mm256_set1_epi8(0x22));
            let backslash = _mm256_cmpeq_epi8(bytes, _mm256_set1_epi8(0x5c));
            _mm256_movemask_epi8(_mm256_or_si256(control, _mm256_or_si256(quote, backslash)))
        };
        mask.cast_unsigned()
    }
}

#[cfg(target_arch = "x86_64")]
impl Scan for Baseline {
    #[inline(always)]
    fn dirty(self, block: &[u8; BLOCK]) -> u32 {
        use std::arch::x86_64::{
            __m128i, _mm_cmpeq_epi8, _mm_loadu_si128, _mm_min_epu8, _mm_movemask_epi8,
            _mm_or_si128, _mm_set1_epi8,
        };
        let half = |from: usize| -> u32 {
            #[allow(clippy::cast_ptr_alignment)] // the load need not be aligned
            // SAFETY: SSE2 is a part of every x86-64. `from` is 0 or 16, so the 16 bytes from there are within the
            // block.
            let mask = unsafe {
                let bytes = _mm_loadu_si128(block.as_ptr().add(from).cast::<__m128i>());
                let control = _mm_cmpeq_epi8(_mm_min_epu8(bytes, _mm_set1_epi8(0x1f)), bytes);
                let quote = _mm_cmpeq_epi8(bytes, _mm_set1_epi8(0x22));
                let backslash = _mm_cmpeq_epi8(bytes, _mm_set1_epi8(0x5c));
                _mm_movemask_epi8(_mm_or_si128(control, _mm_or_si128(quote, backslash)))
            };
            mask.cast_unsigned() // the low 16 bits
        };
        half(0) | half(16) << 16
    }
}

#[cfg(not(target_arch = "x86_64"))]
impl Scan for Baseline {
    #[inline(always)]
    fn dirty(self, block: &[u8; BLOCK]) -> u32 {
        portable(block)
    }
}

#[cfg(not(target_arch = "x86_64"))]
impl Scan for Avx2 {
    #[inline(always)]
    fn dirty(self, block: &[u8; BLOCK]) -> u32 {
        portable(block)
    }
}

#[cfg(any(test, not(target_arch = "x86_64")))]
fn portable(block: &[u8; BLOCK]) -> u32 {
    block.iter().rev().fold(0, |mask, byte| {
        mask << 1 | u32::from(*byte < 0x20 || *byte == b'"' || *byte == b'\\')
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_scan_finds_every_byte_at_every_position() {
        for byte in 0..=u8::MAX {
            for position in 0..BLOCK {
                let mut block = [b'x'; BLOCK];
                block[position] = byte;
                let expected = portable(&block);
                assert_eq!(Baseline.dirty(&block), expected, "byte {byte:#x} at {position}");
                if let Some(avx2) = Avx2::new() {
                    assert_eq!(avx2.dirty(&block), expected, "byte {byte:#x} at {position}, AVX2");
                }
            }
        }
    }
}
