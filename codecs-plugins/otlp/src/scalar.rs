//! Scalar values of fields, converted from and to protobuf and values.

// Protobuf defines that a number is truncated to the lower bits of its type, regardless of the sign.
#![allow(clippy::cast_possible_truncation, clippy::cast_possible_wrap, clippy::cast_sign_loss)]

use std::borrow::Cow;

use base64::{
    Engine as _, alphabet,
    engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig},
};
use tremor_pdk::{Error, Result, Shape, ValueRef, Writer};

use crate::{
    message::Kind,
    wire::{Payload, Reader, Slice, put_bytes, put_varint, wrong},
};

/// The representation of 64-bit integers in an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Integers {
    Text,
    Number,
}

/// A value of a scalar kind.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Scalar<'v> {
    Bool(bool),
    Signed(i64),
    Unsigned(u64),
    Double(f64),
    Text(&'v str),
    Bytes(Cow<'v, [u8]>),
}

/// Base64 with the standard alphabet, as JSON uses it. Padding is optional.
const BASE64: GeneralPurpose = engine(&alphabet::STANDARD);
/// Base64 with the URL-safe alphabet, which the JSON mapping of protobuf also accepts.
const BASE64_URL: GeneralPurpose = engine(&alphabet::URL_SAFE);

const fn engine(alphabet: &alphabet::Alphabet) -> GeneralPurpose {
    let config = GeneralPurposeConfig::new();
    GeneralPurpose::new(alphabet, config.with_decode_padding_mode(DecodePaddingMode::Indifferent))
}

impl<'m> Scalar<'m> {
    /// Reads a scalar from a field of a message.
    pub(crate) fn of_wire(kind: Kind, payload: Payload<'m>, at: usize) -> Result<Self> {
        Ok(match (kind, payload) {
            (Kind::Bool, Payload::Varint(value)) => Self::Bool(value != 0),
            // If a number exceeds its type, protobuf parsers keep the lower bits.
            (Kind::Int32, Payload::Varint(value)) => Self::Signed((value as i32).into()),
            (Kind::Sint32, Payload::Varint(value)) => {
                let value = value as u32;
                Self::Signed(((value >> 1) as i32 ^ -((value & 1) as i32)).into())
            }
            (Kind::Uint32, Payload::Varint(value)) => Self::Unsigned((value as u32).into()),
            (Kind::Fixed32, Payload::Fixed32(value)) => Self::Unsigned(value.into()),
            (Kind::Int64, Payload::Varint(value)) | (Kind::Sfixed64, Payload::Fixed64(value)) => {
                Self::Signed(value as i64)
            }
            (Kind::Uint64, Payload::Varint(value)) | (Kind::Fixed64, Payload::Fixed64(value)) => {
                Self::Unsigned(value)
            }
            (Kind::Double, Payload::Fixed64(value)) => Self::Double(f64::from_bits(value)),
            (Kind::Text, Payload::Bytes(Slice { bytes, at })) => {
                let text = std::str::from_utf8(bytes);
                Self::Text(text.map_err(|error| wrong(at + error.valid_up_to(), "expected UTF-8"))?)
            }
            (Kind::Hex | Kind::Base64, Payload::Bytes(slice)) => Self::Bytes(slice.bytes.into()),
            _ => return Err(wrong(at, &format!("expected {} here", kind.on_the_wire()))),
        })
    }

    /// Reads a scalar from a value, in any form that the JSON mapping allows.
    pub(crate) fn of_value(kind: Kind, value: ValueRef<'m>) -> Option<Self> {
        match kind {
            Kind::Bool => value.as_bool().map(Self::Bool),
            Kind::Int32 | Kind::Sint32 => {
                signed(value).filter(|number| i32::try_from(*number).is_ok()).map(Self::Signed)
            }
            Kind::Uint32 | Kind::Fixed32 => {
                unsigned(value).filter(|number| u32::try_from(*number).is_ok()).map(Self::Unsigned)
            }
            Kind::Int64 | Kind::Sfixed64 => signed(value).map(Self::Signed),
            Kind::Uint64 | Kind::Fixed64 => unsigned(value).map(Self::Unsigned),
            Kind::Double => double(value).map(Self::Double),
            Kind::Text => value.as_str().map(Self::Text),
            Kind::Hex => bytes(value, hex),
            Kind::Base64 => {
                bytes(value, |text| BASE64.decode(text).or_else(|_| BASE64_URL.decode(text)).ok())
            }
            Kind::Message(_) => None,
        }
    }

    /// Returns whether the value equals the default of an absent field.
    pub(crate) fn is_default(&self) -> bool {
        match self {
            Self::Bool(value) => !value,
            Self::Signed(value) => *value == 0,
            Self::Unsigned(value) => *value == 0,
            // The float -0 is not a default.
            Self::Double(value) => value.to_bits() == 0,
            Self::Text(text) => text.is_empty(),
            Self::Bytes(bytes) => bytes.is_empty(),
        }
    }

    /// Writes the scalar in the representation of events.
    pub(crate) fn to_event(&self, kind: Kind, integers: Integers, writer: &mut Writer<'_>) {
        let is_long = matches!(kind, Kind::Int64 | Kind::Sfixed64 | Kind::Uint64 | Kind::Fixed64);
        let is_text = is_long && integers == Integers::Text;
        match self {
            Self::Bool(value) => writer.bool(*value),
            Self::Signed(value) if is_text => writer.str(&value.to_string()),
            Self::Signed(value) => writer.i64(*value),
            Self::Unsigned(value) if is_text => writer.str(&value.to_string()),
            Self::Unsigned(value) => writer.u64(*value),
            Self::Double(value) if value.is_nan() => writer.str("NaN"),
            Self::Double(value) if value.is_infinite() => {
                writer.str(if *value > 0.0 { "Infinity" } else { "-Infinity" });
            }
            Self::Double(value) => writer.f64(*value),
            Self::Text(text) => writer.str(text),
            Self::Bytes(bytes) if matches!(kind, Kind::Hex) => writer.str(&to_hex(bytes)),
            Self::Bytes(bytes) => writer.str(&BASE64.encode(bytes)),
        }
    }

    /// Appends the scalar to a message, without its tag.
    pub(crate) fn to_wire(&self, kind: Kind, out: &mut Vec<u8>) {
        match (self, kind) {
            (Self::Bool(value), _) => out.push(u8::from(*value)),
            (Self::Signed(value), Kind::Sint32) => {
                put_varint(u64::from(((*value << 1) ^ (*value >> 63)) as u32), out);
            }
            (Self::Signed(value), Kind::Sfixed64) => out.extend_from_slice(&value.to_le_bytes()),
            (Self::Signed(value), _) => put_varint(*value as u64, out),
            (Self::Unsigned(value), Kind::Fixed64) => out.extend_from_slice(&value.to_le_bytes()),
            (Self::Unsigned(value), Kind::Fixed32) => {
                out.extend_from_slice(&(*value as u32).to_le_bytes());
            }
            (Self::Unsigned(value), _) => put_varint(*value, out),
            (Self::Double(value), _) => out.extend_from_slice(&value.to_le_bytes()),
            (Self::Text(text), _) => put(text.as_bytes(), out),
            (Self::Bytes(bytes), _) => put(bytes, out),
        }
    }
}

fn put(bytes: &[u8], out: &mut Vec<u8>) {
    let Ok(()) = put_bytes(out, |out| {
        out.extend_from_slice(bytes);
        Ok::<_, std::convert::Infallible>(())
    });
}

impl Kind {
    /// Returns the wire type of fields of this kind.
    pub(crate) fn wire_type(self) -> u8 {
        match self {
            Self::Bool | Self::Int32 | Self::Sint32 | Self::Uint32 | Self::Int64 | Self::Uint64 => {
                0
            }
            Self::Fixed64 | Self::Sfixed64 | Self::Double => 1,
            Self::Text | Self::Hex | Self::Base64 | Self::Message(_) => 2,
            Self::Fixed32 => 5,
        }
    }

    /// Reads the next value of a packed field.
    pub(crate) fn unpack<'m>(self, reader: &mut Reader<'m>) -> Result<Payload<'m>> {
        Ok(match self.wire_type() {
            0 => Payload::Varint(reader.varint()?),
            1 => Payload::Fixed64(u64::from_le_bytes(reader.array()?)),
            _ => Payload::Fixed32(u32::from_le_bytes(reader.array()?)),
        })
    }

    fn on_the_wire(self) -> &'static str {
        match self.wire_type() {
            0 => "a varint",
            1 => "8 bytes",
            2 => "length-delimited bytes",
            _ => "4 bytes",
        }
    }

    /// Returns the error text for a value that does not match the kind.
    #[cold]
    pub(crate) fn mismatch(self, value: ValueRef<'_>) -> String {
        format!("expected {}, found {}", self.in_an_event(), shown(value))
    }

    fn in_an_event(self) -> &'static str {
        match self {
            Self::Bool => "`true` or `false`",
            Self::Int32 | Self::Sint32 => "a 32-bit integer",
            Self::Uint32 | Self::Fixed32 => "an integer from 0 to 4294967295",
            Self::Int64 | Self::Sfixed64 => "a 64-bit integer, as text or as a number",
            Self::Uint64 | Self::Fixed64 => "an unsigned 64-bit integer, as text or as a number",
            Self::Double => "a number, `NaN`, `Infinity` or `-Infinity`",
            Self::Text => "text",
            Self::Hex => "an id in hexadecimal digits",
            Self::Base64 => "base64",
            Self::Message(_) => "an object",
        }
    }
}

fn signed(value: ValueRef<'_>) -> Option<i64> {
    value.whole().map_or_else(|| value.as_str()?.parse().ok(), |it| i64::try_from(it).ok())
}

fn unsigned(value: ValueRef<'_>) -> Option<u64> {
    value.whole().map_or_else(|| value.as_str()?.parse().ok(), |it| u64::try_from(it).ok())
}

fn double(value: ValueRef<'_>) -> Option<f64> {
    match value.as_str() {
        None => value.cast_f64(),
        Some("NaN") => Some(f64::NAN),
        Some("Infinity") => Some(f64::INFINITY),
        Some("-Infinity") => Some(f64::NEG_INFINITY),
        Some(text) => text.parse().ok().filter(|number: &f64| number.is_finite()),
    }
}

fn bytes(value: ValueRef<'_>, decode: impl FnOnce(&str) -> Option<Vec<u8>>) -> Option<Scalar<'_>> {
    match value.shape() {
        Shape::Bytes(bytes) => Some(Scalar::Bytes(bytes.into())),
        Shape::String(text) => decode(text).map(|bytes| Scalar::Bytes(bytes.into())),
        _ => None,
    }
}

fn hex(text: &str) -> Option<Vec<u8>> {
    let digit = |byte: u8| (byte as char).to_digit(16);
    let byte = |pair: &[u8]| match pair {
        [high, low] => u8::try_from(digit(*high)? << 4 | digit(*low)?).ok(),
        _ => None,
    };
    text.as_bytes().chunks(2).map(byte).collect()
}

fn to_hex(bytes: &[u8]) -> String {
    const DIGITS: [char; 16] =
        ['0', '1', '2', '3', '4', '5', '6', '7', '8', '9', 'a', 'b', 'c', 'd', 'e', 'f'];
    let digits = |byte: &u8| [DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]];
    bytes.iter().flat_map(digits).collect()
}

/// Returns the text with which an error quotes a value.
pub(crate) fn shown(value: ValueRef<'_>) -> String {
    let text = match value.shape() {
        Shape::Array(_) => return "an array".to_owned(),
        Shape::Object(_) => return "an object".to_owned(),
        _ => value.to_string(),
    };
    match text.char_indices().nth(100) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}

#[cold]
pub(crate) fn too_much(most: usize) -> Error {
    Error::bad_data(format_args!(
        "the decoded message takes more than {most} bytes of memory, the limit for a message \
         of its length"
    ))
}
