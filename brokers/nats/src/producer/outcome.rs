//! What the answer of a server means for an event.

use async_nats::{
    Message, StatusCode, client,
    jetstream::{ErrorCode, publish::PublishAck},
};
use tremor_pdk::{prelude::*, serde::Deserialize};

/// What is answered to a message.
#[derive(Deserialize)]
#[serde(crate = "tremor_pdk::serde", untagged)]
enum Said {
    Refused { error: async_nats::jetstream::Error },
    Has(PublishAck),
}

/// What a stream has said of a message.
pub(super) enum Answer {
    /// It has it, and maybe had it already.
    Confirmed { duplicate: bool },
    /// There is none that takes the subject, or it is about to have another leader.
    Nobody,
    /// It does not take it.
    Refused(Error),
}

impl Answer {
    pub(super) fn of(message: &Message, subject: &str) -> Self {
        if message.status == Some(StatusCode::NO_RESPONDERS) {
            return Self::Nobody;
        }
        match serde_json::from_slice(&message.payload) {
            Ok(Said::Has(ack)) if !ack.stream.is_empty() && ack.sequence > 0 => {
                Self::Confirmed { duplicate: ack.duplicate }
            }
            Ok(Said::Refused { error }) => Self::Refused(refused(&error, subject)),
            // It would answer so again.
            Ok(Said::Has(_)) | Err(_) => Self::Refused(Error::bad_data(format_args!(
                "subject `{subject}`: something has answered that is no stream; see `subject`, or set `jetstream: false`"
            ))),
        }
    }
}

/// What becomes of an event whose message a stream does not take. Its policy is to go to `err` where the same
/// message would be refused again, and otherwise to be tried again.
fn refused(answer: &async_nats::jetstream::Error, subject: &str) -> Error {
    // Status codes as those of HTTP: what is refused as it is, and what may pass. That the storage of an account is
    // full passes, whatever its code.
    let stays = (400..500).contains(&answer.code())
        && ![408, 429].contains(&answer.code())
        && answer.error_code() != ErrorCode::ACCOUNT_RESOURCES_EXCEEDED;
    if stays {
        Error::bad_data(format_args!(
            "subject `{subject}`: the stream refuses the message: {answer}"
        ))
    } else {
        Error::full(format_args!(
            "subject `{subject}`: the stream cannot take the message now: {answer}"
        ))
    }
}

/// No stream takes it, however often it is published.
pub(super) fn nobody(subject: &str) -> Error {
    Error::bad_data(format_args!(
        "subject `{subject}`: no stream takes it, or JetStream is off; see `subject`, and the subjects of the streams"
    ))
}

/// A stream has not answered.
pub(super) fn late(subject: &str) -> Error {
    Error::timeout(format_args!(
        "subject `{subject}`: the stream has not confirmed the message within `timeout`"
    ))
}

/// A message that was not published.
pub(super) fn unpublished(error: &client::PublishError, subject: &str) -> Error {
    match error.kind() {
        client::PublishErrorKind::MaxPayloadExceeded => Error::bad_data(format_args!(
            "subject `{subject}`: {error}; see `max_payload` of the server"
        )),
        client::PublishErrorKind::InvalidSubject => {
            Error::bad_data(format_args!("subject `{subject}`: {error}"))
        }
        client::PublishErrorKind::Send => crate::client::lost().caused_by(error),
    }
}

/// What the server does not let this client publish to.
pub(super) fn denied(subject: &str) -> Error {
    Error::bad_data(format_args!(
        "subject `{subject}`: the server does not let this user publish to it; see its permissions"
    ))
}
