//! How a connection ends, and what the peer is told.

use std::fmt;

use tungstenite::{
    Error,
    protocol::{CloseFrame, frame::coding::CloseCode},
};

/// How a connection has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// The peer has closed it, with this code and reason.
    Closed(String),
    /// We have closed it, for this reason.
    Left(&'static str),
    /// The peer has broken the rules, and was told this.
    Refused(String),
    /// The connections of the connector together buffered more than their limit.
    Crowded,
    /// It broke.
    Broken(String),
    /// The peer does not answer.
    Silent,
}

impl End {
    /// Whether the peer had nothing more to say.
    pub(crate) fn is_complete(&self) -> bool {
        matches!(self, Self::Closed(_) | Self::Left(_))
    }
}

impl fmt::Display for End {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Closed(reason) => write!(f, "the peer has closed the connection ({reason})"),
            Self::Left(reason) => write!(f, "the connection was closed: {reason}"),
            Self::Refused(reason) => write!(f, "the peer does not keep to the protocol: {reason}"),
            Self::Crowded => f.write_str("all connections together buffer too much"),
            Self::Broken(error) => write!(f, "the connection broke: {error}"),
            Self::Silent => f.write_str("the peer does not answer"),
        }
    }
}

/// What a frame of close says, for people.
pub(super) fn reason(frame: Option<&CloseFrame>) -> String {
    match frame {
        None => "without a code".to_owned(),
        Some(frame) if frame.reason.is_empty() => u16::from(frame.code).to_string(),
        Some(frame) => {
            format!("{}: {}", u16::from(frame.code), frame.reason.as_str().escape_debug())
        }
    }
}

/// What the peer is told of an error that is its fault: a code of RFC 6455, section 7.4.1.
pub(super) fn code(error: &Error) -> Option<CloseCode> {
    match error {
        Error::Capacity(_) => Some(CloseCode::Size),
        Error::Utf8(_) => Some(CloseCode::Invalid),
        Error::Protocol(tungstenite::error::ProtocolError::ResetWithoutClosingHandshake) => None,
        Error::Protocol(_) | Error::AttackAttempt => Some(CloseCode::Protocol),
        _ => None,
    }
}
