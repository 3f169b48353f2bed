//! Errors of writing documents.

use std::fmt;

use super::MAX_DEPTH;

/// The reason why a document could not be written.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum WriteError {
    /// Containers are nested deeper than [`MAX_DEPTH`] levels.
    TooDeep,
    /// The length of a text or of binary data, or the number of elements or keys exceeds 32 bits, or the number of nodes
    /// exceeds 31 bits.
    TooLarge,
    /// The calls do not form a value. The field describes the wrong call.
    Misplaced(&'static str),
    /// The value failed to serialise, with this message.
    Custom(String),
}

impl fmt::Display for WriteError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooDeep => write!(f, "the value is nested deeper than {MAX_DEPTH} levels"),
            Self::TooLarge => f.write_str(
                "the value has a text of more than 4,294,967,295 bytes or a container of more than 4,294,967,295 \
                 elements, or its batch has more than 2,147,483,646 nodes",
            ),
            Self::Misplaced(what) => write!(f, "the calls do not form a value: {what}"),
            Self::Custom(message) => f.write_str(message),
        }
    }
}

impl std::error::Error for WriteError {}
