//! Serialisation of the keys of a map.

use serde::ser::{Error, Impossible, Serialize, Serializer};

use crate::document::{WriteError, Writer};

/// The serialiser of a key, which accepts text, numbers, truth values and characters.
pub(super) struct KeyWriter<'w, 'b>(pub(super) &'w mut Writer<'b>);

type Never = Impossible<(), WriteError>;

macro_rules! as_text {
    ($($method:ident: $type:ty),* $(,)?) => {$(
        fn $method(self, value: $type) -> Result<(), WriteError> {
            self.serialize_str(&value.to_string())
        }
    )*};
}

macro_rules! expected {
    () => {
        "expected text, an integer, a truth value or a character"
    };
}

/// Methods for values that cannot be a key: `method(arguments) -> result: name of the value in the error`.
macro_rules! refused {
    ($($method:ident($($argument:ty),*) -> $answer:ty: $what:literal;)*) => {$(
        fn $method(self $(, _: $argument)*) -> Result<$answer, WriteError> {
            Err(WriteError::custom(concat!($what, " cannot be a key: ", expected!())))
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

    transparent!();

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
        _: &'static str,
        _: &T,
    ) -> Result<(), WriteError> {
        Err(WriteError::custom(concat!("an object cannot be a key: ", expected!())))
    }

    refused! {
        serialize_f32(f32) -> (): "a float";
        serialize_f64(f64) -> (): "a float";
        serialize_bytes(&[u8]) -> (): "binary data";
        serialize_none() -> (): "an absent value";
        serialize_unit() -> (): "null";
        serialize_unit_struct(&'static str) -> (): "null";
        serialize_seq(Option<usize>) -> Never: "an array";
        serialize_tuple(usize) -> Never: "an array";
        serialize_tuple_struct(&'static str, usize) -> Never: "an array";
        serialize_tuple_variant(&'static str, u32, &'static str, usize) -> Never: "an object";
        serialize_map(Option<usize>) -> Never: "an object";
        serialize_struct(&'static str, usize) -> Never: "an object";
        serialize_struct_variant(&'static str, u32, &'static str, usize) -> Never: "an object";
    }
}
