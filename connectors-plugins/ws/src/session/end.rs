//! Reasons why connections end, and the close codes that peers receive.

use std::fmt;

use tungstenite::{
    Error,
    protocol::{CloseFrame, frame::coding::CloseCode},
};

/// Reason why a connection ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// The peer closed the connection, with this code and reason.
    ClosedByPeer(String),
    /// The connector closed the connection, for this reason.
    ClosedLocally(&'static str),
    /// The peer violated the protocol. The text says how.
    ProtocolViolation(String),
    /// The connections of the connector together exceeded their limit of buffered bytes.
    OverBudget,
    /// The connection broke.
    Broken(String),
    /// The peer did not answer a ping.
    Silent,
}

impl End {
    /// Returns whether the connection was closed regularly, so that no message is incomplete.
    pub(crate) fn is_complete(&self) -> bool {
        matches!(self, Self::ClosedByPeer(_) | Self::ClosedLocally(_))
    }
}

impl fmt::Display for End {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ClosedByPeer(reason) => write!(f, "the peer closed the connection ({reason})"),
            Self::ClosedLocally(reason) => write!(f, "the connection was closed: {reason}"),
            Self::ProtocolViolation(reason) => {
                write!(f, "the peer violated the protocol: {reason}")
            }
            Self::OverBudget => f.write_str("all connections together buffer too much"),
            Self::Broken(error) => write!(f, "the connection broke: {error}"),
            Self::Silent => f.write_str("the peer did not answer a ping"),
        }
    }
}

/// Formats the code and the reason of a close frame.
pub(super) fn reason(frame: Option<&CloseFrame>) -> String {
    match frame {
        None => "without a code".to_owned(),
        Some(frame) if frame.reason.is_empty() => u16::from(frame.code).to_string(),
        Some(frame) => {
            format!("{}: {}", u16::from(frame.code), frame.reason.as_str().escape_debug())
        }
    }
}

/// Returns the close code for an error that the peer caused, as RFC 6455, section 7.4.1 defines it.
pub(super) fn code(error: &Error) -> Option<CloseCode> {
    match error {
        Error::Capacity(_) => Some(CloseCode::Size),
        Error::Utf8(_) => Some(CloseCode::Invalid),
        Error::Protocol(tungstenite::error::ProtocolError::ResetWithoutClosingHandshake) => None,
        Error::Protocol(_) | Error::AttackAttempt => Some(CloseCode::Protocol),
        _ => None,
    }
}
