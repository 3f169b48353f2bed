//! Errors of codecs.

use std::fmt;

use tremor_abi::document::Shape;

/// The kind of an error of a codec.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ErrorKind {
    /// A message that cannot be decoded, or a value that the format cannot represent. The event leaves through the port
    /// `err`. The next event is unaffected.
    BadData,
    /// A message whose decoded form exceeds the memory limit or the capacity of its batch, but that may be valid
    /// otherwise. The event leaves through the port `err`, like bad data.
    TooLarge,
}

/// An error of a codec: its kind, a description, and the position in the message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    kind: ErrorKind,
    message: Box<str>,
    position: Option<usize>,
    /// Remedy for the error, if one is known.
    remedy: Option<&'static str>,
}

/// Maximum length of an error message in bytes. An error message may quote data, so it needs a limit.
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

    /// Creates an error for a value that differs from the expected one.
    #[cold]
    pub(super) fn expected(what: impl fmt::Display, found: Shape<'_>) -> Self {
        Self::bad_data(format!("expected {what}, found {}", found.name()))
    }

    #[cold]
    pub(super) fn bad_data_at(position: usize, message: impl Into<Box<str>>) -> Self {
        Self { position: Some(position), ..Self::bad_data(message) }
    }

    /// Adds a remedy to the error.
    #[cold]
    pub(super) fn with_remedy(self, remedy: &'static str) -> Self {
        Self { remedy: Some(remedy), ..self }
    }

    /// Adds `count` to the position of the error, because the message has `count` bytes before the decoded ones.
    #[cold]
    pub(super) fn after(self, count: usize) -> Self {
        Self { position: self.position.map(|position| position + count), ..self }
    }

    /// Returns the kind of fault.
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }

    /// Returns the description of the fault, without the position.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// Returns the position of the error in bytes from the start of the message, if a message could not be decoded.
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
