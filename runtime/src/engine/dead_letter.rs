//! Dead letters: what the `err` ports carry.

use serde::{Serialize, Serializer};
use tremor_pdk::{
    Batch, ValueRef,
    abi::batch::{Pool, Rejected},
};

/// The shape of a dead letter. Public in every flow that links an `err` port.
#[derive(Serialize)]
struct DeadLetter<'a> {
    /// Who could not handle the event.
    component: &'a str,
    error: Reason<'a>,
    original: Original<'a>,
}

#[derive(Serialize)]
struct Reason<'a> {
    kind: &'static str,
    message: &'a str,
}

/// The event as it came: its bytes, as text where they are, or the value where it never was bytes.
enum Original<'a> {
    Text(&'a str),
    Bytes(&'a [u8]),
    Value(ValueRef<'a>),
}

impl Serialize for Original<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Text(text) => serializer.serialize_str(text),
            Self::Bytes(bytes) => serializer.serialize_bytes(bytes),
            Self::Value(value) => value.serialize(serializer),
        }
    }
}

impl<'a> Original<'a> {
    fn of(batch: &'a Batch, rejected: &Rejected) -> Self {
        let bytes = batch.original(&rejected.event);
        match (batch.value(&rejected.event), std::str::from_utf8(bytes)) {
            (Some(value), _) if bytes.is_empty() => Self::Value(value),
            (_, Ok(text)) => Self::Text(text),
            (_, Err(_)) => Self::Bytes(bytes),
        }
    }
}

/// The dead letters of what `component` rejected from `batch`.
pub(crate) fn letters(component: &str, batch: &Batch, rejected: &[Rejected], pool: &Pool) -> Batch {
    let mut letters = Batch::from_pool(pool);
    for rejected in rejected {
        let message = rejected.error.to_string();
        let letter = DeadLetter {
            component,
            error: Reason { kind: rejected.error.kind().as_str(), message: &message },
            original: Original::of(batch, rejected),
        };
        let event = rejected.event;
        if let Err(error) = letters.push_value(event.stream, &letter) {
            // Only a value nested too deep does not fit; its letter goes without it.
            let original = Original::Text("");
            let letter = DeadLetter { original, ..letter };
            tracing::warn!(component, %error, "a dead letter goes without its original");
            if letters.push_value(event.stream, &letter).is_err() {
                continue;
            }
        }
        if let Some(letter) = letters.events_mut().last_mut() {
            (letter.source, letter.pull, letter.ingest_ns) =
                (event.source, event.pull, event.ingest_ns);
        }
    }
    letters
}
