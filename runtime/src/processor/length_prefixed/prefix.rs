//! Length prefixes of messages.

use tremor_pdk::{Error, Result};

/// The format of a length.
#[tremor_pdk::config]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub(super) enum Prefix {
    /// A single byte.
    U8,
    /// Two bytes.
    U16,
    /// Four bytes.
    #[default]
    U32,
    /// Eight bytes.
    U64,
    /// Seven bits per byte, the lowest bits first; the topmost bit is set in all bytes except the last, as in Protocol
    /// Buffers.
    Varint,
    /// Decimal digits without a leading zero, followed by a space: the octet counting of syslog (RFC 6587).
    Decimal,
}

/// The byte order of a length.
#[tremor_pdk::config]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub(super) enum Endianness {
    /// Big-endian, which is network byte order.
    #[default]
    Big,
    /// Little-endian.
    Little,
}

/// Maximum number of bytes of a varint: 64 bits, seven per byte.
const VARINT: usize = 10;
/// Maximum number of decimal digits of 64 bits.
const DIGITS: usize = 20;
/// Maximum number of bytes of a length: digits and a space.
const LONGEST: usize = DIGITS + 1;

/// The bytes of a length. The length may be incomplete.
#[derive(Clone, Copy, Default)]
pub(crate) struct Head {
    bytes: [u8; LONGEST],
    len: usize,
}

impl Head {
    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }

    /// Adds a byte. The buffer is large enough for a length of any format.
    pub(super) fn push(&mut self, byte: u8) {
        if let Some(next) = self.bytes.get_mut(self.len) {
            *next = byte;
            self.len += 1;
        }
    }
}

impl Prefix {
    /// Returns the number of bytes of a length, or `None` if it varies.
    const fn width(self) -> Option<usize> {
        match self {
            Self::U8 => Some(1),
            Self::U16 => Some(2),
            Self::U32 => Some(4),
            Self::U64 => Some(8),
            Self::Varint | Self::Decimal => None,
        }
    }

    /// Returns the length that the bytes contain, or `None` if more bytes are needed.
    ///
    /// # Errors
    /// Returns an error of kind "bad data" if a varint has more than 64 bits, or if the text is not a decimal number.
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

    /// Returns the bytes that represent `length`.
    ///
    /// # Errors
    /// Returns an error of kind "bad data" if the length does not fit the format.
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
            "the length has more than 64 bits: the remainder of the stream is lost",
        ));
    }
    if *last > 0x7f {
        return Ok(None);
    }
    Ok(Some(bytes.iter().rev().fold(0, |sum, byte| (sum << 7) | u64::from(byte & 0x7f))))
}

fn decimal(bytes: &[u8]) -> Result<Option<u64>> {
    let Some((last, digits)) = bytes.split_last() else { return Ok(None) };
    // A zero is the length of an empty message, and is not followed by a further digit.
    let is_over = *last == b' ' && !digits.is_empty();
    let is_next = last.is_ascii_digit() && digits != b"0";
    let length = std::str::from_utf8(digits).ok().and_then(|digits| digits.parse().ok());
    match length {
        Some(length) if is_over => Ok(Some(length)),
        _ if is_next && bytes.len() <= DIGITS => Ok(None),
        _ => Err(Error::bad_data(
            "expected a length in decimal digits without a leading zero, and a space: the remainder of the stream is \
             lost",
        )),
    }
}
