//! What the answer of a server means for an event.

use std::error::Error as _;

use async_nats::{
    client,
    jetstream::{
        self,
        context::{PublishError, PublishErrorKind},
    },
};
use tremor_pdk::prelude::*;

/// What becomes of an event whose message no stream has. Its policy is to go to `err` where the same message
/// would be refused again, and otherwise to be tried again.
pub(super) fn of(error: &PublishError, subject: &str) -> Error {
    match error.kind() {
        PublishErrorKind::StreamNotFound => Error::bad_data(format_args!(
            "subject `{subject}`: no stream takes it, or JetStream is off; see `subject`, and the subjects of the streams"
        )),
        PublishErrorKind::MaxPayloadExceeded => too_large(subject, error),
        PublishErrorKind::WrongLastMessageId | PublishErrorKind::WrongLastSequence => {
            Error::bad_data(format_args!("subject `{subject}`: {error}"))
        }
        PublishErrorKind::TimedOut => Error::timeout(format_args!(
            "subject `{subject}`: the stream has not confirmed the message within `timeout`"
        )),
        PublishErrorKind::MaxAckPending => {
            Error::full(format_args!("subject `{subject}`: {error}"))
        }
        PublishErrorKind::BrokenPipe => lost(),
        PublishErrorKind::Other => {
            let answer = error.source().and_then(|it| it.downcast_ref::<jetstream::Error>());
            match answer {
                // Status codes as those of HTTP: what is refused as it is, and what may pass.
                Some(answer) if (400..500).contains(&answer.code()) && answer.code() != 408 => {
                    Error::bad_data(format_args!(
                        "subject `{subject}`: the stream refuses the message: {answer}"
                    ))
                }
                Some(answer) => Error::full(format_args!(
                    "subject `{subject}`: the stream cannot take the message now: {answer}"
                )),
                None => lost().caused_by(error),
            }
        }
    }
}

/// The same without JetStream.
pub(super) fn of_core(error: &client::PublishError, subject: &str) -> Error {
    match error.kind() {
        client::PublishErrorKind::MaxPayloadExceeded => too_large(subject, error),
        client::PublishErrorKind::InvalidSubject => {
            Error::bad_data(format_args!("subject `{subject}`: {error}"))
        }
        client::PublishErrorKind::Send => lost().caused_by(error),
    }
}

/// What the server does not let this client publish to.
pub(super) fn denied(subject: &str) -> Error {
    Error::bad_data(format_args!(
        "subject `{subject}`: the server does not let this user publish to it; see its permissions"
    ))
}

/// The connection is gone.
pub(super) fn lost() -> Error {
    Error::connection_lost("the connection to the server is lost")
}

fn too_large(subject: &str, error: &dyn std::fmt::Display) -> Error {
    Error::bad_data(format_args!("subject `{subject}`: {error}; see `max_payload` of the server"))
}
