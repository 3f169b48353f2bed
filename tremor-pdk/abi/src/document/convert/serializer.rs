//! Anything that serialises becomes a document, without a tree in between.

use std::fmt;

use abi_stable::std_types::RVec;
use serde::ser::{self, Serialize};

use crate::document::{Node, NodeKind, WriteError, Writer};

/// Appends anything that serialises to the buffers of a document, as [`Writer`] does, and returns
/// the index of its root node.
pub fn write<T: Serialize + ?Sized>(
    value: &T,
    bytes: &mut RVec<u8>,
    nodes: &mut RVec<Node>,
) -> Result<u32, WriteError> {
    let mut writer = Writer::new(bytes, nodes);
    value.serialize(&mut writer)?;
    writer.finish()
}

impl ser::Error for WriteError {
    fn custom<T: fmt::Display>(message: T) -> Self {
        Self::Custom(message.to_string())
    }
}

/// Enums are represented as serde represents them in JSON: a unit variant by its name, any other by
/// an object with the variant's name as its only key. Map keys are text, or numbers, truth values and
/// characters as text.
impl<'w, 'b> ser::Serializer for &'w mut Writer<'b> {
    type Ok = ();
    type Error = WriteError;
    type SerializeSeq = Open<'w, 'b>;
    type SerializeTuple = Open<'w, 'b>;
    type SerializeTupleStruct = Open<'w, 'b>;
    type SerializeTupleVariant = Open<'w, 'b>;
    type SerializeMap = Open<'w, 'b>;
    type SerializeStruct = Open<'w, 'b>;
    type SerializeStructVariant = Open<'w, 'b>;

    fn serialize_bool(self, value: bool) -> Result<(), WriteError> {
        self.bool(value);
        self.status()
    }

    fn serialize_i8(self, value: i8) -> Result<(), WriteError> {
        self.serialize_i64(value.into())
    }

    fn serialize_i16(self, value: i16) -> Result<(), WriteError> {
        self.serialize_i64(value.into())
    }

    fn serialize_i32(self, value: i32) -> Result<(), WriteError> {
        self.serialize_i64(value.into())
    }

    fn serialize_i64(self, value: i64) -> Result<(), WriteError> {
        self.i64(value);
        self.status()
    }

    fn serialize_i128(self, value: i128) -> Result<(), WriteError> {
        match (i64::try_from(value), u64::try_from(value)) {
            (Ok(value), _) => self.serialize_i64(value),
            (_, Ok(value)) => self.serialize_u64(value),
            _ => Err(ser::Error::custom("an integer of more than 64 bits")),
        }
    }

    fn serialize_u8(self, value: u8) -> Result<(), WriteError> {
        self.serialize_u64(value.into())
    }

    fn serialize_u16(self, value: u16) -> Result<(), WriteError> {
        self.serialize_u64(value.into())
    }

    fn serialize_u32(self, value: u32) -> Result<(), WriteError> {
        self.serialize_u64(value.into())
    }

    fn serialize_u64(self, value: u64) -> Result<(), WriteError> {
        self.u64(value);
        self.status()
    }

    fn serialize_u128(self, value: u128) -> Result<(), WriteError> {
        match u64::try_from(value) {
            Ok(value) => self.serialize_u64(value),
            Err(_) => Err(ser::Error::custom("an integer of more than 64 bits")),
        }
    }

    fn serialize_f32(self, value: f32) -> Result<(), WriteError> {
        self.serialize_f64(value.into())
    }

    fn serialize_f64(self, value: f64) -> Result<(), WriteError> {
        self.f64(value);
        self.status()
    }

    fn serialize_char(self, value: char) -> Result<(), WriteError> {
        self.serialize_str(value.encode_utf8(&mut [0; 4]))
    }

    fn serialize_str(self, value: &str) -> Result<(), WriteError> {
        self.str(value);
        self.status()
    }

    fn serialize_bytes(self, value: &[u8]) -> Result<(), WriteError> {
        self.bytes(value);
        self.status()
    }

    fn serialize_none(self) -> Result<(), WriteError> {
        self.serialize_unit()
    }

    fn serialize_some<T: Serialize + ?Sized>(self, value: &T) -> Result<(), WriteError> {
        value.serialize(self)
    }

    fn serialize_unit(self) -> Result<(), WriteError> {
        self.null();
        self.status()
    }

    fn serialize_unit_struct(self, _: &'static str) -> Result<(), WriteError> {
        self.serialize_unit()
    }

    fn serialize_unit_variant(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
    ) -> Result<(), WriteError> {
        self.serialize_str(variant)
    }

    fn serialize_newtype_struct<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        value: &T,
    ) -> Result<(), WriteError> {
        value.serialize(self)
    }

    fn serialize_newtype_variant<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
        value: &T,
    ) -> Result<(), WriteError> {
        self.begin_object();
        self.key(variant);
        value.serialize(&mut *self)?;
        self.end_object();
        self.status()
    }

    fn serialize_seq(self, _: Option<usize>) -> Result<Open<'w, 'b>, WriteError> {
        Open::new(self, NodeKind::ARRAY, None)
    }

    fn serialize_tuple(self, _: usize) -> Result<Open<'w, 'b>, WriteError> {
        Open::new(self, NodeKind::ARRAY, None)
    }

    fn serialize_tuple_struct(self, _: &'static str, _: usize) -> Result<Open<'w, 'b>, WriteError> {
        Open::new(self, NodeKind::ARRAY, None)
    }

    fn serialize_tuple_variant(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
        _: usize,
    ) -> Result<Open<'w, 'b>, WriteError> {
        Open::new(self, NodeKind::ARRAY, Some(variant))
    }

    fn serialize_map(self, _: Option<usize>) -> Result<Open<'w, 'b>, WriteError> {
        Open::new(self, NodeKind::OBJECT, None)
    }

    fn serialize_struct(self, _: &'static str, _: usize) -> Result<Open<'w, 'b>, WriteError> {
        Open::new(self, NodeKind::OBJECT, None)
    }

    fn serialize_struct_variant(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
        _: usize,
    ) -> Result<Open<'w, 'b>, WriteError> {
        Open::new(self, NodeKind::OBJECT, Some(variant))
    }
}

/// A container that is being serialised, and the object around it if it is an enum's variant.
pub struct Open<'w, 'b> {
    writer: &'w mut Writer<'b>,
    kind: NodeKind,
    is_variant: bool,
}

impl<'w, 'b> Open<'w, 'b> {
    fn new(
        writer: &'w mut Writer<'b>,
        kind: NodeKind,
        variant: Option<&str>,
    ) -> Result<Self, WriteError> {
        if let Some(variant) = variant {
            writer.begin_object();
            writer.key(variant);
        }
        if kind == NodeKind::OBJECT {
            writer.begin_object();
        } else {
            writer.begin_array();
        }
        writer.status()?;
        Ok(Self { writer, kind, is_variant: variant.is_some() })
    }

    fn element<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), WriteError> {
        value.serialize(&mut *self.writer)
    }

    fn field<T: Serialize + ?Sized>(&mut self, key: &str, value: &T) -> Result<(), WriteError> {
        self.writer.key(key);
        self.element(value)
    }

    fn close(self) -> Result<(), WriteError> {
        if self.kind == NodeKind::OBJECT {
            self.writer.end_object();
        } else {
            self.writer.end_array();
        }
        if self.is_variant {
            self.writer.end_object();
        }
        self.writer.status()
    }
}

macro_rules! elements {
    ($($trait:ident::$method:ident),*) => {$(
        impl ser::$trait for Open<'_, '_> {
            type Ok = ();
            type Error = WriteError;

            fn $method<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), WriteError> {
                self.element(value)
            }

            fn end(self) -> Result<(), WriteError> {
                self.close()
            }
        }
    )*};
}

elements! {
    SerializeSeq::serialize_element,
    SerializeTuple::serialize_element,
    SerializeTupleStruct::serialize_field,
    SerializeTupleVariant::serialize_field
}

macro_rules! fields {
    ($($trait:ident),*) => {$(
        impl ser::$trait for Open<'_, '_> {
            type Ok = ();
            type Error = WriteError;

            fn serialize_field<T: Serialize + ?Sized>(
                &mut self,
                key: &'static str,
                value: &T,
            ) -> Result<(), WriteError> {
                self.field(key, value)
            }

            fn end(self) -> Result<(), WriteError> {
                self.close()
            }
        }
    )*};
}

fields!(SerializeStruct, SerializeStructVariant);

impl ser::SerializeMap for Open<'_, '_> {
    type Ok = ();
    type Error = WriteError;

    fn serialize_key<T: Serialize + ?Sized>(&mut self, key: &T) -> Result<(), WriteError> {
        key.serialize(super::key_writer::KeyWriter(self.writer))
    }

    fn serialize_value<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), WriteError> {
        self.element(value)
    }

    fn end(self) -> Result<(), WriteError> {
        self.close()
    }
}
