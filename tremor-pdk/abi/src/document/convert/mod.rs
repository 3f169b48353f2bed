//! Conversion between documents and the data model of serde.

/// Methods that both serialisers share. `Some` is written as its content, and a unit variant as the text of its name.
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

/// Name of a newtype struct by which serialisers and deserialisers of this crate recognise a number that is kept as
/// text, so that serde passes the text unchanged.
pub(crate) const NUMBER: &str = "$tremor::Number";

mod deserializer;
mod key_reader;
mod key_writer;
mod serialize;
mod serializer;

pub use self::{
    deserializer::{ReadError, read, reader},
    serializer::write,
};
