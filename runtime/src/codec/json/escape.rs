//! Which bytes of a string JSON wants escaped, 32 at a time, and their escapes.

use crate::codec::output::BLOCK;

/// The escape of a byte for which [`dirty`] sets a bit.
pub(super) fn of(byte: u8) -> &'static [u8] {
    const fn table() -> [[u8; 6]; 0x20] {
        let mut escapes = [*b"\\u0000"; 0x20];
        let mut byte = 0;
        while byte < 0x20 {
            escapes[byte][4] = b"01"[byte >> 4];
            escapes[byte][5] = b"0123456789abcdef"[byte & 15];
            byte += 1;
        }
        escapes
    }
    static CONTROL: [[u8; 6]; 0x20] = table();
    match byte {
        b'"' => b"\\\"",
        b'\\' => b"\\\\",
        b'\n' => b"\\n",
        b'\r' => b"\\r",
        b'\t' => b"\\t",
        0x08 => b"\\b",
        0x0c => b"\\f",
        _ => CONTROL.get(usize::from(byte)).map_or(&[], |escape| escape),
    }
}

/// A block that starts with `text`, which is shorter; what follows needs no escape.
pub(super) fn padded(text: &[u8]) -> [u8; BLOCK] {
    let mut block = [b' '; BLOCK];
    block[..text.len()].copy_from_slice(text);
    block
}

/// Bit i is set if byte i needs an escape: a control character, a quote, a backslash.
#[cfg(target_arch = "x86_64")]
#[inline]
pub(super) fn dirty(block: &[u8; BLOCK]) -> u32 {
    use std::arch::x86_64::{
        __m128i, _mm_cmpeq_epi8, _mm_loadu_si128, _mm_min_epu8, _mm_movemask_epi8, _mm_or_si128,
        _mm_set1_epi8,
    };
    let half = |from: usize| -> u32 {
        #[allow(clippy::cast_ptr_alignment)] // the load need not be aligned
        // SAFETY: SSE2 is part of every x86-64. The 16 bytes from `from`, which is 0 or 16, are
        // within the block.
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

/// Bit i is set if byte i needs an escape: a control character, a quote, a backslash.
#[cfg(not(target_arch = "x86_64"))]
#[inline]
pub(super) fn dirty(block: &[u8; BLOCK]) -> u32 {
    block.iter().rev().fold(0, |mask, byte| {
        mask << 1 | u32::from(*byte < 0x20 || *byte == b'"' || *byte == b'\\')
    })
}
