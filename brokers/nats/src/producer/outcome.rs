//! Conversion of server answers to errors of events.

use async_nats::{
    Message, StatusCode, client,
    jetstream::{ErrorCode, publish::PublishAck},
};
use tremor_pdk::{prelude::*, serde::Deserialize};

/// JSON reply to a published message.
#[derive(Deserialize)]
#[serde(crate = "tremor_pdk::serde", untagged)]
enum Reply {
    Rejected { error: async_nats::jetstream::Error },
    Stored(PublishAck),
}

/// Answer to a published message.
pub(super) enum Answer {
    /// The stream stored the message, or already had it.
    Confirmed { duplicate: bool },
    /// No stream stores messages with the subject, or the stream is electing a leader.
    NoStream,
    /// The stream rejected the message.
    Refused(Error),
}

impl Answer {
    pub(super) fn of(message: &Message, subject: &str) -> Self {
        if message.status == Some(StatusCode::NO_RESPONDERS) {
            return Self::NoStream;
        }
        match serde_json::from_slice(&message.payload) {
            Ok(Reply::Stored(ack)) if !ack.stream.is_empty() && ack.sequence > 0 => {
                Self::Confirmed { duplicate: ack.duplicate }
            }
            Ok(Reply::Rejected { error }) => Self::Refused(refused(&error, subject)),
            // This error is permanent, because the same service would answer again.
            Ok(Reply::Stored(_)) | Err(_) => Self::Refused(Error::bad_data(format_args!(
                "cannot publish to `{subject}`: the reply did not come from a stream; check `subject`, or set `jetstream: false`"
            ))),
        }
    }
}

/// Returns the error of an event whose message a stream rejected. The policy of the error sends the event to `err` if
/// the same message would be rejected again, and otherwise retries the event.
fn refused(answer: &async_nats::jetstream::Error, subject: &str) -> Error {
    // Status codes have the meaning that they have in HTTP, so 408 and 429 are temporary. A full storage of an account
    // is temporary too, with any status code.
    let is_permanent = (400..500).contains(&answer.code())
        && ![408, 429].contains(&answer.code())
        && answer.error_code() != ErrorCode::ACCOUNT_RESOURCES_EXCEEDED;
    if is_permanent {
        Error::bad_data(format_args!(
            "cannot publish to `{subject}`: the stream rejected the message: {answer}"
        ))
    } else {
        Error::full(format_args!(
            "cannot publish to `{subject}`: the stream rejected the message temporarily: {answer}"
        ))
    }
}

/// Returns the error of a message that no stream has stored in any attempt.
pub(super) fn no_stream(subject: &str) -> Error {
    Error::bad_data(format_args!(
        "cannot publish to `{subject}`: no stream stores it, or JetStream is off; check `subject`, and the subjects of the streams"
    ))
}

/// Returns the error of a message that the stream did not confirm in time.
pub(super) fn unconfirmed(subject: &str) -> Error {
    Error::timeout(format_args!(
        "cannot publish to `{subject}`: the stream did not confirm the message within `timeout`"
    ))
}

/// Returns the error of a message that could not be published.
pub(super) fn unpublished(error: &client::PublishError, subject: &str) -> Error {
    match error.kind() {
        client::PublishErrorKind::MaxPayloadExceeded => Error::bad_data(format_args!(
            "cannot publish to `{subject}`: {error}; check `max_payload` of the server"
        )),
        client::PublishErrorKind::InvalidSubject => {
            Error::bad_data(format_args!("cannot publish to `{subject}`: {error}"))
        }
        client::PublishErrorKind::Send => crate::client::lost().caused_by(error),
    }
}

/// Returns the error of a message to a subject that this user may not publish to.
pub(super) fn denied(subject: &str) -> Error {
    Error::bad_data(format_args!(
        "cannot publish to `{subject}`: the server denied permission; check the permissions of this user"
    ))
}
