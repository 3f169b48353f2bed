//! The [wire format](https://protobuf.dev/programming-guides/encoding/) of protobuf.

#![allow(clippy::cast_possible_truncation)] // the numbers are checked before each cast

use tremor_pdk::Error;

/// The encoded contents of a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Payload<'m> {
    Varint(u64),
    Fixed64(u64),
    Fixed32(u32),
    Bytes(Slice<'m>),
}

/// A part of a message, and its position in the whole message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Slice<'m> {
    pub(crate) bytes: &'m [u8],
    pub(crate) at: usize,
}

/// A message, and the position up to which it has been read.
pub(crate) struct Reader<'m> {
    rest: &'m [u8],
    at: usize,
}

impl<'m> Reader<'m> {
    pub(crate) fn new(slice: Slice<'m>) -> Self {
        Self { rest: slice.bytes, at: slice.at }
    }

    /// Returns the position of the next byte.
    pub(crate) fn at(&self) -> usize {
        self.at
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// Reads the number of the next field, and its contents.
    ///
    /// # Errors
    /// Returns an error if the bytes are not a field.
    pub(crate) fn field(&mut self) -> Result<(u32, Payload<'m>), Error> {
        let at = self.at;
        let tag = self.varint()?;
        let number = u32::try_from(tag >> 3).ok().filter(|number| (1..1 << 29).contains(number));
        let number = number.ok_or_else(|| wrong(at, "expected the number of a field"))?;
        let payload = match tag & 7 {
            0 => Payload::Varint(self.varint()?),
            1 => Payload::Fixed64(u64::from_le_bytes(self.array()?)),
            2 => Payload::Bytes(self.bytes()?),
            5 => Payload::Fixed32(u32::from_le_bytes(self.array()?)),
            other => {
                let what = format!("expected a field of wire type 0, 1, 2 or 5, found {other}");
                return Err(wrong(at, &what));
            }
        };
        Ok((number, payload))
    }

    /// Reads a variable-length number.
    pub(crate) fn varint(&mut self) -> Result<u64, Error> {
        let mut value = 0_u64;
        for position in 0..10 {
            let Some(byte) = self.rest.get(position) else {
                return Err(wrong(self.at, "the message ends within a number"));
            };
            let bits = u64::from(byte & 0x7f);
            value |= bits << (7 * position);
            if byte & 0x80 == 0 {
                if position == 9 && bits > 1 {
                    break;
                }
                self.skip(position + 1);
                return Ok(value);
            }
        }
        Err(wrong(self.at, "expected a number of at most 64 bits"))
    }

    /// Reads `N` bytes of a number of fixed length.
    pub(crate) fn array<const N: usize>(&mut self) -> Result<[u8; N], Error> {
        let Some(array) = self.rest.first_chunk::<N>() else {
            return Err(wrong(self.at, "the message ends within a number"));
        };
        let array = *array;
        self.skip(N);
        Ok(array)
    }

    fn bytes(&mut self) -> Result<Slice<'m>, Error> {
        let at = self.at;
        let length = self.varint()?;
        let bytes = usize::try_from(length).ok().and_then(|length| self.rest.get(..length));
        let Some(bytes) = bytes else {
            let what = format!("expected {length} bytes, found {}", self.rest.len());
            return Err(wrong(at, &what));
        };
        let slice = Slice { bytes, at: self.at };
        self.skip(bytes.len());
        Ok(slice)
    }

    fn skip(&mut self, count: usize) {
        self.rest = &self.rest[count..];
        self.at += count;
    }
}

#[cold]
pub(crate) fn wrong(at: usize, what: &str) -> Error {
    Error::bad_data(format_args!("{what} at byte {at}"))
}

/// Appends a variable-length number.
pub(crate) fn put_varint(mut value: u64, out: &mut Vec<u8>) {
    while value >= 0x80 {
        out.push((value & 0x7f) as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Appends the tag of a field: its number and its wire type.
pub(crate) fn put_tag(number: u32, wire_type: u8, out: &mut Vec<u8>) {
    put_varint(u64::from(number) << 3 | u64::from(wire_type), out);
}

/// Appends the bytes that `write` appends, preceded by their length.
pub(crate) fn put_bytes<E>(
    out: &mut Vec<u8>,
    write: impl FnOnce(&mut Vec<u8>) -> Result<(), E>,
) -> Result<(), E> {
    let start = out.len();
    out.push(0);
    write(out)?;
    let end = out.len();
    let length = (end - start - 1) as u64;
    if let Some(byte) = out.get_mut(start).filter(|_| length < 0x80) {
        *byte = length as u8;
        return Ok(());
    }
    // Write a length of more than one byte after the contents, and then rotate it to the front.
    put_varint(length, out);
    let width = out.len() - end;
    out[start..].rotate_right(width);
    out.remove(start + width);
    Ok(())
}
