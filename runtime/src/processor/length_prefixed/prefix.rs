//! The length before a message.

use tremor_pdk::{Error, Result};

/// What a length looks like.
#[tremor_pdk::config]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub(super) enum Prefix {
    /// One byte.
    U8,
    /// Two bytes.
    U16,
    /// Four bytes.
    #[default]
    U32,
    /// Eight bytes.
    U64,
    /// Seven bits a byte, the lowest first, and the topmost bit set in all bytes but the last, as
    /// in Protocol Buffers.
    Varint,
    /// Decimal digits and a space, the first digit not zero: octet counting of syslog, as in RFC 6587.
    Decimal,
}

/// The order of bytes.
#[tremor_pdk::config]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub(super) enum Endianness {
    /// The highest byte first: network order.
    #[default]
    Big,
    /// The lowest byte first.
    Little,
}

/// The most bytes that a varint has: 64 bits, seven a byte.
const VARINT: usize = 10;
/// The most digits of 64 bits.
const DIGITS: usize = 20;
/// Digits and a space.
const LONGEST: usize = DIGITS + 1;

/// The bytes of a length, or the first of them.
#[derive(Clone, Copy, Default)]
pub(crate) struct Head {
    bytes: [u8; LONGEST],
    len: usize,
}

impl Head {
    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }

    /// Adds a byte; there is room for those of any length.
    pub(super) fn push(&mut self, byte: u8) {
        if let Some(place) = self.bytes.get_mut(self.len) {
            *place = byte;
            self.len += 1;
        }
    }
}

impl Prefix {
    /// How many bytes a length has; none where that depends.
    const fn width(self) -> Option<usize> {
        match self {
            Self::U8 => Some(1),
            Self::U16 => Some(2),
            Self::U32 => Some(4),
            Self::U64 => Some(8),
            Self::Varint | Self::Decimal => None,
        }
    }

    /// The length that these bytes say; none where there are more of it to come.
    ///
    /// # Errors
    /// Bad data for a varint of more than 64 bits, and for what is no decimal number.
    pub(super) fn length(self, endianness: Endianness, head: &Head) -> Result<Option<u64>> {
        let bytes = head.bytes();
        let Some(width) = self.width() else {
            return if matches!(self, Self::Decimal) { decimal(bytes) } else { varint(bytes) };
        };
        if bytes.len() < width {
            return Ok(None);
        }
        let add = |sum: u64, byte: &u8| (sum << 8) | u64::from(*byte);
        Ok(Some(match endianness {
            Endianness::Big => bytes.iter().fold(0, add),
            Endianness::Little => bytes.iter().rev().fold(0, add),
        }))
    }

    /// The bytes that say a length.
    ///
    /// # Errors
    /// Bad data for a length that does not fit.
    pub(super) fn head(self, endianness: Endianness, length: usize) -> Result<Head> {
        let mut head = Head::default();
        let mut rest = length as u64;
        if matches!(self, Self::Decimal) {
            format!("{length} ").bytes().for_each(|byte| head.push(byte));
            return Ok(head);
        }
        let Some(width) = self.width() else {
            while rest > 0x7f {
                head.push(0x80 | rest.to_le_bytes()[0]);
                rest >>= 7;
            }
            head.push(rest.to_le_bytes()[0]);
            return Ok(head);
        };
        let bytes = rest.to_le_bytes();
        if bytes[width..].iter().any(|byte| *byte > 0) {
            return Err(Error::bad_data(format_args!(
                "a message of {length} bytes is too long for a length of {width} bytes: choose \
                 another `prefix`"
            )));
        }
        let push = |byte: &u8| head.push(*byte);
        match endianness {
            Endianness::Big => bytes[..width].iter().rev().for_each(push),
            Endianness::Little => bytes[..width].iter().for_each(push),
        }
        Ok(head)
    }
}

fn varint(bytes: &[u8]) -> Result<Option<u64>> {
    let Some((last, _)) = bytes.split_last() else { return Ok(None) };
    if bytes.len() == VARINT && *last > 1 {
        return Err(Error::bad_data(
            "the length has more than 64 bits: the rest of the stream is lost",
        ));
    }
    if *last > 0x7f {
        return Ok(None);
    }
    Ok(Some(bytes.iter().rev().fold(0, |sum, byte| (sum << 7) | u64::from(byte & 0x7f))))
}

fn decimal(bytes: &[u8]) -> Result<Option<u64>> {
    let Some((last, digits)) = bytes.split_last() else { return Ok(None) };
    let is_over = *last == b' ' && !digits.is_empty();
    let is_next = last.is_ascii_digit() && bytes[0] != b'0';
    let length = std::str::from_utf8(digits).ok().and_then(|digits| digits.parse().ok());
    match length {
        Some(length) if is_over => Ok(Some(length)),
        _ if is_next && bytes.len() <= DIGITS => Ok(None),
        _ => Err(Error::bad_data(
            "expected a length in decimal digits, the first from 1 to 9, and a space: the rest of the stream is \
             lost",
        )),
    }
}
