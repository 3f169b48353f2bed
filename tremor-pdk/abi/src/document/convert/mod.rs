//! Documents and the data model of serde.

/// What both serialisers write as what is within it, and the variant of an enum that holds nothing as text.
macro_rules! transparent {
    () => {
        fn serialize_some<T: Serialize + ?Sized>(self, value: &T) -> Result<(), WriteError> {
            value.serialize(self)
        }

        fn serialize_newtype_struct<T: Serialize + ?Sized>(
            self,
            _: &'static str,
            value: &T,
        ) -> Result<(), WriteError> {
            value.serialize(self)
        }

        fn serialize_unit_variant(
            self,
            _: &'static str,
            _: u32,
            variant: &'static str,
        ) -> Result<(), WriteError> {
            self.serialize_str(variant)
        }
    };
}

mod deserializer;
mod key_reader;
mod key_writer;
mod serialize;
mod serializer;

pub use self::{
    deserializer::{ReadError, read},
    serializer::write,
};
