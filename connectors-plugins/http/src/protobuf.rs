//! The [wire format](https://protobuf.dev/programming-guides/encoding/) of protobuf, as far as requests need it.

use std::fmt;

/// Tag of field 1 with bytes: text or a message.
pub(crate) const FIRST: u8 = 1 << 3 | 2;

/// Tag of field 2 with bytes.
pub(crate) const SECOND: u8 = 2 << 3 | 2;

/// Tag of field 3 with bytes.
pub(crate) const THIRD: u8 = 3 << 3 | 2;

/// Bytes that are not a valid request.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Malformed {
    /// Offset in the decompressed request, in bytes.
    at: usize,
    what: &'static str,
}

impl Malformed {
    #[cold]
    pub(crate) const fn new(at: usize, what: &'static str) -> Self {
        Self { at, what }
    }
}

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at byte {}", self.what, self.at)
    }
}

/// Part of a request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Slice<'r> {
    pub(crate) bytes: &'r [u8],
    /// Offset in the request, in bytes.
    pub(crate) at: usize,
}

/// The encoded contents of a field.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Payload<'r> {
    Varint(u64),
    Fixed64(u64),
    Fixed32,
    Bytes(Slice<'r>),
}

/// A message that is read field by field.
pub(crate) struct Reader<'r> {
    left: &'r [u8],
    at: usize,
}

impl<'r> Reader<'r> {
    pub(crate) const fn new(slice: Slice<'r>) -> Self {
        Self { left: slice.bytes, at: slice.at }
    }

    /// Returns the offset of the next byte in the request.
    pub(crate) const fn at(&self) -> usize {
        self.at
    }

    /// Returns the number of the next field and its contents, or `None` at the end of the message.
    ///
    /// # Errors
    /// The bytes are not a field.
    pub(crate) fn field(&mut self) -> Result<Option<(u64, Payload<'r>)>, Malformed> {
        if self.left.is_empty() {
            return Ok(None);
        }
        let at = self.at;
        let tag = self.varint()?;
        if tag >> 3 == 0 || tag >> 32 != 0 {
            return Err(Malformed::new(at, "expected the number of a field"));
        }
        let payload = match tag & 7 {
            0 => Payload::Varint(self.varint()?),
            1 => Payload::Fixed64(u64::from_le_bytes(self.array()?)),
            2 => Payload::Bytes(self.bytes()?),
            5 => {
                self.array::<4>()?;
                Payload::Fixed32
            }
            _ => return Err(Malformed::new(at, "expected a field of wire type 0, 1, 2 or 5")),
        };
        Ok(Some((tag >> 3, payload)))
    }

    fn varint(&mut self) -> Result<u64, Malformed> {
        let mut value = 0_u64;
        for (count, byte) in self.left.iter().take(10).enumerate() {
            value |= u64::from(byte & 0x7f) << (7 * count);
            if byte & 0x80 == 0 {
                if count == 9 && *byte > 1 {
                    break;
                }
                self.skip(count + 1);
                return Ok(value);
            }
        }
        Err(Malformed::new(self.at, "expected a number of at most 64 bits"))
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        let Some(array) = self.left.first_chunk::<N>() else {
            return Err(Malformed::new(self.at, "the message ends within a number"));
        };
        let array = *array;
        self.skip(N);
        Ok(array)
    }

    fn bytes(&mut self) -> Result<Slice<'r>, Malformed> {
        let at = self.at;
        let length = self.varint()?;
        let bytes = usize::try_from(length).ok().and_then(|length| self.left.get(..length));
        let Some(bytes) = bytes else {
            return Err(Malformed::new(at, "a length exceeds the message that contains it"));
        };
        let slice = Slice { bytes, at: self.at };
        self.skip(bytes.len());
        Ok(slice)
    }

    fn skip(&mut self, count: usize) {
        self.left = &self.left[count..];
        self.at += count;
    }
}

/// Appends a variable-length number.
#[inline]
pub(crate) fn put_varint(mut value: u64, out: &mut Vec<u8>) {
    while value >= 0x80 {
        out.push(value.to_le_bytes()[0] | 0x80);
        value >>= 7;
    }
    out.push(value.to_le_bytes()[0]);
}

/// Returns the length of a variable-length number, in bytes.
#[inline]
pub(crate) const fn varint_len(value: u64) -> usize {
    (70 - (value | 1).leading_zeros() as usize) / 7
}

/// Appends a field of bytes. `tag` is the number of the field and its wire type, in one byte.
#[inline]
pub(crate) fn put_bytes(tag: u8, bytes: &[u8], out: &mut Vec<u8>) {
    out.push(tag);
    put_varint(bytes.len() as u64, out);
    out.extend_from_slice(bytes);
}

/// Returns the length of a field with `length` bytes, in bytes. Its tag has one byte.
#[inline]
pub(crate) const fn field_len(length: usize) -> usize {
    1 + varint_len(length as u64) + length
}

/// Appends a field with a message of two texts: a name as field 1 and a value as field 2.
pub(crate) fn put_pair(tag: u8, name: &str, value: &str, out: &mut Vec<u8>) {
    out.push(tag);
    put_varint(pair_len(name.len(), value.len()) as u64, out);
    put_bytes(FIRST, name.as_bytes(), out);
    put_bytes(SECOND, value.as_bytes(), out);
}

/// Returns the length of the message that [`put_pair`] appends, without its own tag and length, in bytes.
pub(crate) const fn pair_len(name: usize, value: usize) -> usize {
    field_len(name) + field_len(value)
}

#[cfg(test)]
mod tests {
    use super::{
        FIRST, Payload, Reader, Slice, THIRD, field_len, pair_len, put_bytes, put_pair, put_varint,
        varint_len,
    };

    #[test]
    fn fields_have_their_calculated_lengths() {
        for length in [0, 1, 127, 128, 16_383, 16_384] {
            let text = "x".repeat(length);
            let (mut field, mut pair) = (Vec::new(), Vec::new());
            put_bytes(FIRST, text.as_bytes(), &mut field);
            put_pair(THIRD, "name", &text, &mut pair);
            let lengths = (field_len(length), field_len(pair_len(4, length)));
            assert_eq!((field.len(), pair.len()), lengths);
        }
    }

    #[test]
    fn number_is_read_again_and_has_its_length() {
        for value in (0..64).flat_map(|bit| [1_u64 << bit, (1 << bit) - 1, u64::MAX >> bit]) {
            let mut bytes = vec![1 << 3];
            put_varint(value, &mut bytes);
            assert_eq!(bytes.len(), 1 + varint_len(value), "{value}");
            let mut reader = Reader::new(Slice { bytes: &bytes, at: 0 });
            let Ok(Some((1, Payload::Varint(read)))) = reader.field() else { panic!("{value}") };
            assert_eq!(read, value);
            assert!(reader.field().unwrap().is_none());
        }
    }

    #[test]
    fn invalid_field_is_rejected() {
        for bytes in [
            &b"\x00\x01"[..],
            b"\x08",
            b"\x08\x80",
            b"\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x02",
            b"\x09\x01",
            b"\x0a\x02a",
            b"\x0b",
            b"\x0d\x01",
            b"\xff\xff\xff\xff\xff\x01\x00",
        ] {
            let mut reader = Reader::new(Slice { bytes, at: 7 });
            let error = reader.field().unwrap_err();
            assert!(error.to_string().contains(" at byte "), "{bytes:?}");
        }
    }
}
