//! Reads the parts of a message.

use crate::codec::Error;

/// The remaining bytes of a message.
#[derive(Clone, Copy)]
pub(super) struct Reader<'m> {
    rest: &'m [u8],
    len: usize,
}

/// The beginning of a value: the whole value if it is a scalar, and its kind and size otherwise.
pub(super) enum Head {
    Null,
    Bool(bool),
    Signed(i64),
    Unsigned(u64),
    Float(f64),
    String(u32),
    Binary(u32),
    Array(u32),
    Map(u32),
    Extension(i8, u32),
}

impl<'m> Reader<'m> {
    pub(super) fn new(message: &'m [u8]) -> Self {
        Self { rest: message, len: message.len() }
    }

    /// Returns the number of consumed bytes.
    #[inline]
    pub(super) fn position(&self) -> usize {
        self.len - self.rest.len()
    }

    /// Returns the number of remaining bytes.
    #[inline]
    pub(super) fn left(&self) -> usize {
        self.rest.len()
    }

    /// Returns an error at the position of the next byte.
    #[cold]
    pub(super) fn error(&self, what: impl Into<Box<str>>) -> Error {
        Error::bad_data_at(self.position(), what)
    }

    #[cold]
    pub(super) fn truncated(&self) -> Error {
        Error::bad_data_at(self.len, "the message ends within a value")
    }

    /// Consumes `count` bytes.
    #[inline]
    pub(super) fn take(&mut self, count: u32) -> Result<&'m [u8], Error> {
        let Some((taken, rest)) = self.rest.split_at_checked(count as usize) else {
            return Err(self.truncated());
        };
        self.rest = rest;
        Ok(taken)
    }

    #[inline]
    fn array<const N: usize>(&mut self) -> Result<[u8; N], Error> {
        let Some((taken, rest)) = self.rest.split_first_chunk() else {
            return Err(self.truncated());
        };
        self.rest = rest;
        Ok(*taken)
    }

    #[inline]
    fn u8(&mut self) -> Result<u8, Error> {
        self.array().map(|[byte]| byte)
    }

    #[inline]
    fn u16(&mut self) -> Result<u16, Error> {
        self.array().map(u16::from_be_bytes)
    }

    #[inline]
    fn u32(&mut self) -> Result<u32, Error> {
        self.array().map(u32::from_be_bytes)
    }

    #[inline]
    fn u64(&mut self) -> Result<u64, Error> {
        self.array().map(u64::from_be_bytes)
    }

    /// Consumes the head of a string. Returns `None` and consumes nothing if the next value is not a string.
    #[inline]
    pub(super) fn string_head(&mut self) -> Result<Option<u32>, Error> {
        if let [byte @ 0xa0..=0xbf, rest @ ..] = self.rest {
            self.rest = rest;
            return Ok(Some(u32::from(byte & 0x1f)));
        }
        let start = *self;
        if let Head::String(len) = self.head()? {
            return Ok(Some(len));
        }
        *self = start;
        Ok(None)
    }

    /// Consumes text of `len` bytes.
    #[inline]
    pub(super) fn text(&mut self, len: u32) -> Result<&'m [u8], Error> {
        let start = *self;
        let text = self.take(len)?;
        if is_short_ascii(start.rest, text) {
            return Ok(text);
        }
        match std::str::from_utf8(text) {
            Ok(_) => Ok(text),
            Err(error) => {
                let position = start.position() + error.valid_up_to();
                Err(Error::bad_data_at(position, "invalid UTF-8"))
            }
        }
    }

    /// Consumes the beginning of a value: the whole value if it is a scalar, and its kind and size otherwise.
    #[inline(always)] // the function is most of the decoder's loop, and inlined its result stays in registers
    #[allow(clippy::cast_possible_wrap, clippy::inline_always)] // two's complement, as specified
    pub(super) fn head(&mut self) -> Result<Head, Error> {
        let start = *self;
        Ok(match self.u8()? {
            byte @ 0xa0..=0xbf => Head::String(u32::from(byte & 0x1f)),
            byte @ 0x00..=0x7f => Head::Unsigned(u64::from(byte)),
            byte @ 0x80..=0x8f => Head::Map(u32::from(byte & 0xf)),
            byte @ 0x90..=0x9f => Head::Array(u32::from(byte & 0xf)),
            0xc0 => Head::Null,
            0xc1 => return Err(start.error("invalid MessagePack format 0xc1")),
            0xc2 => Head::Bool(false),
            0xc3 => Head::Bool(true),
            0xc4 => Head::Binary(self.u8()?.into()),
            0xc5 => Head::Binary(self.u16()?.into()),
            0xc6 => Head::Binary(self.u32()?),
            0xc7 => self.extension_of(|reader| reader.u8().map(u32::from))?,
            0xc8 => self.extension_of(|reader| reader.u16().map(u32::from))?,
            0xc9 => self.extension_of(Self::u32)?,
            0xca => Head::Float(f32::from_bits(self.u32()?).into()),
            0xcb => Head::Float(f64::from_bits(self.u64()?)),
            0xcc => Head::Unsigned(self.u8()?.into()),
            0xcd => Head::Unsigned(self.u16()?.into()),
            0xce => Head::Unsigned(self.u32()?.into()),
            0xcf => Head::Unsigned(self.u64()?),
            0xd0 => Head::Signed((self.u8()? as i8).into()),
            0xd1 => Head::Signed((self.u16()? as i16).into()),
            0xd2 => Head::Signed((self.u32()? as i32).into()),
            0xd3 => Head::Signed(self.u64()? as i64),
            byte @ 0xd4..=0xd8 => self.extension_of(|_| Ok(1 << (byte - 0xd4)))?,
            0xd9 => Head::String(self.u8()?.into()),
            0xda => Head::String(self.u16()?.into()),
            0xdb => Head::String(self.u32()?),
            0xdc => Head::Array(self.u16()?.into()),
            0xdd => Head::Array(self.u32()?),
            0xde => Head::Map(self.u16()?.into()),
            0xdf => Head::Map(self.u32()?),
            byte @ 0xe0..=0xff => Head::Signed((byte as i8).into()),
        })
    }

    #[allow(clippy::cast_possible_wrap)] // two's complement is what the format says
    fn extension_of(
        &mut self,
        len: impl FnOnce(&mut Self) -> Result<u32, Error>,
    ) -> Result<Head, Error> {
        let len = len(self)?;
        Ok(Head::Extension(self.u8()? as i8, len))
    }
}

/// Returns `true` if a text of at most 32 bytes is certainly ASCII. If it returns `false`, the text may be ASCII or
/// not. `haystack` starts with the text. Most text is short ASCII, and calling the general check costs more than this
/// check.
#[inline]
fn is_short_ascii(haystack: &[u8], text: &[u8]) -> bool {
    const HIGH: u128 = u128::from_ne_bytes([0x80; 16]);
    let Some(first) = haystack.first_chunk().copied().map(u128::from_le_bytes) else {
        return false;
    };
    match text.len() {
        0 => true,
        len @ 1..=16 => first << (128 - 8 * len) & HIGH == 0,
        17..=32 => {
            let last = text.last_chunk().copied().map_or(HIGH, u128::from_le_bytes);
            (first | last) & HIGH == 0
        }
        _ => false,
    }
}
