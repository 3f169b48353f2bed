//! Conversions between values of the runtime and values of VRL.
//!
//! Integers that exceed a signed 64-bit integer become floats, as in VRL's own JSON. NaN becomes
//! `null`, because VRL's floats cannot be NaN. Values of VRL are converted as follows: bytes that
//! are UTF-8 become text, and other bytes become binary data. Timestamps become text in the format
//! of RFC 3339, and regular expressions become the text of their pattern.

use bytes::BytesMut;
use bytestring::ByteString;
use tremor_pdk::{Shape, Value, ValueRef, Writer};
use vrl::value::{ObjectMap, Value as Vrl};

/// Storage for the text of converted values. A part of the storage is reused once VRL has dropped the value in it, so
/// that converting text needs a copy, but usually no allocation.
#[derive(Debug)]
pub struct Arena {
    text: BytesMut,
    /// Bytes that the values may still take.
    left: usize,
    /// `true` if values were replaced by `null` because they would have exceeded the limit.
    is_exceeded: bool,
}

impl Default for Arena {
    fn default() -> Self {
        Self { text: BytesMut::new(), left: usize::MAX, is_exceeded: false }
    }
}

/// Minimum size of an allocation of the arena, in bytes.
const CHUNK: usize = 64 << 10;

/// Memory of an object with few fields in bytes: a node of a tree has space for eleven fields.
const OBJECT: usize = 768;

/// Memory of a field of an object with many fields in bytes, without its text.
const FIELD: usize = 128;

impl Arena {
    /// Limits the memory of the values that are converted from now on.
    pub(crate) fn limit(&mut self, bytes: usize) {
        (self.left, self.is_exceeded) = (bytes, false);
    }

    /// Returns whether a value was replaced by `null`, because the values would have exceeded the limit.
    pub(crate) fn is_exceeded(&self) -> bool {
        self.is_exceeded
    }

    /// Returns whether the values may take this memory in addition.
    fn takes(&mut self, bytes: usize) -> bool {
        let left = self.left.checked_sub(bytes);
        self.left = left.unwrap_or(0);
        self.is_exceeded |= left.is_none();
        left.is_some()
    }

    fn copy(&mut self, data: &[u8]) -> bytes::Bytes {
        if !self.takes(data.len()) {
            return bytes::Bytes::new();
        }
        if self.text.capacity() < data.len() {
            self.text.reserve(data.len().max(CHUNK));
        }
        self.text.extend_from_slice(data);
        self.text.split().freeze()
    }

    /// Returns text, or `null` if it is not UTF-8, as [`ValueRef::shape`] does.
    fn text(&mut self, text: &[u8]) -> Vrl {
        ByteString::try_from(self.copy(text)).map_or(Vrl::Null, Vrl::String)
    }
}

/// Converts a value to VRL.
pub fn to_vrl(value: ValueRef<'_>, arena: &mut Arena) -> Vrl {
    // The conversion checks that text is UTF-8, so it need not be checked before.
    if let Some(text) = value.text_bytes() {
        return arena.text(text);
    }
    match value.shape() {
        Shape::Null => Vrl::Null,
        Shape::Bool(value) => Vrl::Boolean(value),
        Shape::I64(value) => Vrl::Integer(value),
        #[allow(clippy::cast_precision_loss)] // the documentation of the module says so
        Shape::U64(value) => {
            i64::try_from(value).map_or_else(|_| float(value as f64), Vrl::Integer)
        }
        Shape::F64(value) => float(value),
        Shape::Number(text) => match text.parse() {
            Ok(integer) => Vrl::Integer(integer),
            Err(_) => value.as_f64().map_or_else(|| arena.text(text.as_bytes()), float),
        },
        Shape::String(text) => arena.text(text.as_bytes()),
        Shape::Bytes(data) => Vrl::Bytes(arena.copy(data)),
        Shape::Array(array) => {
            if !arena.takes(array.len().saturating_mul(size_of::<Vrl>())) {
                return Vrl::Null;
            }
            Vrl::Array(array.iter().map(|element| to_vrl(element, arena)).collect())
        }
        Shape::Object(object) => {
            let fields = object.len();
            let least = if fields == 0 { 0 } else { OBJECT };
            if !arena.takes(fields.saturating_mul(FIELD).max(least)) {
                return Vrl::Null;
            }
            let entry = |(key, value): (&str, _)| (key.into(), to_vrl(value, arena));
            Vrl::Object(object.iter().map(entry).collect::<ObjectMap>())
        }
    }
}

fn float(value: f64) -> Vrl {
    if value.is_nan() { Vrl::Null } else { Vrl::from_f64_or_zero(value) }
}

/// Converts a value from VRL.
pub(crate) fn from_vrl(value: &Vrl) -> Value<'static> {
    match value {
        Vrl::Null => Value::Null,
        Vrl::Boolean(value) => Value::Bool(*value),
        Vrl::Integer(value) => Value::I64(*value),
        Vrl::Float(value) => Value::F64(value.into_inner()),
        Vrl::String(text) => Value::from(text.to_string()),
        Vrl::Bytes(data) => match std::str::from_utf8(data) {
            Ok(text) => Value::from(text.to_owned()),
            Err(_) => Value::from(data.to_vec()),
        },
        Vrl::Regex(regex) => Value::from(regex.as_str().to_owned()),
        Vrl::Timestamp(_) => Value::from(rfc3339(value)),
        Vrl::Array(array) => Value::Array(array.iter().map(from_vrl).collect()),
        Vrl::Object(object) => {
            let mut out = tremor_pdk::Object::with_capacity(object.len());
            for (key, value) in object {
                out.insert_nocheck(key.as_str().to_owned(), from_vrl(value));
            }
            Value::Object(out)
        }
    }
}

/// Writes a value of VRL into a document, converted as by [`from_vrl`].
pub(crate) fn write_vrl(value: &Vrl, writer: &mut Writer<'_>) {
    match value {
        Vrl::Null => writer.null(),
        Vrl::Boolean(value) => writer.bool(*value),
        Vrl::Integer(value) => writer.i64(*value),
        Vrl::Float(value) => writer.f64(value.into_inner()),
        Vrl::String(text) => writer.str(text),
        Vrl::Bytes(data) => match std::str::from_utf8(data) {
            Ok(text) => writer.str(text),
            Err(_) => writer.bytes(data),
        },
        Vrl::Regex(regex) => writer.str(regex.as_str()),
        Vrl::Timestamp(_) => writer.str(&rfc3339(value)),
        Vrl::Array(array) => {
            writer.begin_array();
            array.iter().for_each(|element| write_vrl(element, writer));
            writer.end_array();
        }
        Vrl::Object(object) => {
            writer.begin_object();
            for (key, value) in object {
                writer.key(key);
                write_vrl(value, writer);
            }
            writer.end_object();
        }
    }
}

fn rfc3339(timestamp: &Vrl) -> String {
    timestamp.to_string_lossy().into_owned()
}
