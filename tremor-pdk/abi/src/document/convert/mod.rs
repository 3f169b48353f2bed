//! Documents and the data model of serde.

/// What both serialisers write as what is within it, and the variant of an enum that holds nothing as text.
macro_rules! transparent {
    () => {
        fn serialize_some<T: Serialize + ?Sized>(self, value: &T) -> Result<(), WriteError> {
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

/// The name of the newtype by which a number that is kept as text goes through serde unchanged, from
/// values and views to documents and back.
pub(crate) const NUMBER: &str = "$tremor::Number";

mod deserializer;
mod key_reader;
mod key_writer;
mod serialize;
mod serializer;

pub use self::{
    deserializer::{ReadError, read},
    serializer::write,
};
