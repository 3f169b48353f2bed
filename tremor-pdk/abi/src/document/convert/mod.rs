//! Documents and the data model of serde.

mod deserializer;
mod key_reader;
mod key_writer;
mod serialize;
mod serializer;

pub use self::{
    deserializer::{ReadError, read},
    serializer::write,
};
