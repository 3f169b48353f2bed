//! The keys of a map that is serialised into a document.

use serde::ser::{Error, Impossible, Serialize, Serializer};

use crate::document::{WriteError, Writer};

/// Writes what it is given as a key, if it is text or has an obvious form as text.
pub(super) struct KeyWriter<'w, 'b>(pub(super) &'w mut Writer<'b>);

type Never = Impossible<(), WriteError>;

fn refuse<T>(what: &str) -> Result<T, WriteError> {
    Err(WriteError::custom(format_args!("{what} cannot be a key; keys are text")))
}

macro_rules! as_text {
    ($($method:ident: $type:ty),* $(,)?) => {$(
        fn $method(self, value: $type) -> Result<(), WriteError> {
            self.serialize_str(&value.to_string())
        }
    )*};
}

impl Serializer for KeyWriter<'_, '_> {
    type Ok = ();
    type Error = WriteError;
    type SerializeSeq = Never;
    type SerializeTuple = Never;
    type SerializeTupleStruct = Never;
    type SerializeTupleVariant = Never;
    type SerializeMap = Never;
    type SerializeStruct = Never;
    type SerializeStructVariant = Never;

    fn serialize_str(self, value: &str) -> Result<(), WriteError> {
        self.0.key(value);
        self.0.status()
    }

    as_text! {
        serialize_bool: bool,
        serialize_i8: i8, serialize_i16: i16, serialize_i32: i32, serialize_i64: i64,
        serialize_i128: i128,
        serialize_u8: u8, serialize_u16: u16, serialize_u32: u32, serialize_u64: u64,
        serialize_u128: u128,
        serialize_char: char,
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

    fn serialize_f32(self, _: f32) -> Result<(), WriteError> {
        refuse("a float")
    }

    fn serialize_f64(self, _: f64) -> Result<(), WriteError> {
        refuse("a float")
    }

    fn serialize_bytes(self, _: &[u8]) -> Result<(), WriteError> {
        refuse("binary data")
    }

    fn serialize_none(self) -> Result<(), WriteError> {
        refuse("an absent value")
    }

    fn serialize_some<T: Serialize + ?Sized>(self, value: &T) -> Result<(), WriteError> {
        value.serialize(self)
    }

    fn serialize_unit(self) -> Result<(), WriteError> {
        refuse("null")
    }

    fn serialize_unit_struct(self, _: &'static str) -> Result<(), WriteError> {
        refuse("null")
    }

    fn serialize_newtype_variant<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        _: u32,
        _: &'static str,
        _: &T,
    ) -> Result<(), WriteError> {
        refuse("an object")
    }

    fn serialize_seq(self, _: Option<usize>) -> Result<Never, WriteError> {
        refuse("an array")
    }

    fn serialize_tuple(self, _: usize) -> Result<Never, WriteError> {
        refuse("an array")
    }

    fn serialize_tuple_struct(self, _: &'static str, _: usize) -> Result<Never, WriteError> {
        refuse("an array")
    }

    fn serialize_tuple_variant(
        self,
        _: &'static str,
        _: u32,
        _: &'static str,
        _: usize,
    ) -> Result<Never, WriteError> {
        refuse("an object")
    }

    fn serialize_map(self, _: Option<usize>) -> Result<Never, WriteError> {
        refuse("an object")
    }

    fn serialize_struct(self, _: &'static str, _: usize) -> Result<Never, WriteError> {
        refuse("an object")
    }

    fn serialize_struct_variant(
        self,
        _: &'static str,
        _: u32,
        _: &'static str,
        _: usize,
    ) -> Result<Never, WriteError> {
        refuse("an object")
    }
}
