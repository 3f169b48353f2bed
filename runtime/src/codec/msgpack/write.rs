//! Writes the tokens of MessagePack.

use super::extension::Extension;
use crate::codec::output::Output;

impl Output<'_> {
    /// Appends a format byte, followed by a number of fixed width.
    #[inline]
    fn tagged<const N: usize>(&mut self, tag: u8, number: [u8; N]) {
        self.word([tag]);
        self.word(number);
    }

    /// Appends a length or count. A value up to `limit` is a part of the format byte `fix`. A greater value follows the
    /// byte `tag8` with 8 bits, the byte `tag16` with 16 bits, or the byte `tag16 + 1` with 32 bits.
    #[inline]
    #[allow(clippy::cast_possible_truncation)] // each value is compared with the limits first
    fn head(&mut self, fix: u8, limit: u32, tag8: Option<u8>, tag16: u8, len: u32) {
        if len <= limit && limit > 0 {
            self.word([fix | len as u8]);
        } else {
            self.long_head(tag8, tag16, len);
        }
    }

    #[allow(clippy::cast_possible_truncation)] // each value is compared with the limits first
    fn long_head(&mut self, tag8: Option<u8>, tag16: u8, len: u32) {
        match (len, tag8) {
            (0..=0xff, Some(tag)) => self.word([tag, len as u8]),
            (0..=0xffff, _) => self.tagged(tag16, (len as u16).to_be_bytes()),
            _ => self.tagged(tag16 + 1, len.to_be_bytes()),
        }
    }

    /// Appends the first `len` bytes of `haystack` as a string. Returns `false` if `haystack` is shorter.
    #[inline]
    pub(super) fn text_value(&mut self, haystack: &[u8], len: u32) -> bool {
        self.head(0xa0, 31, Some(0xd9), 0xda, len);
        self.start_of(haystack, len as usize)
    }

    #[inline]
    pub(super) fn binary_head(&mut self, len: u32) {
        self.head(0, 0, Some(0xc4), 0xc5, len);
    }

    #[inline]
    pub(super) fn array_head(&mut self, len: u32) {
        self.head(0x90, 15, None, 0xdc, len);
    }

    #[inline]
    pub(super) fn map_head(&mut self, len: u32) {
        self.head(0x80, 15, None, 0xde, len);
    }

    /// Appends an integer in its shortest form.
    #[inline]
    #[allow(clippy::cast_possible_truncation)] // each value is compared with the limits first
    pub(super) fn unsigned_integer(&mut self, value: u64) {
        match value {
            0..=0x7f => self.word([value as u8]),
            0x80..=0xff => self.word([0xcc, value as u8]),
            0x100..=0xffff => self.tagged(0xcd, (value as u16).to_be_bytes()),
            0x1_0000..=0xffff_ffff => self.tagged(0xce, (value as u32).to_be_bytes()),
            _ => self.tagged(0xcf, value.to_be_bytes()),
        }
    }

    /// Appends an integer in its shortest form. An integer that is not negative is written as unsigned.
    #[inline]
    #[allow(clippy::cast_possible_truncation)] // each value is compared with the limits first
    pub(super) fn signed_integer(&mut self, value: i64) {
        match value {
            0.. => self.unsigned_integer(value.cast_unsigned()),
            -32..0 => self.word((value as i8).to_be_bytes()),
            -0x80..0 => self.tagged(0xd0, (value as i8).to_be_bytes()),
            -0x8000..0 => self.tagged(0xd1, (value as i16).to_be_bytes()),
            -0x8000_0000..0 => self.tagged(0xd2, (value as i32).to_be_bytes()),
            _ => self.tagged(0xd3, value.to_be_bytes()),
        }
    }

    /// Appends a float with 64 bits.
    #[inline]
    pub(super) fn double(&mut self, value: f64) {
        self.tagged(0xcb, value.to_be_bytes());
    }

    /// Appends an extension in its shortest form.
    #[cold]
    #[allow(clippy::cast_possible_truncation)] // a value of a document has at most 4 GiB
    pub(super) fn extension(&mut self, extension: Extension<'_>) {
        let mut buffer = [0; 12];
        let (kind, content) = extension.content(&mut buffer);
        match content.len() {
            1 => self.word([0xd4]),
            2 => self.word([0xd5]),
            4 => self.word([0xd6]),
            8 => self.word([0xd7]),
            16 => self.word([0xd8]),
            len => self.head(0, 0, Some(0xc7), 0xc8, len as u32),
        }
        self.word(kind.to_be_bytes());
        self.text(content);
    }
}
