//! Serialisation of any value to a document, without an intermediate tree.

use std::fmt;

use abi_stable::std_types::RVec;
use serde::ser::{self, Serialize};

use super::NUMBER;
use crate::document::{Node, NodeKind, WriteError, Writer};

/// Appends a value of any type that serde can serialise to the buffers of a document, and returns the index of its root
/// node.
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

/// Methods for scalars. Each method calls the writer's method for a type that can represent all values of the scalar
/// type.
macro_rules! written {
    ($($method:ident($type:ty) => $write:ident;)*) => {$(
        fn $method(self, value: $type) -> Result<(), WriteError> {
            self.$write(value.into());
            self.status()
        }
    )*};
}

/// Methods that begin a container that is not a variant of an enum.
macro_rules! opened {
    ($($method:ident($($argument:ty),*) => $kind:ident;)*) => {$(
        fn $method(self $(, _: $argument)*) -> Result<Open<'w, 'b>, WriteError> {
            Open::new(self, NodeKind::$kind, None)
        }
    )*};
}

/// Enums have the representation that serde uses in JSON: a unit variant is its name, any other variant an object with
/// the name of the variant as its only key. Map keys are text; numbers, truth values and characters are converted to
/// text.
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

    written! {
        serialize_bool(bool) => bool;
        serialize_i8(i8) => i64;
        serialize_i16(i16) => i64;
        serialize_i32(i32) => i64;
        serialize_i64(i64) => i64;
        serialize_u8(u8) => u64;
        serialize_u16(u16) => u64;
        serialize_u32(u32) => u64;
        serialize_u64(u64) => u64;
        serialize_f32(f32) => f64;
        serialize_f64(f64) => f64;
        serialize_str(&str) => str;
        serialize_bytes(&[u8]) => bytes;
    }

    fn serialize_i128(self, value: i128) -> Result<(), WriteError> {
        match (i64::try_from(value), u64::try_from(value)) {
            (Ok(value), _) => self.i64(value),
            (_, Ok(value)) => self.u64(value),
            _ => self.number(&value.to_string()),
        }
        self.status()
    }

    fn serialize_u128(self, value: u128) -> Result<(), WriteError> {
        match u64::try_from(value) {
            Ok(value) => self.u64(value),
            Err(_) => self.number(&value.to_string()),
        }
        self.status()
    }

    fn serialize_char(self, value: char) -> Result<(), WriteError> {
        self.serialize_str(value.encode_utf8(&mut [0; 4]))
    }

    fn serialize_none(self) -> Result<(), WriteError> {
        self.serialize_unit()
    }

    fn serialize_unit(self) -> Result<(), WriteError> {
        self.null();
        self.status()
    }

    fn serialize_unit_struct(self, _: &'static str) -> Result<(), WriteError> {
        self.serialize_unit()
    }

    transparent!();

    fn serialize_newtype_struct<T: Serialize + ?Sized>(
        self,
        name: &'static str,
        value: &T,
    ) -> Result<(), WriteError> {
        value.serialize(&mut *self)?;
        if name == NUMBER {
            self.text_to_number();
        }
        self.status()
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

    opened! {
        serialize_seq(Option<usize>) => ARRAY;
        serialize_tuple(usize) => ARRAY;
        serialize_tuple_struct(&'static str, usize) => ARRAY;
        serialize_map(Option<usize>) => OBJECT;
        serialize_struct(&'static str, usize) => OBJECT;
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

/// A container that is being serialised, including the enclosing object if the container is a variant of an enum.
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
