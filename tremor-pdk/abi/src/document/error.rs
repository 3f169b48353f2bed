//! What can go wrong in writing.

use std::fmt;

use super::MAX_DEPTH;

/// Why a document could not be written.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum WriteError {
    /// Containers lie in each other more than [`MAX_DEPTH`] deep.
    TooDeep,
    /// A text, binary data or the number of elements or keys exceeds 32 bits.
    TooLarge,
    /// The calls do not make up a value; says which was wrong.
    Misplaced(&'static str),
    /// What was to be serialised says why it cannot be.
    Custom(String),
}

impl fmt::Display for WriteError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooDeep => write!(f, "more than {MAX_DEPTH} levels of arrays and objects"),
            Self::TooLarge => f.write_str("text or container of more than 4,294,967,295 parts"),
            Self::Misplaced(what) => write!(f, "not a value: {what}"),
            Self::Custom(message) => f.write_str(message),
        }
    }
}

impl std::error::Error for WriteError {}
