//! Deserialisation of any type from a view.

use std::fmt;

use serde::{
    de::{
        self, Deserialize, DeserializeSeed, Deserializer, EnumAccess, MapAccess, SeqAccess,
        Unexpected, VariantAccess, Visitor, value::BorrowedStrDeserializer,
    },
    forward_to_deserialize_any,
};

use super::{NUMBER, key_reader::KeyReader};
use crate::document::{
    ArrayIter, MAX_DEPTH, ObjectIter, Shape, ValueRef,
    number::{nearest_float, to_i128},
};

/// The reason why a value does not match the type that is deserialised.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReadError(String);

impl fmt::Display for ReadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for ReadError {}

impl de::Error for ReadError {
    fn custom<T: fmt::Display>(message: T) -> Self {
        Self(message.to_string())
    }

    fn invalid_type(found: Unexpected<'_>, expected: &dyn de::Expected) -> Self {
        match found {
            // serde has no name of its own for this value.
            Unexpected::Unit => Self(format!("invalid type: null, expected {expected}")),
            _ => Self(format!("invalid type: {found}, expected {expected}")),
        }
    }
}

/// Returns the deserialiser that [`read`] uses, for programs that pass it to another one.
pub fn reader(value: ValueRef<'_>) -> impl Deserializer<'_, Error = ReadError> {
    Reader { value, depth: MAX_DEPTH }
}

/// Deserialises a value of type `T` from a view. The result may borrow text and binary data from the view. Enums have
/// the representation that [`write`](crate::document::write) uses.
pub fn read<'de, T: Deserialize<'de>>(value: ValueRef<'de>) -> Result<T, ReadError> {
    T::deserialize(reader(value))
}

/// A value from which at most `depth` levels of arrays and objects are read.
#[derive(Clone, Copy)]
struct Reader<'de> {
    value: ValueRef<'de>,
    depth: usize,
}

impl<'de> Reader<'de> {
    /// Returns the number of levels that may be read below this value, or an error if this value is nested too deeply.
    fn inside(self) -> Result<usize, ReadError> {
        let too_deep = || {
            de::Error::custom(format_args!("the value is nested deeper than {MAX_DEPTH} levels"))
        };
        self.depth.checked_sub(1).ok_or_else(too_deep)
    }

    fn seq<V: Visitor<'de>>(
        self,
        array: ArrayIter<'de>,
        visitor: V,
    ) -> Result<V::Value, ReadError> {
        let mut elements = Elements { array, taken: 0, depth: self.inside()? };
        let value = visitor.visit_seq(&mut elements)?;
        match elements.array.count() {
            0 => Ok(value),
            left => {
                let expected = format!("{} elements", elements.taken);
                Err(de::Error::invalid_length(elements.taken + left, &expected.as_str()))
            }
        }
    }
}

impl<'de> Deserializer<'de> for Reader<'de> {
    type Error = ReadError;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ReadError> {
        match self.value.shape() {
            Shape::Null => visitor.visit_unit(),
            Shape::Bool(value) => visitor.visit_bool(value),
            Shape::I64(value) => match u64::try_from(value) {
                Ok(value) => visitor.visit_u64(value),
                Err(_) => visitor.visit_i64(value),
            },
            Shape::U64(value) => visitor.visit_u64(value),
            Shape::F64(value) => visitor.visit_f64(value),
            Shape::Number(text) => match nearest_float(text) {
                Some(float) => visitor.visit_f64(float),
                None => visitor.visit_borrowed_str(text),
            },
            Shape::String(text) => visitor.visit_borrowed_str(text),
            Shape::Bytes(data) => visitor.visit_borrowed_bytes(data),
            Shape::Array(array) => self.seq(array.iter(), visitor),
            Shape::Object(object) => {
                let left = object.iter();
                visitor.visit_map(Entries { left, value: None, depth: self.inside()? })
            }
        }
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ReadError> {
        if self.value.is_null() { visitor.visit_none() } else { visitor.visit_some(self) }
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        visitor: V,
    ) -> Result<V::Value, ReadError> {
        match self.value.as_number_text() {
            // Only `Value` deserialises a newtype with the name [`NUMBER`]. `Value` reads the name of the variant as
            // the text of a number.
            Some(name_of_variant) if name == NUMBER => {
                visitor.visit_enum(Variant { name: name_of_variant, content: None })
            }
            _ => visitor.visit_newtype_struct(self),
        }
    }

    fn deserialize_i128<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ReadError> {
        match self.value.as_number_text().and_then(to_i128) {
            Some(value) => visitor.visit_i128(value),
            None => self.deserialize_any(visitor),
        }
    }

    fn deserialize_u128<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ReadError> {
        match self.value.as_number_text().and_then(|text| text.parse().ok()) {
            Some(value) => visitor.visit_u128(value),
            None => self.deserialize_any(visitor),
        }
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, ReadError> {
        match self.value.shape() {
            Shape::String(name) => visitor.visit_enum(Variant { name, content: None }),
            Shape::Object(object) => {
                let mut entries = object.iter();
                let (Some((name, value)), None) = (entries.next(), entries.next()) else {
                    let unexpected = Unexpected::Map;
                    return Err(de::Error::invalid_value(unexpected, &"an object with one key"));
                };
                let content = Some(Reader { value, depth: self.inside()? });
                visitor.visit_enum(Variant { name, content })
            }
            _ => Err(de::Error::invalid_type(self.unexpected(), &"text or an object with one key")),
        }
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 u8 u16 u32 u64 f32 f64 char str string bytes byte_buf unit
        unit_struct seq tuple tuple_struct map struct identifier ignored_any
    }
}

impl<'de> Reader<'de> {
    fn unexpected(&self) -> Unexpected<'de> {
        match self.value.shape() {
            Shape::Null => Unexpected::Unit,
            Shape::Bool(value) => Unexpected::Bool(value),
            Shape::I64(value) => Unexpected::Signed(value),
            Shape::U64(value) => Unexpected::Unsigned(value),
            Shape::F64(value) => Unexpected::Float(value),
            Shape::Number(_) => Unexpected::Other("number"),
            Shape::String(text) => Unexpected::Str(text),
            Shape::Bytes(data) => Unexpected::Bytes(data),
            Shape::Array(_) => Unexpected::Seq,
            Shape::Object(_) => Unexpected::Map,
        }
    }
}

struct Elements<'de> {
    array: ArrayIter<'de>,
    taken: usize,
    depth: usize,
}

impl<'de> SeqAccess<'de> for Elements<'de> {
    type Error = ReadError;

    fn next_element_seed<S: DeserializeSeed<'de>>(
        &mut self,
        seed: S,
    ) -> Result<Option<S::Value>, ReadError> {
        let Some(value) = self.array.next() else { return Ok(None) };
        self.taken += 1;
        seed.deserialize(Reader { value, depth: self.depth }).map(Some)
    }

    fn size_hint(&self) -> Option<usize> {
        self.array.size_hint().1
    }
}

struct Entries<'de> {
    left: ObjectIter<'de>,
    value: Option<ValueRef<'de>>,
    depth: usize,
}

impl<'de> MapAccess<'de> for Entries<'de> {
    type Error = ReadError;

    fn next_key_seed<S: DeserializeSeed<'de>>(
        &mut self,
        seed: S,
    ) -> Result<Option<S::Value>, ReadError> {
        let Some((key, value)) = self.left.next() else { return Ok(None) };
        self.value = Some(value);
        seed.deserialize(KeyReader(key)).map(Some)
    }

    fn next_value_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<S::Value, ReadError> {
        let value = self
            .value
            .take()
            .ok_or_else(|| de::Error::custom("cannot read a value before its key"))?;
        seed.deserialize(Reader { value, depth: self.depth })
    }

    fn size_hint(&self) -> Option<usize> {
        self.left.size_hint().1
    }
}

struct Variant<'de> {
    name: &'de str,
    content: Option<Reader<'de>>,
}

impl<'de> EnumAccess<'de> for Variant<'de> {
    type Error = ReadError;
    type Variant = Self;

    fn variant_seed<S: DeserializeSeed<'de>>(self, seed: S) -> Result<(S::Value, Self), ReadError> {
        let name = seed.deserialize(BorrowedStrDeserializer::new(self.name))?;
        Ok((name, self))
    }
}

impl<'de> Variant<'de> {
    fn expect(self, what: &str) -> Result<Reader<'de>, ReadError> {
        self.content.ok_or_else(|| de::Error::invalid_type(Unexpected::UnitVariant, &what))
    }
}

impl<'de> VariantAccess<'de> for Variant<'de> {
    type Error = ReadError;

    fn unit_variant(self) -> Result<(), ReadError> {
        self.content.map_or(Ok(()), Deserialize::deserialize)
    }

    fn newtype_variant_seed<S: DeserializeSeed<'de>>(self, seed: S) -> Result<S::Value, ReadError> {
        seed.deserialize(self.expect("a variant with a value")?)
    }

    fn tuple_variant<V: Visitor<'de>>(self, _: usize, visitor: V) -> Result<V::Value, ReadError> {
        self.expect("a variant with an array")?.deserialize_any(visitor)
    }

    fn struct_variant<V: Visitor<'de>>(
        self,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, ReadError> {
        self.expect("a variant with an object")?.deserialize_any(visitor)
    }
}
