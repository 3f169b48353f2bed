//! Escapes in JSON strings.

use crate::codec::output::BLOCK;

/// Returns the escape of a byte for which [`Scan::dirty`](super::scan::Scan::dirty) sets a bit.
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

/// Returns a block that starts with `text`, which must be shorter than a block. The remaining bytes of the block need
/// no escape.
pub(super) fn padded(text: &[u8]) -> [u8; BLOCK] {
    let mut block = [b' '; BLOCK];
    block[..text.len()].copy_from_slice(text);
    block
}
