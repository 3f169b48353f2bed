//! What goes wrong in a codec.

use std::fmt;

use tremor_abi::document::Shape;

/// What is wrong with a message or a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ErrorKind {
    /// A message that does not decode, or a value that the format cannot hold. The event goes to
    /// the `err` port; the next one is unaffected.
    BadData,
    /// A message that would become more than a message may, or does not fit its batch; nothing else
    /// is wrong with it. It goes to the `err` port as bad data does.
    TooLarge,
}

/// An error of a codec: its kind, what was wrong, and where in the message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    kind: ErrorKind,
    message: Box<str>,
    position: Option<usize>,
    /// Remedy for the error, if one is known.
    remedy: Option<&'static str>,
}

/// How much an error says at most, in bytes: it may repeat what is in the data.
const LONGEST: usize = 1 << 10;

impl Error {
    #[cold]
    pub(super) fn new(kind: ErrorKind, message: impl Into<Box<str>>) -> Self {
        let mut message = message.into();
        if message.len() > LONGEST {
            let end = (0..=LONGEST).rev().find(|at| message.is_char_boundary(*at));
            message = format!("{}…", &message[..end.unwrap_or(0)]).into();
        }
        Self { kind, message, position: None, remedy: None }
    }

    #[cold]
    pub(super) fn bad_data(message: impl Into<Box<str>>) -> Self {
        Self::new(ErrorKind::BadData, message)
    }

    /// A value that is not what the format has in its place.
    #[cold]
    pub(super) fn expected(what: impl fmt::Display, found: Shape<'_>) -> Self {
        Self::bad_data(format!("expected {what}, found {}", found.name()))
    }

    #[cold]
    pub(super) fn bad_data_at(position: usize, message: impl Into<Box<str>>) -> Self {
        Self { position: Some(position), ..Self::bad_data(message) }
    }

    /// Returns the same error, which says as well what to do about it.
    #[cold]
    pub(super) fn with_remedy(self, remedy: &'static str) -> Self {
        Self { remedy: Some(remedy), ..self }
    }

    /// Returns the same error for a message that has `count` bytes before the decoded ones.
    #[cold]
    pub(super) fn after(self, count: usize) -> Self {
        Self { position: self.position.map(|position| position + count), ..self }
    }

    /// What is wrong.
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }

    /// What was wrong, without the position.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// The byte of the message (counted from its first, which is 0) where it was noticed, for
    /// messages that do not decode.
    pub fn position(&self) -> Option<usize> {
        self.position
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)?;
        if let Some(position) = self.position {
            write!(f, " at byte {position}")?;
        }
        self.remedy.map_or(Ok(()), |remedy| write!(f, "; {remedy}"))
    }
}

impl std::error::Error for Error {}
